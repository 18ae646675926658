//! Settings of a producer, checked when it is built.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::{
    Checker, Core, Counters, Producer, Requester, Settings, TransactionProducerBuilder,
    faults::{FaultPolicy, Faults},
    limit::{self, Limit},
    selector::{Selector, Turn},
};
use crate::{
    Backoff, BuildError, Client, RouteError,
    transport::{Check, Role},
};

const GROUP: &str = "redstart-client";
const ATTEMPTS: u32 = 3;
const MESSAGES_MAX: u32 = 1024;
const BYTES_MAX: u32 = 100 << 20;
const COMPRESS_FROM: usize = 4096;

/// Settings of a [`Producer`].
#[derive(Debug, Clone)]
#[must_use = "a producer comes from `build`"]
pub struct ProducerBuilder {
    pub(super) client: Client,
    group: String,
    timeout: Duration,
    attempts: u32,
    backoff: Backoff,
    faults: Option<FaultPolicy>,
    selector: Selector,
    compress_from: Option<usize>,
    messages_max: u32,
    bytes_max: u32,
}

impl ProducerBuilder {
    pub(crate) fn new(client: &Client) -> ProducerBuilder {
        ProducerBuilder {
            client: client.clone(),
            group: GROUP.to_owned(),
            timeout: client.timeout(),
            attempts: ATTEMPTS,
            backoff: Backoff::default(),
            faults: Some(FaultPolicy::default()),
            selector: Selector::default(),
            // Clients of the two protocols read different compressions, and some gRPC clients read none.
            compress_from: (!client.net().is_grpc()).then_some(COMPRESS_FROM),
            messages_max: MESSAGES_MAX,
            bytes_max: BYTES_MAX,
        }
    }

    /// The producer group, by which operators find this producer.
    pub fn group(mut self, group: impl Into<String>) -> ProducerBuilder {
        self.group = group.into();
        self
    }

    /// The time that a send has, all its attempts together: that of the client if not set.
    pub fn timeout(mut self, timeout: Duration) -> ProducerBuilder {
        self.timeout = timeout;
        self
    }

    /// How often a send is tried: 3 times if not set.
    pub fn attempts(mut self, attempts: u32) -> ProducerBuilder {
        self.attempts = attempts;
        self
    }

    /// The waits between attempts when a server is busy. After any other failure the next attempt comes at once.
    pub fn backoff(mut self, backoff: Backoff) -> ProducerBuilder {
        self.backoff = backoff;
        self
    }

    /// How long slow and failed brokers are left out; `None` for not at all.
    pub fn faults(mut self, faults: impl Into<Option<FaultPolicy>>) -> ProducerBuilder {
        self.faults = faults.into();
        self
    }

    /// How queues are chosen.
    pub fn selector(mut self, selector: Selector) -> ProducerBuilder {
        self.selector = selector;
        self
    }

    /// Compresses bodies from this size on, where it saves something; `None` for never. Over Remoting from 4096 bytes if not set.
    /// Over gRPC never if not set: consumers of the 4.x clients cannot read what gRPC producers compress.
    pub fn compress_from(mut self, bytes: impl Into<Option<usize>>) -> ProducerBuilder {
        self.compress_from = bytes.into();
        self
    }

    /// How many messages and bytes may be on their way: 1,024 and 100 MiB if not set. A send that finds no room waits for it, within
    /// its time.
    pub fn on_their_way(mut self, messages: u32, bytes: u32) -> ProducerBuilder {
        (self.messages_max, self.bytes_max) = (messages, bytes);
        self
    }

    fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.group.is_empty() {
            faults.push("the producer group is empty".to_owned());
        }
        if self.attempts == 0 {
            faults.push("a send needs at least 1 attempt".to_owned());
        }
        if self.timeout.is_zero() {
            faults.push("the time of a send is 0".to_owned());
        }
        if self.client.net().is_grpc() && !matches!(self.selector, Selector::RoundRobin) {
            faults.push(format!(
                "behind gRPC the server chooses the queue; the selector {:?} needs Remoting",
                self.selector
            ));
        }
        self.backoff.faults(&mut faults);
        limit::faults(self.messages_max, self.bytes_max, &mut faults);
        faults
    }

    /// A producer of messages that are delivered only if local work succeeds. The checker says what became of that work when the
    /// server asks. The group should be the same in all processes that have the same checker.
    pub fn transactions<C: Checker>(self, checker: C) -> TransactionProducerBuilder<C> {
        TransactionProducerBuilder::new(self, checker)
    }

    /// Builds a requester, which waits for answers to its messages. Over Remoting.
    pub async fn requests(self) -> Result<Requester, BuildError> {
        Requester::build(self).await
    }

    /// Builds the producer. Every fault of the settings is named at once.
    pub async fn build(self) -> Result<Producer, BuildError> {
        Ok(Producer { core: self.start(Vec::new(), None).await? })
    }

    pub(super) async fn start(
        self,
        topics: Vec<String>,
        checks: Option<mpsc::Sender<Check>>,
    ) -> Result<Arc<Core>, BuildError> {
        BuildError::check(self.check())?;
        for topic in &topics {
            match self.client.route(topic).await {
                Ok(_) => {}
                Err(RouteError::Call { error, .. }) => return Err(error.into()),
                Err(error) => BuildError::check(vec![error.to_string()])?,
            }
        }
        let session = self.client.session(Role::Producer { group: self.group, topics, checks }).await?;
        let core = Arc::new(Core {
            session,
            settings: Settings {
                timeout: self.timeout,
                attempts: self.attempts,
                backoff: self.backoff,
                faults: self.faults,
                selector: self.selector,
                compress_from: self.compress_from,
            },
            limit: Limit::new(self.messages_max, self.bytes_max),
            turn: Turn::new(),
            faults: Faults::default().into(),
            counters: Counters::default(),
            client: self.client,
        });
        core.client.adopt_producer(&core);
        Ok(core)
    }
}
