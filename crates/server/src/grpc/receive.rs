//! ReceiveMessage: pops messages, waits for them, and streams them to the client.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use redstart_auth::Action;
use redstart_engine::{Delivery, FetchError, Filter, PopError, Popped, READ_AGAIN_AFTER, Receipt, Start};
use redstart_wire::v2::{
    Code, FilterExpression, FilterType, Message, ReceiveMessageRequest, ReceiveMessageResponse, Resource,
    receive_message_response::Content,
};

use super::{
    admission::{Admitted, Caller, Refusable},
    answer::Part,
    audit,
    clients::Polling,
    convert::{Envelope, from_duration, timestamp, to_wire},
    lite::{BIND_TOPIC, only_for_lites},
    refusal::{Refusal, ok},
    renewal::Holder,
    service::{Answers, Service},
    settings::LONG_POLL_MAX,
    unflushed::{Deliveries, Renew},
};
use crate::{
    access::Needs,
    byte_budget::{Account, Grant, Spent},
    handover::Handover,
    invisible_time::{self, not_early},
    shard::{Clock, PopRequest, ReceiveError, SystemClock},
    shards::{ServedShard, ShardNumber},
};

/// Invisible time of messages that the server renews for their consumer.
pub(super) const RENEWED_INVISIBLE: Duration = Duration::from_secs(60);
/// The request timeout of a client whose settings have none: the default of the official clients.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Stored bytes of the messages in one answer; a larger message comes alone.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The answer to a receive.
pub(super) struct Received {
    pub frames: Answers<ReceiveMessageResponse>,
    /// Its deliveries; `None` for a refusal.
    pub deliveries: Option<Deliveries>,
}

impl Service {
    pub(super) async fn receive(
        &self,
        Admitted { caller, identity, request }: Admitted<'_, ReceiveMessageRequest>,
    ) -> Received {
        self.clients.touch(caller.client);
        let topic = request.message_queue.as_ref().and_then(|queue| queue.topic.clone()).unwrap_or_default();
        let group = request.group.clone().unwrap_or_default();
        let auto_renew = request.auto_renew;
        let shard = match self.shard_of(request.message_queue.as_ref()) {
            Ok(shard) => shard,
            Err(refusal) => return refused(&refusal),
        };
        let (popped, invisible) = match self.pop(shard, caller, request).await {
            Ok(popped) => popped,
            Err(refusal) => return refused(&refusal),
        };
        let until = Instant::now() + invisible;
        let handover = Arc::new(Mutex::new(Handover::new(&shard.give_back_queue, &popped)));
        let needs = || Needs::nothing().consume(topic.name.as_str(), group.name.as_str(), Action::Sub);
        // It may have waited. Messages that are not sent go back to their queues.
        if let Err(refusal) = self.admit_again(caller, audit::name_of::<ReceiveMessageRequest>(), needs) {
            return refused(&refusal);
        }
        let deliveries = within(popped.deliveries, ANSWER_BYTES_MAX, &handover).into_iter();
        if deliveries.len() == 0 {
            return refused(&nothing());
        }
        let renew = auto_renew.then(|| Renew {
            renewal: self.renewal.clone(),
            shard: shard.number,
            holder: Holder {
                client: caller.client.to_owned(),
                identity,
                topic: topic.name.clone(),
                group: group.name,
                decided_by: caller.version.into(),
            },
            until,
        });
        let messages = Messages {
            service: self.clone(),
            shard: shard.number,
            deliveries,
            topic,
            invisible,
            handover: handover.clone(),
            account: caller.peer.account.clone(),
        };
        // Bodies are read while the answer is written: an answer that waits for its permit must not hold any.
        let contents = stream::once(messages.contents()).flatten();
        Received { frames: frames(contents), deliveries: Some(Deliveries { handover, renew }) }
    }

