//! A request and its answer, as handlers see them.

use std::{
    fmt::Display,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use redstart_auth::Actions;
use redstart_engine::{Engine, GroupName, Ticket, Timestamp, TopicId};
use redstart_wire::remoting::{Command, FieldValue, Fields, code, from_slice};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    Context,
    admission::Admitted,
    audit,
    peer::{Outgoing, Peer},
    refusal::Refusal,
    unreadable_body,
};
use crate::{
    access::{Access, Identity, Needs},
    byte_budget::Grant,
    handover::Handover,
};

/// Values of this size are not counted: the requests that a connection may have under way bound them.
const DECODED_UNCOUNTED: usize = 16 << 10;

/// The most memory that the values of a JSON body may take, roughly: its texts, a structure for each object or list, a number or the
/// head of a text for each further value.
fn decoded_bytes(body: &[u8]) -> usize {
    const STRUCTURE: usize = 160;
    const VALUE: usize = 24;
    let values = body.iter().map(|byte| match byte {
        b'{' | b'[' => STRUCTURE,
        b',' => VALUE,
        _ => 0,
    });
    body.len() + values.sum::<usize>()
}

/// A request as it was read: the command, the connection it came over, and everything a handler may need.
#[derive(Debug)]
pub(super) struct Received {
    pub command: Command,
    pub peer: Arc<Peer>,
    pub context: Arc<Context>,
}

impl Received {
    pub fn access(&self) -> &Access {
        &self.context.node.config.resources.access
    }
}

impl std::ops::Deref for Received {
    type Target = Command;

    fn deref(&self) -> &Command {
        &self.command
    }
}

/// What a handler is given: a request that was admitted.
#[derive(Debug)]
pub(super) struct Request {
    received: Received,
    admitted: Admitted,
    /// Held for the values of its body, until it is answered.
    decoded: OnceLock<Grant>,
}

impl std::ops::Deref for Request {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}

impl Request {
    pub fn new(received: Received, admitted: Admitted) -> Request {
        Request { received, admitted, decoded: OnceLock::new() }
    }

    pub fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    pub fn identity(&self) -> &Identity {
        self.admitted.identity()
    }

    /// What it is about if it is a change that an administrator makes.
    pub fn changed_objects(&self) -> Option<&[String]> {
        self.admitted.changes()
    }

    /// Asks for rights that only its handler knows the request to need, because it had to look for a message first.
    pub fn check(&self, needs: &Needs<'_>) -> Result<(), Refusal> {
        let allowed = self.access().authorize(self.identity(), needs);
        Ok(allowed.inspect_err(|why| audit::denied(self, self.identity(), Some(needs), &why.to_string()))?)
    }

    /// The same for the topic of a message that the handler has found.
    pub async fn check_topic(&self, topic: TopicId, actions: Actions) -> Result<(), Refusal> {
        if !self.access().is_on() {
            return Ok(());
        }
        // A message whose topic is gone is nobody's.
        let name = self.ask(move |engine, _| engine.topic_name_of(topic)).await?;
        let needs = name
            .map_or_else(Needs::super_user, |name| Needs::nothing().topic(name.as_str().to_owned(), actions));
        self.check(&needs)
    }

    /// Changes users or policies, durably. They decide from the moment this returns. `propose` sees all changes before it.
    pub async fn change_access(
        &self,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<Ticket, Refusal> + Send + 'static,
    ) -> Result<(), Refusal> {
        Ok(self.access().change(&self.context.node.shards.first().handle, propose).await?)
    }

