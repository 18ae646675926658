//! Reading by offset, for clients that keep their own progress.

use std::{iter, sync::Arc};

use futures_util::{Stream, StreamExt as _, stream};
use redstart_engine::{FetchError, Filter, PulledMessage, QueueId, QueueOffset, ResetTo};
use redstart_wire::v2::{
    Code, GetOffsetRequest, Message, MessageQueue, PullMessageRequest, PullMessageResponse,
    QueryOffsetPolicy, QueryOffsetRequest, Resource, UpdateOffsetRequest, pull_message_response::Content,
};

use super::{
    admission::{Admitted, Refusable},
    answer::Part,
    audit,
    convert::{Envelope, from_duration, from_timestamp, to_wire},
    receive::filter,
    refusal::{Refusal, ok},
    rights::Needing as _,
    service::{Answers, Service},
    settings::LONG_POLL_MAX,
};
use crate::{
    byte_budget::{Account, Spent},
    shard::{Bodies, PullRequest},
};

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
        Admitted { caller, request, .. }: Admitted<'_, PullMessageRequest>,
    ) -> Result<Answers<PullMessageResponse>, Refusal> {
        let queue = request.message_queue.clone().unwrap_or_default();
        let resource = queue.topic.clone().unwrap_or_default();
        let filter = filter(request.filter_expression.as_ref())?;
        let wait = request.long_polling_timeout.as_ref().and_then(from_duration).unwrap_or_default();
        let from = queue_offset(request.offset)?;
        let shard = self.shard_of(Some(&queue))?;
        let pull = PullRequest {
            topic: self.topic_name(Some(&resource))?,
            queue: queue_id(&queue)?,
            offset: from,
            max: usize::try_from(request.batch_size).unwrap_or(0).clamp(1, 32),
            bytes_max: PULL_BYTES_MAX,
            filter: filter.clone(),
            wait: wait.min(LONG_POLL_MAX),
        };
        let pulled = shard.handle.pull(pull)?.await??;
        // It may have waited.
        self.admit_again(caller, audit::name_of::<PullMessageRequest>(), || request.needs())?;
        let next = pulled.next;
        let mut messages = Messages {
            bodies: shard.handle.bodies().clone(),
            found: pulled.messages.into_iter(),
            topic: resource,
            queue: queue.id,
            filter,
            account: caller.peer.account.clone(),
            unread: None,
            spent: None,
        };
        let first = messages.next().await;
        if let (None, Some(spent)) = (&first, messages.spent) {
            return Err(spent.into());
        }
        if let (None, Some(offset)) = (&first, messages.unread.filter(|offset| *offset == from)) {
            let why = format!("the message at offset {offset} cannot be read now, try again");
            return Err(Refusal::new(Code::InternalServerError, why));
        }
        let begin = stream::iter(iter::once(Part::small(Content::Status(ok()))).chain(first));
        let rest = stream::unfold((messages, false), move |(mut messages, ended)| async move {
            if ended {
                return None;
            }
            match messages.next().await {
                Some(message) => Some((message, (messages, false))),
                // The client continues at the first message that it was not given.
                None => {
                    let next = messages.unread.unwrap_or(next);
                    Some((Part::small(Content::NextOffset(next.0 as i64)), (messages, true)))
                }
            }
        });
        Ok(answers(begin.chain(rest)))
    }

    pub(super) async fn store_offset(&self, request: UpdateOffsetRequest) -> Result<(), Refusal> {
        let group = self.group_name(request.group.as_ref())?;
        let queue = request.message_queue.unwrap_or_default();
        let topic = self.topic_name(queue.topic.as_ref())?;
        let shard = self.shard_of(Some(&queue))?;
        let (queue, offset) = (queue_id(&queue)?, queue_offset(request.offset)?);
        self.ensure_group(&group).await?;
        self.record(shard, move |engine, _| engine.commit_offset(&group, &topic, queue, offset)).await??;
        Ok(())
    }

    pub(super) async fn stored_offset(&self, request: GetOffsetRequest) -> Result<i64, Refusal> {
        let group = self.group_name(request.group.as_ref())?;
        let queue = request.message_queue.unwrap_or_default();
        let topic = self.topic_name(queue.topic.as_ref())?;
        let shard = self.shard_of(Some(&queue))?;
        let queue = queue_id(&queue)?;
        let found = self.ask(shard, move |engine, _| engine.consumer_offset(&group, &topic, queue)).await??;
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
        let shard = self.shard_of(Some(&queue))?;
        let queue = queue_id(&queue)?;
        let to = match (policy, request.timestamp) {
            (QueryOffsetPolicy::Beginning, _) => ResetTo::Earliest,
            (QueryOffsetPolicy::End, _) => ResetTo::Latest,
            (QueryOffsetPolicy::Timestamp, Some(at)) => ResetTo::Time(from_timestamp(&at)),
            (QueryOffsetPolicy::Timestamp, None) => {
                return Err(Refusal::new(Code::BadRequest, "a search by time needs a timestamp"));
            }
        };
        let found = shard.handle.query(move |engine, _| engine.find_offset(&topic, queue, to))?.await??;
        Ok(found.0 as i64)
    }
}

