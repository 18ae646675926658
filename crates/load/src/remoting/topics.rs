//! Creates the topics of a load.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use redstart_wire::remoting::{Serialization, body::ClusterInfo, code};

use super::client::{Client, TIMEOUT, json, succeeded};
use crate::Server;

/// How long a broker may take to register a new topic with the name server.
const KNOWN_MAX: Duration = Duration::from_secs(40);

/// Creates the missing topics on every broker and waits until the name server knows them.
pub async fn create_topics(
    name_server: &Server,
    topics: &[String],
    queues: u32,
    message_type: &str,
) -> anyhow::Result<()> {
    let mut client = Client::open(name_server, Serialization::Json).await?;
    for topic in topics {
        if client.route(topic).await?.is_some() {
            continue;
        }
        for address in masters(&client).await? {
            let request = client
                .request(code::UPDATE_AND_CREATE_TOPIC)
                .with_field("topic", topic)
                .with_field("defaultTopic", "TBW102")
                .with_field("readQueueNums", queues)
                .with_field("writeQueueNums", queues)
                .with_field("perm", 6)
                .with_field("topicFilterType", "SINGLE_TAG")
                .with_field("topicSysFlag", 0)
                .with_field("order", false)
                .with_field("attributes", format!("+message.type={message_type}"));
            let answer = client.broker(&address).await?.call(request, TIMEOUT).await?;
            succeeded(answer).with_context(|| format!("cannot create topic {topic} at {address}"))?;
        }
        let made = Instant::now();
        while client.route(topic).await?.is_none() {
            ensure!(made.elapsed() < KNOWN_MAX, "the name server does not come to know topic {topic}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Addresses of all brokers that can be written to.
async fn masters(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let answer = client.ask_names(client.request(code::GET_BROKER_CLUSTER_INFO)).await?;
    let cluster: ClusterInfo = json(&answer)?;
    let masters =
        cluster.broker_addr_table.into_values().filter_map(|mut broker| broker.broker_addrs.remove("0"));
    let masters: BTreeSet<String> = masters.collect();
    ensure!(!masters.is_empty(), "the name server knows no broker");
    Ok(masters)
}
