//! Durable appends against a bare loop that writes and syncs the same bytes.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

use redstart_engine::MessageType;
use tempfile::TempDir;

use crate::support::{KIB, message, open, percentile, processor_time, send, send_concurrently, set_up};

const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

/// Writes and syncs batches until the time is up; returns the time of each.
fn bare(dir: &TempDir, batch_bytes: usize) -> Vec<Duration> {
    let path = dir.path().join("bare");
    let file = File::create(&path).expect("a file");
    let bytes = vec![b'x'; batch_bytes];
    let mut times = Vec::new();
    let (start, mut at) = (Instant::now(), 0);
    while start.elapsed() < ROUND {
        let begin = Instant::now();
        file.write_all_at(&bytes, at).expect("a write");
        file.sync_data().expect("a sync");
        times.push(begin.elapsed());
        at += batch_bytes as u64;
    }
    std::fs::remove_file(&path).expect("the file goes");
    times.sort_unstable();
    times
}

/// Bytes that a message of 1 KiB takes in the log, all overhead included.
const STORED: usize = 1200;

pub fn one_caller() {
    let dir = TempDir::new().expect("a directory");
    let opened = open(&dir);
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let bare = bare(&dir, STORED);
        let mut times = Vec::new();
        let start = Instant::now();
        while start.elapsed() < ROUND {
            let begin = Instant::now();
            send(&handle, message(times.len(), KIB));
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        let (ours, base) = (percentile(&times, 50), percentile(&bare, 50));
        ratios.push(ours.as_secs_f64() / base.as_secs_f64());
        println!(
            "  one in flight: p50 {ours:?} p99 {:?}; bare p50 {base:?} p99 {:?}",
            percentile(&times, 99),
            percentile(&bare, 99)
        );
    }
    ratios.sort_unstable_by(f64::total_cmp);
    println!("  time of a durable append / bare write + fdatasync: {:.2} (limit 1.5)", ratios[ROUNDS / 2]);
    opened.shard.stop().expect("a clean stop");
}

pub fn many_callers() {
    const CALLERS: usize = 64;
    let dir = TempDir::new().expect("a directory");
    let opened = open(&dir);
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Normal);
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let flushes = || handle.counters().flushes() as usize;
        let (flushes_before, cpu_before, start) = (flushes(), processor_time(), Instant::now());
        let sent = send_concurrently(&handle, CALLERS, async || start.elapsed() < ROUND);
        let elapsed = start.elapsed().as_secs_f64();
        let flushes = flushes() - flushes_before;
        let cpu = processor_time() - cpu_before;
        let rate = sent as f64 / elapsed;
        let batch = (sent / flushes.max(1)).max(1);
        let bare = bare(&dir, batch * STORED);
        let bare_rate = (bare.len() * batch) as f64 / bare.iter().sum::<Duration>().as_secs_f64();
        ratios.push(rate / bare_rate);
        println!(
            "  64 callers: {rate:.0}/s {batch} to a flush, {:.1} us of processor time each; bare loop {bare_rate:.0}/s",
            cpu.as_secs_f64() * 1e6 / sent as f64
        );
    }
    ratios.sort_unstable_by(f64::total_cmp);
    println!("  throughput / bare loop with the same batches: {:.2} (limit 0.6)", ratios[ROUNDS / 2]);
    opened.shard.stop().expect("a clean stop");
}
