//! Counts every message of a topic once, in a database: `count-once <ledger> <database> <broker> <topic> <batch>`. The tests kill it.

#![allow(missing_docs, clippy::unwrap_used, dead_code, reason = "a program of the tests")]

#[path = "../tests/counting/mod.rs"]
mod counting;

use std::time::Duration;

use counting::Counting;
use redstart_client::{BatchPolicy, Client, Filter, RetryPolicy, Worker};
use redstart_databases::{MySqlLedger, PostgresLedger, SqliteLedger, TokioPostgresLedger};

async fn start<L: Counting>(url: &str, client: &Client, topic: &str, batch: usize) -> Worker {
    let ledger = L::prepare(url).await;
    let builder = client
        .worker("counters")
        .subscribe(topic, Filter::all())
        .from_start()
        .invisible(Duration::from_secs(2))
        // A kill counts as an attempt of every message that was held.
        .attempts(u32::MAX)
        .retry_policy(RetryPolicy::every(Duration::from_millis(100)));
    if batch == 1 {
        let handler = |job: redstart_client::Job, mut tx: L::Tx| async move {
            L::count(&mut tx, &String::from_utf8_lossy(job.body()))
                .await
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(tx)
        };
        return builder.run_exactly_once(ledger, handler).await.unwrap();
    }
    let policy = BatchPolicy { count: batch, wait: Duration::from_millis(50), ..BatchPolicy::default() };
    let handler = |messages: Vec<redstart_client::Received>, mut tx: L::Tx| async move {
        for message in messages {
            let name = String::from_utf8_lossy(message.body()).into_owned();
            L::count(&mut tx, &name).await.map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(tx)
    };
    builder.concurrency(2).run_batches_exactly_once(policy, ledger, handler).await.unwrap()
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ledger, url, broker, topic, batch] = &arguments[..] else { panic!("five arguments") };
    let batch = batch.parse().unwrap();
    let client = loop {
        match Client::connect(broker).await {
            Ok(client) => break client,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let _worker = match ledger.as_str() {
        "postgres" => start::<PostgresLedger>(url, &client, topic, batch).await,
        "mysql" => start::<MySqlLedger>(url, &client, topic, batch).await,
        "sqlite" => start::<SqliteLedger>(url, &client, topic, batch).await,
        "tokio-postgres" => start::<TokioPostgresLedger>(url, &client, topic, batch).await,
        other => panic!("no ledger {other}"),
    };
    std::future::pending().await
}
