//! The official Rust client, unmodified, against a RocketMQ-compatible server.

mod clients;
mod harness;
mod scenarios;

use std::process::ExitCode;

use harness::{run_scenarios, skip, Scenario};
use scenarios::{delay, fifo, filters, messages, refusals, sharing, simple, transactions};

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("normal", 90, messages::normal),
        Scenario::new("tag-filter", 120, filters::tag_filter),
        Scenario::new("sql-filter", 120, filters::sql_filter),
        Scenario::new("fifo-order", 180, fifo::fifo_order),
        Scenario::new("delay", 90, delay::delay),
        Scenario::new("recall", 1, |_| skip("there is no recall")),
        Scenario::new("tx-commit", 120, transactions::commit),
        Scenario::new("tx-rollback", 120, transactions::rollback),
        Scenario::new("tx-check", 240, transactions::check_back),
        Scenario::new("push-retry-dlq", 1, |_| skip("there is no push consumer")),
        Scenario::new("simple-ack", 120, simple::ack),
        Scenario::new("simple-no-ack", 120, simple::no_ack),
        Scenario::new("change-invisible", 1, |_| skip("the invisible time cannot be changed")),
        Scenario::new("stale-handle", 120, simple::stale_handle),
        Scenario::new("priority", 1, |_| skip("there are no priorities")),
        Scenario::new("lite", 1, |_| skip("there are no lite topics")),
        Scenario::new("lite-simple", 1, |_| skip("there are no lite topics")),
        Scenario::new("share-queue", 120, sharing::share_queue),
        Scenario::new("batch-send", 120, messages::batch_send),
        Scenario::new("type-mismatch", 120, refusals::type_mismatch),
        Scenario::new("body-4mib", 60, refusals::body_4mib),
        Scenario::new("unknown-topic", 60, refusals::unknown_topic),
        Scenario::new("tls", 1, |_| skip("TLS is not implemented")),
        Scenario::new("plaintext", 60, messages::plaintext),
        // Takes the server away from everyone, so it runs alone after the others.
        Scenario::new("resume-after-restart", 300, sharing::resume_after_restart).alone(),
    ]
}

#[tokio::main]
async fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    ExitCode::from(run_scenarios("rust", scenarios(), &names).await)
}
