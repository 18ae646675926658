//! Where a group begins in a topic that has queues on several shards.
//!
//! Invariant: a group that has begun in a topic on one shard gets everything that is stored for the topic on any shard from then on. So a
//! group begins on all shards of the topic at once. A shard on which it has not begun then got the topic later, with the shard's first dead
//! letter of a group for example: there the group begins with the oldest message.

use std::time::Duration;

use futures_util::future::try_join_all;
use redstart_engine::{Engine, GroupName, Popped, Start, TopicName};

use super::{ServedShard, Shards};
use crate::{
    shard::{PopRequest, ReceiveError, Unavailable},
    throttle::Throttle,
};

static NOT_BEGUN: Throttle = Throttle::new();

/// After how long an overloaded shard is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Shards {
    /// Receives from a shard. A group that has not begun in the topic begins first.
    pub(crate) async fn pop(
        &self,
        shard: &ServedShard,
        request: PopRequest,
    ) -> Result<Result<Popped, ReceiveError>, Unavailable> {
        let receive = |request| Ok(shard.give_back_queue.receive(shard.handle.pop(request)?));
        if self.is_single() {
            return receive(request)?.await;
        }
        match receive(PopRequest { only_if_begun: true, ..request.clone() })?.await? {
            Err(ReceiveError::NotBegun) => {
                self.begin(&request.group, vec![request.topic.clone()], request.start).await?;
                receive(request)?.await
            }
            popped => Ok(popped),
        }
    }

    /// A group begins in topics, so that messages from now on are for it: as `start` says where it is new, with the oldest message on
    /// shards that got the topic after the group had begun. Unknown names change nothing.
    pub(crate) async fn begin(
        &self,
        group: &GroupName,
        topics: Vec<TopicName>,
        start: Start,
    ) -> Result<(), Unavailable> {
        if self.is_single() {
            let (group, topics) =
                (group.clone(), topics.into_iter().map(|topic| (topic, start)).collect::<Vec<_>>());
            return self.first().handle.ask(move |engine, _| join(engine, &group, &topics))?.await;
        }
        if self.beginnings(group, &topics).await?.is_complete() {
            return Ok(());
        }
        let (shards, group) = (self.clone(), group.clone());
        // The request that waits for it may be dropped, this may not: a group that has begun on some shards only would begin with the
        // oldest message on the others.
        let begun = tokio::spawn(async move { shards.begin_on_all(group, topics, start).await });
        begun.await.unwrap_or(Err(Unavailable::Stopped))
    }

    async fn begin_on_all(
        &self,
        group: GroupName,
        topics: Vec<TopicName>,
        start: Start,
    ) -> Result<(), Unavailable> {
        // Two at a time would take each other's half for a topic that came later.
        let _one = self.catalogue.beginning.lock().await;
        let beginnings = self.beginnings(&group, &topics).await?;
        let starts: Vec<_> = topics.into_iter().zip(beginnings.starts(start)).collect();
        let joins = self.all().iter().map(|shard| {
            let (group, starts) = (group.clone(), starts.clone());
            until_taken(shard, move |engine| join(engine, &group, &starts))
        });
        try_join_all(joins).await.map(drop)
    }

    async fn beginnings(&self, group: &GroupName, topics: &[TopicName]) -> Result<Beginnings, Unavailable> {
        let asks = self.all().iter().map(|shard| {
            let (group, topics) = (group.clone(), topics.to_vec());
            async move {
                let begun = shard.handle.ask(move |engine, _| {
                    topics.iter().map(|topic| engine.has_begun(&group, topic)).collect::<Vec<_>>()
                })?;
                begun.await
            }
        });
        Ok(Beginnings { topics: topics.len(), on_shards: try_join_all(asks).await? })
    }
}

/// Whether a group has begun in each of some topics, for each shard; `None` where the shard does not have the topic.
struct Beginnings {
    topics: usize,
    on_shards: Vec<Vec<Option<bool>>>,
}

impl Beginnings {
    fn of_topic(&self, topic: usize) -> impl Iterator<Item = bool> {
        self.on_shards.iter().filter_map(move |shard| shard.get(topic).copied().flatten())
    }

    /// Whether the group has begun in every topic on every shard that has it.
    fn is_complete(&self) -> bool {
        (0..self.topics).all(|topic| self.of_topic(topic).all(|begun| begun))
    }

    /// Where the group begins in each topic on the shards on which it has not begun.
    fn starts(&self, start: Start) -> Vec<Start> {
        let begun = |topic| self.of_topic(topic).any(|begun| begun);
        (0..self.topics).map(|topic| if begun(topic) { Start::Earliest } else { start }).collect()
    }
}

fn join(engine: &mut Engine, group: &GroupName, topics: &[(TopicName, Start)]) {
    for (topic, start) in topics {
        if let Err(error) = engine.join(group, topic, *start)
            && let Some(repeated) = NOT_BEGUN.permit()
        {
            tracing::error!(%error, %topic, repeated, "the starting offset of a group cannot be determined");
        }
    }
}

/// Asks a shard; again if it is overloaded.
async fn until_taken<R: Send + 'static>(
    shard: &ServedShard,
    ask: impl Fn(&mut Engine) -> R + Clone + Send + 'static,
) -> Result<R, Unavailable> {
    loop {
        let ask = ask.clone();
        match shard.handle.ask(move |engine, _| ask(engine)) {
            Ok(reply) => return reply.await,
            Err(Unavailable::Overloaded { .. }) => tokio::time::sleep(AGAIN_AFTER).await,
            Err(Unavailable::Stopped) => return Err(Unavailable::Stopped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_begins_as_asked_where_it_is_new_and_with_the_oldest_message_where_the_topic_came_later() {
        let table = [
            // On each of three shards: begun, and what is expected.
            ([None, None, None], true, Start::Latest),
            ([Some(false), Some(false), None], false, Start::Latest),
            ([Some(true), Some(true), None], true, Start::Earliest),
            ([Some(true), Some(false), None], false, Start::Earliest),
            ([None, Some(false), Some(true)], false, Start::Earliest),
        ];
        for (shards, is_complete, start) in table {
            let on_shards = shards.iter().map(|begun| vec![*begun]).collect();
            let beginnings = Beginnings { topics: 1, on_shards };
            assert_eq!(beginnings.is_complete(), is_complete, "{shards:?}");
            assert_eq!(beginnings.starts(Start::Latest), [start], "{shards:?}");
        }
    }
}