    /// The body as JSON. Its values count as bytes of the connection, since they may be many times as large as the body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let bytes = decoded_bytes(&self.command.body);
        if bytes > DECODED_UNCOUNTED {
            // A request has one body: a handler that decodes it again holds one grant for it.
            let _ = self.decoded.set(self.peer.account.try_grant(bytes)?);
        }
        from_slice(&self.command.body).map_err(|error| {
            unreadable_body::warn(self, &error);
            Refusal::invalid(format!("the body cannot be read: {error}"))
        })
    }

    pub fn group(&self, field: &'static str) -> Result<GroupName, Refusal> {
        Ok(GroupName::new(self.command.required(field)?)?)
    }

    /// The broker's address for this client, as messages and offset ids carry it.
    pub fn broker_address(&self) -> SocketAddr {
        self.context.broker_address(self.peer.local)
    }

    /// Runs a short operation on the engine.
    pub async fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.context.shard.ask(ask)?.await?)
    }

    /// The same on the first shard, which has what concerns the whole node.
    pub async fn ask_first<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.context.node.shards.first().handle.ask(ask)?.await?)
    }

    /// Runs a closure that records facts, such as acks.
    pub async fn record<R: Send + 'static>(
        &self,
        record: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.context.shard.record(record)?.await?)
    }

    /// Runs a query that may need parts of the log that are not in memory. It may run more than once.
    pub async fn look<R: Send + 'static>(
        &self,
        ask: impl Fn(&Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.context.shard.query(ask)?.await?)
    }

    /// Runs a very short operation on the engine, if possible in this task without a switch to the owner thread.
    pub async fn ask_here<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.context.shard.ask_here(ask)?.await?)
    }

    /// Proposes a decision and waits until it is durable.
    pub async fn change<E: Into<Refusal> + Send + 'static>(
        &self,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<Ticket, E> + Send + 'static,
    ) -> Result<(), Refusal> {
        Ok(self.context.shard.change(propose)?.await??)
    }

    /// The same on the first shard.
    pub async fn change_first<E: Into<Refusal> + Send + 'static>(
        &self,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<Ticket, E> + Send + 'static,
    ) -> Result<(), Refusal> {
        Ok(self.context.node.shards.first().handle.change(propose)?.await??)
    }

    /// Creates the group unless it exists, if the configuration allows it.
    pub async fn ensure_group(&self, group: &GroupName) -> Result<(), Refusal> {
        let known = {
            let group = group.clone();
            self.ask_here(move |engine| engine.group_id(&group).is_some()).await?
        };
        if known {
            return Ok(());
        }
        if !self.context.node.config.auto_create_groups {
            return Err(Refusal::unknown_group(group.as_str()));
        }
        Ok(self.context.node.shards.ensure_group(group).await?)
    }
}

/// The answer of a handler.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub code: i32,
    pub remark: Option<String>,
    pub fields: Fields,
    pub body: Bytes,
    /// Bytes that were granted for the body before it was read, in addition to the grant of the request.
    pub grant: Option<Grant>,
    /// The messages that it delivers; they go back to their queues unless it is written.
    pub handover: Option<Handover>,
}

impl Answer {
    pub fn new(code: i32) -> Answer {
        Answer { code, ..Answer::default() }
    }

    pub fn ok() -> Answer {
        Answer::new(code::SUCCESS)
    }

    pub fn json(body: &impl Serialize) -> Answer {
        // Serialization fails only for maps whose keys are not text, and there are none.
        Answer::ok().with_body(serde_json::to_vec(body).unwrap_or_default())
    }

    pub fn with(mut self, name: &str, value: impl Display) -> Answer {
        self.fields.insert(name, value);
        self
    }

    /// Adds a field that is known not to exist yet.
    pub fn and(mut self, name: &str, value: impl FieldValue) -> Answer {
        self.fields.add(name, value);
        self
    }

    pub fn with_body(mut self, body: impl Into<Bytes>) -> Answer {
        self.body = body.into();
        self
    }

    /// The command that answers `request`. `grant` is that of the request.
    pub fn outgoing(self, request: &Command, mut grant: Grant) -> Outgoing {
        let Answer { code, remark, fields, body, grant: own, handover } = self;
        let command = Command { fields, body, ..request.answer(code, remark) };
        if let Some(own) = own {
            grant.merge(own);
        }
        Outgoing { command, grant, handover }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Answer { remark: Some(refusal.remark), ..Answer::new(refusal.code) }
    }
}
