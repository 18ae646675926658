//! Checks sealed segments and their indexes slowly in the background, so that damage is found before a consumer reads it.

mod plan;

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use redstart_engine::IndexCheck;
use redstart_log::{ReadError, Scrubber, SegmentId, SegmentInfo};

use self::plan::{End, Next, Part, Plan};
use crate::{
    Serving,
    shard::{ShardHandle, Unavailable},
    throttle::Throttle,
};

static UNREADABLE: Throttle = Throttle::new();

/// Pause after the shard did not answer.
const OVERLOAD_PAUSE: Duration = Duration::from_secs(10);

/// Checks stored data for as long as the shard runs, `rate` bytes a second. Every piece is read on the blocking pool.
pub fn run(shard: ShardHandle, rate: u64) -> Serving {
    Box::pin(scrub(shard, rate))
}

async fn scrub(shard: ShardHandle, rate: u64) {
    let started = Instant::now();
    let mut plan = Plan::new(rate, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    loop {
        let (segments, scrubber) = match stored(&shard).await {
            Ok(stored) => stored,
            Err(Unavailable::Stopped) => return,
            Err(_) => {
                tokio::time::sleep(OVERLOAD_PAUSE).await;
                continue;
            }
        };
        // A log in memory has nothing to check.
        let Some(scrubber) = scrubber else { return };
        match plan.next(&segments, started.elapsed()) {
            Next::Wait(time) => tokio::time::sleep(time).await,
            Next::Check(id) => {
                let end = check(&shard, &mut plan, &*scrubber, id).await;
                plan.ended(id, end, started.elapsed());
            }
        }
    }
}

type Stored = (Vec<SegmentInfo>, Option<Arc<dyn Scrubber>>);

async fn stored(shard: &ShardHandle) -> Result<Stored, Unavailable> {
    shard.ask(|engine, _| (engine.log().segments(), engine.log().scrubber()))?.await
}

/// Checks a segment and then its index.
async fn check(shard: &ShardHandle, plan: &mut Plan, scrubber: &dyn Scrubber, id: SegmentId) -> End {
    let mut end = End::Read;
    for part in [Part::Segment, Part::Index] {
        let checked = match part {
            Part::Segment => check_segment(shard, plan, scrubber, id).await,
            Part::Index => check_index(shard, plan, scrubber, id).await,
        };
        match checked {
            Ok(()) | Err(ReadError::Removed(_)) => {}
            Err(ReadError::Corrupt { file, offset, what, .. }) => {
                if plan.note_damage(id, part) {
                    match part {
                        Part::Segment => shard.counters().scrub_damaged_segment(),
                        Part::Index => shard.counters().scrub_damaged_index(),
                    }
                    tracing::error!(file, offset, what, "stored data is damaged");
                }
            }
            Err(error) => {
                end = End::Unreadable;
                if let Some(repeated) = UNREADABLE.permit() {
                    tracing::warn!(%error, repeated, "stored data could not be checked");
                }
            }
        }
    }
    end
}

async fn check_segment(
    shard: &ShardHandle,
    plan: &Plan,
    scrubber: &dyn Scrubber,
    id: SegmentId,
) -> Result<(), ReadError> {
    let Some(mut segment) = scrubber.segment(id)? else { return Ok(()) };
    loop {
        let began = Instant::now();
        let (back, piece) = blocking(move || {
            let piece = segment.step();
            (segment, piece)
        })
        .await;
        segment = back;
        let piece = piece?;
        shard.counters().scrubbed(piece.bytes);
        if piece.last {
            return Ok(());
        }
        tokio::time::sleep(plan.pause(piece.bytes, began.elapsed())).await;
    }
}

async fn check_index(
    shard: &ShardHandle,
    plan: &Plan,
    scrubber: &dyn Scrubber,
    id: SegmentId,
) -> Result<(), ReadError> {
    let Some(mut index) = scrubber.index(id)? else { return Ok(()) };
    let mut check = IndexCheck::new(id, index.len());
    while let Some((at, len)) = check.next() {
        let began = Instant::now();
        let (back, bytes) = blocking(move || {
            let bytes = index.read(at, len);
            (index, bytes)
        })
        .await;
        index = back;
        check.feed(&bytes?).map_err(|fault| index.corrupt(fault.at, fault.what))?;
        shard.counters().scrubbed(len as u64);
        tokio::time::sleep(plan.pause(len as u64, began.elapsed())).await;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(read).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The tokio runtime is shutting down, which ends this task too.
            Err(_) => std::future::pending().await,
        },
    }
}
