use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use bytes::Bytes;
use redstart_client::Connection;
use redstart_wire::remoting::{Command, code, take_body};

use super::client::{Client, For, Queue, TIMEOUT, succeeded};
use crate::bench::{
    Common,
    consume::{From, Receiving},
    driver::Received,
};

/// Commits the offset, may be held, and brings its subscription along.
const FLAGS: i32 = 1 | 2 | 4;
/// As Java's push consumer has it: how long the broker holds a pull, and how long the client waits for it.
const HELD: Duration = Duration::from_secs(15);
const PULL_TIMEOUT: Duration = Duration::from_secs(30);
const STORE_INTERVAL: Duration = Duration::from_secs(5);

/// Reads one queue, a pull after the other.
#[derive(Debug)]
pub struct Puller {
    connection: Arc<Connection>,
    pull: Command,
    store: Command,
    offset: i64,
    stored: i64,
    stored_at: Instant,
}

/// One for each queue of the topics, shared out among the connections.
pub async fn pullers(
    common: &Common,
    topics: &[String],
    receiving: &Receiving,
) -> anyhow::Result<Vec<Puller>> {
    let mut clients = Vec::with_capacity(common.connections);
    for _ in 0..common.connections {
        clients.push(Client::open(common.target.server(), common.target.serialization.into()).await?);
    }
    let mut pullers = Vec::new();
    for topic in topics {
        let count = clients[0].queues(topic, For::Reading).await?.len();
        for n in 0..count {
            let client = &mut clients[n % common.connections];
            // Through this client's own connection to the broker.
            let queues = client.queues(topic, For::Reading).await?;
            let queue = queues.into_iter().nth(n).context("the topic lost a queue")?;
            pullers.push(Puller::open(client, &queue, receiving).await?);
        }
    }
    Ok(pullers)
}

impl Puller {
    async fn open(client: &Client, queue: &Queue, receiving: &Receiving) -> anyhow::Result<Puller> {
        let of_queue = |code| {
            let request = client.request(code).with_field("topic", &queue.topic);
            request.with_field("queueId", queue.id).with_field("bname", &queue.broker)
        };
        let of_group = |code| of_queue(code).with_field("consumerGroup", &receiving.group);
        let ask = async |request| queue.connection.call(request, TIMEOUT).await;
        let bound = async |code| -> anyhow::Result<i64> {
            Ok(succeeded(ask(of_queue(code)).await?)?.number("offset")?)
        };
        let offset = match receiving.from {
            From::Earliest => bound(code::GET_MIN_OFFSET).await?,
            From::Latest => bound(code::GET_MAX_OFFSET).await?,
            From::Stored => match ask(of_group(code::QUERY_CONSUMER_OFFSET)).await? {
                unknown if unknown.code == code::QUERY_NOT_FOUND => bound(code::GET_MAX_OFFSET).await?,
                answer => succeeded(answer)?.number("offset")?,
            },
        };
        let pull = of_group(code::PULL_MESSAGE)
            .with_field("maxMsgNums", receiving.batch)
            .with_field("sysFlag", FLAGS)
            .with_field("suspendTimeoutMillis", HELD.as_millis())
            .with_field("subscription", "*")
            .with_field("subVersion", 0)
            .with_field("expressionType", "TAG")
            .with_field("maxMsgBytes", i32::MAX);
        Ok(Puller {
            connection: queue.connection.clone(),
            pull,
            store: of_group(code::UPDATE_CONSUMER_OFFSET),
            offset,
            stored: -1,
            stored_at: Instant::now(),
        })
    }

    pub async fn receive(&mut self) -> anyhow::Result<Vec<Received>> {
        let request = self.pull.clone().with_field("queueOffset", self.offset);
        let request = request.with_field("commitOffset", self.offset);
        let answer = self.connection.call(request, PULL_TIMEOUT).await?;
        match answer.code {
            code::SUCCESS => {
                let received = bodies(answer.body.clone())?;
                self.offset = answer.number("nextBeginOffset")?;
                Ok(received)
            }
            code::PULL_NOT_FOUND | code::PULL_RETRY_IMMEDIATELY | code::PULL_OFFSET_MOVED => {
                self.offset = answer.number("nextBeginOffset")?;
                Ok(Vec::new())
            }
            _ => succeeded(answer).map(|_| Vec::new()),
        }
    }

    /// Stores where the group stands, from time to time.
    pub async fn store_when_due(&mut self) -> anyhow::Result<()> {
        if self.stored_at.elapsed() < STORE_INTERVAL {
            return Ok(());
        }
        self.stored_at = Instant::now();
        self.store().await
    }

    pub async fn store(&mut self) -> anyhow::Result<()> {
        if self.stored == self.offset {
            return Ok(());
        }
        let request = self.store.clone().with_field("commitOffset", self.offset);
        succeeded(self.connection.call(request, TIMEOUT).await?).context("cannot store the offset")?;
        self.stored = self.offset;
        Ok(())
    }
}

/// The bodies of an answer's messages.
fn bodies(mut records: Bytes) -> anyhow::Result<Vec<Received>> {
    let mut received = Vec::new();
    while !records.is_empty() {
        let Some(body) = take_body(&mut records) else {
            bail!("the answer holds something that is no message")
        };
        received.push(Received { body, receipt: None });
    }
    Ok(received)
}
