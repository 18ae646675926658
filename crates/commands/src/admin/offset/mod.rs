//! `redstart offset`: the offsets of a consumer group.

mod plan;
mod reset;
mod show;

use clap::Subcommand;
use redstart_wire::remoting::body::{ConsumeStatsRow, Queue};
use serde::Serialize;

use super::{Session, output::Style, table::Table, time::Time};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the offset and the lag of a consumer group in each queue
    Show(show::Show),
    /// Move a consumer group to the end, to the beginning or to a time of a topic
    Reset(reset::Reset),
}

pub async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    match command {
        Command::Show(show) => show.run(session).await,
        Command::Reset(reset) => reset.run(session).await,
    }
}

/// The offset of a group in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueProgress {
    topic: String,
    broker: String,
    queue: i32,
    /// All messages below it are consumed.
    consumer_offset: i64,
    /// The offset that the next message will get.
    max_offset: i64,
    lag: i64,
    in_flight: i64,
    last_consumed_at: Time,
}

impl QueueProgress {
    pub fn new((queue, row): &(Queue, ConsumeStatsRow)) -> QueueProgress {
        QueueProgress {
            topic: queue.topic.clone(),
            broker: queue.broker_name.clone(),
            queue: queue.queue_id,
            consumer_offset: row.consumer_offset,
            max_offset: row.broker_offset,
            lag: row.lag(),
            in_flight: (row.pull_offset - row.consumer_offset).max(0),
            last_consumed_at: Time(row.last_timestamp),
        }
    }

    pub fn table(queues: &[QueueProgress], style: Style) -> String {
        let mut table = Table::new()
            .left("TOPIC")
            .left("BROKER")
            .right("QUEUE")
            .right("CONSUMED")
            .right("NEXT")
            .right("LAG")
            .right("IN FLIGHT")
            .left("LAST CONSUMED");
        for queue in queues {
            table.row([
                queue.topic.clone(),
                queue.broker.clone(),
                queue.queue.to_string(),
                queue.consumer_offset.to_string(),
                queue.max_offset.to_string(),
                queue.lag.to_string(),
                queue.in_flight.to_string(),
                style.time(queue.last_consumed_at),
            ]);
        }
        table.render(style)
    }
}
