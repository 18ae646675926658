//! The name service: where topics are, which topics there are, and a small store of values for tools.

mod brokers;
mod kv_config;
mod permissions;
mod routes;
mod topics;

use std::{path::Path, time::Instant};

pub(super) use brokers::{data_version, heartbeat, register, unregister};
pub use kv_config::NamesError;
pub(super) use kv_config::{delete_value, put_value, value, values};
pub(super) use permissions::{
    add_write, broker_members, forget_topic, no_topics, register_topic, wipe_write,
};
pub(super) use routes::{cluster, route};
pub(super) use topics::{system_topics, topics, topics_of_cluster};

use super::{
    refusal::Refusal,
    request::{Answer, Request},
};
use crate::shard::ShardHandle;
use brokers::Brokers;
use kv_config::KvConfig;

/// What the name service knows beyond this broker's own topics.
#[derive(Debug)]
pub(super) struct NameService {
    brokers: Brokers,
    kv_config: KvConfig,
}

impl NameService {
    pub async fn open(first: &ShardHandle, dir: &Path) -> Result<NameService, NamesError> {
        Ok(NameService { brokers: Brokers::default(), kv_config: KvConfig::open(first, dir).await? })
    }

    /// How a group consumes a topic: the mode, and how many clients share a queue.
    pub fn mode(&self, namespace: &str, key: &str) -> Option<(String, i32)> {
        let value = self.kv_config.get(namespace, key)?;
        let (mode, share) = value.split_once(' ')?;
        Some((mode.to_owned(), share.parse().ok()?))
    }

    /// All modes with their keys.
    pub fn modes(&self, namespace: &str) -> Vec<(String, String, i32)> {
        let keys = self.kv_config.all(namespace).unwrap_or_default().into_keys();
        let mode = |key: String| self.mode(namespace, &key).map(|(mode, share)| (key, mode, share));
        keys.filter_map(mode).collect()
    }

    pub async fn set_mode(
        &self,
        request: &Request,
        namespace: &'static str,
        key: String,
        mode: String,
        share: i32,
    ) -> Result<Answer, Refusal> {
        kv_config::put(request, namespace.to_owned(), key, format!("{mode} {share}")).await
    }

    /// Forgets other brokers that have been silent for too long.
    pub fn expire(&self, now: Instant) {
        self.brokers.expire(now);
    }
}
