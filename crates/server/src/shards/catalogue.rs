//! Topics and groups of a node with several shards.
//!
//! The first shard decides. A topic that it has, and of which nothing else is stored, is on every shard; so is every group. A topic that
//! operators made for some shards, or removed from some, has an entry with their numbers in the first shard's settings. What did not
//! reach all shards, because of a crash or a full channel, is brought there at the start and in the background. That adds and never
//! removes: a removal that was interrupted was not answered.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::try_join_all;
use redstart_engine::{
    AdminError, Engine, GroupConfig, GroupName, SettingError, Start, Ticket, TopicConfig, TopicName,
};
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::{
    ServedShard, ShardNumber, Shards,
    placement::{self, NAMESPACE, Placement},
};
use crate::{
    shard::{ChangeError, ShardHandle, Unavailable},
    throttle::Throttle,
};

static BEHIND: Throttle = Throttle::new();

/// How often the shards are compared though nothing is known to be missing.
const COMPARE_EVERY: Duration = Duration::from_secs(60);
/// After a failed attempt.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Changes of one comparison that are under way at a time: they share flushes, and the shard's channel has room for others.
const CHANGES_MAX: usize = 256;

/// A change of topics or groups that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueRefusal {
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// A change of topics or groups that did not reach all shards.
pub type CatalogueError = ChangeError<CatalogueRefusal>;

#[derive(Debug, Default)]
pub(super) struct Catalogue {
    pub placement: Placement,
    /// One change at a time.
    changing: Mutex<()>,
    /// One group at a time begins in topics.
    pub beginning: Mutex<()>,
    /// Notified when a change may not have reached all shards.
    behind: Notify,
}

/// A change of the shards that have a topic. Until it is dropped there is no other.
#[derive(Debug)]
#[must_use = "the change of the topic itself follows"]
pub(crate) struct Placing<'a> {
    shards: &'a Shards,
    topic: &'a TopicName,
    /// Where sends find the topic once the change is done; `None` for all shards.
    after: Option<Vec<ShardNumber>>,
    /// `None` where there is nothing to decide.
    changing: Option<MutexGuard<'a, ()>>,
    done: bool,
}

impl Placing<'_> {
    /// The topic has been changed.
    pub fn done(mut self) {
        self.done = true;
        if self.changing.is_some() {
            self.shards.catalogue.placement.set(self.topic, self.after.take());
        }
    }
}

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        if !self.done && self.changing.is_some() {
            self.shards.catalogue.behind.notify_one();
        }
    }
}

/// Proposes a decision and waits until it is in force.
async fn change<E: Into<CatalogueRefusal> + Send + 'static>(
    shard: &ShardHandle,
    propose: impl FnOnce(&mut Engine) -> Result<Ticket, E> + Send + 'static,
) -> Result<(), CatalogueError> {
    shard.change(move |engine, _| propose(engine).map_err(Into::into))?.await?
}

async fn ensure_topic(
    shard: &ShardHandle,
    name: TopicName,
    config: TopicConfig,
) -> Result<(), CatalogueError> {
    change(shard, move |engine| match engine.topic_id(&name) {
        Some(_) => Ok(engine.barrier()),
        None => match engine.put_topic(&name, config) {
            // Another request is creating it. The barrier is durable after that creation, so waiting for it is enough.
            Err(AdminError::Creating { .. }) => Ok(engine.barrier()),
            other => other,
        },
    })
    .await
}

async fn put_group(shard: &ShardHandle, name: GroupName, config: GroupConfig) -> Result<(), CatalogueError> {
    change(shard, move |engine| {
        if engine.group_config(&name) == Some(&config) {
            return Ok(engine.barrier());
        }
        match engine.put_group(&name, config) {
            Err(AdminError::Creating { .. }) => Ok(engine.barrier()),
            other => other,
        }
    })
    .await
}

