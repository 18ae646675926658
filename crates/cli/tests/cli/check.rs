//! `redstart check` tells sound data from damaged, and does not touch what is in use.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    sync::Arc,
    time::{Duration, Instant},
};

use redstart_engine::{Config as EngineConfig, Message, SendOptions, TopicConfig, TopicName};
use redstart_log::{FsStorage, Options};
use redstart_server::shard::{Config, Shard};
use tempfile::TempDir;

use crate::support::{self, Running, create_topic, output};

const BINARY: &str = env!("CARGO_BIN_EXE_redstart");

fn check(dir: &Path) -> Output {
    output(Command::new(BINARY).env_clear().arg("check").arg(dir))
}

/// A broker that has something in its log.
fn broker(data: &Path) -> Running {
    let broker = Running::start(&mut support::serve(Path::new(BINARY), data));
    create_topic(broker.broker, "t");
    broker
}

fn unchecked(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn a_directory_that_cannot_be_checked_is_refused_in_one_line() {
    let home = TempDir::new().unwrap();
    let absent = home.path().join("absent");
    assert!(unchecked(&check(&absent)).contains("absent is not a directory"));
    assert!(!absent.exists());
    assert!(unchecked(&check(home.path())).contains("contains no data of a broker"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing is made");
    let data = home.path().join("data");
    let broker = broker(&data);
    let said = unchecked(&check(&data));
    let holder = format!("in use by another process: process {}", broker.child.id());
    assert!(said.contains(&holder), "{said}");
}

#[test]
fn sound_data_is_counted_and_damage_named() {
    let data = TempDir::new().unwrap();
    broker(data.path()).stop();
    let output = check(data.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with(&data.path().join("shard-0").display().to_string()), "{said}");
    assert!(said.contains("1 segments with ") && said.ends_with("\nsound\n"), "{said}");
    // The log's own directory may be named too.
    assert_eq!(check(&data.path().join("shard-0")).status.code(), Some(0));

    let segment = "00000000000000000000.log";
    let path = data.path().join("shard-0").join(segment);
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let output = check(data.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("PROBLEM {segment}: byte 0: segment header is damaged")), "{said}");
    assert!(said.contains("\nDAMAGED: "), "{said}");
    assert_eq!(fs::read(&path).unwrap(), bytes, "a check repairs nothing");
}

/// A data directory whose log has several segments, all sealed ones with their index.
fn several_segments(data: &Path) {
    let storage = Arc::new(FsStorage::open(data.join("shard-0")).unwrap());
    let config = Config { housekeeping_interval: Duration::from_millis(10), ..Config::default() };
    let options = Options::with_segment_bytes(64 << 10);
    let shard = Shard::open(storage, options, EngineConfig::default(), config).unwrap().shard;
    let handle = shard.handle();
    let topic = TopicName::new("t").unwrap();
    let work = async move {
        let put = topic.clone();
        let made = handle.change(move |engine, _| engine.put_topic(&put, TopicConfig::default()));
        made.unwrap().await.unwrap().unwrap();
        for n in 0..60 {
            let message =
                Message { id: format!("m{n}"), body: vec![7; 4 << 10].into(), ..Message::default() };
            let sent = handle.send(topic.clone(), vec![message], SendOptions::default());
            sent.unwrap().await.unwrap().unwrap();
        }
        let began = Instant::now();
        loop {
            let segments = handle.ask(|engine, _| engine.log().segments()).unwrap().await.unwrap();
            if segments.len() > 3 && segments.iter().all(|segment| segment.active || segment.has_index) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "sealed segments get their index");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    shard.stop().unwrap();
}

#[test]
fn indexes_that_are_damaged_or_missing_are_named() {
    let data = TempDir::new().unwrap();
    several_segments(data.path());
    let said = |output: Output| (output.status.code(), String::from_utf8(output.stdout).unwrap());
    let (code, whole) = said(check(data.path()));
    assert_eq!(code, Some(0), "{whole}");

    let index = data.path().join("shard-0").join("00000000000000000000.idx");
    let sound = fs::read(&index).unwrap();
    // Behind both headers, where only the blocks have checksums.
    let mut damaged = sound.clone();
    let at = 32 + 72 + 10;
    damaged[at] ^= 1;
    fs::write(&index, damaged).unwrap();
    let (code, found) = said(check(data.path()));
    assert_eq!(code, Some(1), "{found}");
    let named = "PROBLEM 00000000000000000000.idx: byte 104: entries of the index are damaged";
    assert!(found.contains(named) && found.contains("1 damaged; checkpoints"), "{found}");

    fs::remove_file(&index).unwrap();
    let (code, found) = said(check(data.path()));
    assert_eq!(code, Some(1), "{found}");
    assert!(found.contains("PROBLEM 00000000000000000000.idx: byte 0: the file is missing"), "{found}");
    fs::write(&index, sound).unwrap();
    assert_eq!(said(check(data.path())), (Some(0), whole));
}

#[test]
fn stored_data_that_is_missing_is_named_and_its_loss_can_be_accepted() {
    let data = TempDir::new().unwrap();
    let mut running = broker(data.path());
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let segment = "00000000000000000000.log";
    let path = data.path().join("shard-0").join(segment);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();

    let output_of = |output: Output| (output.status.code(), String::from_utf8(output.stdout).unwrap());
    let (code, said) = output_of(check(data.path()));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("PROBLEM {segment}: byte 64: stored data is missing")), "{said}");
    let refused = output(&mut support::serve(Path::new(BINARY), data.path()));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains(segment) && why.contains("--accept-loss"), "{why}");

    let accept = output(Command::new(BINARY).env_clear().args(["check", "--accept-loss"]).arg(data.path()));
    let (code, said) = output_of(accept);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("manifest") && said.contains("put aside as manifest.lost"), "{said}");
    broker(data.path()).stop();
    assert_eq!(check(data.path()).status.code(), Some(0));
}