    async fn pop(
        &self,
        shard: &ServedShard,
        caller: Caller<'_>,
        request: ReceiveMessageRequest,
    ) -> Result<(Popped, Duration), Refusal> {
        let topic = request.message_queue.as_ref().and_then(|queue| queue.topic.as_ref());
        let topic = self.topic_name(topic)?;
        let group = self.group_name(request.group.as_ref())?;
        let filter = filter(request.filter_expression.as_ref())?;
        // While consumers of the group pull from its retry topic, they get its messages.
        let with_retry_topic = !self
            .pull_consumers
            .get()
            .is_some_and(|pull_consumers| pull_consumers.consume_retry_topic(shard.number, group.as_str()));
        let invisible = invisible(request.auto_renew, request.invisible_duration.as_ref())?;
        let poll = request.long_polling_timeout.as_ref().and_then(from_duration);
        let wait = wait(poll, self.clients.polling(caller.client), caller.deadline());
        let pop = PopRequest {
            group,
            topic,
            // The queue id in the request is ignored: a receive covers all queues, as every client expects.
            queue: None,
            max: usize::try_from(request.batch_size).unwrap_or(0).clamp(1, 32),
            invisible: not_early(invisible),
            filter,
            attempt: request.attempt_id.filter(|attempt| !attempt.is_empty()),
            client: caller.client.to_owned(),
            start: Start::Configured,
            // The Go client (5.1.4) processes the next message of a message group after one that failed, if it has both.
            one_per_group: caller.is_go() && request.auto_renew,
            refused_attribute: Some(BIND_TOPIC),
            only_if_begun: false,
            in_order: false,
            with_retry_topic,
            wait,
        };
        Ok((self.take(shard, pop).await?, invisible))
    }

    /// Settings say whether a client is a lite consumer. After a restart the server may not have them yet; then the binding of
    /// the group decides.
    async fn take(&self, shard: &ServedShard, pop: PopRequest) -> Result<Popped, Refusal> {
        let lite = self.clients.is_lite(&pop.client);
        if lite == Some(true) {
            return self.take_lite(shard, pop).await;
        }
        match self.shards.pop(shard, pop.clone()).await? {
            Err(ReceiveError::WrongGroupKind { .. }) if lite.is_none() => self.take_lite(shard, pop).await,
            Err(ReceiveError::WrongGroupKind { value, .. }) => Err(only_for_lites(&pop.group, &value)),
            Err(ReceiveError::Pop(PopError::UnknownGroup { .. })) => {
                self.ensure_group(&pop.group).await?;
                Ok(self.shards.pop(shard, pop).await??)
            }
            popped => Ok(popped?),
        }
    }

    async fn take_lite(&self, shard: &ServedShard, pop: PopRequest) -> Result<Popped, Refusal> {
        self.check_bound(&pop.group, &pop.topic).await?;
        Ok(shard.give_back_queue.receive(shard.handle.pop_lite(pop)?).await??)
    }
}

/// The deliveries whose messages fit into `bytes_max`, at least one. The others go back to their queues at once.
fn within(mut deliveries: Vec<Delivery>, bytes_max: usize, handover: &Mutex<Handover>) -> Vec<Delivery> {
    let mut bytes = 0;
    let fits = |delivery: &&Delivery| {
        bytes += delivery.size as usize;
        bytes <= bytes_max
    };
    let count = deliveries.iter().take_while(fits).count().max(1);
    if count < deliveries.len() {
        let left: Vec<Receipt> = deliveries.drain(count..).map(|delivery| delivery.receipt).collect();
        handover.lock().give_back(&left, Duration::ZERO);
    }
    deliveries
}

/// The messages of an answer. Bodies are read one by one, as the client takes them.
struct Messages {
    service: Service,
    shard: ShardNumber,
    deliveries: std::vec::IntoIter<Delivery>,
    topic: Resource,
    invisible: Duration,
    handover: Arc<Mutex<Handover>>,
    /// The account of the connection.
    account: Arc<Account>,
}

/// Why an answer ends before its last message.
enum Ended {
    Unread(FetchError),
    /// The byte budget has no room for the next message.
    Spent(Spent),
}

impl From<Ended> for Refusal {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Unread(error) => {
                let why = format!("the next message cannot be read now, try again: {error}");
                Refusal::new(Code::InternalServerError, why)
            }
            Ended::Spent(spent) => spent.into(),
        }
    }
}

