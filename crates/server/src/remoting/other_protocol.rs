//! The gRPC clients, for operators who ask over Remoting. The gRPC front end implements the trait.

use std::{fmt, future::Future, net::SocketAddr, pin::Pin, time::Duration};

use redstart_engine::TopicName;
use redstart_log::Position;

use super::version::version_number;
use crate::shards::ShardNumber;

/// The clients of the other protocol. Replies come from the clients themselves and may take seconds.
pub trait OtherProtocolClients: Send + Sync + fmt::Debug {
    fn clients(&self) -> Vec<OtherClient>;

    /// What the client's threads are doing.
    fn thread_dump<'a>(&'a self, client: &'a str) -> ReplyFuture<'a, String>;

    /// Lets the client's listener try a message. The inner error is the listener's.
    fn try_message<'a>(
        &'a self,
        client: &'a str,
        message: OtherMessage,
    ) -> ReplyFuture<'a, Result<(), String>>;
}

pub type ReplyFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, NoReply>> + Send + 'a>>;

/// Why a client has not replied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReply {
    #[error("the client did not answer in time")]
    Timeout,
    #[error("{0}")]
    Failed(String),
}

/// A client that is or was lately connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherClient {
    pub id: String,
    pub role: Role,
    pub language: String,
    /// Such as `5.1.4`.
    pub version: String,
    pub remote: Option<SocketAddr>,
    pub silent_for: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Producer { topics: Vec<String> },
    Consumer { group: String, delivery: DeliveryMode, subscriptions: Vec<OtherSubscription> },
}

/// Whether messages come to the consumer's listener or its program asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryMode {
    Push,
    Pull,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherSubscription {
    pub topic: String,
    pub expression: String,
    pub sql: bool,
}

/// A stored message and the topic under which it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherMessage {
    pub shard: ShardNumber,
    pub topic: TopicName,
    pub position: Position,
    pub size: u32,
}

impl OtherClient {
    pub(super) fn version_number(&self) -> i32 {
        version_number(&self.version)
    }

    pub(super) fn address(&self) -> String {
        self.remote.map(|remote| remote.to_string()).unwrap_or_default()
    }
}
