//! Many delayed messages: due at once, and pending.

use std::time::{Duration, Instant};

use redstart_engine::{Message, MessageType, Timestamp};
use redstart_server::shard::ShardHandle;
use tempfile::TempDir;

use crate::support::{message, now, open, resident_mib, send_all, send_concurrently, set_up};

fn delayed(count: usize, due: impl Fn(usize) -> Timestamp) -> impl Iterator<Item = Message> {
    (0..count).map(move |n| Message { deliver_at: Some(due(n)), ..message(n, 100) })
}

async fn held(handle: &ShardHandle) -> usize {
    handle.ask(|engine, _| engine.deferred().delayed).expect("room").await.expect("an answer")
}

fn held_now(handle: &ShardHandle) -> usize {
    handle.ask(|engine, _| engine.deferred().delayed).expect("room").wait().expect("an answer")
}

/// Messages per second that 64 callers get through while `going` says so.
fn throughput(handle: &ShardHandle, going: impl AsyncFn() -> bool) -> f64 {
    let start = Instant::now();
    send_concurrently(handle, 64, going) as f64 / start.elapsed().as_secs_f64()
}

pub fn due_at_once() {
    const COUNT: usize = 1_000_000;
    let dir = TempDir::new().expect("a directory");
    let opened = open(&dir);
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Mixed);
    let loading = Instant::now();
    let due = now().after(Duration::from_secs(60));
    // All within one second.
    send_all(&handle, delayed(COUNT, |n| Timestamp(due.0 + (n % 1000) as u64)));
    println!("  loaded {COUNT} delayed messages in {:.1} s", loading.elapsed().as_secs_f64());
    assert!(now() < due, "loading took too long");

    let until = Instant::now() + Duration::from_secs(4);
    let before = throughput(&handle, async || Instant::now() < until);
    assert_eq!(held_now(&handle), COUNT, "none early");
    while now() < due {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begin = Instant::now();
    let during = throughput(&handle, async || held(&handle).await > 0);
    println!(
        "  all visible {:.2} s after the first was due, 1 s of which they were spread over (limit 5 s)",
        begin.elapsed().as_secs_f64()
    );
    println!(
        "  sends by 64 callers: {before:.0}/s before, {during:.0}/s during: {:.2} (limit 0.5)",
        during / before
    );
    opened.shard.stop().expect("a clean stop");
}

pub fn pending() {
    const COUNT: usize = 10_000_000;
    let dir = TempDir::new().expect("a directory");
    let opened = open(&dir);
    let handle = opened.shard.handle();
    set_up(&handle, MessageType::Delay);
    let base = now().after(Duration::from_secs(24 * 3600));
    send_all(
        &handle,
        delayed(COUNT, |n| Timestamp(base.0 + (n as u64).wrapping_mul(2_654_435_761) % 86_400_000)),
    );
    println!("  {COUNT} pending delayed messages: {:.0} MiB resident (limit 1,000 MB)", resident_mib());
    opened.shard.stop().expect("a clean stop");
    let start = Instant::now();
    let opened = open(&dir);
    let waiting = held_now(&opened.shard.handle());
    println!("  started again with {waiting} pending in {:.2} s", start.elapsed().as_secs_f64());
    opened.shard.stop().expect("a clean stop");
}
