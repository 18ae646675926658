//! Receives over Remoting as a push consumer does: by pulling every queue.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use bytes::Bytes;
use redstart_wire::remoting::{Command, code, take_body};

use super::{
    RECONNECT_AFTER, SWEEP,
    client::{Client, For, Queue, TIMEOUT, succeeded},
    line::Line,
};
use crate::{
    Common, Server,
    consume::{From, Receiving},
    driver::{Each, Received},
    load::Meter,
};

/// System flag of a pull: it commits the offset, the broker may hold it, and it carries the subscription.
const FLAGS: i32 = 1 | 2 | 4;
/// Values of Java's push consumer: how long the broker holds a pull, and how long the client waits for the answer.
const HELD: Duration = Duration::from_secs(15);
const PULL_TIMEOUT: Duration = Duration::from_secs(30);
const STORE_INTERVAL: Duration = Duration::from_secs(5);
const BATCH_USUAL: usize = 32;
/// Request numbers from here on belong to offset commits; a pull has the number of its queue.
const STORES: i32 = 1 << 24;

/// Reads some queues of a broker over one connection, with one pull in flight for each queue.
#[derive(Debug)]
pub struct Puller {
    server: Server,
    queues: Vec<Pulled>,
    stored_at: Instant,
}

/// One queue and its next offset.
#[derive(Debug)]
struct Pulled {
    pull: Command,
    store: Command,
    offset: i64,
    stored: i64,
    /// Start of the pull in flight, if there is one.
    began: Option<Instant>,
}

/// All queues of the topics, divided among the clients.
pub async fn pullers(
    common: &Common,
    topics: &[String],
    receiving: &Receiving,
) -> anyhow::Result<Vec<Puller>> {
    let mut pullers = Vec::new();
    let server = common.target.server()?;
    for number in 0..common.connections {
        let mut client = Client::open(&server, common.target.serialization.into()).await?;
        let mut brokers: BTreeMap<String, Vec<Pulled>> = BTreeMap::new();
        for topic in topics {
            let queues = client.queues(topic, For::Reading).await?;
            for queue in queues.into_iter().skip(number).step_by(common.connections) {
                let pulled = Pulled::open(&client, &queue, receiving).await?;
                brokers.entry(queue.connection.address().to_owned()).or_default().push(pulled);
            }
        }
        pullers.extend(brokers.into_iter().map(|(address, queues)| Puller {
            server: client.server(address),
            queues,
            stored_at: Instant::now(),
        }));
    }
    Ok(pullers)
}

impl Pulled {
    async fn open(client: &Client, queue: &Queue, receiving: &Receiving) -> anyhow::Result<Pulled> {
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
        let store = of_group(code::UPDATE_CONSUMER_OFFSET);
        Ok(Pulled { pull, store, offset, stored: -1, began: None })
    }

    fn pull(&mut self, opaque: i32) -> Command {
        self.began = Some(Instant::now());
        let request = self.pull.clone().with_field("queueOffset", self.offset);
        Command { opaque, ..request.with_field("commitOffset", self.offset) }
    }

    /// The messages of an answer; the next pull starts after them.
    fn take(&mut self, answer: Command) -> anyhow::Result<Vec<Received>> {
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
}

impl Puller {
    /// Receives until the load ends.
    pub async fn run(mut self, meter: Arc<Meter>, each: impl Each) {
        while !meter.stopping() {
            if let Err(error) = self.talk(&meter, &each).await {
                meter.failed(&format!("{error:#}"));
                self.queues.iter_mut().for_each(|queue| queue.began = None);
                drop(tokio::time::timeout(RECONNECT_AFTER, meter.stopped()).await);
            }
        }
    }

    async fn talk(&mut self, meter: &Meter, each: &impl Each) -> anyhow::Result<()> {
        let mut line = Line::open(&self.server).await?;
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            line.write().await?;
            tokio::select! {
                read = line.read() => {
                    read?;
                    while let Some(answer) = line.answer()? {
                        self.take(answer, &mut line, meter, each);
                    }
                }
                _ = sweep.tick() => self.sweep(&mut line, meter),
                // A pull that the broker holds is dropped when the load ends.
                () = meter.stopped() => return self.leave(line).await,
            }
        }
    }

    fn take(&mut self, answer: Command, line: &mut Line, meter: &Meter, each: &impl Each) {
        let number = answer.opaque;
        let pulled = usize::try_from(number).ok().and_then(|n| self.queues.get_mut(n));
        let taken = match pulled.and_then(|queue| queue.began.take().map(|began| (queue, began))) {
            Some((queue, began)) => queue.take(answer).map(|received| {
                if !received.is_empty() {
                    each(meter, &received, began);
                }
                line.put(queue.pull(number));
            }),
            None => succeeded(answer).map(drop),
        };
        // The next sweep tries a queue again whose pull was refused.
        taken.unwrap_or_else(|error| meter.failed(&format!("{error:#}")));
    }

    /// Starts missing pulls, fails those that have timed out, and commits offsets when they are due.
    fn sweep(&mut self, line: &mut Line, meter: &Meter) {
        for (n, queue) in (0..).zip(&mut self.queues) {
            if queue.began.is_some_and(|began| began.elapsed() > PULL_TIMEOUT) {
                meter.failed(&format!("a pull was not answered within {} s", PULL_TIMEOUT.as_secs()));
                queue.began = None;
            }
            if queue.began.is_none() {
                line.put(queue.pull(n));
            }
        }
        if self.stored_at.elapsed() >= STORE_INTERVAL {
            self.store(line);
        }
    }

    /// Commits the offsets of the queues; returns the number of commits.
    fn store(&mut self, line: &mut Line) -> usize {
        self.stored_at = Instant::now();
        let mut count = 0;
        for (n, queue) in (STORES..).zip(&mut self.queues) {
            if queue.stored != queue.offset {
                queue.stored = queue.offset;
                let request = queue.store.clone().with_field("commitOffset", queue.offset);
                line.put(Command { opaque: n, ..request });
                count += 1;
            }
        }
        count
    }

    /// Commits the last offsets and waits for the answers.
    async fn leave(&mut self, mut line: Line) -> anyhow::Result<()> {
        let mut waiting = self.store(&mut line);
        line.write().await?;
        let stored = async {
            while waiting > 0 {
                line.read().await?;
                while let Some(answer) = line.answer()? {
                    if answer.opaque >= STORES {
                        succeeded(answer).context("cannot store the offset")?;
                        waiting -= 1;
                    }
                }
            }
            Ok(())
        };
        tokio::time::timeout(TIMEOUT, stored).await.context("cannot store the offset: no answer")?
    }
}

/// The bodies of an answer's messages.
fn bodies(mut records: Bytes) -> anyhow::Result<Vec<Received>> {
    let mut received = Vec::with_capacity(BATCH_USUAL);
    while !records.is_empty() {
        let Some(body) = take_body(&mut records) else {
            bail!("the answer holds something that is no message")
        };
        received.push(Received { body, receipt: None });
    }
    Ok(received)
}
