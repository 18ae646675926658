//! The load generator against the binary's own server, over both protocols.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

struct Broker {
    child: Child,
    grpc: String,
    names: String,
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Broker {
    fn start(data: &Path) -> Broker {
        let mut child = Command::new(env!("CARGO_BIN_EXE_redstart"))
            .args([
                "--http-port",
                "0",
                "--grpc-port",
                "0",
                "--broker-port",
                "0",
                "--namesrv-port",
                "0",
                "--data-dir",
            ])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut address = |of: &str| {
            let line = lines.find(|line| line.contains(of)).expect("it says where it listens");
            line.split_whitespace().last().unwrap().to_owned()
        };
        let (grpc, names) = (address("gRPC"), address("mqadmin"));
        Broker { child, grpc, names }
    }

    /// Runs a load and reads its report. Nothing may fail.
    fn bench(&self, protocol: &str, load: &str, flags: &[&str]) -> Value {
        let server = if protocol == "grpc" { &self.grpc } else { &self.names };
        let output = Command::new(env!("CARGO_BIN_EXE_redstart"))
            .args(["bench", load, "--json", "--protocol", protocol, "--server", server])
            .args(["--namesrv", &self.names])
            .args(flags)
            .output()
            .unwrap();
        assert!(output.status.success(), "{load} {flags:?}: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["failures"], 0, "{protocol} {load} {flags:?}: {report}");
        assert_eq!(report["protocol"], protocol);
        for quantile in ["p50", "p90", "p95", "p99", "p999", "p9999", "max"] {
            assert!(report["latency_ms"][quantile].as_f64().unwrap() > 0.0, "{quantile}: {report}");
        }
        report
    }
}

fn messages(report: &Value) -> u64 {
    report["messages"].as_u64().unwrap()
}

#[test]
fn a_backlog_is_sent_and_drained_over_remoting() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(data.path());
    let topic = ["--topic", "load", "--topics", "2", "--create", "--queues", "3"];
    let send = |flags: &[&str]| broker.bench("remoting", "produce", &[&topic, flags].concat());
    let mut sent = messages(&send(&["--until", "300"]));
    sent += messages(&send(&["--until", "300", "--serialization", "binary", "--keys", "2"]));
    sent += messages(&send(&["--until", "320", "--batch", "8", "--in-flight", "4"]));
    assert!(sent >= 920, "{sent}");
    // What was under way when the count was reached is stored as well.
    let until = sent.to_string();
    let all = ["--from", "earliest", "--until", &until];
    assert!(messages(&broker.bench("remoting", "consume", &[&topic, &all[..]].concat())) >= sent);
    let binary =
        [&topic, &all[..], &["--serialization", "binary", "--batch", "7", "--group", "other"]].concat();
    assert!(messages(&broker.bench("remoting", "consume", &binary)) >= sent);
    // The first group has stored where it stands: only new messages come.
    let report =
        broker.bench("remoting", "round-trip", &[&topic, &["--until", "50", "--rate", "500"][..]].concat());
    assert!(messages(&report) >= 50, "{report}");
}

#[test]
fn grouped_and_delayed_messages_are_sent_over_remoting() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(data.path());
    for (topic, flags) in [("fifo", ["--groups", "10"]), ("delay", ["--delay-ms", "1"])] {
        let topic = ["--topic", topic, "--create", "--until", "50"];
        broker.bench("remoting", "produce", &[&topic, &flags[..]].concat());
        let all = ["--from", "earliest", "--group", "g"];
        assert!(messages(&broker.bench("remoting", "consume", &[&topic, &all[..]].concat())) >= 50);
    }
}

#[test]
fn every_load_runs_over_grpc() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(data.path());
    let topic = ["--topic", "load", "--topics", "2", "--create", "--until", "100"];
    let load = |load: &str, flags: &[&str]| broker.bench("grpc", load, &[&topic, flags].concat());
    // The first receive makes the group begin here.
    assert!(messages(&load("round-trip", &["--rate", "500"])) >= 100);
    assert!(messages(&load("produce", &["--rate", "2000"])) >= 100);
    assert!(messages(&load("consume", &[])) >= 100);
}

#[test]
fn a_workload_sends_and_receives_at_once() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(data.path());
    for protocol in ["grpc", "remoting"] {
        let flags = ["1-topic-6-partition-100b", "--rate", "500", "--seconds", "1", "--warm-up", "1"];
        let report = broker.bench(protocol, "workload", &flags);
        assert!(messages(&report) > 0, "{report}");
        let end_to_end = &report["end_to_end"];
        assert!(end_to_end["per_second"].as_f64().unwrap() > 0.0, "{report}");
        assert!(end_to_end["latency_ms"]["p99"].as_f64().unwrap() > 0.0, "{report}");
        assert!(end_to_end["backlog"].is_u64(), "{report}");
    }
}

#[test]
fn workloads_are_listed_and_unknown_ones_refused() {
    let bench = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
        command.args(["bench", "workload", argument]).output().unwrap()
    };
    let listed = String::from_utf8(bench("--list").stdout).unwrap();
    assert!(listed.contains("1-topic-16-partitions-1kb\n"), "{listed}");
    let unknown = bench("1-topic");
    assert!(!unknown.status.success());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no workload \"1-topic\""));
}
