//! `redstart group`: consumer groups.

mod change;
mod list;
mod members;
mod show;

use std::time::Duration;

use clap::Subcommand;
use redstart_client::admin::{Admin, DEAD_LETTER_PREFIX, Error};
use redstart_wire::remoting::body::GroupRetryPolicy;

use super::{Session, resource::stored_messages};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a consumer group
    Create(change::Create),
    /// Change a consumer group; settings that are not given stay as they are
    Update(change::Update),
    /// Delete a consumer group with its offsets, its retries and its dead letters
    Delete(change::Delete),
    /// List the consumer groups
    List(list::List),
    /// Show a consumer group: settings, members, and the lag of each queue
    Show(show::Show),
}

pub async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    match command {
        Command::Create(create) => create.run(session).await,
        Command::Update(update) => update.run(session).await,
        Command::Delete(delete) => delete.run(session).await,
        Command::List(list) => list.run(session).await,
        Command::Show(show) => show.run(session).await,
    }
}

/// `1s 5s 10s`, or `from 5s to 2h, times 2`; `None` where the server's own delays apply.
fn retry_delays(policy: &GroupRetryPolicy) -> Option<String> {
    let exponential = policy.r#type.as_deref() == Some("EXPONENTIAL");
    match (exponential, &policy.exponential_retry_policy, &policy.customized_retry_policy) {
        (true, Some(policy), _) => {
            let (from, to) = (length(policy.initial), length(policy.max));
            Some(format!("from {from} to {to}, times {}", policy.multiplier))
        }
        (false, _, Some(policy)) => {
            Some(policy.next.iter().map(|ms| length(*ms)).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    }
}

fn length(ms: u64) -> String {
    let length = Duration::from_millis(ms);
    match (length.as_secs(), length.subsec_millis()) {
        (seconds, 0) if seconds >= 3600 && seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        (seconds, 0) if seconds >= 60 && seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (seconds, 0) => format!("{seconds}s"),
        _ => format!("{ms}ms"),
    }
}

/// Number of a group's dead letters on one broker.
async fn dead_letters(admin: &Admin, broker: &str, group: &str) -> Result<i64, Error> {
    match admin.topic_stats(broker, &format!("{DEAD_LETTER_PREFIX}{group}")).await {
        Err(Error::UnknownTopic { .. }) => Ok(0),
        stats => Ok(stored_messages(&stats?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_printed_in_their_largest_unit() {
        let lengths = [500, 1000, 60_000, 90_000, 7_200_000].map(length);
        assert_eq!(lengths, ["500ms", "1s", "1m", "90s", "2h"]);
    }
}
