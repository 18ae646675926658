//! What every role needs: the broker, the cars, the books, and the settings.

use std::{
    env,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    str::FromStr as _,
    time::Duration,
};

use anyhow::Context as _;
use redstart_client::{Client, Filter, Ledger as _, WorkerBuilder};
use redstart_databases::SqliteLedger;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

use crate::{garage::Garage, store};

/// How soon another process gets what a dead one had.
const INVISIBLE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct City {
    pub client: Client,
    pub garage: Garage,
    pub ledger: SqliteLedger,
    /// How long a passenger waits for a car.
    pub patience: Duration,
    /// How long a ride takes.
    pub ride: Duration,
    /// How likely the process dies at a step, in percent: see `risk`.
    crash_percent: u64,
}

fn setting(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

fn milliseconds(name: &str, default: &str) -> anyhow::Result<Duration> {
    let text = setting(name, default);
    Ok(Duration::from_millis(text.parse().with_context(|| format!("{name}: {text}"))?))
}

/// The standard library's seeds of hash maps are random.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl City {
    pub async fn open() -> anyhow::Result<City> {
        let database = SqliteConnectOptions::from_str(&setting("TAXI_DATABASE", "sqlite://taxi.db"))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(20));
        let ledger =
            SqliteLedger::new(SqlitePoolOptions::new().max_connections(8).connect_with(database).await?);
        ledger.migrate().await?;
        store::migrate(ledger.pool()).await?;
        Ok(City {
            client: Client::connect(&setting("TAXI_BROKER", "127.0.0.1:9876")).await?,
            garage: Garage::open(&setting("TAXI_REDIS", "redis://127.0.0.1:6379/")).await?,
            ledger,
            patience: milliseconds("TAXI_PATIENCE_MS", "60000")?,
            ride: milliseconds("TAXI_RIDE_MS", "10000")?,
            crash_percent: setting("TAXI_CRASH_PERCENT", "0").parse()?,
        })
    }

    /// A consumer of all messages of a topic, from the first one on.
    pub fn worker(&self, group: &str, topic: &str) -> WorkerBuilder {
        self.client.worker(group).subscribe(topic, Filter::all()).from_start().invisible(INVISIBLE)
    }

    /// Called after a step in Redis, a send or a commit, and before the next one. With `TAXI_CRASH_PERCENT` the process aborts here now
    /// and then, as if killed: the test shows that another process finishes the work.
    pub fn risk(&self) {
        if self.crash_percent > random() % 100 {
            std::process::abort();
        }
    }

    pub fn listen() -> String {
        setting("TAXI_LISTEN", "127.0.0.1:8090")
    }
}
