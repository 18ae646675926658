//! Several shards in one process: what they need to start, and what is refused before anything is touched.

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::SystemTime,
};

use tempfile::TempDir;

use crate::support::{Running, broker_config, create_topic, output, serve};

/// On ports that are free, with small segments: each shard reserves two.
fn serve_anywhere(data: &Path, shards: &str) -> Command {
    let mut command = serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data);
    command.args(["--shards", shards, "--segment-bytes", "32MiB"]);
    command
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("redstart: ")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    lines[0].to_owned()
}

/// All files with the times of their last changes.
fn files(dir: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let data = entry.metadata().unwrap();
        found.insert(entry.path(), data.modified().unwrap());
        if data.is_dir() {
            found.extend(files(&entry.path()));
        }
    }
    found
}

#[test]
fn the_number_grows_at_a_restart_and_does_not_shrink() {
    let data = TempDir::new().unwrap();
    let broker = Running::start(&mut serve_anywhere(data.path(), "1"));
    create_topic(broker.broker, "t");
    broker.stop();
    assert!(!data.path().join("shards").exists(), "one shard needs no file");

    let broker = Running::start(&mut serve_anywhere(data.path(), "3"));
    assert!(broker_config(broker.broker).contains("brokerName=broker-c"), "the last of three");
    let log = broker.stop();
    assert_eq!(log.lines().filter(|line| line.contains("shard open")).count(), 3, "{log}");
    assert_eq!(fs::read_to_string(data.path().join("shards")).unwrap(), "3\n");

    let before = files(data.path());
    for fewer in ["1", "2"] {
        let said = refused(&output(&mut serve_anywhere(data.path(), fewer)));
        for part in ["holds 3 shards", "--shards", "REDSTART_SHARDS"] {
            assert!(said.contains(part), "{part:?} is missing in: {said}");
        }
    }
    fs::rename(data.path().join("shard-2"), data.path().join("aside")).unwrap();
    let said = refused(&output(&mut serve_anywhere(data.path(), "3")));
    assert!(said.contains("shard-2 is missing"), "{said}");
    fs::rename(data.path().join("aside"), data.path().join("shard-2")).unwrap();
    let changed =
        |files: BTreeMap<PathBuf, SystemTime>| files.into_iter().filter(|(path, _)| path != data.path());
    assert!(changed(files(data.path())).eq(changed(before)), "nothing is touched");
    Running::start(&mut serve_anywhere(data.path(), "3")).stop();
}

#[test]
fn a_port_of_a_shard_that_is_taken_leaves_no_trace() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    // A port of which the one ten above can be taken here.
    let (port, _taken) = (0..100)
        .find_map(|_| {
            let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
            Some((port, TcpListener::bind(("127.0.0.1", port.checked_add(10)?)).ok()?))
        })
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
    command.env_clear().arg("--data-dir").arg(&data).args(["--shards", "2"]);
    command.args(["--broker-port", &port.to_string()]);
    command.args(["--grpc-port", "0", "--namesrv-port", "0", "--http-port", "0"]);
    let said = refused(&output(&mut command));
    for part in [format!("port {} of 127.0.0.1 is in use", port + 10).as_str(), "--broker-port"] {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
    assert!(!data.exists(), "nothing is touched");
}

#[test]
fn a_number_or_a_port_that_cannot_be_is_refused() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    for (flags, part) in [
        (&["--shards", "0"][..], "a number from 1 to 64"),
        (&["--shards", "65"], "a number from 1 to 64"),
        (&["--shards", "3", "--broker-port", "65530"], "the last shard's port would be 65550"),
        (&["--shards", "3", "--broker-port", "9000", "--grpc-port", "9020"], "`grpc_port` is 9020"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
        let done = output(command.env_clear().arg("--data-dir").arg(&data).args(flags));
        assert_eq!(done.status.code(), Some(1), "{flags:?}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.contains(part), "{part:?} is missing in: {said}");
        assert!(!data.exists());
    }
}
