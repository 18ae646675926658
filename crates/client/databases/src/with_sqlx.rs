//! Ledgers over sqlx: one for each database that it speaks to, which differ in their statements and in what their errors mean.

use std::time::Duration;

use redstart_client::{
    Claim, Claimed, Decision, Ledger, Message, Outbox, OutboxError, OutboxRow, Queue, encode_message,
};
use sqlx::{Executor as _, Row as _, Transaction};

use crate::{Dialect, now_ms};

/// Whether an insert has found its key taken.
fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.is_unique_violation())
}

macro_rules! ledger {
    ($(#[$doc:meta])* $name:ident, $database:ty, $dialect:expr, $begin:expr, $conflict:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            pool: sqlx::Pool<$database>,
        }

        impl $name {
            /// A ledger over a pool.
            pub fn new(pool: sqlx::Pool<$database>) -> $name {
                $name { pool }
            }

            /// The pool.
            pub fn pool(&self) -> &sqlx::Pool<$database> {
                &self.pool
            }

            async fn insert<'q>(
                tx: &mut Transaction<'static, $database>,
                query: sqlx::query::Query<'q, $database, <$database as sqlx::Database>::Arguments<'q>>,
            ) -> Result<bool, sqlx::Error> {
                match query.execute(&mut **tx).await {
                    Ok(done) => Ok(done.rows_affected() > 0),
                    Err(error) if is_taken(&error) => Ok(false),
                    Err(error) => Err(error),
                }
            }
        }

        impl Ledger for $name {
            type Tx = Transaction<'static, $database>;
            type Error = sqlx::Error;

            async fn migrate(&self) -> Result<(), sqlx::Error> {
                for statement in $dialect.tables() {
                    self.pool.execute(*statement).await?;
                }
                Ok(())
            }

            async fn check(&self) -> Result<(), sqlx::Error> {
                for statement in Dialect::CHECKS {
                    self.pool.execute(statement).await?;
                }
                Ok(())
            }

            async fn begin(&self) -> Result<Self::Tx, sqlx::Error> {
                let begin: Option<&'static str> = $begin;
                match begin {
                    Some(statement) => self.pool.begin_with(statement).await,
                    None => self.pool.begin().await,
                }
            }

            async fn claim(&self, tx: &mut Self::Tx, claims: &[Claim]) -> Result<Vec<Claimed>, sqlx::Error> {
                let now = now_ms();
                let mut claimed = Vec::with_capacity(claims.len());
                for claim in claims {
                    let insert = sqlx::query($dialect.claim())
                        .bind(&claim.group)
                        .bind(&claim.key)
                        .bind(&claim.queue.topic)
                        .bind(&claim.queue.broker)
                        .bind(i64::from(claim.queue.id))
                        .bind(claim.offset)
                        .bind(now);
                    let fresh = $name::insert(tx, insert).await?;
                    claimed.push(if fresh { Claimed::Fresh } else { Claimed::Seen });
                }
                Ok(claimed)
            }

            async fn holds(&self, tx: &mut Self::Tx, claim: &Claim) -> Result<bool, sqlx::Error> {
                let query = sqlx::query($dialect.holds()).bind(&claim.group).bind(&claim.key);
                Ok(query.fetch_optional(&mut **tx).await?.is_some())
            }

            async fn commit(&self, tx: Self::Tx) -> Result<(), sqlx::Error> {
                tx.commit().await
            }

            fn is_conflict(&self, error: &sqlx::Error) -> bool {
                let is_conflict: fn(&dyn sqlx::error::DatabaseError) -> bool = $conflict;
                error.as_database_error().is_some_and(is_conflict)
            }

            async fn sweep(&self, older_than: Duration, max: u32) -> Result<u64, sqlx::Error> {
                let before = now_ms().saturating_sub(older_than.as_millis() as i64);
                let swept =
                    sqlx::query($dialect.sweep()).bind(before).bind(i64::from(max)).execute(&self.pool).await?;
                Ok(swept.rows_affected())
            }

            async fn forget(&self, group: &str, queue: &Queue, from_offset: i64) -> Result<u64, sqlx::Error> {
                let forgotten = sqlx::query($dialect.forget())
                    .bind(group)
                    .bind(&queue.topic)
                    .bind(&queue.broker)
                    .bind(i64::from(queue.id))
                    .bind(from_offset)
                    .execute(&self.pool)
                    .await?;
                Ok(forgotten.rows_affected())
            }

            async fn record(
                &self,
                tx: &mut Self::Tx,
                group: &str,
                message_id: &str,
            ) -> Result<Decision, sqlx::Error> {
                let insert = sqlx::query($dialect.record()).bind(group).bind(message_id).bind(1_i64).bind(now_ms());
                let fresh = $name::insert(tx, insert).await?;
                Ok(if fresh { Decision::Committed } else { Decision::Fenced })
            }

            async fn is_recorded(
                &self,
                tx: &mut Self::Tx,
                group: &str,
                message_id: &str,
            ) -> Result<bool, sqlx::Error> {
                let query = sqlx::query($dialect.decided()).bind(group).bind(message_id);
                Ok(query.fetch_optional(&mut **tx).await?.is_some())
            }

            async fn decide(&self, group: &str, message_id: &str) -> Result<Decision, sqlx::Error> {
                let mut tx = self.begin().await?;
                let insert = sqlx::query($dialect.record()).bind(group).bind(message_id).bind(0_i64).bind(now_ms());
                if $name::insert(&mut tx, insert).await? {
                    tx.commit().await?;
                    return Ok(Decision::Fenced);
                }
                // The other transaction was waited for; a new one is sure to see what it has left.
                drop(tx);
                let found =
                    sqlx::query($dialect.decided()).bind(group).bind(message_id).fetch_one(&self.pool).await?;
                let committed: i64 = found.try_get(0)?;
                Ok(if committed == 1 { Decision::Committed } else { Decision::Fenced })
            }
        }

        impl Outbox for $name {
            async fn enqueue(&self, tx: &mut Self::Tx, message: &Message) -> Result<(), OutboxError<sqlx::Error>> {
                let text = encode_message(message)?;
                let written = sqlx::query($dialect.enqueue()).bind(text).execute(&mut **tx).await;
                written.map(drop).map_err(OutboxError::Ledger)
            }

            async fn lock_relay(&self, tx: &mut Self::Tx) -> Result<bool, sqlx::Error> {
                Ok(sqlx::query($dialect.lock_relay()).fetch_optional(&mut **tx).await?.is_some())
            }

            async fn oldest(&self, tx: &mut Self::Tx, max: u32) -> Result<Vec<OutboxRow>, sqlx::Error> {
                let rows = sqlx::query($dialect.oldest()).bind(i64::from(max)).fetch_all(&mut **tx).await?;
                rows.iter().map(|row| Ok(OutboxRow { id: row.try_get(0)?, message: row.try_get(1)? })).collect()
            }

            async fn remove(&self, tx: &mut Self::Tx, ids: &[i64]) -> Result<(), sqlx::Error> {
                for id in ids {
                    sqlx::query($dialect.remove()).bind(*id).execute(&mut **tx).await?;
                }
                Ok(())
            }
        }
    };
}

