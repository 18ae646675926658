//! What the log costs over the bare system calls: the same bytes in the same batches, in the same run.
//!
//! `cargo bench -p redstart-log --bench append [-- DIR]`; DIR is on the disk to measure, by default the system's
//! directory for temporary files. Rounds of both sides alternate, so that a slow moment of the disk hits both.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use redstart_log::{DiskLog, FsStorage, Log, MemoryLog, Options};

const PAYLOAD_BYTES: usize = 1024;
/// What a frame takes besides its payload: the bare loop writes as many bytes as the log.
const HEADER_BYTES: usize = 48;
const ROUNDS: usize = 1500;

fn main() {
    let dir = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let dir = match dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    let dir = dir.expect("a directory to measure in");
    println!("{:<28} {:>12} {:>12} {:>8}", "median of one commit", "bare loop", "log", "ratio");
    let cases = [
        ("1 frame of 1 KiB", 1, PAYLOAD_BYTES),
        ("1 frame of 64 KiB", 1, 64 * PAYLOAD_BYTES),
        ("64 frames of 1 KiB", 64, PAYLOAD_BYTES),
    ];
    for (name, frames, payload_bytes) in cases {
        let (bare, log) = measure(&dir.path().join(name), frames, payload_bytes);
        let ratio = log.as_secs_f64() / bare.as_secs_f64();
        println!("{name:<28} {:>12} {:>12} {ratio:>8.3}", micros(bare), micros(log));
    }
    let appends = memory_appends_per_second();
    println!("\nmemory log: {:.2} million appends of 1 KiB per second", appends / 1e6);
}

fn measure(dir: &Path, frames: usize, payload_bytes: usize) -> (Duration, Duration) {
    let payload = vec![7; payload_bytes];
    let batch = vec![7; (payload_bytes + HEADER_BYTES) * frames];
    let storage = Arc::new(FsStorage::open(dir).expect("a directory"));
    let bare = bare_file(&dir.join("bare"));
    let (mut log, _) = DiskLog::open(storage, Options::default()).expect("a new log");
    let flusher = log.flusher();
    let (mut bare_times, mut log_times) = (Vec::new(), Vec::new());
    let mut offset = 0;
    for round in 0..ROUNDS {
        let start = Instant::now();
        bare.write_all_at(&batch, offset).expect("write");
        bare.sync_data().expect("sync");
        bare_times.push(start.elapsed());
        offset += batch.len() as u64;

        let start = Instant::now();
        for _ in 0..frames {
            log.append(round as u64, &payload).expect("append");
        }
        flusher.flush().expect("flush");
        log_times.push(start.elapsed());
    }
    (median(bare_times), median(log_times))
}

fn bare_file(path: &Path) -> File {
    OpenOptions::new().write(true).create(true).truncate(true).open(path).expect("a file")
}

/// Appends with old segments removed behind them, after a first pass: memory that was in use before. Fresh memory
/// costs what the kernel takes to clear it, which says nothing about the log.
fn memory_appends_per_second() -> f64 {
    const APPENDS: u64 = 500_000;
    let mut log = MemoryLog::with_options(Options::with_segment_bytes(16 << 20));
    append_in_memory(&mut log, APPENDS / 5);
    let start = Instant::now();
    append_in_memory(&mut log, APPENDS);
    APPENDS as f64 / start.elapsed().as_secs_f64()
}

fn append_in_memory(log: &mut MemoryLog, count: u64) {
    let payload = vec![7; PAYLOAD_BYTES];
    let flusher = log.flusher();
    for n in 0..count {
        log.append(n, &payload).expect("append");
        if n % 64 == 63 {
            flusher.flush().expect("flush");
        }
        if n % 4096 == 0 {
            let segments = log.segments();
            for old in segments.iter().rev().skip(4).rev() {
                log.remove_oldest(old.id).expect("removal");
            }
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}
