//! Ledgers for `redstart-client`: effects that happen once for each message, in PostgreSQL, MySQL, MariaDB and SQLite.
//!
//! Each ledger is over a pool of connections of the application. Its tables are created by
//! [`migrate`](redstart_client::Ledger::migrate), or by the application's own migrations with the statements of [`Dialect::tables`].
//!
//! ```no_run
//! # #[cfg(feature = "sqlx-postgres")]
//! # async fn example(client: redstart_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use redstart_client::{Filter, Ledger};
//! use redstart_databases::PostgresLedger;
//!
//! let ledger = PostgresLedger::new(sqlx::PgPool::connect("postgres://shop@localhost/shop").await?);
//! ledger.migrate().await?;
//! let worker = client
//!     .worker("billing")
//!     .subscribe("orders", Filter::all())
//!     .run_exactly_once(ledger, |job, mut tx| async move {
//!         sqlx::query("INSERT INTO bills (order_id) VALUES ($1)").bind(job.keys()[0].as_str()).execute(&mut *tx).await?;
//!         Ok::<_, sqlx::Error>(tx)
//!     })
//!     .await?;
//! # drop(worker);
//! # Ok(())
//! # }
//! ```
//!
//! | Feature | Ledger |
//! |---|---|
//! | `sqlx-postgres` | `PostgresLedger` |
//! | `sqlx-mysql` | `MySqlLedger`, for MySQL 8 and MariaDB from 10.6 on; isolation READ COMMITTED is advised |
//! | `sqlx-sqlite` | `SqliteLedger`; the pool should have a busy time-out |
//! | `tokio-postgres` | `TokioPostgresLedger` |

mod dialect;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
mod with_sqlx;
#[cfg(feature = "tokio-postgres")]
mod with_tokio_postgres;

pub use dialect::Dialect;
#[cfg(feature = "sqlx-mysql")]
pub use with_sqlx::MySqlLedger;
#[cfg(feature = "sqlx-postgres")]
pub use with_sqlx::PostgresLedger;
#[cfg(feature = "sqlx-sqlite")]
pub use with_sqlx::SqliteLedger;
#[cfg(feature = "tokio-postgres")]
pub use with_tokio_postgres::{PostgresTx, TokioPostgresError, TokioPostgresLedger};

/// Milliseconds since 1970.
#[cfg(any(
    feature = "sqlx-postgres",
    feature = "sqlx-mysql",
    feature = "sqlx-sqlite",
    feature = "tokio-postgres"
))]
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
