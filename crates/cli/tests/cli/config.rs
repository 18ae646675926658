//! What is in force, and what is refused, as the binary says it.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

use crate::support::{self, Running, broker_config, update_broker_config};

/// The binary in a directory of its own, with no environment but what the test gives it.
fn redstart(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
    command.current_dir(dir).env_clear();
    command
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

/// Value and source of each setting.
fn in_force(command: &mut Command, key: &str) -> (String, String) {
    let text = said(&command.args(["config", "--json"]).output().unwrap());
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let setting = &found["settings"][key];
    let value = setting["value"].as_str().map_or_else(|| setting["value"].to_string(), str::to_owned);
    (value, setting["source"].as_str().unwrap().to_owned())
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let dir = TempDir::new().unwrap();
    let of = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(in_force(&mut redstart(dir.path()), "grpc_port"), of("8081", "default"));
    let mut command = redstart(dir.path());
    assert_eq!(in_force(command.env("REDSTART_GRPC_PORT", "1"), "grpc_port"), of("1", "REDSTART_GRPC_PORT"));
    fs::write(dir.path().join("redstart.toml"), "# mine\ngrpc_port = 2\n").unwrap();
    let mut command = redstart(dir.path());
    assert_eq!(in_force(command.env("REDSTART_GRPC_PORT", "1"), "grpc_port"), of("1", "REDSTART_GRPC_PORT"));
    assert_eq!(in_force(&mut redstart(dir.path()), "grpc_port"), of("2", "redstart.toml:2"));
    fs::write(dir.path().join("other.toml"), "grpcServerPort = 3\n").unwrap();
    let with = |flags: &[&str]| {
        let mut command = redstart(dir.path());
        let text = said(&command.args(["config", "--json"]).args(flags).output().unwrap());
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        (found["file"].clone(), found["settings"]["grpc_port"]["value"].clone())
    };
    assert_eq!(with(&["--config", "other.toml"]), ("other.toml".into(), 3.into()), "only the named file");
    assert_eq!(with(&["--grpc-port", "4"]), ("redstart.toml".into(), 4.into()));
    let mut command = redstart(dir.path());
    command.env("REDSTART_GRPC_PORT", "1").args(["config", "--json", "--grpc-port", "4"]);
    let found: serde_json::Value = serde_json::from_str(&said(&command.output().unwrap())).unwrap();
    assert_eq!(found["settings"]["grpc_port"]["source"], "--grpc-port");
}

#[test]
fn what_is_printed_is_a_file_that_says_the_same() {
    let dir = TempDir::new().unwrap();
    let printed = said(
        &redstart(dir.path())
            .args(["config", "--flush", "async", "--retention", "7d", "--auto-create-topics"])
            .args(["--tls-cert", "a\\b \"c\".pem", "--tls-key", "k.pem", "--broker-name", "b"])
            .output()
            .unwrap(),
    );
    assert!(printed.contains("# default: \"sync\"; from: --flush\nflush = \"async\"\n"), "{printed}");
    fs::write(dir.path().join("printed.toml"), &printed).unwrap();
    let again = said(&redstart(dir.path()).args(["config", "--config", "printed.toml"]).output().unwrap());
    let values = |text: &str| {
        let keys = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        keys.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(values(&printed), values(&again));
    assert!(values(&printed).len() > 20, "{printed}");
}

#[test]
fn what_is_wrong_stops_the_start_in_one_line() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("redstart.toml");
    for command in ["serve", "config"] {
        fs::write(&file, "grpc_port = 1\nflsh = \"sync\"\n").unwrap();
        let output = redstart(dir.path()).arg(command).output().unwrap();
        assert_eq!(refused(&output), "redstart: redstart.toml:2: unknown key `flsh`; did you mean `flush`?");

        // A flag that overrules it does not make it right.
        fs::write(&file, "flush = \"fast\"\n").unwrap();
        let output = redstart(dir.path()).args([command, "--flush", "sync"]).output().unwrap();
        let expected = "redstart: redstart.toml:1: `flush` is \"fast\"; it must be sync or async";
        assert_eq!(refused(&output), expected);
        fs::remove_file(&file).unwrap();

        let output = redstart(dir.path()).arg(command).env("REDSTART_FLSH", "sync").output().unwrap();
        let expected = "redstart: unknown environment variable REDSTART_FLSH; did you mean `REDSTART_FLUSH`?";
        assert_eq!(refused(&output), expected);

        let output = redstart(dir.path()).args([command, "--config", "none.toml"]).output().unwrap();
        assert!(refused(&output).contains("none.toml"));

        let output = redstart(dir.path()).args([command, "--grpc-port", "10911"]).output().unwrap();
        let expected = "redstart: `broker_port` and `grpc_port` are both 10911: use different ports";
        assert_eq!(refused(&output), expected);

        let output = redstart(dir.path()).args([command, "--disk-clean-percent", "95"]).output().unwrap();
        assert!(refused(&output).contains("`disk_refuse_percent` is 90"));

        let output = redstart(dir.path()).args([command, "--flsh", "sync"]).output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("'--flush'"));
    }
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "nothing is made before the configuration is right: {left:?}");
}

