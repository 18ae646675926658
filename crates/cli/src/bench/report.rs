use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

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
    pub server: Option<Server>,
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
    /// Cores kept busy on average.
    pub cpu_cores: f64,
    pub memory_mib: f64,
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
        let ms = |quantile| latency.value_at_quantile(quantile) as f64 / 1000.0;
        let seconds = elapsed.as_secs_f64();
        Report {
            load,
            protocol,
            messages,
            seconds,
            per_second: messages as f64 / seconds,
            latency_ms: Latency {
                p50: ms(0.5),
                p90: ms(0.9),
                p95: ms(0.95),
                p99: ms(0.99),
                p999: ms(0.999),
                p9999: ms(0.9999),
                max: latency.max() as f64 / 1000.0,
            },
            failures,
            first_failure,
            server: usage.map(|usage| Server {
                cpu_us_per_message: usage.cpu.as_micros() as f64 / messages.max(1) as f64,
                cpu_cores: usage.cpu.as_secs_f64() / seconds,
                memory_mib: usage.memory_bytes as f64 / f64::from(1 << 20),
            }),
        }
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        let latency = &self.latency_ms;
        println!(
            "{} over {}: {} messages in {:.1} s, {:.0}/s",
            self.load, self.protocol, self.messages, self.seconds, self.per_second
        );
        println!(
            "latency ms: p50 {:.2}  p90 {:.2}  p95 {:.2}  p99 {:.2}  p99.9 {:.2}  p99.99 {:.2}  max {:.2}",
            latency.p50, latency.p90, latency.p95, latency.p99, latency.p999, latency.p9999, latency.max
        );
        if let Some(server) = &self.server {
            println!(
                "server: {:.1} us of CPU a message, {:.2} cores, {:.0} MiB resident",
                server.cpu_us_per_message, server.cpu_cores, server.memory_mib
            );
        }
        if let Some(why) = &self.first_failure {
            println!("{} calls failed, the first with: {why}", self.failures);
        }
        Ok(())
    }
}
