//! Push consumers do not extend the invisible time of what they work on: the server does, while they live.
//!
//! Times are those of the monotonic clock: how long a consumer holds a message does not depend on the date.

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

/// Renewed when less than this is left. Several rounds fit in, for those that the shard has no room for.
const RENEW_BEFORE: Duration = Duration::from_secs(20);
/// A consumer that works on one message for longer than this has lost it.
const RENEW_MAX: Duration = Duration::from_secs(3 * 3600);
/// What a departed client held comes again after this. It may have been seen, so its delivery counts.
const ORPHAN_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Held {
    client: String,
    since: Instant,
    until: Instant,
}

/// What becomes of a held message in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    No,
    Renew,
    /// Its client is gone.
    Orphaned,
    /// It was held for too long, or its time ran out before it could be renewed.
    Over,
}

impl Held {
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

/// What the engine made of a round.
#[derive(Debug, Default)]
struct Applied {
    renewed: Vec<Receipt>,
    /// Acked, given back, or delivered again: no longer in this consumer's hands.
    over: Vec<Receipt>,
}

#[derive(Debug)]
pub(super) struct Renewal {
    shard: ShardHandle,
    clients: Arc<Clients>,
    held: Mutex<HashMap<Receipt, Held>>,
}

impl Renewal {
    pub fn new(shard: ShardHandle, clients: Arc<Clients>) -> Renewal {
        Renewal { shard, clients, held: Mutex::default() }
    }

    /// A consumer holds these from now on; without renewal, until the given time.
    pub fn add(&self, receipts: impl IntoIterator<Item = Receipt>, client: &str, until: Instant) {
        let since = Instant::now();
        let held = |receipt| (receipt, Held { client: client.to_owned(), since, until });
        self.held.lock().extend(receipts.into_iter().map(held));
    }

    /// The consumer is done with these, one way or the other.
    pub fn remove(&self, receipts: &[Receipt]) {
        let mut held = self.held.lock();
        for receipt in receipts {
            held.remove(receipt);
        }
    }

    /// Extends what is still worked on, and gives back what belongs to clients that are gone.
    pub async fn renew(&self) {
        let now = Instant::now();
        let (mut renewed, mut orphaned) = (Vec::new(), Vec::new());
        self.held.lock().retain(|receipt, held| {
            match held.due(self.clients.is_alive(&held.client), now) {
                Due::No => {}
                Due::Renew => renewed.push(*receipt),
                Due::Orphaned => orphaned.push(*receipt),
                Due::Over => return false,
            }
            true
        });
        self.apply(renewed, orphaned).await;
    }

    /// A client has taken leave: what it held goes to others soon.
    pub async fn leave(&self, client: &str) {
        self.apply(Vec::new(), self.held_by(client)).await;
    }

    fn held_by(&self, client: &str) -> Vec<Receipt> {
        let held = self.held.lock();
        held.iter().filter(|(_, held)| held.client == client).map(|(receipt, _)| *receipt).collect()
    }

    /// Nothing changes here before the engine has said that it did there: what the shard has no room for is tried again
    /// with the next round.
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
                    // A limit of the engine's, not a word about the message.
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
                    tracing::warn!(%error, repeated, "messages could not be renewed; it is tried again");
                }
            }
        }
    }

    fn applied(&self, applied: &Applied, until: Instant) {
        self.remove(&applied.over);
        let mut held = self.held.lock();
        for receipt in &applied.renewed {
            if let Some(held) = held.get_mut(receipt) {
                held.until = until;
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
        let held = |until| Held { client: "c".to_owned(), since, until: since + until };
        assert_eq!(held(s(60)).due(true, since), Due::No);
        assert_eq!(held(s(60)).due(true, since + s(41)), Due::Renew);
        assert_eq!(held(s(60)).due(true, since + s(59)), Due::Renew, "as often as it takes");
        assert_eq!(held(s(60)).due(true, since + s(60)), Due::Over);
        assert_eq!(held(s(60)).due(false, since + s(1)), Due::Orphaned);
        assert_eq!(held(RENEW_MAX + s(30)).due(true, since + RENEW_MAX + s(1)), Due::Over);
    }
}
