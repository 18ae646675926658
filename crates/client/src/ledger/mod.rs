//! Effects in a database that happen once for each message, however often it is delivered.
//!
//! For one message the order is: begin a transaction, claim the message's key in it, run the handler with it, commit, acknowledge. A
//! key that is claimed already means that the message is done. Claiming comes first: a second delivery that runs at the same time waits
//! for the first one's transaction at the key, and then skips. Acknowledging comes last: what is lost between commit and acknowledgement
//! is delivered again, and skipped.

mod fence;
mod outbox;
mod sweep;
mod work;

use std::{fmt::Display, future::Future, time::Duration};

pub use self::{
    fence::{FencedChecker, LocalError},
    outbox::{Outbox, OutboxError, OutboxRow, Relay, RelayPolicy, decode_message, encode_message},
    sweep::{SweepPolicy, Sweeper},
    work::{Effect, OnceError, once},
};
use crate::{Queue, Received, message::DEDUP_KEY};

/// A message's claim to take effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Claim {
    /// The consumer group: each group has an effect of its own.
    pub group: String,
    /// What all deliveries of the message have in common: the dedup key if the producer set one, else the message's id.
    pub key: String,
    /// Where the message is.
    pub queue: Queue,
    /// Its place there.
    pub offset: i64,
}

impl Claim {
    /// The claim of a message in a consumer group. The topic is not part of it, so that a message that was moved to another topic, or
    /// sent again from the dead letters, is still the same.
    pub fn of(group: impl Into<String>, message: &Received) -> Claim {
        let id = message.origin().map_or(message.id(), |origin| origin.id.as_str());
        Claim {
            group: group.into(),
            key: message.property(DEDUP_KEY).unwrap_or(id).to_owned(),
            queue: message.queue().clone(),
            offset: message.offset(),
        }
    }

    /// A claim of the application's own, for effects that no message stands behind.
    pub fn new(group: impl Into<String>, key: impl Into<String>) -> Claim {
        Claim { group: group.into(), key: key.into(), queue: Queue::new("", "", 0), offset: 0 }
    }
}

/// Whether a claim was made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// Now: the message is to take effect.
    Fresh,
    /// Before, and committed: the message is done.
    Seen,
}

/// What a transaction has become by a fence: see [`FencedChecker`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The local transaction has committed.
    Committed,
    /// It has not, and cannot any more.
    Fenced,
}

/// A database that remembers which messages have taken effect.
///
/// Dropping a transaction rolls it back. The package `redstart-databases` has ledgers for PostgreSQL, MySQL, MariaDB and SQLite.
pub trait Ledger: Clone + Send + Sync + 'static {
    /// An open transaction, owned: it is handed to the handler and comes back to be committed.
    type Tx: Send + 'static;
    /// What the database says when it fails.
    type Error: Display + Send + Sync + 'static;

    /// Creates the tables that are missing.
    fn migrate(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Fails if the tables are not there.
    fn check(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Begins a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx, Self::Error>> + Send;

    /// Claims keys in a transaction, in this order; one result for each. Waits for other transactions that claim the same keys.
    fn claim(
        &self,
        tx: &mut Self::Tx,
        claims: &[Claim],
    ) -> impl Future<Output = Result<Vec<Claimed>, Self::Error>> + Send;

    /// Whether a transaction still holds a claim that it has made. MySQL rolls a transaction back when a statement of it meets a
    /// deadlock; what comes after is not part of it.
    fn holds(
        &self,
        tx: &mut Self::Tx,
        claim: &Claim,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Commits a transaction. After an error it may be committed all the same.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether a transaction that failed so is to be run again as a whole: a deadlock, a serialization failure, a busy database.
    fn is_conflict(&self, error: &Self::Error) -> bool;

    /// Removes claims that are older than this, at most so many; how many it removed.
    fn sweep(&self, older_than: Duration, max: u32) -> impl Future<Output = Result<u64, Self::Error>> + Send;

    /// Removes the claims of a group on messages of a queue from an offset on, so that they take effect again when they are replayed.
    fn forget(
        &self,
        group: &str,
        queue: &Queue,
        from_offset: i64,
    ) -> impl Future<Output = Result<u64, Self::Error>> + Send;

    /// Notes in a local transaction that a transactional message belongs to it. If the fence is there already, the transaction must
    /// not commit.
    fn record(
        &self,
        tx: &mut Self::Tx,
        group: &str,
        message_id: &str,
    ) -> impl Future<Output = Result<Decision, Self::Error>> + Send;

    /// Whether a transaction still has the note that it has made.
    fn is_recorded(
        &self,
        tx: &mut Self::Tx,
        group: &str,
        message_id: &str,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// What became of the local transaction of a message. If there is no trace of it, a fence is put there, so that it cannot commit
    /// later.
    fn decide(
        &self,
        group: &str,
        message_id: &str,
    ) -> impl Future<Output = Result<Decision, Self::Error>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeadLetterOrigin, received::tests::message};

    #[test]
    fn deliveries_of_one_message_have_one_key() {
        let mut one = message("ID");
        assert_eq!(Claim::of("g", &one).key, "ID");
        one.dead_letter = Some(DeadLetterOrigin { id: "FIRST".to_owned(), ..DeadLetterOrigin::default() });
        assert_eq!(Claim::of("g", &one).key, "FIRST", "a dead letter is the message that it was");
        one.properties.push((DEDUP_KEY.to_owned(), "order-7".to_owned()));
        assert_eq!(Claim::of("g", &one).key, "order-7");
    }
}
