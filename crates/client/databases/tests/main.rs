//! The ledgers against their databases, and exactly-once effects against the real broker. `run` starts what they need.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod counting;
mod ledgers;
mod once;
mod server;

macro_rules! databases {
    ($($name:ident $ledger:ident = $url:expr, $kind:literal;)*) => {
        $(
            mod $name {
                use crate::counting::Counting as _;

                type Ledger = redstart_databases::$ledger;

                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "needs a database: see run"]
                async fn the_ledger_keeps_its_promises() {
                    let url = $url("promises");
                    crate::ledgers::suite(Ledger::prepare(&url).await).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "needs a database and a broker: see run"]
                async fn the_outbox_is_sent_in_order_and_only_what_was_committed() {
                    let url = $url("outbox");
                    crate::once::outbox(Ledger::prepare(&url).await).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "needs a database and a broker: see run"]
                async fn a_transactional_message_follows_its_transaction() {
                    let url = $url("fenced");
                    crate::once::fenced(Ledger::prepare(&url).await).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "needs a database and a broker: see run"]
                async fn each_message_counts_once_whatever_is_killed() {
                    let url = $url("killed");
                    crate::once::killed(Ledger::prepare(&url).await, $kind, &url, 1).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "needs a database and a broker: see run"]
                async fn each_message_of_a_batch_counts_once_whatever_is_killed() {
                    let url = $url("batches");
                    crate::once::killed(Ledger::prepare(&url).await, $kind, &url, 100).await;
                }
            }
        )*
    };
}

databases! {
    postgres PostgresLedger = crate::server::postgres, "postgres";
    tokio_postgres TokioPostgresLedger = crate::server::tokio_postgres, "tokio-postgres";
    mysql MySqlLedger = crate::server::mysql, "mysql";
    sqlite SqliteLedger = crate::server::sqlite, "sqlite";
}
