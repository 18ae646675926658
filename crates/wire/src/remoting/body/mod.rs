//! JSON bodies. Names are those of RocketMQ's classes; what it writes in ways that no JSON has (numbers and objects as
//! keys) is written so that every client reads it.

mod auth;
mod client;
mod connection;
mod group;
mod names;
mod pop;
mod queue;
mod registration;
mod route;
mod statistics;

pub use auth::{Acl, Policy, PolicyEntry, User};
pub use client::{
    CheckClient, ClientSubscription, ConsumerData, ConsumerIds, Heartbeat, ProducerData, Subscription,
};
pub use connection::{
    Connection, ConsumerConnection, ConsumerStatus, ProducerConnection, ProducerInfo, Producers,
};
pub use group::{
    CustomizedRetry, ExponentialRetry, Forbidden, GroupConfig, GroupConfigs, GroupExtras, GroupList,
    GroupPage, GroupRetryPolicy, reset_body, reset_list,
};
pub use pop::{Assignment, Assignments, BatchAck, BatchAcks, QueryAssignment, RequestMode};
pub use queue::{LockQueues, LockedQueues, Queue, by_queue};
pub use registration::RegistrationError;
pub use route::{
    BrokerData, BrokerMemberGroup, BrokerMembers, ClusterInfo, DataVersion, KeyValues, QueueData,
    Registration, TopicConfigList, TopicConfigs, TopicEntry, TopicList, TopicPage, TopicRoute,
};
pub use statistics::{
    ConsumeStatsRow, ConsumeTimeSpan, ConsumeTimeSpans, HaStatus, QueueEntries, QueueEntry, Statistic,
    StatisticsData, TopicStatsRow, consume_stats, consume_stats_list, topic_stats,
};
