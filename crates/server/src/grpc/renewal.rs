//! Renews the invisible time of messages that push consumers process: those clients do not do it themselves. A client that is
//! gone, or may no longer consume what it holds, has its messages delivered to others.
//!
//! Times are those of the monotonic clock, so that a jump of the wall clock changes nothing.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redstart_auth::Action;
use redstart_engine::{AckError, Receipt};

use super::{clients::Clients, receive::RENEWED_INVISIBLE};
use crate::{
    access::{Access, Identity, Needs},
    shard::Unavailable,
    shards::{ServedShard, ShardNumber, Shards},
    throttle::Throttle,
};

/// A delivery is renewed when less than this is left: time for several rounds, if the shard is overloaded.
const RENEW_BEFORE: Duration = Duration::from_secs(20);
/// A message is renewed for so long at most; then it is delivered again.
const RENEW_MAX: Duration = Duration::from_secs(3 * 3600);
/// Messages of a client that is gone come again after this. The client may have seen them, so the delivery counts.
const ORPHAN_DELAY: Duration = Duration::from_secs(1);

/// The consumer that holds the messages of one answer, and by which rights.
#[derive(Debug)]
pub(super) struct Holder {
    pub client: String,
    pub identity: Identity,
    pub topic: String,
    pub group: String,
    /// The snapshot of rights that allowed it to hold them, or one before it.
    pub decided_by: AtomicU64,
}

impl Holder {
    /// Decides again once for every change of rights.
    fn may_consume(&self, access: &Access) -> bool {
        // Before the decision: a snapshot that comes later must not go unnoticed.
        let version = access.version();
        if version == self.decided_by.load(Ordering::Relaxed) {
            return true;
        }
        let needs = Needs::nothing().consume(self.topic.as_str(), self.group.as_str(), Action::Sub);
        let may = access.authorize(&self.identity, &needs).is_ok();
        if may {
            self.decided_by.store(version, Ordering::Relaxed);
        }
        may
    }
}

#[derive(Debug)]
struct Tracked {
    holder: Arc<Holder>,
    since: Instant,
    until: Instant,
}

/// What a round does with a tracked delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    No,
    Renew,
    /// Its client is gone or has lost the right to it: the message is delivered again soon.
    Orphaned,
    /// It was renewed for too long, or its time ran out before it could be renewed: it is tracked no more.
    Over,
}

impl Tracked {
    fn due(&self, is_held: bool, now: Instant) -> Due {
        if self.until <= now {
            return Due::Over;
        }
        if !is_held {
            return Due::Orphaned;
        }
        if now.saturating_duration_since(self.since) > RENEW_MAX {
            return Due::Over;
        }
        if self.until - now < RENEW_BEFORE { Due::Renew } else { Due::No }
    }
}

/// The engine's answer to a round.
#[derive(Debug, Default)]
struct Applied {
    renewed: Vec<Receipt>,
    /// Acked, returned, or delivered again: nothing is left to renew.
    over: Vec<Receipt>,
}

/// What a round asks of one shard.
#[derive(Debug, Default)]
struct Round {
    renew: Vec<Receipt>,
    orphaned: Vec<Receipt>,
}

#[derive(Debug)]
pub(super) struct Renewal {
    shards: Shards,
    clients: Arc<Clients>,
    access: Access,
    /// By shard.
    tracked: Box<[Mutex<HashMap<Receipt, Tracked>>]>,
}

impl Renewal {
    pub fn new(shards: Shards, clients: Arc<Clients>, access: Access) -> Renewal {
        let tracked = shards.all().iter().map(|_| Mutex::default()).collect();
        Renewal { shards, clients, access, tracked }
    }

    /// The deliveries of a shard, which must exist.
    fn of(&self, shard: ShardNumber) -> &Mutex<HashMap<Receipt, Tracked>> {
        &self.tracked[usize::from(shard.0)]
    }

    /// Tracks deliveries of a shard; their invisible time ends at `until` unless it is renewed.
    pub fn add(
        &self,
        shard: ShardNumber,
        receipts: impl IntoIterator<Item = Receipt>,
        holder: &Arc<Holder>,
        until: Instant,
    ) {
        let since = Instant::now();
        let tracked = |receipt| (receipt, Tracked { holder: holder.clone(), since, until });
        self.of(shard).lock().extend(receipts.into_iter().map(tracked));
    }

