//! The log tells an operator what became of the broker, a line for each event.

use std::{path::Path, time::Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Running, create_topic, delete_topic, heartbeat, serve};

/// What a broker logs from its start to its stop.
fn logged(flags: &[&str], variables: &[(&str, &str)]) -> String {
    let data = TempDir::new().unwrap();
    let mut command = serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data.path());
    let broker = Running::start(command.args(flags).envs(variables.iter().copied()));
    create_topic(broker.broker, "orders");
    delete_topic(broker.broker, "orders");
    broker.stop()
}

#[test]
fn a_life_is_told_in_json() {
    let log = logged(&["--log-format", "json"], &[]);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |what: &str| {
        let line = lines.iter().find(|line| line["message"] == what);
        line.unwrap_or_else(|| panic!("{what:?} is missing in: {log}"))
    };
    assert!(told("starting")["changed"].as_str().unwrap().contains("log_format=json"));
    assert!(told("shard open")["millis"].is_u64());
    let ready = told("ready");
    assert!(ready["millis"].is_u64() && ready["grpc"].as_str().unwrap().starts_with("127.0.0.1:"));
    let created = told("topic created");
    assert_eq!((&created["topic"], &created["write_queues"]), (&"orders".into(), &4.into()));
    assert_eq!(told("topic deleted")["topic"], "orders");
    assert_eq!(told("stopping")["why"], "SIGTERM");
    assert!(told("stopped")["millis"].is_u64());
}

#[test]
fn levels_are_those_of_the_setting_unless_rust_log_is_set() {
    let log = logged(&["--log", "warn,redstart_server::shard=info"], &[]);
    assert!(log.contains("topic created") && !log.contains("stopping"), "{log}");
    assert!(!log.contains('\u{1b}'), "no colours without a terminal: {log}");
    let log = logged(&["--log", "off"], &[("RUST_LOG", "redstart::serve=info")]);
    assert!(log.contains("stopping") && !log.contains("topic created"), "{log}");
}

/// Heartbeats of 60 kB whose groups are all refused.
#[test]
fn groups_that_cannot_be_are_told_of_once_a_second() {
    let data = TempDir::new().unwrap();
    let broker = Running::start(&mut serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data.path()));
    let groups: Vec<String> =
        (0..1000).map(|n| format!(r#"{{"groupName":"bad group {n}","subscriptionDataSet":[]}}"#)).collect();
    let beat = format!(r#"{{"clientID":"c","producerDataSet":[],"consumerDataSet":[{}]}}"#, groups.join(","));
    let started = Instant::now();
    for _ in 0..20 {
        heartbeat(broker.broker, &beat);
    }
    let seconds = started.elapsed().as_secs() as usize;
    let log = broker.stop();
    let lines =
        log.lines().filter(|line| line.contains("a consumer group in a heartbeat is ignored")).count();
    assert!((1..=seconds + 2).contains(&lines), "{lines} lines in {seconds} s");
    assert!(log.len() < 64 << 10, "{} bytes of log", log.len());
}
