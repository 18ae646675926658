//! `redstart offset reset`.

use clap::Args;
use redstart_client::admin::{Boundary, Broker, Error};
use serde::Serialize;

use super::plan::{self, Effect, Move};
use crate::admin::{
    Session, all,
    confirm::Consent,
    output::{Style, View},
    table::Table,
    time::{self, Moment},
};

/// The timestamp that stands for the end of a queue.
const END: i64 = -1;

#[derive(Debug, Args)]
pub struct Reset {
    /// Name of the consumer group
    group: String,
    /// Topic in which the group is moved
    #[arg(short, long)]
    topic: String,
    /// Where to: latest, earliest, a time (UTC), or how long ago, such as 30m
    #[arg(long, value_name = "WHERE", value_parser = time::moment)]
    to: Moment,
    #[command(flatten)]
    consent: Consent,
}

impl Reset {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let brokers = admin.brokers_of_topic(&self.topic).await?;
        if !admin.has_group(&self.group).await? {
            return Err(Error::UnknownGroup { group: self.group.clone() }.into());
        }
        let mut moves = Vec::new();
        for broker in &brokers {
            moves.extend(self.moves(session, broker).await?);
        }
        let what = plan::describe(&self.group, &self.topic, self.to, &moves);
        self.consent.ask(&what)?;
        let timestamp = match self.to {
            Moment::Earliest => 0,
            Moment::Latest => END,
            Moment::At(ms) => ms,
        };
        for broker in &brokers {
            match admin.reset_offsets(&broker.address, &self.group, &self.topic, timestamp).await {
                // This server leaves the move to online consumers, and there are none.
                Err(Error::NotOnline { .. }) => self.store(session, broker, &moves).await?,
                Err(error) => return Err(error.into()),
                // Messages may have arrived since the plan was made: report the offsets that the server set.
                Ok(offsets) => {
                    for (queue, offset) in offsets {
                        let own =
                            |moved: &&mut Move| moved.broker == broker.name && moved.queue == queue.queue_id;
                        moves.iter_mut().filter(own).for_each(|moved| moved.to = offset);
                    }
                }
            }
        }
        let Effect { again, skipped, remaining } = Effect::of(&moves);
        session.output.show(&Done {
            group: self.group.clone(),
            topic: self.topic.clone(),
            again,
            skipped,
            remaining,
            queues: moves.into_iter().map(Moved::from).collect(),
        })
    }

    async fn moves(&self, session: &Session, broker: &Broker) -> Result<Vec<Move>, Error> {
        let admin = &session.admin;
        let stats = admin.topic_stats(&broker.address, &self.topic).await?;
        let moved = async |queue: i32, min: i64, max: i64| {
            let to = match self.to {
                Moment::Earliest => min,
                Moment::Latest => max,
                Moment::At(ms) => {
                    admin.offset_at(&broker.address, &self.topic, queue, ms, Boundary::First).await?
                }
            };
            let from = admin.consumer_offset(&broker.address, &self.group, &self.topic, queue).await?;
            Ok::<_, Error>(Move {
                broker: broker.name.clone(),
                address: broker.address.clone(),
                queue,
                from,
                to,
                end: max,
            })
        };
        let queues =
            stats.queues.iter().map(|(queue, row)| moved(queue.queue_id, row.min_offset, row.max_offset));
        all(queues).await.into_iter().collect()
    }

    async fn store(&self, session: &Session, broker: &Broker, moves: &[Move]) -> Result<(), Error> {
        for moved in moves.iter().filter(|moved| moved.broker == broker.name) {
            let (group, topic) = (&self.group, &self.topic);
            session.admin.set_consumer_offset(&moved.address, group, topic, moved.queue, moved.to).await?;
        }
        Ok(())
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    group: String,
    topic: String,
    /// Messages that are delivered again.
    again: i64,
    /// Messages that are not delivered any more.
    skipped: i64,
    /// Messages that are to be delivered after the move.
    remaining: i64,
    queues: Vec<Moved>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    broker: String,
    queue: i32,
    from: Option<i64>,
    to: i64,
}

impl From<Move> for Moved {
    fn from(moved: Move) -> Moved {
        Moved { broker: moved.broker, queue: moved.queue, from: moved.from, to: moved.to }
    }
}

impl View for Done {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new().left("BROKER").right("QUEUE").right("FROM").right("TO");
        for moved in &self.queues {
            table.row([
                moved.broker.clone(),
                moved.queue.to_string(),
                moved.from.map_or_else(|| "-".to_owned(), |from| from.to_string()),
                moved.to.to_string(),
            ]);
        }
        let (group, topic) = (&self.group, &self.topic);
        let head = format!(
            "consumer group {group} moved in topic {topic}; skipped: {}, delivered again: {}, to consume: {}\n\n",
            self.skipped, self.again, self.remaining
        );
        head + &table.render(style)
    }
}