#[cfg(feature = "sqlx-postgres")]
ledger!(
    /// A ledger in PostgreSQL.
    PostgresLedger,
    sqlx::Postgres,
    Dialect::Postgres,
    None,
    // Serialization failure, deadlock, and what follows one of them if the handler went on.
    |error| error.code().is_some_and(|code| matches!(&*code, "40001" | "40P01" | "25P02"))
);

#[cfg(feature = "sqlx-mysql")]
ledger!(
    /// A ledger in MySQL 8, or MariaDB from 10.6 on.
    MySqlLedger,
    sqlx::MySql,
    Dialect::MySql,
    None,
    // Deadlock, lock wait time-out.
    |error| {
        let error = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>();
        error.is_some_and(|error| matches!(error.number(), 1213 | 1205))
    }
);

#[cfg(feature = "sqlx-sqlite")]
ledger!(
    /// A ledger in SQLite. A transaction begins as a writer: one that becomes a writer later cannot wait for another.
    SqliteLedger,
    sqlx::Sqlite,
    Dialect::Sqlite,
    Some("BEGIN IMMEDIATE"),
    // Busy and locked, with their extended codes.
    |error| {
        let code = error.code().and_then(|code| code.parse::<i32>().ok());
        code.is_some_and(|code| matches!(code & 0xff, 5 | 6))
    }
);
