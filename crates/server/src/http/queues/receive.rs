//! Receive: pops messages, waits for them, and answers with them in JSON, or with one as it is.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use futures_util::future::select_all;
use http::{HeaderMap, Response, StatusCode, header};
use hyper::body::Incoming;
use redstart_engine::{
    Delivery, FetchError, Fetched, Filter, GroupName, PopError, Popped, READ_AGAIN_AFTER, Receipt, Start,
    TopicName,
};
use serde::Deserialize;

use super::{
    super::{
        answer::{Answer, Content, Held, JSON, content},
        body::{self, BodyLimits},
        call::Call,
        refusal::Refusal,
    },
    SMALL_BODY_BYTES_MAX, Served, State, read_json_or_default,
    received::{Envelope, Received, json_bytes_max, shown},
    refusals::{unknown_group, unknown_topic},
    unpack::{Unpacked, is_packed, unpack},
};
use crate::{
    byte_budget::Grant,
    grpc::BIND_TOPIC,
    handover::Handover,
    invisible_time::{self, not_early},
    shard::{PopRequest, ReceiveError},
    shards::ServedShard,
};

const COUNT_MAX: usize = 32;
const WAIT_MAX: Duration = Duration::from_secs(30);
const INVISIBLE: Duration = Duration::from_secs(30);
/// Stored bytes of the messages in one answer; a larger message comes alone.
const ANSWER_BYTES_MAX: usize = 8 << 20;
const BYTES: &str = "application/octet-stream";

/// What to receive.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    max: Option<usize>,
    wait_ms: Option<u64>,
    invisible_ms: Option<u64>,
    /// Tags with `||` between them.
    tags: Option<String>,
    sql: Option<String>,
    /// Bodies in base64, also those that are text.
    #[serde(default)]
    base64: bool,
}

/// The same, checked.
#[derive(Debug)]
struct Checked {
    max: usize,
    wait: Duration,
    invisible: Duration,
    filter: Filter,
    form: AnswerForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerForm {
    Json {
        base64: bool,
    },
    /// One message: its body is the body of the answer.
    Raw,
}

impl Wanted {
    fn checked(self, headers: &HeaderMap) -> Result<Checked, Refusal> {
        let range = |what: &str, value: u128, from: u128, to: u128| {
            let why = format!("{what} is {value}; it must be from {from} to {to}");
            if (from..=to).contains(&value) { Ok(()) } else { Err(Refusal::bad("out_of_range", why)) }
        };
        let max = self.max.unwrap_or(1);
        range("max", max as u128, 1, COUNT_MAX as u128)?;
        let wait = Duration::from_millis(self.wait_ms.unwrap_or(0));
        range("wait_ms", wait.as_millis(), 0, WAIT_MAX.as_millis())?;
        let invisible = self.invisible_ms.map_or(INVISIBLE, Duration::from_millis);
        let (least, most) = (invisible_time::MIN.as_millis(), invisible_time::MAX.as_millis());
        range("invisible_ms", invisible.as_millis(), least, most)?;
        let filter = match (&self.tags, &self.sql) {
            (None, None) => Ok(Filter::All),
            (Some(tags), None) => Filter::tags(tags),
            (None, Some(sql)) => Filter::sql(sql),
            (Some(_), Some(_)) => {
                return Err(Refusal::bad("bad_filter", "there can be tags or an SQL expression, not both"));
            }
        };
        let filter = filter.map_err(|error| Refusal::bad("bad_filter", error.to_string()))?;
        let raw = headers.get(header::ACCEPT).is_some_and(|accepted| accepted == BYTES);
        if raw && max != 1 {
            let why = format!("an answer of {BYTES} has one message: max must be 1");
            return Err(Refusal::bad("out_of_range", why));
        }
        let form = if raw { AnswerForm::Raw } else { AnswerForm::Json { base64: self.base64 } };
        Ok(Checked { max, wait, invisible, filter, form })
    }
}

impl State {
    pub(super) async fn receive(
        &self,
        served: &Served,
        call: Call,
        body: Incoming,
        topic: TopicName,
        group: GroupName,
    ) -> Result<Answer, Refusal> {
        let limits = BodyLimits { bytes_max: SMALL_BODY_BYTES_MAX, timeout: call.limits.idle_timeout };
        let (body, grant) = body::read(body, &call.caller, limits).await?;
        let wanted = read_json_or_default::<Wanted>(&body)?.checked(&call.head.headers)?;
        let _place = if wanted.wait.is_zero() { None } else { Some(self.waiting.take()?) };
        // What waits holds as little as it can.
        drop((body, grant));
        call.caller.account.trim();
        let pop = PopRequest {
            group,
            topic,
            queue: None,
            max: wanted.max,
            invisible: not_early(wanted.invisible),
            filter: wanted.filter.clone(),
            attempt: None,
            client: format!("http {}", call.caller.remote),
            start: Start::Configured,
            one_per_group: false,
            refused_attribute: Some(BIND_TOPIC),
            only_if_begun: false,
            in_order: false,
            with_retry_topic: true,
            wait: wanted.wait,
        };
        let topic = pop.topic.clone();
        let (shard, popped) = self.take(served, pop).await?;
        let arriving = Arriving {
            state: self,
            served,
            shard,
            topic: topic.as_str(),
            call: &call,
            handover: Handover::new(&shard.give_back_queue, &popped),
        };
        // It may have waited. Messages that are not sent go back to their queues.
        call.admit_again()?;
        match wanted.form {
            AnswerForm::Json { base64 } => arriving.json(popped.deliveries, base64).await,
            AnswerForm::Raw => arriving.raw(popped.deliveries).await,
        }
    }

