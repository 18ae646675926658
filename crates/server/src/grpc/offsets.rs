//! Reading by offset, for clients that keep their own progress.

use std::iter;

use redstart_engine::{FetchError, QueueId, QueueOffset, ResetTo, fetch};
use redstart_wire::v2::{
    Code, GetOffsetRequest, MessageQueue, PullMessageRequest, PullMessageResponse, QueryOffsetPolicy,
    QueryOffsetRequest, UpdateOffsetRequest, pull_message_response::Content,
};

use super::{
    convert::{Envelope, from_duration, from_timestamp, to_wire},
    receive::filter,
    service::{Answers, Service},
    settings::LONG_POLL_MAX,
    status::{Refusal, ok},
};
use crate::shard::PullRequest;

const PULL_BYTES_MAX: usize = 4 << 20;

fn queue_id(queue: &MessageQueue) -> Result<QueueId, Refusal> {
    let why = || Refusal::new(Code::BadRequest, "the queue id is negative");
    u32::try_from(queue.id).map(QueueId).map_err(|_| why())
}

fn queue_offset(offset: i64) -> Result<QueueOffset, Refusal> {
    let why = || Refusal::new(Code::IllegalOffset, "the offset is negative");
    u64::try_from(offset).map(QueueOffset).map_err(|_| why())
}

impl Service {
    pub(super) async fn pull(
        &self,
        request: PullMessageRequest,
    ) -> Result<Answers<PullMessageResponse>, Refusal> {
        let queue = request.message_queue.unwrap_or_default();
        let resource = queue.topic.clone().unwrap_or_default();
        let filter = filter(request.filter_expression.as_ref())?;
        let wait = request.long_polling_timeout.as_ref().and_then(from_duration).unwrap_or_default();
        let pull = PullRequest {
            topic: self.topic_name(Some(&resource))?,
            queue: queue_id(&queue)?,
            offset: queue_offset(request.offset)?,
            max: usize::try_from(request.batch_size).unwrap_or(0).clamp(1, 32),
            bytes_max: PULL_BYTES_MAX,
            filter: filter.clone(),
            wait: wait.min(LONG_POLL_MAX),
        };
        let pulled = self.shard.pull(pull)?.await??;
        let reader = self.shard.reader();
        // Bodies are read one by one, as the client takes them.
        let messages = pulled.messages.into_iter().filter_map(move |found| {
            let envelope = Envelope {
                topic: resource.clone(),
                queue_id: queue.id,
                queue_offset: found.offset.0 as i64,
                stored_at: found.stored_at,
                attempt: i32::from(found.attempt) + 1,
                ..Envelope::default()
            };
            let fetched = fetch(&*reader, found.position, found.size);
            match fetched.and_then(|fetched| Ok((filter.matches(&fetched.message()?), fetched))) {
                Ok((true, fetched)) => match to_wire(&fetched, envelope) {
                    Ok(message) => Some(Content::Message(message)),
                    Err(error) => skipped(&error),
                },
                Ok((false, _)) => None,
                Err(error) => skipped(&error),
            }
        });
        let next = Content::NextOffset(pulled.next.0 as i64);
        Ok(answers(iter::once(Content::Status(ok())).chain(messages).chain(iter::once(next))))
    }

    pub(super) async fn store_offset(&self, request: UpdateOffsetRequest) -> Result<(), Refusal> {
        let group = self.group_name(request.group.as_ref())?;
        let queue = request.message_queue.unwrap_or_default();
        let topic = self.topic_name(queue.topic.as_ref())?;
        let (queue, offset) = (queue_id(&queue)?, queue_offset(request.offset)?);
        self.ensure_group(&group).await?;
        self.ask(move |engine, _| engine.commit_offset(&group, &topic, queue, offset)).await??;
        Ok(())
    }

    pub(super) async fn stored_offset(&self, request: GetOffsetRequest) -> Result<i64, Refusal> {
        let group = self.group_name(request.group.as_ref())?;
        let queue = request.message_queue.unwrap_or_default();
        let topic = self.topic_name(queue.topic.as_ref())?;
        let queue = queue_id(&queue)?;
        let found = self.ask(move |engine, _| engine.consumer_offset(&group, &topic, queue)).await??;
        let none = || Refusal::new(Code::OffsetNotFound, "the group has not consumed this queue");
        found.map(|offset| offset.0 as i64).ok_or_else(none)
    }

    pub(super) async fn find_offset(&self, request: QueryOffsetRequest) -> Result<i64, Refusal> {
        let Ok(policy) = QueryOffsetPolicy::try_from(request.query_offset_policy) else {
            let why = format!("the offset policy {} is not known", request.query_offset_policy);
            return Err(Refusal::new(Code::BadRequest, why));
        };
        let queue = request.message_queue.unwrap_or_default();
        let topic = self.topic_name(queue.topic.as_ref())?;
        let queue = queue_id(&queue)?;
        let to = match (policy, request.timestamp) {
            (QueryOffsetPolicy::Beginning, _) => ResetTo::Earliest,
            (QueryOffsetPolicy::End, _) => ResetTo::Latest,
            (QueryOffsetPolicy::Timestamp, Some(at)) => ResetTo::Time(from_timestamp(&at)),
            (QueryOffsetPolicy::Timestamp, None) => {
                return Err(Refusal::new(Code::BadRequest, "a search by time needs a timestamp"));
            }
        };
        let found = self.ask(move |engine, _| engine.find_offset(&topic, queue, to)).await??;
        Ok(found.0 as i64)
    }
}

pub(super) fn refused(refusal: &Refusal) -> Answers<PullMessageResponse> {
    answers(iter::once(Content::Status(refusal.status())))
}

fn skipped(error: &FetchError) -> Option<Content> {
    tracing::error!(%error, "a message cannot be read and is skipped");
    None
}

fn answers(contents: impl Iterator<Item = Content> + Send + 'static) -> Answers<PullMessageResponse> {
    let responses = contents.map(|content| Ok(PullMessageResponse { content: Some(content) }));
    Box::pin(tokio_stream::iter(responses))
}