impl Messages {
    /// The status, and the messages after it. The status is OK only if the first message can be read.
    async fn contents(mut self) -> impl Stream<Item = Part<Content>> + Send {
        let status = |status| Part::small(Content::Status(status));
        let (begin, rest) = match self.next().await {
            Ok(Some(first)) => (vec![status(ok()), first], Some(self)),
            Ok(None) => (vec![status(nothing().status())], None),
            Err(ended) => (vec![status(Refusal::from(ended).status())], None),
        };
        let rest = stream::unfold(rest, |messages| async {
            let mut messages = messages?;
            // A failed read or a spent budget ends the answer; the messages before it are delivered.
            let message = messages.next().await.ok().flatten()?;
            Some((message, Some(messages)))
        });
        stream::iter(begin).chain(rest)
    }

    /// The next message. A message that is proven to be lost is passed over. A failed read proves nothing: that message and
    /// those after it go back to their queues.
    async fn next(&mut self) -> Result<Option<Part<Content>>, Ended> {
        while let Some(delivery) = self.deliveries.next() {
            // Granted before the read: a message that waits for bytes must not be in memory.
            let grant: Grant = match self.account.grant(delivery.size as usize).await {
                Ok(grant) => grant,
                Err(spent) => {
                    self.give_back(delivery, Duration::ZERO);
                    return Err(Ended::Spent(spent));
                }
            };
            match self.read(&delivery).await {
                Ok(message) => {
                    return Ok(Some(Part { message: Content::Message(message), grant: Some(grant) }));
                }
                Err(error) => {
                    if let Some(proof) = error.proof() {
                        self.handover.lock().exclude(&[delivery.receipt]);
                        self.service.pass_over(self.shard(), delivery.receipt, proof);
                        continue;
                    }
                    self.shard().handle.bodies().failed(&error);
                    self.give_back(delivery, READ_AGAIN_AFTER);
                    return Err(Ended::Unread(error));
                }
            }
        }
        Ok(None)
    }

    fn shard(&self) -> &ServedShard {
        &self.service.shards.all()[usize::from(self.shard.0)]
    }

    /// Returns a delivery and all after it to their queues.
    fn give_back(&mut self, delivery: Delivery, after: Duration) {
        let left = std::iter::once(delivery).chain(&mut self.deliveries);
        let left: Vec<Receipt> = left.map(|delivery| delivery.receipt).collect();
        self.handover.lock().give_back(&left, after);
    }

    async fn read(&self, delivery: &Delivery) -> Result<Message, FetchError> {
        let receipt = delivery.receipt;
        let envelope = Envelope {
            topic: self.topic.clone(),
            queue_id: receipt.queue.queue.0 as i32,
            queue_offset: receipt.offset.0 as i64,
            stored_at: delivery.stored_at,
            attempt: i32::from(delivery.attempt),
            receipt_handle: Some(self.service.signer.receipt(self.shard, receipt)),
            invisible: Some(self.invisible),
        };
        let fetched = self.shard().handle.bodies().fetch(delivery.position, delivery.size).await?;
        to_wire(&fetched, envelope)
    }
}

/// How long a receive waits for messages: as the request says, else as the client's settings say. Half of the client's request
/// timeout is left for the way of the answer.
fn wait(asked: Option<Duration>, own: Polling, deadline: Option<Duration>) -> Duration {
    let wanted = asked.or(own.long_poll).unwrap_or(LONG_POLL_MAX).min(LONG_POLL_MAX);
    let Some(deadline) = deadline else { return wanted };
    let kept = own.request_timeout.unwrap_or(REQUEST_TIMEOUT).min(deadline) / 2;
    wanted.min(deadline - kept)
}

fn invisible(auto_renew: bool, asked: Option<&prost_types::Duration>) -> Result<Duration, Refusal> {
    if auto_renew {
        return Ok(RENEWED_INVISIBLE);
    }
    let asked = asked.and_then(from_duration).unwrap_or_default();
    if asked < invisible_time::MIN || asked > invisible_time::MAX {
        // Programs search for these words of RocketMQ.
        let size = if asked < invisible_time::MIN { "small" } else { "large" };
        let why = format!(
            "the invisibleTime is too {size}: {} ms; it must be from {} s to {} h",
            asked.as_millis(),
            invisible_time::MIN.as_secs(),
            invisible_time::MAX.as_secs() / 3600
        );
        return Err(Refusal::new(Code::IllegalInvisibleTime, why));
    }
    Ok(asked)
}

