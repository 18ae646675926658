//! Settings of a reader of queues, checked when it is built.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::{
    Allocation, Hook, Position, QueueReader, Rebalance,
    balance::manage,
    core::{Core, Settings, Sharing},
};
use crate::{
    BuildError, Client, Filter, Queue,
    consumer::check_topics,
    message::is_topic_name,
    transport::{Consuming, Role},
};

const BATCH: usize = 32;
const BATCH_MAX: usize = 1024;
const WAIT: Duration = Duration::from_secs(15);

/// Settings of a [`QueueReader`].
#[derive(Debug, Clone)]
#[must_use = "a reader comes from `build`"]
pub struct QueueReaderBuilder {
    client: Client,
    settings: Settings,
    /// Whether the application has said whose the queues are.
    sharing_given: bool,
}

impl Settings {
    pub(super) fn new(group: String) -> Settings {
        Settings {
            group,
            subscriptions: Vec::new(),
            sharing: Sharing::Assigned(Vec::new()),
            start: Position::Latest,
            batch: BATCH,
            wait: WAIT,
            hook: None,
            store: None,
        }
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !is_topic_name(&self.group) {
            faults.push(format!("{:?} is no name of a consumer group", self.group));
        }
        for (topic, filter) in &self.subscriptions {
            if !is_topic_name(topic) {
                faults.push(format!("{topic:?} is no name of a topic"));
            }
            if self.subscriptions.iter().filter(|(known, _)| known == topic).count() > 1 {
                faults.push(format!("topic {topic} is subscribed to more than once"));
            }
            filter.faults(topic, &mut faults);
        }
        faults.dedup();
        if !(1..=BATCH_MAX).contains(&self.batch) {
            faults.push(format!("{} messages at a time; it must be from 1 to {BATCH_MAX}", self.batch));
        }
        faults
    }
}

impl QueueReaderBuilder {
    pub(crate) fn new(client: &Client, group: String) -> QueueReaderBuilder {
        QueueReaderBuilder { client: client.clone(), settings: Settings::new(group), sharing_given: false }
    }

    /// Reads these queues. Other readers may read them as well; see [`Client::queues`] for those that a topic has.
    pub fn assign(mut self, queues: impl IntoIterator<Item = Queue>) -> QueueReaderBuilder {
        self.settings.sharing = Sharing::Assigned(queues.into_iter().collect());
        self.sharing_given = true;
        self
    }

    /// Reads this member's share of the queues of the topics that are subscribed to. All members of the group must share them out in
    /// the same way. Over Remoting; behind gRPC nobody but the server knows the members of a group.
    pub fn balanced(mut self, allocation: Allocation) -> QueueReaderBuilder {
        self.settings.sharing = Sharing::Balanced(allocation);
        self.sharing_given = true;
        self
    }

    /// Subscribes to a topic. May be called for several topics. With [`assign`](QueueReaderBuilder::assign) it says only which messages
    /// of the topic's queues are wanted: all, if it is not called.
    pub fn subscribe(mut self, topic: impl Into<String>, filter: Filter) -> QueueReaderBuilder {
        self.settings.subscriptions.push((topic.into(), filter));
        self
    }

    /// Where a queue begins in which the group has no progress: with the next message if not set.
    pub fn start(mut self, position: Position) -> QueueReaderBuilder {
        self.settings.start = position;
        self
    }

    /// The most messages of a batch: 32 if not set, 1,024 at most. Over gRPC no batch is larger than 32.
    pub fn batch_size(mut self, messages: usize) -> QueueReaderBuilder {
        self.settings.batch = messages;
        self
    }

    /// How long the server holds a request while there is no message: 15 s if not set.
    pub fn long_poll(mut self, time: Duration) -> QueueReaderBuilder {
        self.settings.wait = time;
        self
    }

    /// Runs before queues go to another member, and before new ones are read: the place to commit what was processed. The rebalance
    /// waits for it.
    ///
    /// Every member works out its own share, and a member that joins may read a queue a moment before the old one has run this hook. It
    /// begins at what was committed until then, so that a message can be read by both, and none is left out.
    pub fn on_rebalance<F>(
        mut self,
        hook: impl Fn(Rebalance) -> F + Send + Sync + 'static,
    ) -> QueueReaderBuilder
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.settings.hook = Some(Hook::new(hook));
        self
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = self.settings.faults();
        match &self.settings.sharing {
            _ if !self.sharing_given => {
                faults.push("it is not said which queues are read: assign or balanced".to_owned());
            }
            Sharing::Assigned(queues) if queues.is_empty() => faults.push("no queue is assigned".to_owned()),
            Sharing::Balanced(_) => {
                if self.settings.subscriptions.is_empty() {
                    faults.push("no topic is subscribed to".to_owned());
                }
                if self.client.net().is_grpc() {
                    faults.push("behind gRPC queues cannot be balanced; it needs Remoting".to_owned());
                }
                if self.client.net().has_member(&self.settings.group) {
                    let group = &self.settings.group;
                    faults.push(format!("group {group} has a member in this client; use another client"));
                }
            }
            _ => {}
        }
        faults
    }

    /// Builds the reader. Every fault of the settings is named at once.
    pub async fn build(self) -> Result<QueueReader, BuildError> {
        BuildError::check(self.faults())?;
        let consuming = match &self.settings.sharing {
            Sharing::Balanced(_) => Consuming::Balanced,
            _ => Consuming::Assigned,
        };
        let (core, tasks) = start(self.client, self.settings, consuming).await?;
        core.client.adopt_consumer(&core);
        Ok(QueueReader { core, _tasks: tasks })
    }
}

/// The core with the task that keeps its queues.
pub(super) async fn start(
    client: Client,
    settings: Settings,
    consuming: Consuming,
) -> Result<(Arc<Core>, JoinSet<()>), BuildError> {
    let mut topics = settings.subscriptions.clone();
    if let Sharing::Assigned(queues) = &settings.sharing {
        let more = queues.iter().map(|queue| (queue.topic.clone(), Filter::All));
        topics.extend(
            more.filter(|(topic, _)| !settings.subscriptions.iter().any(|(known, _)| known == topic)),
        );
        topics.dedup_by(|one, other| one.0 == other.0);
    }
    check_topics(&client, &topics).await?;
    let role = Role::Consumer { group: settings.group.clone(), subscriptions: topics, consuming };
    let session = client.session(role).await?;
    let core = Core::new(client, session, settings);
    let mut tasks = JoinSet::new();
    tasks.spawn(manage(core.clone()));
    Ok((core, tasks))
}
