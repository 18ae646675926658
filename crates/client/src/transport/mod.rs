//! The seam between what the crate promises and the two protocols: everything that is asked of a server.

#[cfg(feature = "grpc")]
pub(crate) mod grpc;
pub(crate) mod remoting;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    CallError, Filter, Message, Received, SendStatus,
    body::Packing,
    route::{Place, Route},
};

/// A message on its way out.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub id: String,
    pub message: Message,
    /// The body as it travels.
    pub body: Bytes,
    pub packed: bool,
    /// Milliseconds since 1970.
    pub born_at: i64,
}

/// What a server says of a message that it has stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub id: String,
    pub queue: i32,
    pub offset: Option<i64>,
    pub recall: Option<String>,
    pub status: SendStatus,
}

/// What a part of the application is to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    Producer { group: String },
    Consumer { group: String, subscriptions: Vec<(String, Filter)>, pushed: bool },
}

impl Role {
    pub fn group(&self) -> &str {
        match self {
            Role::Producer { group } | Role::Consumer { group, .. } => group,
        }
    }
}

/// Messages are wanted from one broker.
#[derive(Debug)]
pub(crate) struct Fetch<'a> {
    pub from: &'a Place,
    pub filter: &'a Filter,
    pub max: usize,
    pub invisible: Duration,
    /// How long the server waits for a message.
    pub wait: Duration,
    /// Whether a group without progress begins with the oldest message.
    pub from_start: bool,
    /// Whether the messages of a queue must come in order.
    pub fifo: bool,
}

/// What names a delivery to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub address: Arc<str>,
    pub topic: String,
    pub handle: String,
    pub message_id: String,
    pub queue: i32,
    pub offset: i64,
    pub attempt: u32,
    /// Where the message is stored, which Remoting names it by.
    pub physical_offset: i64,
}

/// A message and what settles it.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub received: Received,
    pub receipt: Receipt,
}

/// What a consumer's server says about retries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GroupRules {
    pub fifo: Option<bool>,
    pub attempts_max: Option<u32>,
    pub retry_waits: Vec<Duration>,
}

/// The connections of a client.
#[derive(Debug, Clone)]
pub(crate) enum Net {
    Remoting(Arc<remoting::Remoting>),
    #[cfg(feature = "grpc")]
    Grpc(Arc<grpc::Grpc>),
}

macro_rules! each {
    ($value:expr, $it:ident => $call:expr) => {
        match $value {
            Net::Remoting($it) => $call,
            #[cfg(feature = "grpc")]
            Net::Grpc($it) => $call,
        }
    };
}

impl Net {
    /// Whether a server can be reached.
    pub async fn probe(&self) -> Result<(), CallError> {
        each!(self, net => net.probe().await)
    }

    /// The queues of a topic; `None` if there is no such topic.
    pub async fn route(&self, topic: &str) -> Result<Option<Route>, CallError> {
        each!(self, net => net.route(topic).await)
    }

    /// Tells a server who this client is, at intervals.
    pub async fn heartbeat(&self, addresses: &[Arc<str>]) {
        each!(self, net => net.heartbeat(addresses).await);
    }

    pub fn heartbeat_interval(&self) -> Duration {
        match self {
            Net::Remoting(_) => Duration::from_secs(30),
            #[cfg(feature = "grpc")]
            Net::Grpc(_) => Duration::from_secs(10),
        }
    }

    pub async fn session(&self, role: Role) -> Result<Session, CallError> {
        Ok(match self {
            Net::Remoting(net) => Session::Remoting(remoting::Session::open(net, role)),
            #[cfg(feature = "grpc")]
            Net::Grpc(net) => Session::Grpc(grpc::Session::open(net, role).await?),
        })
    }

    pub fn is_grpc(&self) -> bool {
        !matches!(self, Net::Remoting(_))
    }
}

/// One role of a client: a producer or a consumer.
#[derive(Debug)]
pub(crate) enum Session {
    Remoting(remoting::Session),
    #[cfg(feature = "grpc")]
    Grpc(grpc::Session),
}

macro_rules! each_session {
    ($value:expr, $it:ident => $call:expr) => {
        match $value {
            Session::Remoting($it) => $call,
            #[cfg(feature = "grpc")]
            Session::Grpc($it) => $call,
        }
    };
}

impl Session {
    /// Sends messages of one topic with one request; the results are in their order.
    pub async fn send(
        &self,
        to: &Place,
        messages: &[Outgoing],
        within: Duration,
    ) -> Result<Vec<Result<Stored, CallError>>, CallError> {
        each_session!(self, session => session.send(to, messages, within).await)
    }

    /// Sends a message without waiting for an answer.
    pub async fn post(&self, to: &Place, message: &Outgoing) -> Result<(), CallError> {
        each_session!(self, session => session.post(to, message).await)
    }

    /// Takes back a delayed message; its id.
    pub async fn recall(
        &self,
        at: &Place,
        topic: &str,
        handle: &str,
        within: Duration,
    ) -> Result<String, CallError> {
        each_session!(self, session => session.recall(at, topic, handle, within).await)
    }

    pub async fn receive(&self, fetch: &Fetch<'_>) -> Result<Vec<Fetched>, CallError> {
        each_session!(self, session => session.receive(fetch).await)
    }

    /// Settles deliveries of one address; one result for each.
    pub async fn ack(&self, receipts: &[Receipt]) -> Vec<Result<(), CallError>> {
        each_session!(self, session => session.ack(receipts).await)
    }

    /// The message is visible again after this time; the receipt that replaces the old one.
    pub async fn change_invisible(&self, receipt: &Receipt, time: Duration) -> Result<Receipt, CallError> {
        each_session!(self, session => session.change_invisible(receipt, time).await)
    }

    pub async fn dead_letter(&self, receipt: &Receipt, reason: &str) -> Result<(), CallError> {
        each_session!(self, session => session.dead_letter(receipt, reason).await)
    }

    /// What the server says about the group; nothing if it says nothing.
    pub fn rules(&self) -> GroupRules {
        match self {
            Session::Remoting(_) => GroupRules::default(),
            #[cfg(feature = "grpc")]
            Session::Grpc(session) => session.rules(),
        }
    }

    /// The largest body that the server takes, if it says so.
    pub fn body_bytes_max(&self) -> Option<usize> {
        match self {
            Session::Remoting(_) => None,
            #[cfg(feature = "grpc")]
            Session::Grpc(session) => session.body_bytes_max(),
        }
    }

    pub fn packing(&self) -> Packing {
        match self {
            Session::Remoting(_) => Packing::Zlib,
            #[cfg(feature = "grpc")]
            Session::Grpc(_) => Packing::Gzip,
        }
    }

    pub fn new_message_id(&self) -> String {
        match self {
            Session::Remoting(_) => crate::message_id::remoting(),
            #[cfg(feature = "grpc")]
            Session::Grpc(_) => crate::message_id::grpc(),
        }
    }

    /// Tells the servers that this part of the application ends.
    pub async fn close(&self, addresses: &[Arc<str>]) {
        each_session!(self, session => session.close(addresses).await);
    }
}
