//! The protocols as a load sees them: something to send with and something to receive from.

use std::sync::Arc;

use anyhow::ensure;
use bytes::Bytes;
use clap::ValueEnum;
use futures_util::future::join_all;

use super::{
    Common,
    consume::{From, Receiving},
    grpc,
    produce::Messages,
    remoting,
};

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

/// Makes the topics if that is asked for.
pub async fn prepare(common: &Common, messages: Option<&Messages>) -> anyhow::Result<()> {
    if !common.create {
        return Ok(());
    }
    let message_type = messages.map_or("NORMAL", Messages::topic_type);
    remoting::create_topics(common.target.name_server(), &common.topic_names(), common.queues, message_type)
        .await
}

/// A client that sends.
#[derive(Debug)]
pub enum Producer {
    Grpc(Box<grpc::Client>),
    Remoting(Box<remoting::Producer>),
}

impl Producer {
    pub async fn open(common: &Common, number: usize) -> anyhow::Result<Producer> {
        let topics = common.topic_names();
        Ok(match common.target.protocol {
            Protocol::Grpc => {
                let client = grpc::Client::producer(common.target.server(), &topics, number).await?;
                Producer::Grpc(Box::new(client))
            }
            Protocol::Remoting => {
                let serialization = common.target.serialization.into();
                let client = remoting::Client::open(common.target.server(), serialization).await?;
                let producer = remoting::Producer::open(client, &topics, number).await?;
                Producer::Remoting(Box::new(producer))
            }
        })
    }

    /// Sends as many messages in one call, all with this body.
    pub async fn send(&self, messages: &Messages, body: Bytes, count: u64) -> anyhow::Result<()> {
        match self {
            Producer::Grpc(client) => client.send(messages, body, count).await,
            Producer::Remoting(producer) => producer.send(messages, body, count).await,
        }
    }
}

/// A message that was received, as far as it matters here.
#[derive(Debug)]
pub struct Received {
    pub body: Bytes,
    /// What its acknowledgement says; a pulled message has none of its own.
    pub receipt: Option<grpc::Receipt>,
}

/// Receives one call after the other.
#[derive(Debug)]
pub enum Receiver {
    Grpc(grpc::Receiver),
    Remoting(Box<remoting::Puller>),
}

impl Receiver {
    /// All receivers of a load: as many as were asked for, or one for each queue where clients read queues.
    pub async fn open_all(common: &Common, receiving: &Receiving) -> anyhow::Result<Vec<Receiver>> {
        let topics = common.topic_names();
        if common.target.protocol == Protocol::Remoting {
            let pullers = remoting::pullers(common, &topics, receiving).await?;
            return Ok(pullers.into_iter().map(Box::new).map(Receiver::Remoting).collect());
        }
        ensure!(
            receiving.from == From::Stored,
            "--from is for Remoting: over gRPC the server knows the offsets"
        );
        let mut clients = Vec::with_capacity(common.connections);
        for number in 0..common.connections {
            let client = grpc::Client::consumer(common.target.server(), &topics, &receiving.group, number);
            clients.push(Arc::new(client.await?));
        }
        // Every topic needs one.
        let receivers = receiving.receivers.max(topics.len());
        let receiver =
            |n| grpc::Receiver::new(&clients[n % clients.len()], n % topics.len(), receiving.batch);
        Ok((0..receivers).map(receiver).map(Receiver::Grpc).collect())
    }

    /// Makes the group known to the server: from here on all messages are for it.
    pub async fn join(&mut self) -> anyhow::Result<()> {
        match self {
            Receiver::Grpc(receiver) => receiver.join().await,
            Receiver::Remoting(_) => Ok(()),
        }
    }

    /// Waits for messages; there may be none.
    pub async fn receive(&mut self) -> anyhow::Result<Vec<Received>> {
        match self {
            Receiver::Grpc(receiver) => receiver.receive().await,
            Receiver::Remoting(puller) => puller.receive().await,
        }
    }

    /// Says that the messages are done; `each` sees every one that is, and why it is not if that fails.
    pub async fn settle(
        &mut self,
        received: &[Received],
        each: impl Fn(anyhow::Result<&Received>),
    ) -> anyhow::Result<()> {
        match self {
            Receiver::Grpc(receiver) => {
                let acks = received.iter().map(async |message| {
                    each(receiver.ack(message).await.map(|()| message));
                });
                join_all(acks).await;
                Ok(())
            }
            Receiver::Remoting(puller) => {
                received.iter().for_each(|message| each(Ok(message)));
                puller.store_when_due().await
            }
        }
    }

    /// Says the last word.
    pub async fn close(&mut self) -> anyhow::Result<()> {
        match self {
            Receiver::Grpc(_) => Ok(()),
            Receiver::Remoting(puller) => puller.store().await,
        }
    }
}
