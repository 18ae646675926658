//! The end of transactions, and checks of those that are still open.

use redstart_engine::{Fetched, TopicId, TransactionCheck, TransactionError};
use redstart_log::Position;
use redstart_wire::remoting::{Command, code, flag, offset_message_id};

use super::{
    Context,
    convert::{Envelope, Scratch, read_physical_offset, to_wire},
    peer::Peer,
    property as p,
    refusal::Refusal,
    request::{Answer, Request},
    rights::PUB,
};
use crate::{access::Needs, shard::ChangeError};

pub(super) async fn end(request: &Request) -> Result<Answer, Refusal> {
    let group = request.required("producerGroup")?;
    let commit = match request.number::<i32>("commitOrRollback")? {
        flag::TRANSACTION_COMMIT => true,
        flag::TRANSACTION_ROLLBACK => false,
        // The producer does not know yet: it will be asked again.
        0 => return Ok(Answer::ok()),
        other => return Err(Refusal::invalid(format!("commitOrRollback is {other}; it must be 0, 8 or 12"))),
    };
    let refused = |why: &str| Refusal::new(code::SYSTEM_ERROR, why);
    let (id, _) = read_physical_offset(request.number("commitLogOffset")?)
        .ok_or_else(|| refused("the commit log offset is negative"))?;
    let (half, ended) =
        request.ask(move |engine, _| (engine.half(id), engine.topic_of_ended_transaction(id))).await?;
    if let Some((position, size)) = half {
        let fetched = request.context.shard.bodies().fetch(position, size).await;
        let fetched = fetched.map_err(|error| Refusal::unread(&error))?;
        let home = fetched.home().map_err(|error| Refusal::unread(&error))?;
        check(request, id, home.topic).await?;
        if producer_group(&fetched).as_deref() != Some(group) {
            return Err(refused("the half message belongs to another producer group"));
        }
    } else if let Some(topic) = ended {
        check(request, id, topic).await?;
    } else if request.access().is_on() {
        // Nothing is known of it. It must not be ended below either, should it begin now: nobody was asked for a right.
        return Err(not_open(id));
    }
    let ended = request.context.shard.change(move |engine, now| engine.end_transaction(id, commit, now))?;
    match ended.await? {
        // The producer may end it twice, by itself and as the answer to a check: the same end is no error.
        Err(ChangeError::Refused(TransactionError::Ended { committed, .. })) if committed == commit => {}
        other => other?,
    }
    Ok(Answer::ok())
}

/// Asks for the right to the topic of a transaction: the request need not name the topic, or may name another one. Any position can
/// be named, so a caller without the right is told the same as if there were no transaction.
async fn check(request: &Request, id: Position, topic: TopicId) -> Result<(), Refusal> {
    request.check_topic(topic, PUB).await.map_err(|refusal| match refusal.code {
        code::NO_PERMISSION => not_open(id),
        _ => refusal,
    })
}

fn not_open(id: Position) -> Refusal {
    TransactionError::NotOpen { id }.into()
}

fn producer_group(half: &Fetched) -> Option<String> {
    half.message().ok()?.property(p::PRODUCER_GROUP).map(str::to_owned)
}

impl Context {
    /// Asks a producer about a transaction. `false` if the half message did not come over this protocol; `true` also if no
    /// producer could be asked, in which case the check has counted.
    pub async fn check_transaction(&self, check: TransactionCheck) -> bool {
        let half = match self.shard.bodies().fetch(check.position, check.size).await {
            Ok(half) => half,
            Err(error) => {
                self.shard.bodies().failed(&error);
                return true;
            }
        };
        let Some(group) = producer_group(&half) else { return false };
        let mut producers = self.members.producers(&group);
        if producers.is_empty() {
            tracing::debug!(group, "no producer is connected to check a transaction");
            return true;
        }
        let topic = match self.shard.ask(move |engine, _| engine.topic_name_of(check.topic)) {
            Ok(topic) => topic.await.ok().flatten(),
            Err(_) => None,
        };
        let (Some(topic), Ok(home)) = (topic, half.home()) else { return true };
        // The question holds the message: it goes to those alone who may send to its topic. Groups of producers are no
        // proof, for every client may name any.
        let access = &self.node.config.resources.access;
        let needs = Needs::nothing().topic(topic.as_str(), PUB);
        let may = |peer: &Peer| peer.identity().is_some_and(|by| access.authorize(by, &needs).is_ok());
        producers.retain(|producer| !access.is_on() || may(&producer.peer));
        if producers.is_empty() {
            tracing::debug!(group, "no producer may be asked about a transaction");
            return true;
        }
        // Another producer for each check: one may be unable to answer.
        let first = check.checks as usize % producers.len();
        let (before, after) = producers.split_at(first);
        for producer in after.iter().chain(before) {
            let store_host = self.broker_address(producer.peer.local);
            let envelope = Envelope {
                topic: topic.as_str(),
                queue_id: home.queue.0,
                queue_offset: check.id.0,
                stored_at: redstart_engine::Timestamp(0),
                attempt: 0,
                origin: None,
                store_host,
            };
            let question = question(&half, &envelope, check, self);
            if question.is_some_and(|question| producer.peer.notify(question)) {
                break;
            }
        }
        true
    }
}

fn question(
    half: &Fetched,
    envelope: &Envelope<'_>,
    check: TransactionCheck,
    context: &Context,
) -> Option<Command> {
    let mut scratch = Scratch::new(&context.node.config.cluster);
    let mut message = to_wire(half, envelope, &mut scratch).ok()?;
    // The client sends these back. A transaction is identified by the position at which it was first stored.
    message.physical_offset = check.id.0 as i64;
    message.system_flag &= !flag::TRANSACTION;
    let mut body = Vec::new();
    message.encode(&mut body).ok()?;
    let id = half.message().ok()?.id.to_owned();
    let question = Command::question(code::CHECK_TRANSACTION_STATE)
        .with_field("topic", envelope.topic)
        .with_field("tranStateTableOffset", check.id.0)
        .with_field("commitLogOffset", check.id.0)
        .with_field("msgId", &id)
        .with_field("transactionId", &id)
        .with_field("offsetMsgId", offset_message_id(envelope.store_host, check.id.0 as i64))
        .with_field("bname", &context.name);
    Some(Command { body: body.into(), ..question })
}
