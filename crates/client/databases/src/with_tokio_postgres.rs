//! A ledger over tokio-postgres and a deadpool.

use std::{ops::Deref, time::Duration};

use deadpool_postgres::{Object, Pool, PoolError};
use redstart_client::{
    Claim, Claimed, Decision, Ledger, Message, Outbox, OutboxError, OutboxRow, Queue, encode_message,
};
use tokio_postgres::Client;

use crate::{Dialect, now_ms};

const DIALECT: Dialect = Dialect::Postgres;

/// Why PostgreSQL, or the pool, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokioPostgresError {
    /// There is no connection.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A statement failed.
    #[error("{}", .0.as_db_error().map_or_else(|| .0.to_string(), |error| error.message().to_owned()))]
    Database(#[from] tokio_postgres::Error),
}

/// A transaction that owns its connection. Dropping it closes the connection, which rolls back: a connection with an open transaction
/// must not go back to the pool.
#[derive(Debug)]
pub struct PostgresTx {
    /// `None` once it is committed.
    client: Option<Object>,
}

impl Deref for PostgresTx {
    type Target = Client;

    #[allow(clippy::expect_used, reason = "committing takes the transaction by value")]
    fn deref(&self) -> &Client {
        self.client.as_ref().expect("it is not committed")
    }
}

impl Drop for PostgresTx {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

/// A ledger in PostgreSQL, by tokio-postgres.
#[derive(Clone)]
pub struct TokioPostgresLedger {
    pool: Pool,
}

impl std::fmt::Debug for TokioPostgresLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokioPostgresLedger").finish_non_exhaustive()
    }
}

impl TokioPostgresLedger {
    /// A ledger over a pool.
    pub fn new(pool: Pool) -> TokioPostgresLedger {
        TokioPostgresLedger { pool }
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Ledger for TokioPostgresLedger {
    type Tx = PostgresTx;
    type Error = TokioPostgresError;

    async fn migrate(&self) -> Result<(), TokioPostgresError> {
        let client = self.pool.get().await?;
        Ok(client.batch_execute(&DIALECT.tables().join(";\n")).await?)
    }

    async fn check(&self) -> Result<(), TokioPostgresError> {
        let client = self.pool.get().await?;
        Ok(client.batch_execute(&Dialect::CHECKS.join(";\n")).await?)
    }

    async fn begin(&self) -> Result<PostgresTx, TokioPostgresError> {
        // Owned before it begins: if this future is dropped meanwhile, the connection is closed.
        let tx = PostgresTx { client: Some(self.pool.get().await?) };
        tx.batch_execute("BEGIN").await?;
        Ok(tx)
    }

    async fn claim(&self, tx: &mut PostgresTx, claims: &[Claim]) -> Result<Vec<Claimed>, TokioPostgresError> {
        let insert = tx.prepare(DIALECT.claim()).await?;
        let now = now_ms();
        let mut claimed = Vec::with_capacity(claims.len());
        for Claim { group, key, queue, offset, .. } in claims {
            let queue_id = i64::from(queue.id);
            let rows = tx
                .execute(&insert, &[group, key, &queue.topic, &queue.broker, &queue_id, offset, &now])
                .await?;
            claimed.push(if rows > 0 { Claimed::Fresh } else { Claimed::Seen });
        }
        Ok(claimed)
    }

    async fn holds(&self, tx: &mut PostgresTx, claim: &Claim) -> Result<bool, TokioPostgresError> {
        Ok(tx.query_opt(DIALECT.holds(), &[&claim.group, &claim.key]).await?.is_some())
    }

    async fn commit(&self, mut tx: PostgresTx) -> Result<(), TokioPostgresError> {
        tx.batch_execute("COMMIT").await?;
        drop(tx.client.take());
        Ok(())
    }

    fn is_conflict(&self, error: &TokioPostgresError) -> bool {
        use tokio_postgres::error::SqlState;
        // The last is what follows one of the others if the handler went on.
        let conflicts = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::IN_FAILED_SQL_TRANSACTION,
        ];
        let TokioPostgresError::Database(error) = error else { return false };
        error.code().is_some_and(|code| conflicts.contains(code))
    }

    async fn sweep(&self, older_than: Duration, max: u32) -> Result<u64, TokioPostgresError> {
        let before = now_ms().saturating_sub(older_than.as_millis() as i64);
        let client = self.pool.get().await?;
        Ok(client.execute(DIALECT.sweep(), &[&before, &i64::from(max)]).await?)
    }

    async fn forget(&self, group: &str, queue: &Queue, from_offset: i64) -> Result<u64, TokioPostgresError> {
        let client = self.pool.get().await?;
        let id = i64::from(queue.id);
        Ok(client
            .execute(DIALECT.forget(), &[&group, &queue.topic, &queue.broker, &id, &from_offset])
            .await?)
    }

    async fn record(
        &self,
        tx: &mut PostgresTx,
        group: &str,
        message_id: &str,
    ) -> Result<Decision, TokioPostgresError> {
        let rows = tx.execute(DIALECT.record(), &[&group, &message_id, &1_i64, &now_ms()]).await?;
        Ok(if rows > 0 { Decision::Committed } else { Decision::Fenced })
    }

    async fn is_recorded(
        &self,
        tx: &mut PostgresTx,
        group: &str,
        message_id: &str,
    ) -> Result<bool, TokioPostgresError> {
        Ok(tx.query_opt(DIALECT.decided(), &[&group, &message_id]).await?.is_some())
    }

    async fn decide(&self, group: &str, message_id: &str) -> Result<Decision, TokioPostgresError> {
        let client = self.pool.get().await?;
        let rows = client.execute(DIALECT.record(), &[&group, &message_id, &0_i64, &now_ms()]).await?;
        if rows > 0 {
            return Ok(Decision::Fenced);
        }
        let committed: i64 = client.query_one(DIALECT.decided(), &[&group, &message_id]).await?.try_get(0)?;
        Ok(if committed == 1 { Decision::Committed } else { Decision::Fenced })
    }
}

impl Outbox for TokioPostgresLedger {
    async fn enqueue(
        &self,
        tx: &mut PostgresTx,
        message: &Message,
    ) -> Result<(), OutboxError<TokioPostgresError>> {
        let text = encode_message(message)?;
        let written = tx.execute(DIALECT.enqueue(), &[&text]).await;
        written.map(drop).map_err(|error| OutboxError::Ledger(error.into()))
    }

    async fn lock_relay(&self, tx: &mut PostgresTx) -> Result<bool, TokioPostgresError> {
        Ok(tx.query_opt(DIALECT.lock_relay(), &[]).await?.is_some())
    }

    async fn oldest(&self, tx: &mut PostgresTx, max: u32) -> Result<Vec<OutboxRow>, TokioPostgresError> {
        let rows = tx.query(DIALECT.oldest(), &[&i64::from(max)]).await?;
        rows.iter().map(|row| Ok(OutboxRow { id: row.try_get(0)?, message: row.try_get(1)? })).collect()
    }

    async fn remove(&self, tx: &mut PostgresTx, ids: &[i64]) -> Result<(), TokioPostgresError> {
        for id in ids {
            tx.execute(DIALECT.remove(), &[id]).await?;
        }
        Ok(())
    }
}
