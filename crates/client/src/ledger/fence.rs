//! Transactional messages whose local work is a transaction of a database.

use std::{fmt::Display, future::Future};

use super::{Decision, Ledger};
use crate::{Checker, ExecuteError, Executed, Message, Received, TransactionProducer, Verdict};

/// Why local work in a database failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError<L, E> {
    /// The database failed, and nothing was committed.
    #[error("the database failed: {0}")]
    Database(L),
    /// The commit failed. It may have happened: the checker finds out, and the message follows it.
    #[error("it is not known whether the database has committed: {0}")]
    CommitUnknown(L),
    /// The work took so long that the message was given up. It was rolled back.
    #[error("the message was given up before the work was done")]
    Fenced,
    /// The database has rolled back the transaction while the work went on, as MySQL does at a deadlock.
    #[error("the database has rolled back the transaction underneath the work")]
    RolledBack,
    /// The work failed, and was rolled back.
    #[error("{0}")]
    Work(E),
}

/// Says by a database what became of local work: ready-made, for transactions that [`TransactionProducer::execute_in`] runs.
///
/// The local transaction notes the message's id. A check that does not find it puts a fence in its place before it answers that the
/// message is to be dropped; a slow local transaction then fails at the fence, and cannot commit without its message.
#[derive(Debug, Clone)]
pub struct FencedChecker<L> {
    ledger: L,
    group: String,
}

impl<L: Ledger> FencedChecker<L> {
    /// A checker for the transactions of a producer group.
    pub fn new(ledger: L, group: impl Into<String>) -> FencedChecker<L> {
        FencedChecker { ledger, group: group.into() }
    }
}

impl<L: Ledger> Checker for FencedChecker<L> {
    async fn check(&self, message: Received) -> Verdict {
        match self.ledger.decide(&self.group, message.id()).await {
            Ok(Decision::Committed) => Verdict::Commit,
            Ok(Decision::Fenced) => Verdict::Rollback,
            Err(error) => {
                tracing::warn!(id = message.id(), %error, "a transaction cannot be checked now");
                Verdict::Unknown
            }
        }
    }
}

impl TransactionProducer {
    /// Stores a message, does the work in a transaction of the database, and has the message delivered if that commits. The producer's
    /// checker must be a [`FencedChecker`] over the same database, for the producer's own group.
    pub async fn execute_in<L, F, E>(
        &self,
        ledger: &L,
        message: Message,
        work: impl FnOnce(L::Tx) -> F,
    ) -> Result<Executed<()>, ExecuteError<LocalError<L::Error, E>>>
    where
        L: Ledger,
        F: Future<Output = Result<L::Tx, E>>,
        E: Display,
    {
        let prepared = self.prepare(message).await.map_err(ExecuteError::Prepare)?;
        match local(ledger, self.group(), prepared.id(), work).await {
            Ok(()) => {
                let sent = prepared.sent().clone();
                let committed = prepared.commit().await;
                Ok(Executed { value: (), sent, committed })
            }
            // The checker decides: the message must not be dropped if the commit has happened.
            Err(error @ LocalError::CommitUnknown(_)) => Err(ExecuteError::Local(error)),
            Err(error) => {
                if let Err(error) = prepared.rollback().await {
                    tracing::debug!(%error, "the checker will have a message dropped");
                }
                Err(ExecuteError::Local(error))
            }
        }
    }
}

async fn local<L, F, E>(
    ledger: &L,
    group: &str,
    message_id: &str,
    work: impl FnOnce(L::Tx) -> F,
) -> Result<(), LocalError<L::Error, E>>
where
    L: Ledger,
    F: Future<Output = Result<L::Tx, E>>,
{
    let mut tx = ledger.begin().await.map_err(LocalError::Database)?;
    // First: a check that comes while the work runs waits for it at the key.
    if ledger.record(&mut tx, group, message_id).await.map_err(LocalError::Database)? == Decision::Fenced {
        return Err(LocalError::Fenced);
    }
    let mut tx = work(tx).await.map_err(LocalError::Work)?;
    if !ledger.is_recorded(&mut tx, group, message_id).await.map_err(LocalError::Database)? {
        return Err(LocalError::RolledBack);
    }
    ledger.commit(tx).await.map_err(LocalError::CommitUnknown)
}
