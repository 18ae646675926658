use std::time::Duration;

use redstart_engine::{Delivery, Filter, PopError, Popped, READ_AGAIN_AFTER, Start, fetch};
use redstart_wire::v2::{
    Code, FilterExpression, FilterType, ReceiveMessageRequest, ReceiveMessageResponse, Resource,
    receive_message_response::Content,
};

use super::{
    convert::{Envelope, from_duration, timestamp, to_wire},
    lite::{BIND_TOPIC, only_for_lites},
    metadata::Caller,
    service::{Answers, Service},
    settings::LONG_POLL_MAX,
    status::{Refusal, ok},
};
use crate::{
    shard::{Clock, PopRequest, ReceiveError, SystemClock},
    throttle::Throttle,
};

static UNREADABLE: Throttle = Throttle::new();

/// Invisible time of messages that the server renews for their consumer.
pub(super) const RENEWED_INVISIBLE: Duration = Duration::from_secs(60);
/// What a client may ask for.
const INVISIBLE_MIN: Duration = Duration::from_secs(10);
const INVISIBLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Left of the client's own deadline for the answer's way back.
const SLACK: Duration = Duration::from_millis(500);
const SLACK_SHORT: Duration = Duration::from_millis(200);

impl Service {
    pub(super) async fn receive(
        &self,
        caller: Caller,
        request: ReceiveMessageRequest,
    ) -> Answers<ReceiveMessageResponse> {
        let client = caller.client.clone();
        self.clients.touch(&client);
        let resource =
            request.message_queue.as_ref().and_then(|queue| queue.topic.clone()).unwrap_or_default();
        let auto_renew = request.auto_renew;
        match self.pop(caller, request).await {
            Ok((popped, _)) if popped.deliveries.is_empty() => {
                refused(&Refusal::new(Code::MessageNotFound, "no new message"))
            }
            Ok((popped, invisible)) => {
                if auto_renew {
                    let receipts = popped.deliveries.iter().map(|delivery| delivery.receipt);
                    self.renewal.add(receipts, &client, popped.visible_at);
                }
                // Bodies are read one by one, as the client takes them.
                let service = self.clone();
                let messages = popped
                    .deliveries
                    .into_iter()
                    .filter_map(move |delivery| service.message(&delivery, &resource, invisible));
                answers(std::iter::once(Content::Status(ok())).chain(messages))
            }
            Err(refusal) => refused(&refusal),
        }
    }

    async fn pop(
        &self,
        caller: Caller,
        request: ReceiveMessageRequest,
    ) -> Result<(Popped, Duration), Refusal> {
        let topic = request.message_queue.as_ref().and_then(|queue| queue.topic.as_ref());
        let topic = self.topic_name(topic)?;
        let group = self.group_name(request.group.as_ref())?;
        let filter = filter(request.filter_expression.as_ref())?;
        // Consumers that pull take them themselves, while there are any.
        let retries = !self.pullers.get().is_some_and(|pullers| pullers.take_retries(group.as_str()));
        let invisible = invisible(request.auto_renew, request.invisible_duration.as_ref())?;
        let poll = request.long_polling_timeout.as_ref().and_then(from_duration);
        let pop = PopRequest {
            group,
            topic,
            // The id in the request is not looked at: a receive covers all queues, as every client expects.
            queue: None,
            max: usize::try_from(request.batch_size).unwrap_or(0).clamp(1, 32),
            invisible: not_early(invisible),
            filter,
            attempt: request.attempt_id.filter(|attempt| !attempt.is_empty()),
            client: caller.client,
            start: Start::Latest,
            // The Go client (5.1.4) goes on to the next message of a group after one that failed, when it has both.
            one_per_group: caller.go && request.auto_renew,
            not_with: Some(BIND_TOPIC),
            in_order: false,
            retries,
            wait: wait(poll, caller.deadline),
        };
        Ok((self.take(pop).await?, invisible))
    }

    /// What the client said of itself tells a lite consumer; after a restart it may not have said anything yet, and its
    /// group does.
    async fn take(&self, pop: PopRequest) -> Result<Popped, Refusal> {
        let lite = self.clients.is_lite(&pop.client);
        if lite == Some(true) {
            return self.take_lite(pop).await;
        }
        match self.shard.pop(pop.clone())?.await? {
            Err(ReceiveError::Other { .. }) if lite.is_none() => self.take_lite(pop).await,
            Err(ReceiveError::Other { value, .. }) => Err(only_for_lites(&pop.group, &value)),
            Err(ReceiveError::Pop(PopError::UnknownGroup { .. })) => {
                self.ensure_group(&pop.group).await?;
                Ok(self.shard.pop(pop)?.await??)
            }
            popped => Ok(popped?),
        }
    }