    /// Receives from the shards that have the topic: from one that has messages now, else from the first that gets some.
    async fn take<'a>(
        &self,
        served: &'a Served,
        pop: PopRequest,
    ) -> Result<(&'a ServedShard, Popped), Refusal> {
        let mut shards = served.shards.of_topic(&pop.topic);
        if let [shard] = shards[..] {
            let topic = pop.topic.clone();
            let popped = take_from(served, shard, pop).await?.ok_or_else(|| unknown_topic(&topic))?;
            return Ok((shard, popped));
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % shards.len().max(1);
        shards.rotate_left(first);
        let mut last = None;
        // Those of them that have the topic.
        let mut having = Vec::with_capacity(shards.len());
        for shard in shards {
            let pop = PopRequest { wait: Duration::ZERO, ..pop.clone() };
            let Some(popped) = take_from(served, shard, pop).await? else { continue };
            if !popped.deliveries.is_empty() {
                return Ok((shard, popped));
            }
            last = Some((shard, popped));
            having.push(shard);
        }
        let waiting = |shard: &&'a ServedShard| {
            let (shard, pop) = (*shard, pop.clone());
            Box::pin(async move { (shard, take_from(served, shard, pop).await) })
        };
        let mut polls: Vec<_> =
            if pop.wait.is_zero() { Vec::new() } else { having.iter().map(waiting).collect() };
        while !polls.is_empty() {
            // Those that are dropped give back what they have received meanwhile.
            let ((shard, popped), _, others) = select_all(polls).await;
            if let Some(popped) = popped? {
                if !popped.deliveries.is_empty() {
                    return Ok((shard, popped));
                }
                last = Some((shard, popped));
            }
            polls = others;
        }
        last.ok_or_else(|| unknown_topic(&pop.topic))
    }
}

/// Receives from a shard; `None` if it does not have the topic, as other shards may.
async fn take_from(
    served: &Served,
    shard: &ServedShard,
    mut pop: PopRequest,
) -> Result<Option<Popped>, Refusal> {
    // While consumers of the group pull from its retry topic, they get its messages.
    pop.with_retry_topic = !served.pull_consumers.consume_retry_topic(shard.number, pop.group.as_str());
    let popped = match served.shards.pop(shard, pop.clone()).await? {
        Err(ReceiveError::Pop(PopError::UnknownGroup { group })) => {
            if !served.auto_create_groups {
                return Err(unknown_group(&group));
            }
            served.shards.ensure_group(&group).await?;
            served.shards.pop(shard, pop).await?
        }
        popped => popped,
    };
    match popped {
        Err(ReceiveError::Pop(PopError::UnknownTopic { .. })) => Ok(None),
        popped => Ok(Some(popped?)),
    }
}

