//! Running a handler within a transaction that has claimed its message.

use std::{fmt::Display, future::Future, sync::Arc};

use super::{Claim, Claimed, Ledger};
use crate::{Batch, BatchPolicy, BuildError, Job, Outcome, Received, Worker, WorkerBuilder};

/// How often a transaction is run again that lost against another.
const CONFLICTS_MAX: u32 = 5;

/// What a handler wants of its transaction.
#[derive(Debug)]
pub enum Effect<Tx> {
    /// It is to be committed, and the message is done.
    Commit(Tx),
    /// It was dropped, which rolls it back; this becomes of the message.
    Abort(Outcome),
}

impl<Tx> From<Tx> for Effect<Tx> {
    fn from(tx: Tx) -> Effect<Tx> {
        Effect::Commit(tx)
    }
}

/// Why work did not take effect. With `Ledger` it may have, if the connection was lost during the commit: trying again finds out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<L, E> {
    /// The database failed.
    #[error("the ledger failed: {0}")]
    Ledger(L),
    /// The database has rolled back the transaction while the work went on, as MySQL does at a deadlock. Nothing has taken effect.
    #[error("the database has rolled back the transaction underneath the work")]
    RolledBack,
    /// The work failed, and was rolled back.
    #[error("{0}")]
    Work(E),
}

/// Runs work once for a claim: it begins a transaction, claims the key, runs the work with the transaction and commits. `None` if the
/// claim was made before; the work does not run then. When the transaction loses against another it is run again as a whole.
pub async fn once<L, F, O, E>(
    ledger: &L,
    claim: &Claim,
    work: impl Fn(L::Tx) -> F,
) -> Result<Option<Outcome>, OnceError<L::Error, E>>
where
    L: Ledger,
    F: Future<Output = Result<O, E>>,
    O: Into<Effect<L::Tx>>,
{
    let claims = std::slice::from_ref(claim);
    once_all(ledger, claims, |_, tx| work(tx)).await
}

/// The same for several claims, in one transaction. The work gets the places of those that are fresh, and does not run if none is.
async fn once_all<L, F, O, E>(
    ledger: &L,
    claims: &[Claim],
    work: impl Fn(Vec<usize>, L::Tx) -> F,
) -> Result<Option<Outcome>, OnceError<L::Error, E>>
where
    L: Ledger,
    F: Future<Output = Result<O, E>>,
    O: Into<Effect<L::Tx>>,
{
    let mut conflicts = 0;
    loop {
        let error = match attempt(ledger, claims, &work).await {
            Err(OnceError::Ledger(error)) if ledger.is_conflict(&error) => OnceError::Ledger(error),
            Err(OnceError::RolledBack) => OnceError::RolledBack,
            other => return other,
        };
        conflicts += 1;
        if conflicts > CONFLICTS_MAX {
            return Err(error);
        }
        tracing::debug!(conflicts, "a transaction is run again");
        tokio::time::sleep(crate::Backoff::default().wait(conflicts)).await;
    }
}

async fn attempt<L, F, O, E>(
    ledger: &L,
    claims: &[Claim],
    work: &impl Fn(Vec<usize>, L::Tx) -> F,
) -> Result<Option<Outcome>, OnceError<L::Error, E>>
where
    L: Ledger,
    F: Future<Output = Result<O, E>>,
    O: Into<Effect<L::Tx>>,
{
    let mut tx = ledger.begin().await.map_err(OnceError::Ledger)?;
    // Two batches that claim the same keys must meet them in the same order, or each would wait for the other.
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|place| (&claims[*place].group, &claims[*place].key));
    let sorted: Vec<Claim> = order.iter().map(|place| claims[*place].clone()).collect();
    let claimed = ledger.claim(&mut tx, &sorted).await.map_err(OnceError::Ledger)?;
    let mut fresh: Vec<usize> = order
        .into_iter()
        .zip(claimed)
        .filter(|(_, claimed)| *claimed == Claimed::Fresh)
        .map(|(place, _)| place)
        .collect();
    fresh.sort_unstable();
    let Some(first) = fresh.first().map(|place| &claims[*place]) else { return Ok(None) };
    match work(fresh, tx).await.map_err(OnceError::Work)?.into() {
        Effect::Commit(mut tx) => {
            if !ledger.holds(&mut tx, first).await.map_err(OnceError::Ledger)? {
                return Err(OnceError::RolledBack);
            }
            ledger.commit(tx).await.map_err(OnceError::Ledger)?;
            Ok(Some(Outcome::Done))
        }
        Effect::Abort(outcome) => Ok(Some(outcome)),
    }
}

async fn check_tables<L: Ledger>(ledger: &L) -> Result<(), BuildError> {
    let missing = ledger.check().await.err();
    BuildError::check(missing.map(|error| format!("the ledger is not ready: {error}")).into_iter().collect())
}

impl WorkerBuilder {
    /// Starts a worker whose handler takes effect once for each message, by a transaction of a database: the handler gets it, works
    /// with it and gives it back to be committed. A message that has taken effect before is acknowledged, and the handler does not run.
    /// An error of the handler rolls back and means retry; [`Effect::Abort`] rolls back with another outcome.
    ///
    /// ```no_run
    /// # async fn example<L: redstart_client::Ledger>(client: redstart_client::Client, ledger: L)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use redstart_client::Filter;
    ///
    /// let worker = client
    ///     .worker("billing")
    ///     .subscribe("orders", Filter::all())
    ///     .run_exactly_once(ledger, |job, tx| async move {
    ///         // Statements of the application, in `tx`.
    ///         println!("{}", job.id());
    ///         Ok::<_, std::io::Error>(tx)
    ///     })
    ///     .await?;
    /// # drop(worker);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_exactly_once<L, H, F, O, E>(self, ledger: L, handler: H) -> Result<Worker, BuildError>
    where
        L: Ledger,
        H: Fn(Job, L::Tx) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
        O: Into<Effect<L::Tx>> + Send + 'static,
        E: Display + Send + 'static,
    {
        check_tables(&ledger).await?;
        let (group, handler) = (self.group().to_owned(), Arc::new(handler));
        self.run(move |job| {
            let (ledger, handler, claim) = (ledger.clone(), handler.clone(), Claim::of(&group, &job));
            async move {
                let done = once(&ledger, &claim, |tx| handler(job.clone(), tx)).await;
                done.map(|outcome| outcome.unwrap_or(Outcome::Done)).map_err(|error| error.to_string())
            }
        })
        .await
    }

    /// Starts a worker whose handler gets several messages at a time, which take effect together and once. It sees only messages that
    /// have not taken effect before. An error rolls back, and all of them come again.
    pub async fn run_batches_exactly_once<L, H, F, E>(
        self,
        policy: BatchPolicy,
        ledger: L,
        handler: H,
    ) -> Result<Worker, BuildError>
    where
        L: Ledger,
        H: Fn(Vec<Received>, L::Tx) -> F + Send + Sync + 'static,
        F: Future<Output = Result<L::Tx, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        check_tables(&ledger).await?;
        let (group, handler) = (self.group().to_owned(), Arc::new(handler));
        self.run_batches(policy, move |batch: Batch| {
            let (ledger, handler, group) = (ledger.clone(), handler.clone(), group.clone());
            async move {
                let claims: Vec<Claim> =
                    batch.messages().iter().map(|message| Claim::of(&group, message)).collect();
                let work = |fresh: Vec<usize>, tx| {
                    let messages = fresh.into_iter().map(|place| batch.messages()[place].clone());
                    handler(messages.collect(), tx)
                };
                once_all(&ledger, &claims, work).await.map(drop).map_err(|error| error.to_string())
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests;
