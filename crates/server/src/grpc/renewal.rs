//! Renews the invisible time of messages that push consumers process: those clients do not do it themselves. A client that is
//! gone has its messages delivered to others.
//!
//! Times are those of the monotonic clock, so that a jump of the wall clock changes nothing.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redstart_engine::{AckError, Receipt};

use super::{clients::Clients, receive::RENEWED_INVISIBLE};
use crate::{
    shard::{ShardHandle, Unavailable},
    throttle::Throttle,
};

/// A delivery is renewed when less than this is left: time for several rounds, if the shard is overloaded.
const RENEW_BEFORE: Duration = Duration::from_secs(20);
/// A message is renewed for so long at most; then it is delivered again.
const RENEW_MAX: Duration = Duration::from_secs(3 * 3600);
/// Messages of a client that is gone come again after this. The client may have seen them, so the delivery counts.
const ORPHAN_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Tracked {
    client: String,
    since: Instant,
    until: Instant,
}

/// What a round does with a tracked delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    No,
    Renew,
    /// Its client is gone: the message is delivered again soon.
    Orphaned,
    /// It was renewed for too long, or its time ran out before it could be renewed: it is tracked no more.
    Over,
}

impl Tracked {
    fn due(&self, alive: bool, now: Instant) -> Due {
        if self.until <= now {
            return Due::Over;
        }
        if !alive {
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

#[derive(Debug)]
pub(super) struct Renewal {
    shard: ShardHandle,
    clients: Arc<Clients>,
    tracked: Mutex<HashMap<Receipt, Tracked>>,
}

impl Renewal {
    pub fn new(shard: ShardHandle, clients: Arc<Clients>) -> Renewal {
        Renewal { shard, clients, tracked: Mutex::default() }
    }

    /// Tracks deliveries of a client; their invisible time ends at `until` unless it is renewed.
    pub fn add(&self, receipts: impl IntoIterator<Item = Receipt>, client: &str, until: Instant) {
        let since = Instant::now();
        let tracked = |receipt| (receipt, Tracked { client: client.to_owned(), since, until });
        self.tracked.lock().extend(receipts.into_iter().map(tracked));
    }

    /// Stops tracking these: the consumer has acked or returned them.
    pub fn remove(&self, receipts: &[Receipt]) {
        let mut tracked = self.tracked.lock();
        for receipt in receipts {
            tracked.remove(receipt);
        }
    }

    /// One round: renews what is due, and returns the messages of clients that are gone.
    pub async fn renew(&self) {
        let now = Instant::now();
        let (mut renewed, mut orphaned) = (Vec::new(), Vec::new());
        self.tracked.lock().retain(|receipt, tracked| {
            match tracked.due(self.clients.is_alive(&tracked.client), now) {
                Due::No => {}
                Due::Renew => renewed.push(*receipt),
                Due::Orphaned => orphaned.push(*receipt),
                Due::Over => return false,
            }
            true
        });
        self.apply(renewed, orphaned).await;
    }

    /// A client has terminated: its messages are delivered to others soon.
    pub async fn client_left(&self, client: &str) {
        self.apply(Vec::new(), self.tracked_for(client)).await;
    }

    fn tracked_for(&self, client: &str) -> Vec<Receipt> {
        let tracked = self.tracked.lock();
        tracked.iter().filter(|(_, tracked)| tracked.client == client).map(|(receipt, _)| *receipt).collect()
    }

    /// The table changes only after the engine has answered: what the shard has no room for is tried again in the next round.
    async fn apply(&self, renew: Vec<Receipt>, orphaned: Vec<Receipt>) {
        static REFUSED: Throttle = Throttle::new();
        if renew.is_empty() && orphaned.is_empty() {
            return;
        }
        let asked_at = Instant::now();
        let asked = self.shard.ask(move |engine, now| {
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
            Ok(applied) => self.applied(&applied, asked_at + RENEWED_INVISIBLE),
            Err(Unavailable::Stopped) => {}
            Err(error @ Unavailable::Overloaded { .. }) => {
                if let Some(repeated) = REFUSED.permit() {
                    tracing::warn!(%error, repeated, "invisible times could not be renewed; trying again");
                }
            }
        }
    }

    fn applied(&self, applied: &Applied, until: Instant) {
        self.remove(&applied.over);
        let mut tracked = self.tracked.lock();
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
        let tracked = |until| Tracked { client: "c".to_owned(), since, until: since + until };
        assert_eq!(tracked(s(60)).due(true, since), Due::No);
        assert_eq!(tracked(s(60)).due(true, since + s(41)), Due::Renew);
        assert_eq!(tracked(s(60)).due(true, since + s(59)), Due::Renew, "as often as it takes");
        assert_eq!(tracked(s(60)).due(true, since + s(60)), Due::Over);
        assert_eq!(tracked(s(60)).due(false, since + s(1)), Due::Orphaned);
        assert_eq!(tracked(RENEW_MAX + s(30)).due(true, since + RENEW_MAX + s(1)), Due::Over);
    }
}
