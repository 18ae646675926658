//! Consumers that the application asks for messages, and the settings that all consumers have.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::Instant};

use super::{
    ConsumerCounters, Delivery, ReceiveError, RetryPolicy, ShutdownReport,
    core::{Core, Prefetch, Settings},
    source::{check_topics, fetch_all},
};
use crate::{
    BuildError, Client, Filter,
    message::is_topic_name,
    transport::{Consuming, Role},
};

const INVISIBLE: Duration = Duration::from_secs(60);
const INVISIBLE_MIN: Duration = Duration::from_secs(1);
const INVISIBLE_MIN_GRPC: Duration = Duration::from_secs(10);
const INVISIBLE_MAX: Duration = Duration::from_secs(12 * 3600);
const WAIT: Duration = Duration::from_secs(15);
const BATCH_MAX: usize = 32;
const RENEW_MAX: Duration = Duration::from_secs(3 * 3600);
const REMOTING_ATTEMPTS_MAX: u32 = 17;

/// What the builders of all consumers are told.
#[derive(Debug, Clone)]
pub(super) struct Consumption {
    pub client: Client,
    pub settings: Settings,
}

impl Consumption {
    pub fn new(client: &Client, group: String, prefetch: Prefetch) -> Consumption {
        let settings = Settings {
            group,
            subscriptions: Vec::new(),
            invisible: INVISIBLE,
            wait: WAIT,
            batch: BATCH_MAX,
            retry: None,
            // Over Remoting no broker but Redstart gives up messages that are popped.
            attempts_max: (!client.net().is_grpc()).then_some(REMOTING_ATTEMPTS_MAX),
            renew_max: RENEW_MAX,
            fifo: false,
            from_start: false,
            prefetch,
        };
        Consumption { client: client.clone(), settings }
    }

    pub fn faults(&self) -> Vec<String> {
        let Settings { group, subscriptions, invisible, batch, .. } = &self.settings;
        let mut faults = Vec::new();
        if !is_topic_name(group) {
            faults.push(format!("{group:?} is no name of a consumer group"));
        }
        if subscriptions.is_empty() {
            faults.push("no topic is subscribed to".to_owned());
        }
        for (topic, filter) in subscriptions {
            if !is_topic_name(topic) {
                faults.push(format!("{topic:?} is no name of a topic"));
            }
            if subscriptions.iter().filter(|(known, _)| known == topic).count() > 1 {
                faults.push(format!("topic {topic} is subscribed to more than once"));
            }
            filter.faults(topic, &mut faults);
        }
        faults.dedup();
        let least = if self.client.net().is_grpc() { INVISIBLE_MIN_GRPC } else { INVISIBLE_MIN };
        if !(least..=INVISIBLE_MAX).contains(invisible) {
            let (ms, least) = (invisible.as_millis(), least.as_secs());
            faults.push(format!("an invisible time of {ms} ms; it must be from {least} s to 12 h"));
        }
        if !(1..=BATCH_MAX).contains(batch) {
            faults.push(format!("{batch} messages at a time; it must be from 1 to {BATCH_MAX}"));
        }
        faults
    }

    /// The core with its tasks; fetching has begun.
    pub async fn start(self, consuming: Consuming) -> Result<(Arc<Core>, JoinSet<()>), BuildError> {
        check_topics(&self.client, &self.settings.subscriptions).await?;
        let role = Role::Consumer {
            group: self.settings.group.clone(),
            subscriptions: self.settings.subscriptions.clone(),
            consuming,
        };
        let session = self.client.session(role).await?;
        let (core, mut tasks) = Core::start(self.client, session, self.settings);
        tasks.spawn(fetch_all(core.clone()));
        Ok((core, tasks))
    }
}

/// Settings of a [`Receiver`].
#[derive(Debug, Clone)]
#[must_use = "a receiver comes from `build`"]
pub struct ReceiverBuilder {
    consumption: Consumption,
}

