//! JSON bodies. Names are those of RocketMQ's classes; what it writes in ways that no JSON has (numbers and objects as
//! keys) is written so that every client reads it.

mod client;
mod lenient;
mod pop;
mod queue;
mod route;

pub use client::{
    CheckClient, ClientSubscription, ConsumerData, ConsumerIds, Heartbeat, ProducerData, Subscription,
};
pub use lenient::standard;
pub use pop::{Assignment, Assignments, BatchAck, BatchAcks, QueryAssignment, RequestMode};
pub use queue::{LockQueues, LockedQueues, Queue, by_queue};
pub use route::{
    BrokerData, ClusterInfo, DataVersion, KeyValues, QueueData, Registration, TopicConfigs, TopicEntry,
    TopicList, TopicRoute,
};
