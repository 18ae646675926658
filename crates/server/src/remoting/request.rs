use std::{fmt::Display, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use redstart_engine::{Engine, GroupName, Ticket, Timestamp};
use redstart_wire::remoting::{Command, FieldValue, Fields, code, from_slice};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    Context,
    peer::{Outgoing, Peer},
    refusal::Refusal,
    unreadable,
};
use crate::{byte_budget::Grant, handover::Handover};

/// What a handler is given: the command, who sent it, and everything it may need.
#[derive(Debug)]
pub(super) struct Request {
    pub command: Command,
    pub peer: Arc<Peer>,
    pub context: Arc<Context>,
}

impl std::ops::Deref for Request {
    type Target = Command;

    fn deref(&self) -> &Command {
        &self.command
    }
}

impl Request {
    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        from_slice(&self.command.body).map_err(|error| {
            unreadable::warn(self, &error);
            Refusal::invalid(format!("the body is not what it should be: {error}"))
        })
    }

    pub fn group(&self, field: &'static str) -> Result<GroupName, Refusal> {
        Ok(GroupName::new(self.command.required(field)?)?)
    }

    /// The broker as this client reaches it.
    pub fn broker_address(&self) -> SocketAddr {
        self.context.broker_address(self.peer.local)
    }

    /// Asks the shard something that is answered at once.
    pub async fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.context.shard.ask(ask)?.await?)
    }

    /// The same for something that changes nothing and may need parts of the log which are not in memory.
    pub async fn look<R: Send + 'static>(
        &self,
        ask: impl Fn(&Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.context.shard.look(ask)?.await?)
    }

    /// The same for something very short, which is asked without a hop to another thread if that is possible.
    pub async fn ask_here<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Engine) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.context.shard.ask_here(ask)?.await?)
    }

    /// Changes something, durably.
    pub async fn change<E: Into<Refusal> + Send + 'static>(
        &self,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<Ticket, E> + Send + 'static,
    ) -> Result<(), Refusal> {
        Ok(self.context.shard.change(propose)?.await??)
    }

    /// A group that consumes for the first time is made, if that is allowed.
    pub async fn ensure_group(&self, group: &GroupName) -> Result<(), Refusal> {
        let known = {
            let group = group.clone();
            self.ask_here(move |engine| engine.group_id(&group).is_some()).await?
        };
        if known {
            return Ok(());
        }
        if !self.context.config.auto_create_groups {
            return Err(Refusal::unknown_group(group.as_str()));
        }
        Ok(self.context.shard.ensure_group(group.clone())?.await??)
    }
}

/// What a handler answers.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub code: i32,
    pub remark: Option<String>,
    pub fields: Fields,
    pub body: Bytes,
    /// Bytes that were granted for the body before it was read; without it the request's own grant goes on.
    pub grant: Option<Grant>,
    /// The messages that it delivers; given back unless it is written.
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
        // Only maps with keys that are no text could fail, and there are none.
        Answer::ok().with_body(serde_json::to_vec(body).unwrap_or_default())
    }

    pub fn with(mut self, name: &str, value: impl Display) -> Answer {
        self.fields.insert(name, value);
        self
    }

    /// A field that is known not to be there yet.
    pub fn and(mut self, name: &str, value: impl FieldValue) -> Answer {
        self.fields.add(name, value);
        self
    }

    pub fn with_body(mut self, body: impl Into<Bytes>) -> Answer {
        self.body = body.into();
        self
    }

    /// What answers `request`, which held `grant`.
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
