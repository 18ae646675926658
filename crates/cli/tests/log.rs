//! The log tells an operator what became of the broker, a line for each event.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::Path;

use serde_json::Value;
use support::{Running, create_topic, delete_topic, serve};
use tempfile::TempDir;

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
    assert!(!log.contains('\u{1b}'), "no colours where nobody looks: {log}");
    let log = logged(&["--log", "off"], &[("RUST_LOG", "redstart::serve=info")]);
    assert!(log.contains("stopping") && !log.contains("topic created"), "{log}");
}
