//! Requests of `mqadmin` and other tools for operators.

mod acls;
mod attributes;
mod connections;
mod groups;
mod legacy;
mod offsets;
mod page;
mod progress;
mod properties;
mod queues;
mod relay;
mod resets;
mod runtime;
mod settings;
mod topics;
mod unsupported;
mod users;

pub(super) use acls::{create_acl, delete_acl, get_acl, list_acls, update_acl};
pub(super) use connections::{
    all_producers, consumer_connections, groups_of_topic, producer_connections, subscription, topics_of_group,
};
pub(super) use groups::{all_groups, delete_group, forbidden, group, is_forbidden, put_group, put_groups};
pub(super) use legacy::{acl_config, acl_version, delete_account, put_account, put_white_addresses};
pub(super) use offsets::{all_consumer_offsets, all_delay_offsets, clone_offsets, correction, reset};
pub(super) use progress::{broker_consume_stats, consume_stats, consume_time_span, topic_stats};
#[cfg(feature = "fuzz")]
pub(super) use properties::read as read_properties;
pub(super) use queues::queue_entries;
pub(super) use relay::{consume_directly, consumer_status, running_info};
pub(super) use resets::Resets;
pub(super) use runtime::{cleaned, ha_status, runtime_info, statistics};
pub(super) use settings::{Settings, broker_config, names_config, put_broker_config, put_names_config};
pub(super) use topics::{all_topics, delete_topic, put_topic, put_topics, topic};
pub(super) use unsupported::unsupported;
pub(super) use users::{create_user, delete_user, get_user, list_users, update_user};