/// What the builders of receivers and workers have in common.
macro_rules! consumption_settings {
    ($builder:ident) => {
        impl $builder {
            /// Subscribes to a topic. May be called for several topics.
            pub fn subscribe(mut self, topic: impl Into<String>, filter: Filter) -> $builder {
                self.consumption.settings.subscriptions.push((topic.into(), filter));
                self
            }

            /// How long a message is this consumer's own: 60 s if not set. Over gRPC at least 10 s.
            pub fn invisible(mut self, time: Duration) -> $builder {
                self.consumption.settings.invisible = time;
                self
            }

            /// How long the server holds a request while there is no message: 15 s if not set.
            pub fn long_poll(mut self, time: Duration) -> $builder {
                self.consumption.settings.wait = time;
                self
            }

            /// The most messages of one request: 32 if not set, which is also the most.
            pub fn fetch_size(mut self, messages: usize) -> $builder {
                self.consumption.settings.batch = messages;
                self
            }

            /// When messages come again that could not be processed. If not set, as the server says, else RocketMQ's ladder from 10 s
            /// to 2 hours.
            pub fn retry_policy(mut self, policy: RetryPolicy) -> $builder {
                self.consumption.settings.retry = Some(policy);
                self
            }

            /// Deliveries after which this consumer makes a failed message a dead letter. If not set, the server does it; over
            /// Remoting, where Apache's brokers do not, 17.
            pub fn attempts(mut self, attempts: u32) -> $builder {
                self.consumption.settings.attempts_max = Some(attempts);
                self
            }

            /// A group that has no progress yet begins with the oldest message, not with the next. Over Remoting; behind gRPC the
            /// server's settings decide.
            pub fn from_start(mut self) -> $builder {
                self.consumption.settings.from_start = true;
                self
            }

            /// Asks Apache's brokers for the messages of a queue in order, over Remoting. Redstart keeps the order of message groups in
            /// any case, and gRPC servers have it among the group's settings.
            pub fn in_order(mut self) -> $builder {
                self.consumption.settings.fifo = true;
                self
            }
        }
    };
}
pub(super) use consumption_settings;

consumption_settings!(ReceiverBuilder);

impl ReceiverBuilder {
    pub(crate) fn new(client: &Client, group: String) -> ReceiverBuilder {
        ReceiverBuilder { consumption: Consumption::new(client, group, Prefetch::OnDemand { more: 0 }) }
    }

    /// Messages that are fetched before the application asks for them: none if not set. They are renewed while they wait.
    pub fn prefetch(mut self, messages: usize) -> ReceiverBuilder {
        self.consumption.settings.prefetch = Prefetch::OnDemand { more: messages };
        self
    }

    /// Builds the receiver. Every fault of the settings is named at once.
    pub async fn build(self) -> Result<Receiver, BuildError> {
        BuildError::check(self.consumption.faults())?;
        let (core, tasks) = self.consumption.start(Consuming::Asked).await?;
        Ok(Receiver { core, tasks })
    }
}

/// Receives messages when the application asks for them.
///
/// ```no_run
/// # async fn example(client: redstart_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redstart_client::Filter;
///
/// let receiver = client.receiver("billing").subscribe("orders", Filter::tags("created")).build().await?;
/// loop {
///     let delivery = receiver.recv().await?;
///     println!("{} for the {}. time", delivery.id(), delivery.attempt());
///     delivery.ack().await?;
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Receiver {
    core: Arc<Core>,
    tasks: JoinSet<()>,
}

impl Receiver {
    /// The next message; waits for it. An error says that none will come until an operator changes something; the receiver goes on
    /// trying all the same.
    ///
    /// Cancel safe: a message that was fetched while a dropped call waited stays for the next call.
    pub async fn recv(&self) -> Result<Delivery, ReceiveError> {
        let _want = self.core.want(1);
        loop {
            let arrived = self.core.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if let Some(delivery) = self.core.take() {
                delivery.held().set_renewing(false);
                return Ok(delivery);
            }
            if let Some(refusal) = self.core.refusal() {
                return Err(refusal);
            }
            arrived.await;
        }
    }

    /// The next messages, at most `max`; waits for the first one. Cancel safe as [`recv`](Receiver::recv).
    pub async fn recv_many(&self, max: usize) -> Result<Vec<Delivery>, ReceiveError> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let _want = self.core.want(max - 1);
        let mut deliveries = vec![self.recv().await?];
        while deliveries.len() < max {
            let Some(delivery) = self.core.take() else { break };
            delivery.held().set_renewing(false);
            deliveries.push(delivery);
        }
        Ok(deliveries)
    }

    /// The next message that has been fetched already.
    pub fn try_recv(&self) -> Option<Delivery> {
        let delivery = self.core.take()?;
        delivery.held().set_renewing(false);
        Some(delivery)
    }

    /// The messages as a stream, which ends when the receiver is shut down. Other errors are items: the receiver goes on trying.
    ///
    /// ```no_run
    /// # async fn example(receiver: redstart_client::Receiver) -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::StreamExt as _;
    ///
    /// let mut deliveries = std::pin::pin!(receiver.stream());
    /// while let Some(delivery) = deliveries.next().await {
    ///     delivery?.ack().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "stream")]
    pub fn stream(&self) -> impl futures_util::Stream<Item = Result<Delivery, ReceiveError>> + Send + '_ {
        futures_util::stream::unfold(self, async |receiver| match receiver.recv().await {
            Err(ReceiveError::ShutDown) => None,
            received => Some((received, receiver)),
        })
    }

    /// What this receiver has done.
    pub fn counters(&self) -> ConsumerCounters {
        self.core.counters()
    }

    /// Stops fetching, gives back what was fetched and not received, tells the server what is settled and leaves the group. Deliveries
    /// that the application still has can be settled until the receiver is dropped.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        self.core.shutdown(Instant::now() + within).await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.core.end(&mut self.tasks);
    }
}