pub(super) fn filter(expression: Option<&FilterExpression>) -> Result<Filter, Refusal> {
    let Some(expression) = expression else { return Ok(Filter::All) };
    let filter = match FilterType::try_from(expression.r#type) {
        Ok(FilterType::Sql) => Filter::sql(&expression.expression),
        Ok(FilterType::Tag | FilterType::Unspecified) => Filter::tags(&expression.expression),
        Err(_) => {
            let why = format!("the filter type {} is not known", expression.r#type);
            return Err(Refusal::new(Code::IllegalFilterExpression, why));
        }
    };
    filter.map_err(|error| {
        let why = format!("expression format is not correct: {error}");
        Refusal::new(Code::IllegalFilterExpression, why)
    })
}

fn nothing() -> Refusal {
    Refusal::new(Code::MessageNotFound, "no new message")
}

impl Refusable for ReceiveMessageRequest {
    type Answer = Received;

    fn refused(self, refusal: &Refusal) -> Received {
        refused(refusal)
    }
}

fn refused(refusal: &Refusal) -> Received {
    let frames = frames(stream::iter([Part::small(Content::Status(refusal.status()))]));
    Received { frames, deliveries: None }
}

/// The frames of an answer, which ends with the time of delivery.
fn frames(contents: impl Stream<Item = Part<Content>> + Send + 'static) -> Answers<ReceiveMessageResponse> {
    let end = stream::once(async { Part::small(Content::DeliveryTimestamp(timestamp(SystemClock.now()))) });
    let response = |content| ReceiveMessageResponse { content: Some(content) };
    Box::pin(contents.chain(end).map(move |part| Ok(part.map(response))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_ends_while_the_client_has_half_of_its_request_timeout_left() {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        let polling = |long_poll, request_timeout| Polling { long_poll, request_timeout };
        let silent = polling(None, None);
        assert_eq!(wait(Some(s(30)), silent, None), s(20));
        assert_eq!(wait(Some(s(15)), silent, Some(s(18))), s(15));
        assert_eq!(wait(Some(s(40)), silent, Some(s(40))), s(20));
        assert_eq!(
            wait(Some(s(20)), silent, Some(s(20))),
            ms(18_500),
            "a deadline without room for the answer"
        );
        assert_eq!(wait(Some(s(5)), silent, Some(ms(100))), ms(50));
        assert_eq!(
            wait(None, silent, Some(s(3))),
            ms(1500),
            "no poll named: half of the usual time-out is kept"
        );
        assert_eq!(wait(None, polling(None, Some(s(10))), Some(s(10))), s(5), "half of the client's own");
        assert_eq!(wait(None, polling(None, Some(s(3))), Some(s(33))), s(20));
        assert_eq!(wait(None, polling(None, Some(s(9_999_999))), Some(s(4))), s(2));
        assert_eq!(wait(None, polling(Some(s(7)), Some(s(3))), Some(s(30))), s(7), "as the settings say");
    }

    #[test]
    fn a_poll_of_no_time_is_not_held() {
        let polling = |long_poll| Polling { long_poll, request_timeout: Some(Duration::from_secs(10)) };
        let deadline = Some(Duration::from_secs(10));
        assert_eq!(
            wait(Some(Duration::ZERO), polling(Some(Duration::from_secs(5))), deadline),
            Duration::ZERO
        );
        assert_eq!(wait(None, polling(Some(Duration::ZERO)), deadline), Duration::ZERO);
    }

    #[test]
    fn invisible_times_out_of_range_are_refused_by_their_code() {
        let asked = |seconds| invisible(false, Some(&prost_types::Duration { seconds, nanos: 0 }));
        assert_eq!(asked(10), Ok(Duration::from_secs(10)));
        assert_eq!(asked(12 * 3600), Ok(Duration::from_secs(12 * 3600)));
        for bad in [-1, 0, 9, 12 * 3600 + 1] {
            let refusal = asked(bad).unwrap_err();
            assert_eq!(refusal.code, Code::IllegalInvisibleTime);
            let size =
                if bad < 10 { "the invisibleTime is too small" } else { "the invisibleTime is too large" };
            assert!(refusal.status().message.contains(size));
        }
        assert_eq!(invisible(true, None), Ok(RENEWED_INVISIBLE));
    }
}