/// The groups of a shard whose names fulfil a condition.
fn groups(engine: &Engine, wanted: impl Fn(&GroupName) -> bool) -> BTreeMap<GroupName, GroupConfig> {
    let names = engine.group_names().into_iter().filter(wanted);
    names.filter_map(|name| engine.group_config(&name).cloned().map(|config| (name, config))).collect()
}

async fn put_groups(
    shard: &ServedShard,
    groups: BTreeMap<GroupName, GroupConfig>,
) -> Result<(), CatalogueError> {
    let groups: Vec<_> = groups.into_iter().collect();
    for some in groups.chunks(CHANGES_MAX) {
        let puts = some.iter().map(|(name, config)| put_group(&shard.handle, name.clone(), config.clone()));
        try_join_all(puts).await?;
    }
    Ok(())
}

impl Shards {
    /// Whether each shard makes this topic for itself: retries and dead letters are where their messages are, tools send to topics named
    /// like a broker.
    fn is_local(&self, topic: &TopicName) -> bool {
        topic.is_reserved() || self.all().iter().any(|shard| shard.broker == topic.as_str())
    }

    /// Creates a topic on every shard, unless it exists. `here` is the shard that needs it now.
    pub(crate) async fn ensure_topic(
        &self,
        here: &ServedShard,
        name: &TopicName,
        config: TopicConfig,
    ) -> Result<(), CatalogueError> {
        if self.is_single() || self.is_local(name) {
            return ensure_topic(&here.handle, name.clone(), config).await;
        }
        if self.catalogue.placement.of(name).is_some() {
            let placing = self.place(name, here.number, true).await?;
            ensure_topic(&here.handle, name.clone(), config).await?;
            placing.done();
            return Ok(());
        }
        let _changing = self.catalogue.changing.lock().await;
        let made = async {
            ensure_topic(&self.first().handle, name.clone(), config.clone()).await?;
            let others = self.all()[1..].iter();
            try_join_all(others.map(|shard| ensure_topic(&shard.handle, name.clone(), config.clone()))).await
        };
        made.await.map(drop).inspect_err(|_| self.catalogue.behind.notify_one())
    }

