//! The report of a load. bench/*.py reads its JSON: names and units are fixed.

use std::{fmt, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use redstart_commands::stdout;

use super::usage::Usage;

/// The result of a load.
#[derive(Debug, Serialize)]
pub struct Report {
    pub load: &'static str,
    pub protocol: &'static str,
    pub messages: u64,
    pub seconds: f64,
    pub per_second: f64,
    pub latency_ms: Latency,
    pub failures: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_to_end: Option<EndToEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
}

/// Deliveries of a load that sends and receives at once.
#[derive(Debug, Serialize)]
pub struct EndToEnd {
    pub per_second: f64,
    pub latency_ms: Latency,
    /// Deliveries still outstanding when the load ended.
    pub backlog: u64,
}

#[derive(Debug, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    pub max: f64,
}

#[derive(Debug, Serialize)]
pub struct Server {
    pub cpu_us_per_message: f64,
    /// Average number of busy cores.
    pub cpu_cores: f64,
    pub memory_mib: f64,
}

impl Latency {
    fn of(microseconds: &Histogram<u64>) -> Latency {
        let ms = |quantile| microseconds.value_at_quantile(quantile) as f64 / 1000.0;
        Latency {
            p50: ms(0.5),
            p90: ms(0.9),
            p95: ms(0.95),
            p99: ms(0.99),
            p999: ms(0.999),
            p9999: ms(0.9999),
            max: microseconds.max() as f64 / 1000.0,
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency { p50, p90, p95, p99, p999, p9999, max } = self;
        write!(f, "p50 {p50:.2}  p90 {p90:.2}  p95 {p95:.2}  p99 {p99:.2}  ")?;
        write!(f, "p99.9 {p999:.2}  p99.99 {p9999:.2}  max {max:.2}")
    }
}

impl EndToEnd {
    pub fn new(messages: u64, elapsed: Duration, latency: &Histogram<u64>, backlog: u64) -> EndToEnd {
        EndToEnd {
            per_second: messages as f64 / elapsed.as_secs_f64(),
            latency_ms: Latency::of(latency),
            backlog,
        }
    }
}

impl Report {
    pub fn new(
        (load, protocol): (&'static str, &'static str),
        messages: u64,
        elapsed: Duration,
        latency: &Histogram<u64>,
        (failures, first_failure): (u64, Option<String>),
        usage: Option<Usage>,
    ) -> Report {
        let seconds = elapsed.as_secs_f64();
        Report {
            load,
            protocol,
            messages,
            seconds,
            per_second: messages as f64 / seconds,
            latency_ms: Latency::of(latency),
            failures,
            first_failure,
            end_to_end: None,
            server: usage.map(|usage| Server {
                cpu_us_per_message: usage.cpu.as_micros() as f64 / messages.max(1) as f64,
                cpu_cores: usage.cpu.as_secs_f64() / seconds,
                memory_mib: usage.memory_bytes as f64 / f64::from(1 << 20),
            }),
        }
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        stdout::print(&if json { serde_json::to_string(self)? + "\n" } else { self.described() })
    }

    fn described(&self) -> String {
        let mut text = format!(
            "{} over {}: {} messages in {:.1} s, {:.0}/s\nlatency ms: {}\n",
            self.load, self.protocol, self.messages, self.seconds, self.per_second, self.latency_ms
        );
        if let Some(EndToEnd { per_second, latency_ms, backlog }) = &self.end_to_end {
            text += &format!(
                "end to end: {per_second:.0}/s, backlog of {backlog} at the end\nlatency ms: {latency_ms}\n"
            );
        }
        if let Some(server) = &self.server {
            text += &format!(
                "server: {:.1} us of CPU per message, {:.2} cores, {:.0} MiB resident\n",
                server.cpu_us_per_message, server.cpu_cores, server.memory_mib
            );
        }
        if let Some(why) = &self.first_failure {
            text += &format!("{} calls failed; the first error: {why}\n", self.failures);
        }
        text
    }
}
