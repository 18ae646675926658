//! The seam between what the crate promises and the two protocols: everything that is asked of a server.

#[cfg(feature = "grpc")]
pub(crate) mod grpc;
pub(crate) mod remoting;
mod replies;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
pub(crate) use replies::Replies;
use tokio::sync::{mpsc, watch};

use crate::{
    CallError, Filter, Message, Received, SendStatus,
    body::Packing,
    received::ReplyTo,
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
    pub purpose: Purpose,
}

/// What a message is sent for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be delivered.
    Plain,
    /// To be delivered when its transaction is committed.
    Half { check_after: Option<Duration> },
    /// To be answered.
    Request { correlation: String, within: Duration },
}

/// What names an open transaction to its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub address: Arc<str>,
    pub topic: String,
    pub broker: String,
    pub message_id: String,
    pub id: String,
    /// Where the half message is, which Remoting names it by.
    pub half_offset: i64,
    pub physical_offset: i64,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Commit,
    Rollback,
}

/// A server asks what became of a transaction.
#[derive(Debug)]
pub(crate) struct Check {
    pub message: Received,
    pub transaction: Transaction,
}

/// What a server says of a message that it has stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub id: String,
    pub queue: i32,
    pub offset: Option<i64>,
    pub recall: Option<String>,
    pub status: SendStatus,
    pub transaction: Option<Transaction>,
}

/// What a part of the application is to the server.
#[derive(Debug, Clone)]
pub(crate) enum Role {
    /// With the topics that it says it sends to, and what answers checks of transactions.
    Producer {
        group: String,
        #[cfg_attr(
            not(feature = "grpc"),
            allow(dead_code, reason = "Remoting finds producers by their group")
        )]
        topics: Vec<String>,
        checks: Option<mpsc::Sender<Check>>,
    },
    Consumer {
        group: String,
        subscriptions: Vec<(String, Filter)>,
        consuming: Consuming,
    },
}

/// How a consumer gets its messages, as servers tell consumers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consuming {
    /// By pop, for a handler.
    Pushed,
    /// By pop, when the application asks.
    Asked,
    /// From queues that the members of the group share out among themselves.
    Balanced,
    /// From all queues, as every other consumer of the group.
    Broadcast,
    /// From queues that the application names. The consumer is no member of its group.
    Assigned,
}

impl Role {
    pub fn group(&self) -> &str {
        match self {
            Role::Producer { group, .. } | Role::Consumer { group, .. } => group,
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

/// Messages of one queue are wanted, from an offset on.
#[derive(Debug)]
pub(crate) struct Pull<'a> {
    pub from: &'a Place,
    pub offset: i64,
    pub filter: &'a Filter,
    pub max: usize,
    /// How long the server waits for a message.
    pub wait: Duration,
}

/// What a queue has from an offset on.
#[derive(Debug)]
pub(crate) struct Pulled {
    pub messages: Vec<Received>,
    /// Where to go on: behind the messages, or where the queue begins or ends if the offset is outside of it.
    pub next: i64,
}

/// An offset that a server is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Of the oldest message.
    Earliest,
    /// Of the next message to come.
    Latest,
    /// Of the first message stored at or after this time.
    At(SystemTime),
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

    /// Counts up whenever a broker says that the members of a group have changed.
    pub fn membership(&self) -> Option<watch::Receiver<u64>> {
        match self {
            Net::Remoting(net) => Some(net.membership()),
            #[cfg(feature = "grpc")]
            Net::Grpc(_) => None,
        }
    }

    /// The requests of this client, where the protocol has any.
    pub fn replies(&self) -> Option<Arc<Replies>> {
        match self {
            Net::Remoting(net) => Some(net.replies()),
            #[cfg(feature = "grpc")]
            Net::Grpc(_) => None,
        }
    }

    /// The name of this client among the members of its groups.
    pub fn client_id(&self) -> &str {
        each!(self, net => net.client_id())
    }

    /// Whether a member of this group is part of this client already.
    pub fn has_member(&self, group: &str) -> bool {
        match self {
            Net::Remoting(net) => net.has_member(group),
            #[cfg(feature = "grpc")]
            Net::Grpc(_) => false,
        }
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

    /// Says how a transaction ends; `checked` if the server has asked.
    pub async fn end_transaction(
        &self,
        transaction: &Transaction,
        verdict: Verdict,
        checked: bool,
    ) -> Result<(), CallError> {
        each_session!(self, session => session.end_transaction(transaction, verdict, checked).await)
    }

    /// Answers a request. gRPC carries no answers, and its messages do not say that they expect one.
    pub async fn reply(&self, to: &ReplyTo, body: Bytes) -> Result<(), CallError> {
        match self {
            Session::Remoting(session) => session.reply(to, body).await,
            #[cfg(feature = "grpc")]
            Session::Grpc(_) => Ok(()),
        }
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

    /// Reads from a queue; moves no group's progress.
    pub async fn pull(&self, pull: &Pull<'_>) -> Result<Pulled, CallError> {
        each_session!(self, session => session.pull(pull).await)
    }

    pub async fn find_offset(&self, at: &Place, mark: Mark) -> Result<i64, CallError> {
        each_session!(self, session => session.find_offset(at, mark).await)
    }

    /// The progress of a group in a queue; `None` if it has none.
    pub async fn stored_offset(&self, group: &str, at: &Place) -> Result<Option<i64>, CallError> {
        each_session!(self, session => session.stored_offset(group, at).await)
    }

    pub async fn store_offset(&self, group: &str, at: &Place, offset: i64) -> Result<(), CallError> {
        each_session!(self, session => session.store_offset(group, at, offset).await)
    }

    /// The client ids of the group's members, as a broker knows them. Behind gRPC nobody but the server knows them.
    pub async fn members(&self, address: &str) -> Result<Vec<String>, CallError> {
        match self {
            Session::Remoting(session) => session.members(address).await,
            #[cfg(feature = "grpc")]
            Session::Grpc(_) => Ok(Vec::new()),
        }
    }

    /// What the server says about the group; nothing if it says nothing.
    pub fn rules(&self) -> GroupRules {
        match self {
            Session::Remoting(_) => GroupRules::default(),
            #[cfg(feature = "grpc")]
            Session::Grpc(session) => session.rules(),
        }
    }

    pub fn group(&self) -> &str {
        each_session!(self, session => session.group())
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