#[test]
fn a_broker_conf_is_in_force() {
    // As RocketMQ shows them again, in its units.
    let shown = [
        ("brokerClusterName", "\"c-1\""),
        ("brokerName", "\"b_1\""),
        ("flushDiskType", "\"ASYNC_FLUSH\""),
        ("fileReservedTime", "48"),
        ("diskMaxUsedSpaceRatio", "70"),
        ("maxMessageSize", "65536"),
        ("messageDelayLevel", "\"2s 3m 4h\""),
        ("transactionTimeOut", "6500"),
        ("transactionCheckInterval", "30000"),
        ("transactionCheckMax", "5"),
        ("autoCreateTopicEnable", "true"),
        ("autoCreateSubscriptionGroup", "false"),
        ("brokerIP1", "\"192.0.2.1\""),
    ];
    let hidden = [
        ("bindAddress", "\"127.0.0.1\""),
        ("flushIntervalCommitLog", "200"),
        ("diskSpaceWarningLevelRatio", "95"),
        ("mappedFileSizeCommitLog", "67108864"),
    ];
    let dir = TempDir::new().unwrap();
    let lines = shown.iter().chain(&hidden).map(|(key, value)| format!("{key} = {value}\n"));
    fs::write(dir.path().join("redstart.toml"), lines.collect::<String>()).unwrap();
    let mut serve = support::serve(Path::new(env!("CARGO_BIN_EXE_redstart")), &dir.path().join("data"));
    let broker = Running::start(serve.current_dir(dir.path()));
    let found = broker_config(broker.broker);
    for (key, value) in shown {
        let line = format!("{key}={}", value.trim_matches('"'));
        assert!(found.lines().any(|found| found == line), "{line} is missing in {found}");
    }
    let segment = dir.path().join("data/shard-0/00000000000000000000.log");
    assert_eq!(fs::metadata(segment).unwrap().len(), 64 << 20);
    broker.stop();
}

#[test]
fn a_change_at_run_time_is_logged_at_the_next_start_and_shown() {
    let dir = TempDir::new().unwrap();
    let start = || {
        let mut serve = support::serve(Path::new(env!("CARGO_BIN_EXE_redstart")), &dir.path().join("data"));
        Running::start(serve.current_dir(dir.path()).args(["--retention", "7d"]))
    };
    let broker = start();
    update_broker_config(broker.broker, "fileReservedTime=48");
    assert!(!broker.stop().contains("overrides the configuration"));

    let broker = start();
    let port = broker.broker.port().to_string();
    let show = |flags: &[&str]| {
        let mut command = redstart(dir.path());
        said(
            &command
                .args(["config", "--retention", "7d", "--broker-port", &port])
                .args(flags)
                .output()
                .unwrap(),
        )
    };
    let shown = show(&[]);
    let lines = "# OVERRIDDEN at run time by mqadmin updateBrokerConfig: \"48h\"\nretention = \"7d\"\n";
    assert!(shown.contains(lines) && shown.matches("OVERRIDDEN at").count() == 1, "{shown}");
    let shown: serde_json::Value = serde_json::from_str(&show(&["--json"])).unwrap();
    assert_eq!(shown["broker"]["running"], true);
    assert_eq!(shown["settings"]["retention"]["override"], "48h");
    assert_eq!(shown["settings"]["flush"]["override"], serde_json::Value::Null);
    let other = show(&["--broker-name", "broker-z"]);
    assert!(other.contains("broker broker-a of cluster DefaultCluster listens there"), "{other}");
    let log = broker.stop();
    let line = log.lines().find(|line| line.contains("overrides the configuration")).unwrap();
    assert!(line.contains("fileReservedTime") && line.contains("48"), "{line}");
}

#[test]
fn the_documentation_is_of_this_table() {
    let dir = TempDir::new().unwrap();
    let written = said(&redstart(dir.path()).args(["config", "--markdown"]).output().unwrap());
    assert!(
        written == include_str!("../../../../docs/configuration.md"),
        "docs/configuration.md is out of date; write it again: redstart config --markdown > docs/configuration.md"
    );
}

#[test]
fn health_is_what_the_broker_answers() {
    let dir = TempDir::new().unwrap();
    for (answer, healthy) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", false),
        ("SSH-2.0-x\r\n", false),
        ("", false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [0; 1];
            while !asked.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        });
        let mut health = redstart(dir.path());
        let output = health.args(["health", "--listen", "0.0.0.0", "--http-port", &port]).output().unwrap();
        assert_eq!(output.status.success(), healthy, "{answer:?}");
        assert!(served.join().unwrap().starts_with("GET /readyz HTTP/1.1\r\n"));
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let output = redstart(dir.path()).args(["health", "--http-port", &free]).output().unwrap();
    assert!(refused(&output).contains("no answer from 127.0.0.1:"));
}

#[test]
fn a_reader_who_has_had_enough_is_no_failure() {
    let dir = TempDir::new().unwrap();
    for words in [&["config"][..], &["completions", "bash"], &["bench", "workload", "--list"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = redstart(dir.path()).args(words).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{words:?}: {said}");
    }
}
