//! Push consumers do not extend the invisible time of what they work on: the server does, while they live.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redstart_engine::{Receipt, Timestamp};

use super::{clients::Clients, receive::RENEWED_INVISIBLE};
use crate::shard::{Clock, ShardHandle, SystemClock};

/// Renewed when less than this is left.
const RENEW_BEFORE: Duration = Duration::from_secs(20);
/// A consumer that works on one message for longer than this has lost it.
const RENEW_MAX: Duration = Duration::from_secs(3 * 3600);
/// What a departed client held comes again after this.
const ORPHAN_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Held {
    client: String,
    since: Timestamp,
    until: Timestamp,
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

    fn lock(&self) -> MutexGuard<'_, HashMap<Receipt, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are held by a consumer from now on.
    pub fn add(&self, receipts: impl Iterator<Item = Receipt>, client: &str, until: Timestamp) {
        let since = SystemClock.now();
        let held = |receipt| (receipt, Held { client: client.to_owned(), since, until });
        self.lock().extend(receipts.map(held));
    }

    /// The consumer is done with these, one way or the other.
    pub fn remove(&self, receipts: &[Receipt]) {
        let mut held = self.lock();
        for receipt in receipts {
            held.remove(receipt);
        }
    }

    /// Extends what is still worked on, and gives back what belongs to clients that are gone.
    pub async fn renew(&self) {
        let now = SystemClock.now();
        let (mut renewed, mut orphaned) = (Vec::new(), Vec::new());
        self.lock().retain(|receipt, held| {
            if !self.clients.is_alive(&held.client) {
                orphaned.push(*receipt);
                return false;
            }
            if now.since(held.since) > RENEW_MAX || held.until <= now {
                return false;
            }
            if held.until.since(now) < RENEW_BEFORE {
                held.until = now.after(RENEWED_INVISIBLE);
                renewed.push(*receipt);
            }
            true
        });
        self.apply(renewed, orphaned).await;
    }

    /// A client has taken leave: what it held goes to others soon.
    pub async fn leave(&self, client: &str) {
        let mut orphaned = Vec::new();
        self.lock().retain(|receipt, held| {
            let theirs = held.client == client;
            if theirs {
                orphaned.push(*receipt);
            }
            !theirs
        });
        self.apply(Vec::new(), orphaned).await;
    }

    async fn apply(&self, mut renewed: Vec<Receipt>, orphaned: Vec<Receipt>) {
        if renewed.is_empty() && orphaned.is_empty() {
            return;
        }
        let asked = self.shard.ask(move |engine, now| {
            for receipt in orphaned {
                let _ = engine.change_invisible(receipt, ORPHAN_DELAY, now);
            }
            // Refused when it was acked or given back meanwhile.
            renewed.retain(|receipt| engine.renew(*receipt, RENEWED_INVISIBLE, now).is_err());
            renewed
        });
        match asked {
            Ok(reply) => {
                if let Ok(done) = reply.await {
                    self.remove(&done);
                }
            }
            Err(error) => tracing::warn!(%error, "messages could not be renewed"),
        }
    }
}
