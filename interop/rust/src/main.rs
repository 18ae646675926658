//! The official Rust client, unmodified, against a RocketMQ-compatible server.

mod clients;
mod harness;
mod scenarios;

use std::process::ExitCode;

use harness::{run_scenarios, run_together, skip, Scenario};
use scenarios::{auth, delay, fifo, filters, messages, refusals, sharing, simple, transactions};

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

/// For a server that asks for credentials.
fn auth_scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("auth-right-key", 120, auth::exchange),
        Scenario::new("auth-prefix", 120, auth::exchange),
        Scenario::new("auth-source", 120, auth::source),
        Scenario::new("auth-no-group-right", 60, auth::no_group_right),
        Scenario::new("auth-no-topic-right", 60, auth::no_topic_right),
        Scenario::new("auth-deny", 60, auth::deny),
        Scenario::new("auth-disabled-user", 60, auth::disabled_user),
        Scenario::new("auth-wrong-key", 60, auth::wrong_key),
    ]
}

#[tokio::main]
async fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = |scenario: &Scenario| names.iter().any(|name| name == "auth" || name == scenario.name());
    let signed: Vec<_> = auth_scenarios().into_iter().filter(is_chosen).collect();
    ExitCode::from(if signed.is_empty() {
        run_scenarios("rust", scenarios(), &names).await
    } else {
        run_together("rust", signed).await
    })
}
