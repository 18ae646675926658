//! Senders and receivers of either protocol behind one interface.

use std::{
    ops::Range,
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use bytes::Bytes;
use clap::ValueEnum;
use futures_util::future::join_all;

use super::{
    Common,
    consume::{From, Receiving},
    grpc,
    load::{Meter, Worker},
    produce::Messages,
    remoting,
};

/// Pause of a receiver after a failed call.
const RETRY_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    Grpc,
    Remoting,
}

impl Protocol {
    pub const fn default_server(self) -> &'static str {
        match self {
            Protocol::Grpc => "127.0.0.1:8081",
            Protocol::Remoting => "127.0.0.1:9876",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Grpc => "grpc",
            Protocol::Remoting => "remoting",
        }
    }
}

/// Creates the topics with `--create`.
pub async fn prepare(common: &Common, messages: Option<&Messages>) -> anyhow::Result<()> {
    if !common.create {
        return Ok(());
    }
    let message_type = messages.map_or("NORMAL", Messages::topic_type);
    remoting::create_topics(&common.target.name_server()?, &common.topic_names(), common.queues, message_type)
        .await
}

/// What a load sends, and with which parallelism.
#[derive(Debug, Clone)]
pub struct Sending {
    pub messages: Messages,
    /// Messages sent with one call.
    pub batch: u64,
    /// Calls in flight over all clients.
    pub in_flight: usize,
    /// Numbers of the clients.
    pub clients: Range<usize>,
}

/// Creates the body of a message that is due at this time.
pub trait Body: Fn(Instant) -> Bytes + Clone + Send + Sync + 'static {}

impl<F: Fn(Instant) -> Bytes + Clone + Send + Sync + 'static> Body for F {}

/// Records a call: the number of messages sent, and the time at which it was due.
pub type Done = fn(&Meter, u64, Instant);

/// The tasks that send until the load ends.
pub async fn senders(
    common: &Common,
    sending: &Sending,
    meter: &Arc<Meter>,
    body: impl Body,
    done: Done,
) -> anyhow::Result<Vec<Worker>> {
    if common.target.protocol == Protocol::Remoting {
        let pipelines = remoting::pipelines(common, sending).await?.into_iter();
        return Ok(pipelines
            .map(|pipeline| Box::pin(pipeline.run(meter.clone(), body.clone(), done)) as Worker)
            .collect());
    }
    let topics = common.topic_names();
    let server = common.target.server()?;
    let mut clients = Vec::with_capacity(sending.clients.len());
    for number in sending.clients.clone() {
        let client = grpc::Client::producer(&server, &topics, number);
        clients.push(Arc::new(client.await?));
    }
    let sender = |n: usize| {
        let (client, meter, body) = (clients[n % clients.len()].clone(), meter.clone(), body.clone());
        let (messages, batch) = (sending.messages.clone(), sending.batch);
        Box::pin(async move {
            while !meter.stopping() {
                let due = meter.turn().await;
                match client.send(&messages, body(due), batch).await {
                    Ok(()) => done(&meter, batch, due),
                    Err(error) => meter.failed(&format!("{error:#}")),
                }
            }
        }) as Worker
    };
    Ok((0..sending.in_flight).map(sender).collect())
}

/// The parts of a received message that a load uses.
#[derive(Debug)]
pub struct Received {
    pub body: Bytes,
    /// The handle for its acknowledgement; pulled messages have none.
    pub receipt: Option<grpc::Receipt>,
}

/// Called with messages that were acknowledged together and the start of their receive call.
pub trait Each: Fn(&Meter, &[Received], Instant) + Clone + Send + Sync + 'static {}

impl<F: Fn(&Meter, &[Received], Instant) + Clone + Send + Sync + 'static> Each for F {}

/// The receivers of a load: over gRPC as many as were given, over Remoting one for each share of the queues.
#[derive(Debug)]
pub enum Receivers {
    Grpc(Vec<grpc::Receiver>),
    Remoting(Vec<remoting::Puller>),
}

impl Receivers {
    pub async fn open(common: &Common, receiving: &Receiving) -> anyhow::Result<Receivers> {
        let topics = common.topic_names();
        if common.target.protocol == Protocol::Remoting {
            return Ok(Receivers::Remoting(remoting::pullers(common, &topics, receiving).await?));
        }
        ensure!(
            receiving.from == From::Stored,
            "--from is for Remoting: over gRPC the server knows the offsets"
        );
        let server = common.target.server()?;
        let mut clients = Vec::with_capacity(common.connections);
        for number in 0..common.connections {
            let client = grpc::Client::consumer(&server, &topics, &receiving.group, number);
            clients.push(Arc::new(client.await?));
        }
        // Every topic needs a receiver.
        let count = receiving.receivers.max(topics.len());
        let receiver =
            |n| grpc::Receiver::new(&clients[n % clients.len()], n % topics.len(), receiving.batch);
        Ok(Receivers::Grpc((0..count).map(receiver).collect()))
    }

    /// Receives once, so that the server creates the group: it then gets every message that is sent afterwards.
    pub async fn join(&mut self) -> anyhow::Result<()> {
        if let Receivers::Grpc(receivers) = self {
            for receiver in receivers {
                receiver.join().await?;
            }
        }
        Ok(())
    }

    /// The tasks that receive until the load ends.
    pub fn workers(self, meter: &Arc<Meter>, each: impl Each) -> Vec<Worker> {
        match self {
            Receivers::Grpc(receivers) => receivers
                .into_iter()
                .map(|receiver| Box::pin(receive(receiver, meter.clone(), each.clone())) as Worker)
                .collect(),
            Receivers::Remoting(pullers) => pullers
                .into_iter()
                .map(|puller| Box::pin(puller.run(meter.clone(), each.clone())) as Worker)
                .collect(),
        }
    }
}

async fn receive(receiver: grpc::Receiver, meter: Arc<Meter>, each: impl Each) {
    let failed = |error: anyhow::Error| meter.failed(&format!("{error:#}"));
    while !meter.stopping() {
        let began = Instant::now();
        // A receive that waits for a message is dropped when the load ends.
        let received = tokio::select! {
            received = receiver.receive() => received,
            () = meter.stopped() => break,
        };
        match received {
            Ok(received) => {
                let acks = received.iter().map(async |message| match receiver.ack(message).await {
                    Ok(()) => each(&meter, slice::from_ref(message), began),
                    Err(error) => failed(error),
                });
                join_all(acks).await;
            }
            Err(error) => {
                failed(error);
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}
