//! Prometheus' text format, version 0.0.4.

use std::{
    collections::HashMap,
    fmt::{self, Display, Write as _},
};

use super::catalogue::{Family, Scope};
use crate::statistics::Distribution;

/// As the definition of the format requires it.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics. The samples of one stand together, whatever the order in which they are written.
#[derive(Debug)]
pub(super) struct Text {
    families: Vec<(&'static Family, String)>,
    by_name: HashMap<&'static str, usize>,
    cluster: String,
    labels: Labels,
}

/// The first labels of samples, by the scope of their metric.
#[derive(Debug)]
struct Labels {
    broker: String,
    proxy: String,
    own: String,
}

impl Text {
    /// The first labels of a sample name the cluster and the node.
    pub fn new(cluster: &str, node: &str) -> Text {
        let labels = Labels::new(cluster, node, None);
        Text { families: Vec::new(), by_name: HashMap::new(), cluster: cluster.to_owned(), labels }
    }

    /// What is written from now on is of this broker. Where there are several, metrics of our own say of which they are.
    pub fn of_broker(&mut self, broker: &str, one_of_several: bool) {
        self.labels = Labels::new(&self.cluster, broker, one_of_several.then_some(broker));
    }

    /// Begins a metric, or goes on with it; its samples follow.
    pub fn family(&mut self, family: &'static Family) -> Samples<'_> {
        let at = *self.by_name.entry(family.name).or_insert_with(|| {
            self.families.push((family, String::new()));
            self.families.len() - 1
        });
        Samples { out: &mut self.families[at].1, labels: &self.labels, family }
    }

    pub fn finish(self) -> String {
        let mut out =
            String::with_capacity(self.families.iter().map(|(_, samples)| samples.len() + 256).sum());
        for (Family { name, kind, help, .. }, samples) in &self.families {
            written(writeln!(out, "# HELP {name} {}", Escaped { text: help, quotes: false }));
            written(writeln!(out, "# TYPE {name} {}", kind.name()));
            out.push_str(samples);
        }
        out
    }
}

impl Labels {
    fn new(cluster: &str, node: &str, broker: Option<&str>) -> Labels {
        let scope = |kind: &str| {
            let mut labels = String::new();
            for (name, value) in [("cluster", cluster), ("node_type", kind), ("node_id", node)] {
                label(&mut labels, name, value);
            }
            labels
        };
        let mut own = String::new();
        if let Some(broker) = broker {
            label(&mut own, "broker", broker);
        }
        Labels { broker: scope("broker"), proxy: scope("proxy"), own }
    }
}

/// Takes the samples of one metric.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    out: &'a mut String,
    labels: &'a Labels,
    family: &'static Family,
}

impl Samples<'_> {
    /// One value; `labels` are the values of the metric's own labels.
    pub fn put(&mut self, labels: &[&str], value: impl Display) -> &mut Self {
        self.sample("", labels, None, value);
        self
    }

    /// A histogram; `per_unit` of its values make one unit of the metric.
    pub fn distribution(&mut self, labels: &[&str], found: &Distribution, per_unit: f64) -> &mut Self {
        for (bound, count) in &found.buckets {
            self.sample("_bucket", labels, Some(&format!("{:?}", *bound as f64 / per_unit)), count);
        }
        self.sample("_bucket", labels, Some("+Inf"), found.count);
        self.sample("_sum", labels, None, found.sum as f64 / per_unit);
        self.sample("_count", labels, None, found.count);
        self
    }

    fn sample(&mut self, suffix: &str, labels: &[&str], bound: Option<&str>, value: impl Display) {
        debug_assert_eq!(labels.len(), self.family.labels.len(), "labels of {}", self.family.name);
        let out = &mut *self.out;
        out.push_str(self.family.name);
        out.push_str(suffix);
        let start = out.len();
        out.push('{');
        match self.family.scope {
            Scope::Broker => out.push_str(&self.labels.broker),
            Scope::Proxy => out.push_str(&self.labels.proxy),
            Scope::Own => out.push_str(&self.labels.own),
        }
        for (name, value) in self.family.labels.iter().zip(labels) {
            label(out, name, value);
        }
        if let Some(bound) = bound {
            label(out, "le", bound);
        }
        if out.ends_with('{') {
            out.truncate(start);
        } else {
            // Instead of the last comma.
            out.pop();
            out.push('}');
        }
        written(writeln!(out, " {value}"));
    }
}

fn label(out: &mut String, name: &str, value: &str) {
    written(write!(out, "{name}=\"{}\",", Escaped { text: value, quotes: true }));
}

/// Writing to a string cannot fail.
fn written(result: fmt::Result) {
    debug_assert!(result.is_ok());
}

/// Text with backslashes, line feeds and, in the value of a label, quotes escaped.
struct Escaped<'a> {
    text: &'a str,
    quotes: bool,
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        let special = |c: char| matches!(c, '\\' | '\n') || (self.quotes && c == '"');
        while let Some(at) = rest.find(special) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'\\' => "\\\\",
                b'"' => "\\\"",
                _ => "\\n",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::catalogue, *};

    #[test]
    fn samples_are_written_as_the_format_wants_them() {
        let mut text = Text::new("c\"1\"", "b\\\n");
        text.family(catalogue::TOPIC_NUMBER).put(&[], 7);
        text.family(catalogue::UPTIME).put(&[], 1.5);
        text.family(catalogue::CONNECTIONS).put(&["grpc"], 2).put(&["ä\"\n"], 3);
        let found = Distribution { buckets: vec![(500, 1), (1_000_000, 2)], count: 3, sum: 2_500_000 };
        text.family(catalogue::FLUSH_LATENCY).distribution(&[], &found, 1e6);
        let expected = r#"# HELP rocketmq_topic_number Topics, without lite topics
# TYPE rocketmq_topic_number gauge
rocketmq_topic_number{cluster="c\"1\"",node_type="broker",node_id="b\\\n"} 7
# HELP redstart_uptime_seconds Time since the shard was opened
# TYPE redstart_uptime_seconds gauge
redstart_uptime_seconds 1.5
# HELP redstart_connections Open connections
# TYPE redstart_connections gauge
redstart_connections{protocol="grpc"} 2
redstart_connections{protocol="ä\"\n"} 3
# HELP redstart_flush_latency_seconds Time of making the log durable
# TYPE redstart_flush_latency_seconds histogram
redstart_flush_latency_seconds_bucket{le="0.0005"} 1
redstart_flush_latency_seconds_bucket{le="1.0"} 2
redstart_flush_latency_seconds_bucket{le="+Inf"} 3
redstart_flush_latency_seconds_sum 2.5
redstart_flush_latency_seconds_count 3
"#;
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn samples_of_several_brokers_stand_together_and_say_whose_they_are() {
        let mut text = Text::new("c", "a");
        for (broker, value) in [("a", 1), ("b", 2)] {
            text.of_broker(broker, true);
            text.family(catalogue::TOPIC_NUMBER).put(&[], value);
            text.family(catalogue::UPTIME).put(&[], value);
        }
        let expected = r#"# HELP rocketmq_topic_number Topics, without lite topics
# TYPE rocketmq_topic_number gauge
rocketmq_topic_number{cluster="c",node_type="broker",node_id="a"} 1
rocketmq_topic_number{cluster="c",node_type="broker",node_id="b"} 2
# HELP redstart_uptime_seconds Time since the shard was opened
# TYPE redstart_uptime_seconds gauge
redstart_uptime_seconds{broker="a"} 1
redstart_uptime_seconds{broker="b"} 2
"#;
        assert_eq!(text.finish(), expected);
    }
}