    /// Stops tracking these: the consumer has acked or returned them.
    pub fn remove(&self, shard: ShardNumber, receipts: &[Receipt]) {
        let mut tracked = self.of(shard).lock();
        for receipt in receipts {
            tracked.remove(receipt);
        }
    }

    /// One round: renews what is due, and returns the messages of clients that are gone or have lost their rights.
    pub async fn renew(&self) {
        let now = Instant::now();
        for shard in self.shards.all() {
            let mut round = Round::default();
            self.of(shard.number).lock().retain(|receipt, tracked| {
                let holder = &tracked.holder;
                let is_held = self.clients.is_alive(&holder.client) && holder.may_consume(&self.access);
                match tracked.due(is_held, now) {
                    Due::No => {}
                    Due::Renew => round.renew.push(*receipt),
                    Due::Orphaned => round.orphaned.push(*receipt),
                    Due::Over => return false,
                }
                true
            });
            self.apply(shard, round).await;
        }
    }

    /// A client has terminated: its messages are delivered to others soon.
    pub async fn client_left(&self, client: &str) {
        for shard in self.shards.all() {
            let orphaned = self.tracked_for(shard.number, client);
            self.apply(shard, Round { orphaned, ..Round::default() }).await;
        }
    }

    fn tracked_for(&self, shard: ShardNumber, client: &str) -> Vec<Receipt> {
        let tracked = self.of(shard).lock();
        tracked
            .iter()
            .filter(|(_, tracked)| tracked.holder.client == client)
            .map(|(receipt, _)| *receipt)
            .collect()
    }

    /// The table changes only after the engine has answered: what the shard has no room for is tried again in the next round.
    async fn apply(&self, shard: &ServedShard, Round { renew, orphaned }: Round) {
        static REFUSED: Throttle = Throttle::new();
        if renew.is_empty() && orphaned.is_empty() {
            return;
        }
        let asked_at = Instant::now();
        let asked = shard.handle.record(move |engine, now| {
            let mut applied = Applied::default();
            for receipt in orphaned {
                let _ = engine.change_invisible(receipt, ORPHAN_DELAY, now);
                applied.over.push(receipt);
            }
            for receipt in renew {
                match engine.renew(receipt, RENEWED_INVISIBLE, now) {
                    Ok(()) => applied.renewed.push(receipt),
                    Err(AckError::Unknown | AckError::Expired) => applied.over.push(receipt),
                    // A limit of the engine; the delivery itself may still be valid.
                    Err(AckError::InvisibleTime { .. }) => {}
                }
            }
            applied
        });
        let applied = match asked {
            Ok(reply) => reply.await,
            Err(unavailable) => Err(unavailable),
        };
        match applied {
            Ok(applied) => self.applied(shard.number, &applied, asked_at + RENEWED_INVISIBLE),
            Err(Unavailable::Stopped) => {}
            Err(error @ Unavailable::Overloaded { .. }) => {
                if let Some(repeated) = REFUSED.permit() {
                    tracing::warn!(%error, repeated, "invisible times could not be renewed; trying again");
                }
            }
        }
    }

    fn applied(&self, shard: ShardNumber, applied: &Applied, until: Instant) {
        self.remove(shard, &applied.over);
        let mut tracked = self.of(shard).lock();
        for receipt in &applied.renewed {
            if let Some(tracked) = tracked.get_mut(receipt) {
                tracked.until = until;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_renewed_shortly_before_its_time_is_out_and_not_for_ever() {
        let since = Instant::now();
        let s = Duration::from_secs;
        let holder = Arc::new(Holder {
            client: "c".to_owned(),
            identity: Identity::of("u"),
            topic: "t".to_owned(),
            group: "g".to_owned(),
            decided_by: AtomicU64::new(0),
        });
        let tracked = |until| Tracked { holder: holder.clone(), since, until: since + until };
        assert_eq!(tracked(s(60)).due(true, since), Due::No);
        assert_eq!(tracked(s(60)).due(true, since + s(41)), Due::Renew);
        assert_eq!(tracked(s(60)).due(true, since + s(59)), Due::Renew, "as often as it takes");
        assert_eq!(tracked(s(60)).due(true, since + s(60)), Due::Over);
        assert_eq!(tracked(s(60)).due(false, since + s(1)), Due::Orphaned);
        assert_eq!(tracked(RENEW_MAX + s(30)).due(true, since + RENEW_MAX + s(1)), Due::Over);
    }
}
