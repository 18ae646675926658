use std::fs;

use tempfile::TempDir;

use super::*;

fn entry<'a>(outcome: Outcome, request: &'a str) -> Entry<'a> {
    let from = "10.0.0.1:4711".parse().unwrap();
    Entry { user: Some("app"), from, port: "remoting", request, objects: &[], outcome, why: "" }
}

#[test]
fn changes_are_written_one_by_one_and_denials_of_one_source_are_bounded() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("audit.log");
    let log = AuditLog::open(&path).unwrap();
    for _ in 0..200 {
        log.record(entry(Outcome::Denied, "SEND_MESSAGE"));
        log.record(entry(Outcome::Done, "AUTH_CREATE_USER"));
    }
    log.close();
    log.record(entry(Outcome::Done, "late"));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("AUTH_CREATE_USER").count(), 200);
    assert_eq!(text.matches("SEND_MESSAGE").count(), 20);
    assert!(!text.contains("late"));
}

#[test]
fn lines_that_find_no_place_are_counted_and_said() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("audit.log");
    let file = RotatingFile::open(&path, LIMITS).unwrap();
    let (lines, queue) = crossbeam_channel::bounded(1);
    let state =
        Arc::new(State { repeats: Mutex::default(), dropped: AtomicU64::new(0), began: Instant::now() });
    let log = AuditLog(Some(Arc::new(Shared { lines, state: state.clone(), thread: Mutex::new(None) })));
    for _ in 0..3 {
        log.record(entry(Outcome::Done, "AUTH_CREATE_USER"));
    }
    drop(log);
    writer::run(&queue, file, &state);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("AUTH_CREATE_USER").count(), 1);
    assert!(text.contains("2 lines were dropped"), "{text}");
}

#[test]
fn a_log_without_a_file_does_nothing() {
    AuditLog::default().record(entry(Outcome::Done, "x"));
    AuditLog::default().close();
}
