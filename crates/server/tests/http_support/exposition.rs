//! Prometheus' text format, version 0.0.4, read back.

use std::collections::BTreeMap;

pub type Labels = BTreeMap<String, String>;

#[derive(Debug, Default)]
pub struct Metric {
    pub help: String,
    pub kind: String,
    /// With the suffixes of histograms.
    pub samples: Vec<(String, Labels, f64)>,
}

#[derive(Debug, Default)]
pub struct Exposition {
    pub metrics: BTreeMap<String, Metric>,
}

impl Exposition {
    /// Panics where the format is not kept: a metric has one `HELP`, then one `TYPE`, then its samples, all of them
    /// different, and those of a histogram add up.
    pub fn read(text: &str) -> Exposition {
        assert!(text.is_empty() || text.ends_with('\n'), "the last line has an end");
        let mut found = Exposition::default();
        let mut current = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                let metric = Metric { help: unescape(help), ..Metric::default() };
                assert!(found.metrics.insert(name.to_owned(), metric).is_none(), "{name} is there twice");
                current = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, current, "a type follows its help");
                let metric = found.metrics.get_mut(name).unwrap();
                assert!(metric.kind.is_empty() && metric.samples.is_empty());
                kind.clone_into(&mut metric.kind);
            } else {
                let (name, labels, value) = sample(line);
                let metric = found.metrics.get_mut(&current).unwrap();
                let suffix = name.strip_prefix(&current).unwrap_or_else(|| panic!("{name} after {current}"));
                let suffixes: &[&str] =
                    if metric.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(suffixes.contains(&suffix), "{name} of a {}", metric.kind);
                assert!(!metric.samples.iter().any(|(n, l, _)| *n == name && *l == labels), "twice: {line}");
                metric.samples.push((name, labels, value));
            }
        }
        found.metrics.iter().filter(|(_, metric)| metric.kind == "histogram").for_each(|(name, metric)| {
            check_histogram(name, metric);
        });
        found
    }

    /// The value of the one sample with these labels among its own.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
            let base = name.strip_suffix(suffix)?;
            self.metrics.contains_key(base).then_some(base)
        });
        let metric = self.metrics.get(base.unwrap_or(name)).unwrap_or_else(|| panic!("no metric {name}"));
        let fits = |found: &Labels| {
            labels.iter().all(|(name, value)| found.get(*name).is_some_and(|found| found == value))
        };
        let mut fitting = metric.samples.iter().filter(|(found, own, _)| found == name && fits(own));
        let value = fitting.next().map(|(.., value)| *value);
        assert!(fitting.next().is_none(), "{name} {labels:?} is more than one");
        value
    }
}

fn sample(line: &str) -> (String, Labels, f64) {
    let name_end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap();
    let (name, mut rest) = line.split_at(name_end);
    assert!(!name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()), "{line}");
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("a label in {line}"));
            let end = closing_quote(after).unwrap_or_else(|| panic!("an open quote in {line}"));
            let value = unescape(&after[..end]);
            assert!(labels.insert(label.to_owned(), value).is_none(), "a label twice in {line}");
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap_or_else(|| panic!("an open brace in {line}"));
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no value in {line}"));
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("{value:?} in {line}")))
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes.then_some(at)
    })
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next() {
                Some('n') => '\n',
                Some(other @ ('\\' | '"')) => other,
                other => panic!("an escaped {other:?} in {text:?}"),
            }),
            c => out.push(c),
        }
    }
    out
}

/// Buckets by their bounds, sum and count.
type Series = (Vec<(f64, f64)>, Option<f64>, Option<f64>);

fn check_histogram(name: &str, metric: &Metric) {
    let mut series: BTreeMap<Labels, Series> = BTreeMap::new();
    for (sample, labels, value) in &metric.samples {
        let mut labels = labels.clone();
        let bound = labels.remove("le");
        let entry = series.entry(labels).or_default();
        match (sample.strip_prefix(name), bound) {
            (Some("_bucket"), Some(bound)) => entry.0.push((bound.parse().unwrap(), *value)),
            (Some("_sum"), None) => entry.1 = Some(*value),
            (Some("_count"), None) => entry.2 = Some(*value),
            other => panic!("{sample}: {other:?}"),
        }
    }
    for (labels, (buckets, sum, count)) in series {
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0), "bounds of {name} {labels:?} grow");
        assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{name} {labels:?} is cumulative");
        let (last_bound, last) = *buckets.last().unwrap();
        assert!(last_bound.is_infinite() && Some(last) == count && sum.is_some(), "{name} {labels:?}");
    }
}