/// The messages of a pull. Bodies are read one by one, as the client takes them.
struct Messages {
    bodies: Bodies,
    found: std::vec::IntoIter<PulledMessage>,
    topic: Resource,
    queue: i32,
    filter: Filter,
    /// The account of the connection.
    account: Arc<Account>,
    /// The first message whose read failed. Another read may succeed, so that the answer ends before it.
    unread: Option<QueueOffset>,
    /// Set if it was not read because the byte budget is spent.
    spent: Option<Spent>,
}

impl Messages {
    async fn next(&mut self) -> Option<Part<Content>> {
        while self.unread.is_none() {
            let found = self.found.next()?;
            // Granted before the read: a message that waits for bytes must not be in memory.
            let grant = match self.account.grant(found.size as usize).await {
                Ok(grant) => grant,
                Err(spent) => {
                    (self.unread, self.spent) = (Some(found.offset), Some(spent));
                    break;
                }
            };
            match self.read(&found).await {
                Ok(Some(message)) => {
                    return Some(Part { message: Content::Message(message), grant: Some(grant) });
                }
                Ok(None) => {}
                Err(error) => match error.proof() {
                    Some(proof) => self.bodies.passed_over(proof),
                    None => {
                        self.bodies.failed(&error);
                        self.unread = Some(found.offset);
                    }
                },
            }
        }
        None
    }

    /// `None` for a message that the filter does not match.
    async fn read(&self, found: &PulledMessage) -> Result<Option<Message>, FetchError> {
        let fetched = self.bodies.fetch(found.position, found.size).await?;
        if !self.filter.matches(&fetched.message()?) {
            return Ok(None);
        }
        let envelope = Envelope {
            topic: self.topic.clone(),
            queue_id: self.queue,
            queue_offset: found.offset.0 as i64,
            stored_at: found.stored_at,
            attempt: i32::from(found.attempt) + 1,
            ..Envelope::default()
        };
        to_wire(&fetched, envelope).map(Some)
    }
}

impl Refusable for PullMessageRequest {
    type Answer = Answers<PullMessageResponse>;

    fn refused(self, refusal: &Refusal) -> Answers<PullMessageResponse> {
        refused(refusal)
    }
}

pub(super) fn refused(refusal: &Refusal) -> Answers<PullMessageResponse> {
    answers(stream::iter([Part::small(Content::Status(refusal.status()))]))
}

fn answers(contents: impl Stream<Item = Part<Content>> + Send + 'static) -> Answers<PullMessageResponse> {
    let response = |content| PullMessageResponse { content: Some(content) };
    Box::pin(contents.map(move |part| Ok(part.map(response))))
}