    async fn take_lite(&self, pop: PopRequest) -> Result<Popped, Refusal> {
        self.check_bound(&pop.group, &pop.topic).await?;
        Ok(self.shard.pop_lite(pop)?.await??)
    }

    /// Reads a delivered message. One that is proven to be lost is passed over, one that could not be read given back.
    fn message(&self, delivery: &Delivery, topic: &Resource, invisible: Duration) -> Option<Content> {
        let receipt = delivery.receipt;
        let envelope = Envelope {
            topic: topic.clone(),
            queue_id: receipt.queue.queue.0 as i32,
            queue_offset: receipt.offset.0 as i64,
            stored_at: delivery.stored_at,
            attempt: i32::from(delivery.attempt),
            receipt_handle: Some(self.signer.receipt(receipt)),
            invisible: Some(invisible),
        };
        let fetched = fetch(&*self.shard.reader(), delivery.position, delivery.size);
        match fetched.and_then(|fetched| to_wire(&fetched, envelope)) {
            Ok(message) => Some(Content::Message(message)),
            Err(error) => {
                self.renewal.remove(&[receipt]);
                let proof = error.proof();
                if proof.is_none()
                    && let Some(repeated) = UNREADABLE.permit()
                {
                    tracing::warn!(%error, repeated, "a message could not be read and is given back");
                }
                drop(self.shard.ask(move |engine, now| match proof {
                    Some(proof) => drop(engine.pass_over(receipt, proof)),
                    None => drop(engine.give_back(&[receipt], READ_AGAIN_AFTER, now)),
                }));
                None
            }
        }
    }
}

/// The shard's clock counts whole milliseconds, rounded down: one more, and the time is over for the client as well.
pub(super) fn not_early(invisible: Duration) -> Duration {
    if invisible < INVISIBLE_MAX { invisible + Duration::from_millis(1) } else { invisible }
}

/// The poll's length: what the client wants, within its own deadline and our maximum.
fn wait(poll: Option<Duration>, deadline: Option<Duration>) -> Duration {
    let wanted = poll.filter(|poll| !poll.is_zero()).unwrap_or(LONG_POLL_MAX).min(LONG_POLL_MAX);
    let Some(deadline) = deadline else { return wanted };
    let slack = if deadline > Duration::from_secs(2) { SLACK } else { SLACK_SHORT };
    wanted.min(deadline.saturating_sub(slack))
}

fn invisible(auto_renew: bool, asked: Option<&prost_types::Duration>) -> Result<Duration, Refusal> {
    if auto_renew {
        return Ok(RENEWED_INVISIBLE);
    }
    let asked = asked.and_then(from_duration).unwrap_or_default();
    if asked < INVISIBLE_MIN || asked > INVISIBLE_MAX {
        // Programs look for these words of RocketMQ's.
        let size = if asked < INVISIBLE_MIN { "small" } else { "large" };
        let why = format!(
            "the invisibleTime is too {size}: {} ms; it must be from {} s to {} h",
            asked.as_millis(),
            INVISIBLE_MIN.as_secs(),
            INVISIBLE_MAX.as_secs() / 3600
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
    filter.map_err(|error| Refusal::new(Code::IllegalFilterExpression, error.to_string()))
}

pub(super) fn refused(refusal: &Refusal) -> Answers<ReceiveMessageResponse> {
    answers(std::iter::once(Content::Status(refusal.status())))
}

/// The frames of an answer; the time of delivery ends it.
fn answers(contents: impl Iterator<Item = Content> + Send + 'static) -> Answers<ReceiveMessageResponse> {
    let end = std::iter::once_with(|| Content::DeliveryTimestamp(timestamp(SystemClock.now())));
    let responses = contents.chain(end).map(|content| Ok(ReceiveMessageResponse { content: Some(content) }));
    Box::pin(tokio_stream::iter(responses))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_ends_before_the_client_gives_up() {
        let s = Duration::from_secs;
        assert_eq!(wait(Some(s(30)), None), s(20));
        assert_eq!(wait(Some(s(15)), Some(s(18))), s(15));
        assert_eq!(wait(None, Some(s(3))), Duration::from_millis(2500), "no poll named: within the deadline");
        assert_eq!(wait(Some(s(40)), Some(s(40))), s(20));
        assert_eq!(wait(Some(s(5)), Some(Duration::from_millis(100))), Duration::ZERO);
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
