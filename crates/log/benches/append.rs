//! What the log costs over the bare system calls: the same bytes in the same batches, in the same run.
//!
//! `cargo bench -p redstart-log --bench append [-- DIR]`; DIR is on the disk to measure, by default the system's
//! directory for temporary files. Rounds of both sides alternate, so that a slow moment of the disk hits both.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use redstart_log::{DiskLog, FsStorage, Log, MemoryLog, Options, Storage};

const PAYLOAD_BYTES: usize = 1024;
/// What a frame takes besides its payload: the bare loop writes as many bytes as the log.
const HEADER_BYTES: usize = 48;
/// Offset of the first frame of a segment.
const FIRST_FRAME: usize = 64;
const ROUNDS: usize = 1500;

fn main() {
    let dir = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let dir = match dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    let dir = dir.expect("a directory to measure in");
    println!(
        "{:<22} {:>11} {:>16} {:>11} {:>9} {:>13}",
        "median of one commit", "bare loop", "bare, allocated", "log", "log/bare", "log/allocated"
    );
    let cases = [
        ("1 frame of 1 KiB", 1, PAYLOAD_BYTES),
        ("1 frame of 64 KiB", 1, 64 * PAYLOAD_BYTES),
        ("64 frames of 1 KiB", 64, PAYLOAD_BYTES),
    ];
    for (name, frames, payload_bytes) in cases {
        let medians = measure(&dir.path().join(name), frames, payload_bytes);
        let ratio = |to: Duration| medians.log.as_secs_f64() / to.as_secs_f64();
        println!(
            "{name:<22} {:>11} {:>16} {:>11} {:>9.3} {:>13.3}",
            micros(medians.bare),
            micros(medians.allocated),
            micros(medians.log),
            ratio(medians.bare),
            ratio(medians.allocated)
        );
    }
    let appends = memory_appends_per_second();
    println!("\nmemory log: {:.2} million appends of 1 KiB per second", appends / 1e6);
}

struct Medians {
    /// Write and sync at the end of a file that grows.
    bare: Duration,
    /// The same in a file that was allocated before, as segments are.
    allocated: Duration,
    log: Duration,
}

fn measure(dir: &Path, frames: usize, payload_bytes: usize) -> Medians {
    let payload = vec![7; payload_bytes];
    let batch = vec![7; (payload_bytes + HEADER_BYTES) * frames];
    let storage = FsStorage::open(dir).expect("a directory");
    let bare = storage.create("bare").expect("a file");
    let allocated = storage.create("allocated").expect("a file");
    allocated.allocate(Options::default().segment_bytes).expect("room");
    for file in [&bare, &allocated] {
        // As long as the header of a segment, so that both sides cross the same pages.
        file.write_at(0, &[7; FIRST_FRAME]).expect("write");
        file.sync_data().expect("sync");
    }
    let (mut log, _) = DiskLog::open(Arc::new(storage), Options::default()).expect("a new log");
    let flusher = log.flusher();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (file, times) in [&bare, &allocated].into_iter().zip(&mut times) {
            let start = Instant::now();
            file.write_at((FIRST_FRAME + round * batch.len()) as u64, &batch).expect("write");
            file.sync_data().expect("sync");
            times.push(start.elapsed());
        }
        let start = Instant::now();
        for _ in 0..frames {
            log.append(round as u64, &payload).expect("append");
        }
        flusher.flush().expect("flush");
        times[2].push(start.elapsed());
    }
    let [bare, allocated, log] = times.map(median);
    Medians { bare, allocated, log }
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