/// Messages on their way to a consumer. Those that are not in the answer go back to their queues.
struct Arriving<'a> {
    state: &'a State,
    served: &'a Served,
    shard: &'a ServedShard,
    topic: &'a str,
    call: &'a Call,
    handover: Handover,
}

/// A message that was read, and its body as it was sent.
struct Read {
    fetched: Fetched,
    body: Unpacked,
    grant: Grant,
}

impl Arriving<'_> {
    async fn json(mut self, deliveries: Vec<Delivery>, base64: bool) -> Result<Answer, Refusal> {
        let mut text = b"{\"messages\":[".to_vec();
        let mut grant = self.call.caller.account.nothing();
        let mut stored = 0;
        let mut rest = deliveries.iter();
        while let Some(delivery) = rest.next() {
            stored += delivery.size as usize;
            if stored > ANSWER_BYTES_MAX && text.last() != Some(&b'[') {
                self.give_back(delivery, &mut rest, Duration::ZERO);
                break;
            }
            let read = match self.read(delivery).await {
                Ok(Some(read)) => read,
                Ok(None) => continue,
                Err((refusal, after)) => {
                    self.give_back(delivery, &mut rest, after);
                    // What was read before is delivered.
                    if text.last() == Some(&b'[') {
                        return Err(refusal);
                    }
                    break;
                }
            };
            let Ok(view) = read.fetched.message() else {
                self.give_back(delivery, &mut [].iter(), READ_AGAIN_AFTER);
                continue;
            };
            let envelope = self.envelope(delivery);
            if text.last() != Some(&b'[') {
                text.push(b',');
            }
            let message = Received::new(&envelope, &view, shown(&read.body, base64));
            // Writing to memory does not fail.
            drop(serde_json::to_writer(&mut text, &message));
            grant.merge(read.grant);
        }
        text.extend(b"]}");
        grant.resize_anyway(text.len());
        let mut answer = content(StatusCode::OK, JSON, text.into());
        answer.body_mut().held = Some(Held { grant, handover: Some(self.handover) });
        Ok(answer)
    }

    async fn raw(mut self, deliveries: Vec<Delivery>) -> Result<Answer, Refusal> {
        let Some(delivery) = deliveries.first() else { return Ok(nothing()) };
        let read = match self.read(delivery).await {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(nothing()),
            Err((refusal, after)) => {
                self.give_back(delivery, &mut [].iter(), after);
                return Err(refusal);
            }
        };
        let Ok(view) = read.fetched.message() else { return Ok(nothing()) };
        let envelope = self.envelope(delivery);
        let headers = Received::new(&envelope, &view, shown(&read.body, true)).headers();
        let mut answer = content(StatusCode::OK, BYTES, read.body.bytes().clone());
        answer.headers_mut().extend(headers);
        answer.body_mut().held = Some(Held { grant: read.grant, handover: Some(self.handover) });
        Ok(answer)
    }

    fn envelope<'b>(&'b self, delivery: &'b Delivery) -> Envelope<'b> {
        let handle = self.served.signer.receipt(self.shard.number, delivery.receipt);
        Envelope { topic: self.topic, broker: &self.shard.broker, handle, delivery }
    }

    /// Reads a message. `None` if it is proven to be lost: then it is passed over. A failed read proves nothing; the message comes again
    /// after the time in the error.
    async fn read(&mut self, delivery: &Delivery) -> Result<Option<Read>, (Refusal, Duration)> {
        let account = &self.call.caller.account;
        // Granted before the read: a message that waits for bytes must not be in memory.
        let granted = account.grant(json_bytes_max(delivery.size as usize)).await;
        let mut grant = granted.map_err(|spent| (spent.into(), Duration::ZERO))?;
        let fetched = match self.shard.handle.bodies().fetch(delivery.position, delivery.size).await {
            Ok(fetched) => fetched,
            Err(error) => return self.unread(delivery, error),
        };
        let (flag, packed) =
            match fetched.message().map(|view| view.system_flag).and_then(|flag| Ok((flag, fetched.body()?)))
            {
                Ok(read) => read,
                Err(error) => return self.unread(delivery, error),
            };
        if !is_packed(flag) {
            return Ok(Some(Read { fetched, body: Unpacked::Plain(packed), grant }));
        }
        let bytes_max = self.state.message_bytes_max;
        let room = account.grant(json_bytes_max(bytes_max)).await;
        grant.merge(room.map_err(|spent| (spent.into(), Duration::ZERO))?);
        // It takes too long for a task.
        let job = tokio::task::spawn_blocking(move || unpack(packed, flag, bytes_max));
        match job.await {
            Ok(body) => Ok(Some(Read { fetched, body, grant })),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The process is stopping, which ends this task too.
            Err(_) => std::future::pending().await,
        }
    }

    fn unread(
        &mut self,
        delivery: &Delivery,
        error: FetchError,
    ) -> Result<Option<Read>, (Refusal, Duration)> {
        if let Some(proof) = error.proof() {
            let receipt = delivery.receipt;
            self.handover.exclude(&[receipt]);
            // If the shard is overloaded, the message is delivered again after its invisible time and passed over then.
            drop(self.shard.handle.ask(move |engine, _| engine.pass_over(receipt, proof)));
            return Ok(None);
        }
        self.shard.handle.bodies().failed(&error);
        let why = format!("the next message cannot be read now, try again: {error}");
        Err((Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", why), READ_AGAIN_AFTER))
    }

    /// Returns a delivery and all after it to their queues.
    fn give_back<'d>(
        &mut self,
        delivery: &'d Delivery,
        rest: &mut std::slice::Iter<'d, Delivery>,
        after: Duration,
    ) {
        let left = std::iter::once(delivery).chain(rest);
        let left: Vec<Receipt> = left.map(|delivery| delivery.receipt).collect();
        self.handover.give_back(&left, after);
    }
}