    /// Decides that a shard gets a topic, or loses it. The caller then changes the topic itself, and calls [`Placing::done`].
    pub(crate) async fn place<'a>(
        &'a self,
        topic: &'a TopicName,
        shard: ShardNumber,
        has_it: bool,
    ) -> Result<Placing<'a>, CatalogueError> {
        if self.is_single() || self.is_local(topic) {
            return Ok(Placing { shards: self, topic, after: None, changing: None, done: false });
        }
        let changing = self.catalogue.changing.lock().await;
        let mut shards: BTreeSet<ShardNumber> = match self.catalogue.placement.of(topic) {
            Some(shards) => shards.into_iter().collect(),
            None if self.exists(self.first(), topic).await? => {
                self.all().iter().map(|shard| shard.number).collect()
            }
            None => BTreeSet::new(),
        };
        if has_it {
            shards.insert(shard)
        } else {
            shards.remove(&shard)
        };
        let after = Some(shards.into_iter().collect::<Vec<_>>());
        let after = after.filter(|shards| !shards.is_empty() && shards.len() < self.all().len());
        if after != self.catalogue.placement.of(topic) {
            self.store_placement(topic, after.as_deref()).await?;
        }
        if !has_it {
            // Sends go elsewhere before the topic goes.
            self.catalogue.placement.set(topic, after.clone());
        }
        Ok(Placing { shards: self, topic, after, changing: Some(changing), done: false })
    }

    async fn exists(&self, shard: &ServedShard, topic: &TopicName) -> Result<bool, Unavailable> {
        let topic = topic.clone();
        shard.handle.ask(move |engine, _| engine.topic_id(&topic).is_some())?.await
    }

    async fn store_placement(
        &self,
        topic: &TopicName,
        shards: Option<&[ShardNumber]>,
    ) -> Result<(), CatalogueError> {
        let (topic, text) = (topic.to_string(), shards.map(placement::text));
        change(&self.first().handle, move |engine| engine.put_setting(NAMESPACE, &topic, text.as_deref()))
            .await
    }

    /// Creates a group on every shard with the default settings, unless it exists.
    pub(crate) async fn ensure_group(&self, name: &GroupName) -> Result<(), CatalogueError> {
        let first = &self.first().handle;
        let made = async {
            let made = first.ensure_group(name.clone())?.await?;
            made.map_err(|error| match error {
                ChangeError::Refused(error) => ChangeError::Refused(error.into()),
                ChangeError::Log(why) => ChangeError::Log(why),
                ChangeError::Unavailable(error) => ChangeError::Unavailable(error),
            })
        };
        let _changing = self.one_change().await;
        made.await?;
        self.spread(name).await
    }

    /// Changes a group on the first shard by `propose`, and then gives every other shard the settings that it has there.
    pub(crate) async fn put_group<R>(
        &self,
        name: &GroupName,
        propose: impl FnOnce(&mut Engine) -> Result<Ticket, R> + Send + 'static,
    ) -> Result<(), R>
    where
        R: From<Unavailable> + From<ChangeError<R>> + From<CatalogueError> + Send + 'static,
    {
        let _changing = self.one_change().await;
        self.first().handle.change(move |engine, _| propose(engine))?.await??;
        Ok(self.spread(name).await?)
    }

    /// Nobody else changes topics or groups until this is dropped. With one shard, its log is the order of changes.
    async fn one_change(&self) -> Option<MutexGuard<'_, ()>> {
        if self.is_single() { None } else { Some(self.catalogue.changing.lock().await) }
    }

    /// Deletes a group. The first shard is the last to forget it, so that an interrupted deletion can be repeated.
    pub(crate) async fn delete_group(&self, name: &GroupName) -> Result<(), CatalogueError> {
        let _changing = self.one_change().await;
        let delete = |shard: &ServedShard| {
            let (handle, name) = (shard.handle.clone(), name.clone());
            async move {
                change(&handle, move |engine| match engine.delete_group(&name) {
                    Err(AdminError::UnknownGroup { .. }) => Ok(engine.barrier()),
                    other => other,
                })
                .await
            }
        };
        try_join_all(self.all()[1..].iter().map(delete)).await?;
        delete(self.first()).await
    }

    /// Gives every other shard a group as the first has it.
    async fn spread(&self, name: &GroupName) -> Result<(), CatalogueError> {
        if self.is_single() {
            return Ok(());
        }
        let asked = name.clone();
        let config = self.first().handle.ask(move |engine, _| engine.group_config(&asked).cloned())?.await?;
        let Some(config) = config else { return Ok(()) };
        let others = self.all()[1..].iter();
        let puts = others.map(|shard| put_group(&shard.handle, name.clone(), config.clone()));
        try_join_all(puts).await.map(drop).inspect_err(|_| self.catalogue.behind.notify_one())
    }

    /// Reads which topics are on some shards only, and brings to all shards what is not there yet.
    pub(super) async fn restore(&self) -> Result<(), CatalogueError> {
        if self.is_single() {
            return Ok(());
        }
        let stored = self.first().handle.ask(|engine, _| engine.settings(NAMESPACE))?.await?;
        for (topic, shards) in placement::read(&stored) {
            self.catalogue.placement.set(&topic, Some(shards));
        }
        self.reconcile().await
    }

    /// Brings to all shards what did not reach them, until the process ends.
    pub async fn keep_in_step(self) {
        if self.is_single() {
            return;
        }
        loop {
            let told = tokio::time::timeout(COMPARE_EVERY, self.catalogue.behind.notified());
            drop(told.await);
            while let Err(error) = self.reconcile().await {
                if matches!(error, ChangeError::Unavailable(Unavailable::Stopped)) {
                    return;
                }
                if let Some(repeated) = BEHIND.permit() {
                    tracing::warn!(%error, repeated, "topics or groups have not reached all shards; trying again");
                }
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    async fn reconcile(&self) -> Result<(), CatalogueError> {
        let _changing = self.catalogue.changing.lock().await;
        self.complete_groups().await?;
        self.complete_topics(&self.listed_topics().await?).await
    }

    /// The topics of every shard.
    async fn listed_topics(&self) -> Result<Vec<BTreeSet<TopicName>>, Unavailable> {
        let mut topics = Vec::new();
        for shard in self.all() {
            let names = shard.handle.ask(|engine, _| engine.topic_names())?.await?;
            topics.push(names.into_iter().filter(|name| !self.is_local(name)).collect());
        }
        Ok(topics)
    }

    /// Every group is on every shard, with the settings that it has on the first.
    async fn complete_groups(&self) -> Result<(), CatalogueError> {
        let (first, others) = (self.first(), &self.all()[1..]);
        let mut decided = first.handle.ask(|engine, _| groups(engine, |_| true))?.await?;
        for shard in others {
            // Only a first shard that was restored from an older backup does not know a group.
            let known: Arc<BTreeSet<GroupName>> = Arc::new(decided.keys().cloned().collect());
            let unknown = shard.handle.ask(move |engine, _| groups(engine, |name| !known.contains(name)))?;
            let unknown = unknown.await?;
            put_groups(first, unknown.clone()).await?;
            decided.extend(unknown);
        }
        let decided = Arc::new(decided);
        for shard in others {
            let wanted = decided.clone();
            let behind = shard.handle.ask(move |engine, _| {
                let differs =
                    |(name, config): &(&GroupName, &GroupConfig)| engine.group_config(name) != Some(config);
                wanted.iter().filter(differs).map(|(name, config)| (name.clone(), config.clone())).collect()
            })?;
            put_groups(shard, behind.await?).await?;
        }
        Ok(())
    }

    async fn complete_topics(&self, found: &[BTreeSet<TopicName>]) -> Result<(), CatalogueError> {
        let known: Vec<TopicName> = self.catalogue.placement.topics();
        let all: BTreeSet<&TopicName> = found.iter().flatten().chain(&known).collect();
        let mut missing = Vec::new();
        for topic in all {
            let on: Vec<ShardNumber> = self
                .all()
                .iter()
                .zip(found)
                .filter(|(_, has)| has.contains(topic))
                .map(|(shard, _)| shard.number)
                .collect();
            let restricted = self.catalogue.placement.of(topic);
            if restricted.is_none() && on.first() == Some(&ShardNumber::FIRST) {
                let others = self.all().iter().filter(|shard| !on.contains(&shard.number));
                missing.extend(others.map(|shard| (topic, shard)));
                continue;
            }
            // It is where it is.
            let after = Some(on).filter(|on| !on.is_empty() && on.len() < self.all().len());
            if after != restricted {
                self.store_placement(topic, after.as_deref()).await?;
                self.catalogue.placement.set(topic, after);
            }
        }
        for some in missing.chunks(CHANGES_MAX) {
            try_join_all(some.iter().map(|(topic, shard)| self.copy_topic(topic, shard))).await?;
        }
        if !missing.is_empty() {
            tracing::info!(topics = missing.len(), "topics were brought to shards that did not have them");
        }
        Ok(())
    }

    /// Gives a shard a topic as the first shard has it. Groups that consume it begin there too: what comes from now on is for them.
    async fn copy_topic(&self, name: &TopicName, to: &ServedShard) -> Result<(), CatalogueError> {
        let asked = name.clone();
        let from = self.first().handle.ask(move |engine, _| {
            engine.topic(&asked).map(|topic| (topic.config, engine.groups_of(&asked)))
        })?;
        let Some((config, groups)) = from.await? else { return Ok(()) };
        ensure_topic(&to.handle, name.clone(), config).await?;
        let name = name.clone();
        let joined = to.handle.ask(move |engine, _| {
            for group in groups {
                // Its queues are empty, so that no index has to be read.
                drop(engine.join(&group, &name, Start::Earliest));
            }
        })?;
        joined.await?;
        Ok(())
    }
}
