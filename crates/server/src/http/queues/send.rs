//! Send, and the recall of a delayed message.

use http::StatusCode;
use hyper::body::Incoming;
use redstart_engine::{Message, SendError, SendOptions, SendReceipt, TopicName, Visibility};
use serde::{Deserialize, Serialize};

use super::{
    super::{
        answer::{Answer, json},
        body::{self, BodyLimits},
        call::Call,
        refusal::Refusal,
    },
    SMALL_BODY_BYTES_MAX, Served, State, media_type,
    message::{Draft, Drafts, Origin},
    read_json,
    refusals::unknown_handle,
};
use crate::{
    grpc::auto_created,
    scope::{HandleKind, ScopedError, check_topic},
    shard::{Clock, SendFailure, SystemClock},
    shards::ServedShard,
};

/// Where a message was stored.
#[derive(Debug, Serialize)]
struct Stored<'a> {
    id: String,
    broker: &'a str,
    queue: u32,
    /// `null` for a message that is not in its queue yet.
    offset: Option<u64>,
    /// By which a delayed message can be recalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    recall_handle: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recall {
    handle: String,
}

#[derive(Debug, Serialize)]
struct Recalled {
    recalled: bool,
}

impl State {
    pub(super) async fn send(
        &self,
        served: &Served,
        call: Call,
        body: Incoming,
        topic: &str,
    ) -> Result<Answer, Refusal> {
        let topic = TopicName::new(topic)?;
        topic.not_reserved()?;
        let is_json = media_type(&call.head)?.is_some_and(|kind| kind == "application/json");
        let bytes_max = if is_json { self.json_bytes_max() } else { self.message_bytes_max };
        let limits = BodyLimits { bytes_max, timeout: call.limits.idle_timeout };
        let (body, _grant) = body::read(body, &call.caller, limits).await?;
        // What JSON becomes when it is decoded is in memory beside it.
        let _decoded = if is_json { Some(call.caller.account.grant(body.len()).await?) } else { None };
        let drafts = match is_json {
            true => Drafts::from_json(&body)?,
            false => Drafts::One(Box::new(Draft::from_raw(&call.head.headers, body)?)),
        };
        let origin = Origin { remote: call.caller.remote, now: SystemClock.now() };
        match drafts {
            Drafts::One(draft) => {
                let stored = store(served, topic, vec![draft.into_message(origin)?]).await?;
                Ok(json(StatusCode::OK, &stored.first()))
            }
            Drafts::Many(drafts) => {
                let messages = drafts.into_iter().map(|draft| draft.into_message(origin));
                let stored = store(served, topic, messages.collect::<Result<_, _>>()?).await?;
                Ok(json(StatusCode::OK, &stored))
            }
        }
    }

    pub(super) async fn recall(
        &self,
        served: &Served,
        call: Call,
        body: Incoming,
        topic: &str,
    ) -> Result<Answer, Refusal> {
        let topic = TopicName::new(topic)?;
        let limits = BodyLimits { bytes_max: SMALL_BODY_BYTES_MAX, timeout: call.limits.idle_timeout };
        let (body, _grant) = body::read(body, &call.caller, limits).await?;
        let Recall { handle } = read_json(&body)?;
        let (number, made_for, key) = served.signer.read_recall(&handle).ok_or_else(unknown_handle)?;
        let shard = served.shards.get(number).ok_or_else(unknown_handle)?;
        let recalled = shard.handle.change(move |engine, now| {
            check_topic(engine, HandleKind::Recall, made_for, &topic).map_err(ScopedError::OutOfScope)?;
            engine.recall(key, now).map_err(ScopedError::Engine)
        })?;
        recalled.await??;
        Ok(json(StatusCode::OK, &Recalled { recalled: true }))
    }
}

/// Stores messages, all or none.
async fn store(
    served: &Served,
    topic: TopicName,
    messages: Vec<Message>,
) -> Result<Vec<Stored<'_>>, Refusal> {
    let shard = one_shard(served, &topic, &messages)?;
    let ids: Vec<String> = messages.iter().map(|message| message.id.clone()).collect();
    // Cloning is cheap: bodies are shared.
    let again = served.pull_consumers.creates_topics().then(|| messages.clone());
    let options = SendOptions::default();
    let receipts = match (shard.handle.send(topic.clone(), messages, options)?.await?, again) {
        (Err(SendFailure::Refused(SendError::UnknownTopic { .. })), Some(messages)) => {
            served.shards.ensure_topic(shard, &topic, auto_created()).await?;
            shard.handle.send(topic, messages, options)?.await??
        }
        (sent, _) => sent?,
    };
    let stored = |(id, receipt)| Stored::new(served, shard, id, receipt);
    Ok(ids.into_iter().zip(receipts).map(stored).collect())
}

/// The shard that takes the messages of a request. They are stored all or none, so that it has to be one.
fn one_shard<'a>(
    served: &'a Served,
    topic: &TopicName,
    messages: &[Message],
) -> Result<&'a ServedShard, Refusal> {
    let [first, others @ ..] = messages else { return Err(Refusal::bad("bad_batch", "no message to send")) };
    let shard = served.shards.for_message(topic, first);
    let elsewhere = |message: &Message| {
        message.group.is_some() && served.shards.for_message(topic, message).number != shard.number
    };
    if !served.shards.is_single() && others.iter().any(elsewhere) {
        return Err(Refusal::bad("bad_batch", "the messages of a list must have the same message group"));
    }
    Ok(shard)
}

impl<'a> Stored<'a> {
    fn new(served: &Served, shard: &'a ServedShard, id: String, receipt: SendReceipt) -> Stored<'a> {
        let (offset, recall_handle) = match receipt.visibility {
            Visibility::Visible(offset) => (Some(offset.0), None),
            Visibility::Delayed(key) => {
                (None, Some(served.signer.recall(shard.number, receipt.queue.topic, key)))
            }
            // Nothing here sends half messages.
            Visibility::Half => (None, None),
        };
        Stored { id, broker: &shard.broker, queue: receipt.queue.queue.0, offset, recall_handle }
    }
}
