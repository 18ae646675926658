//! A table that counts how often each message took effect, in each database.

use std::{str::FromStr as _, time::Duration};

use redstart_client::{Ledger, Outbox};
use redstart_databases::{MySqlLedger, PostgresLedger, SqliteLedger, TokioPostgresLedger};
use sqlx::{Executor as _, Row as _};

/// What tests do in a ledger's database.
pub trait Counting: Ledger<Error: std::fmt::Debug> + Outbox {
    async fn prepare(url: &str) -> Self;
    fn count(tx: &mut Self::Tx, name: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;
    /// A statement that fails.
    fn fail(tx: &mut Self::Tx) -> impl Future<Output = ()> + Send;
    /// How many names there are, and the highest count.
    async fn counts(&self) -> (i64, i64);
    async fn execute(&self, statement: &str);
}

pub const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS counted (name VARCHAR(200) NOT NULL PRIMARY KEY, times BIGINT NOT NULL)";
const COUNTS: &str = "SELECT COUNT(*), COALESCE(MAX(times), 0) FROM counted";
const WRONG: &str = "INSERT INTO nowhere VALUES (1)";

macro_rules! counting {
    ($ledger:ty, $pool:expr, $count:literal) => {
        impl Counting for $ledger {
            async fn prepare(url: &str) -> Self {
                let pool = $pool(url).await;
                pool.execute(TABLE).await.unwrap();
                let ledger = <$ledger>::new(pool);
                ledger.migrate().await.unwrap();
                ledger
            }

            async fn count(tx: &mut Self::Tx, name: &str) -> Result<(), sqlx::Error> {
                sqlx::query($count).bind(name).execute(&mut **tx).await.map(drop)
            }

            async fn fail(tx: &mut Self::Tx) {
                tx.execute(WRONG).await.unwrap_err();
            }

            async fn counts(&self) -> (i64, i64) {
                let row = sqlx::query(COUNTS).fetch_one(self.pool()).await.unwrap();
                (row.get(0), row.get(1))
            }

            async fn execute(&self, statement: &str) {
                self.pool().execute(statement).await.unwrap();
            }
        }
    };
}

async fn postgres(url: &str) -> sqlx::PgPool {
    sqlx::postgres::PgPoolOptions::new().max_connections(20).connect(url).await.unwrap()
}

async fn mysql(url: &str) -> sqlx::MySqlPool {
    sqlx::mysql::MySqlPoolOptions::new().max_connections(20).connect(url).await.unwrap()
}

async fn sqlite(url: &str) -> sqlx::SqlitePool {
    let options = sqlx::sqlite::SqliteConnectOptions::from_str(url)
        .unwrap()
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(20));
    sqlx::sqlite::SqlitePoolOptions::new().max_connections(8).connect_with(options).await.unwrap()
}

counting!(
    PostgresLedger,
    postgres,
    "INSERT INTO counted VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET times = counted.times + 1"
);
counting!(MySqlLedger, mysql, "INSERT INTO counted VALUES (?, 1) ON DUPLICATE KEY UPDATE times = times + 1");
counting!(
    SqliteLedger,
    sqlite,
    "INSERT INTO counted VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET times = times + 1"
);

impl Counting for TokioPostgresLedger {
    async fn prepare(url: &str) -> Self {
        let config = url.parse().unwrap();
        let manager = deadpool_postgres::Manager::new(config, tokio_postgres::NoTls);
        let pool = deadpool_postgres::Pool::builder(manager).max_size(20).build().unwrap();
        pool.get().await.unwrap().batch_execute(TABLE).await.unwrap();
        let ledger = TokioPostgresLedger::new(pool);
        ledger.migrate().await.unwrap();
        ledger
    }

    async fn count(tx: &mut Self::Tx, name: &str) -> Result<(), Self::Error> {
        let upsert =
            "INSERT INTO counted VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET times = counted.times + 1";
        tx.execute(upsert, &[&name]).await?;
        Ok(())
    }

    async fn fail(tx: &mut Self::Tx) {
        tx.batch_execute(WRONG).await.unwrap_err();
    }

    async fn counts(&self) -> (i64, i64) {
        let row = self.pool().get().await.unwrap().query_one(COUNTS, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }

    async fn execute(&self, statement: &str) {
        self.pool().get().await.unwrap().batch_execute(statement).await.unwrap();
    }
}
