//! The shards of this node. Each has a log, an engine and an owner thread of its own; clients see it as a broker of its own.
//!
//! Topics and groups are decided by the first shard and reach the others from there ([`catalogue`]). Which shard takes a message that
//! names none is a function of the message ([`choice`]).

mod begin;
mod catalogue;
mod choice;
mod names;
mod placement;

use std::sync::Arc;

use redstart_engine::{Message, TopicName};

use crate::{
    drain::Drained,
    handover::GiveBackQueue,
    shard::{ShardHandle, Unavailable},
};
use catalogue::Catalogue;

pub use catalogue::{CatalogueError, CatalogueRefusal};
pub use names::broker_names;

/// The number of a shard in its node. Handles hold it, so that a shard keeps its number for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ShardNumber(pub u16);

impl ShardNumber {
    /// The shard that decides on topics, groups and settings of the whole node.
    pub const FIRST: ShardNumber = ShardNumber(0);
}

/// One shard of the node.
#[derive(Debug)]
pub struct ServedShard {
    pub number: ShardNumber,
    /// The name of the broker that clients see.
    pub broker: String,
    pub handle: ShardHandle,
    /// Returns deliveries that did not reach a client to their queues.
    pub(crate) give_back_queue: GiveBackQueue,
    pub(crate) drained: Drained,
}

/// All shards of the node, at least one. Clones share them.
#[derive(Debug, Clone)]
pub struct Shards {
    all: Arc<[ServedShard]>,
    catalogue: Arc<Catalogue>,
}

impl Shards {
    /// The running shards in the order of their numbers, with the names of their brokers. Topics and groups that have not reached all of
    /// them yet are brought there first.
    pub async fn open(
        shards: impl IntoIterator<Item = (String, ShardHandle)>,
    ) -> Result<Shards, CatalogueError> {
        let mut all = Vec::new();
        for (number, (broker, handle)) in (0..).zip(shards) {
            let drained = Drained::load(&handle).await?;
            let give_back_queue = GiveBackQueue::new(handle.clone());
            all.push(ServedShard { number: ShardNumber(number), broker, handle, give_back_queue, drained });
        }
        // Nothing is served without a shard.
        if all.is_empty() {
            return Err(Unavailable::Stopped.into());
        }
        let shards = Shards { all: all.into(), catalogue: Arc::default() };
        shards.restore().await?;
        Ok(shards)
    }

    /// The shard that decides on topics, groups and settings of the whole node.
    pub fn first(&self) -> &ServedShard {
        &self.all[0]
    }

    pub fn all(&self) -> &[ServedShard] {
        &self.all
    }

    /// Whether the node has one shard only: then no request needs to name it.
    pub fn is_single(&self) -> bool {
        self.all.len() == 1
    }

    pub fn get(&self, number: ShardNumber) -> Option<&ServedShard> {
        self.all.get(usize::from(number.0))
    }

    pub fn of_broker(&self, broker: &str) -> Option<&ServedShard> {
        self.all.iter().find(|shard| shard.broker == broker)
    }

    /// The shards that may have queues of a topic.
    pub fn of_topic(&self, topic: &TopicName) -> Vec<&ServedShard> {
        let shards = self.candidates(topic);
        (0..shards.len()).map(|at| shards.at(at)).collect()
    }

    /// The shard that takes a message for which the client has chosen none. All messages of a message group, and all of a lite topic, go
    /// to the same shard; so does a message that is sent again, by which the shard can tell that it has it.
    pub fn for_message(&self, topic: &TopicName, message: &Message) -> &ServedShard {
        if self.is_single() {
            return self.first();
        }
        let shards = self.candidates(topic);
        if let Some(key) = message.lite_topic().or(message.group.as_deref()) {
            return shards.at(choice::bucket(key, shards.len()));
        }
        let first = choice::bucket(&message.id, shards.len());
        let mut from_there = (0..shards.len()).map(|step| shards.at((first + step) % shards.len()));
        from_there.find(|shard| !shard.drained.get()).unwrap_or(shards.at(first))
    }

    /// The shards among which one is chosen for a message: those that have the topic.
    fn candidates(&self, topic: &TopicName) -> Candidates<'_> {
        let Some(numbers) = self.catalogue.placement.of(topic) else { return Candidates::All(&self.all) };
        let some: Vec<&ServedShard> = numbers.iter().filter_map(|number| self.get(*number)).collect();
        // While the last shard of a topic is being removed: any shard says that it does not exist.
        if some.is_empty() { Candidates::All(&self.all) } else { Candidates::Some(some) }
    }

    /// The shard that takes the messages of a lite topic.
    pub fn for_lite(&self, parent: &TopicName, lite: &str) -> &ServedShard {
        let shards = self.candidates(parent);
        shards.at(choice::bucket(lite, shards.len()))
    }

    /// Answers every waiting receive without messages, because the process is stopping.
    pub fn end_polls(&self) {
        self.all.iter().for_each(|shard| shard.handle.end_polls());
    }
}

/// Shards among which one is chosen. Almost always these are all, which is a slice that exists already.
enum Candidates<'a> {
    All(&'a [ServedShard]),
    Some(Vec<&'a ServedShard>),
}

impl<'a> Candidates<'a> {
    fn len(&self) -> usize {
        match self {
            Candidates::All(all) => all.len(),
            Candidates::Some(some) => some.len(),
        }
    }

    fn at(&self, index: usize) -> &'a ServedShard {
        match self {
            Candidates::All(all) => &all[index],
            Candidates::Some(some) => some[index],
        }
    }
}