fn nothing() -> Answer {
    let mut answer = Response::new(Content { bytes: Bytes::new(), held: None });
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(json: &str) -> Result<Checked, &'static str> {
        let wanted = read_json_or_default::<Wanted>(json.as_bytes());
        wanted.and_then(|wanted| wanted.checked(&HeaderMap::new())).map_err(|refusal| refusal.code)
    }

    #[test]
    fn what_is_not_said_has_a_default_and_what_is_out_of_range_is_refused() {
        let plain = checked("").unwrap();
        assert_eq!((plain.max, plain.wait, plain.invisible), (1, Duration::ZERO, INVISIBLE));
        let most = checked(r#"{"max":32,"wait_ms":30000,"invisible_ms":43200000,"tags":"a||b"}"#).unwrap();
        assert_eq!((most.max, most.wait, most.invisible), (32, WAIT_MAX, invisible_time::MAX));
        for (json, code) in [
            (r#"{"max":0}"#, "out_of_range"),
            (r#"{"max":33}"#, "out_of_range"),
            (r#"{"wait_ms":30001}"#, "out_of_range"),
            (r#"{"invisible_ms":9999}"#, "out_of_range"),
            (r#"{"invisible_ms":43200001}"#, "out_of_range"),
            (r#"{"invisible_ms":18446744073709551615}"#, "out_of_range"),
            (r#"{"sql":"a >"}"#, "bad_filter"),
            (r#"{"sql":"a > 1","tags":"a"}"#, "bad_filter"),
            (r#"{"max":-1}"#, "bad_json"),
            (r#"{"wait":1}"#, "bad_json"),
        ] {
            assert_eq!(checked(json).map(|_| ()), Err(code), "{json}");
        }
    }

    #[test]
    fn an_answer_of_bytes_has_one_message() {
        let headers: HeaderMap =
            [(header::ACCEPT, http::HeaderValue::from_static(BYTES))].into_iter().collect();
        let form = |max| Wanted { max, ..Wanted::default() }.checked(&headers).map(|checked| checked.form);
        assert_eq!(form(None), Ok(AnswerForm::Raw));
        assert_eq!(form(Some(2)).map_err(|refusal| refusal.code), Err("out_of_range"));
    }
}
