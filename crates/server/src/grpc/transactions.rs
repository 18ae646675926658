//! EndTransaction, RecallMessage, and checks of open transactions.

use redstart_auth::Action;
use redstart_engine::TransactionError;
use redstart_log::Position;
use redstart_wire::v2::{
    Code, EndTransactionRequest, RecallMessageRequest, RecoverOrphanedTransactionCommand, Resource,
    TelemetryCommand, TransactionResolution, telemetry_command::Command,
};

use super::{
    ShardCheck,
    convert::{Envelope, to_wire},
    refusal::{Refusal, ok},
    service::Service,
};
use crate::{
    access::Needs,
    scope::{HandleKind, ScopedError, check_topic},
    shard::ChangeError,
    shards::ServedShard,
};

impl Service {
    pub(super) async fn end(&self, request: EndTransactionRequest) -> Result<(), Refusal> {
        let topic = self.topic_name(request.topic.as_ref())?;
        if request.transaction_id.is_empty() {
            return Err(Refusal::new(Code::InvalidTransactionId, "transaction id cannot be empty"));
        }
        let read = self.signer.read_transaction(&request.transaction_id);
        let found = read.and_then(|(shard, made_for, id)| Some((self.shards.get(shard)?, made_for, id)));
        let (shard, made_for, id) = found.ok_or_else(|| {
            Refusal::new(Code::InvalidTransactionId, "the transaction id was not made by this broker")
        })?;
        let commit = match TransactionResolution::try_from(request.resolution) {
            Ok(TransactionResolution::Commit) => true,
            Ok(TransactionResolution::Rollback) => false,
            // The producer does not know yet; it is asked again later.
            Ok(TransactionResolution::Unspecified) => return Ok(()),
            Err(_) => {
                let why = format!("the resolution {} is not known", request.resolution);
                return Err(Refusal::new(Code::BadRequest, why));
            }
        };
        let end = shard.handle.change(move |engine, now| {
            check_topic(engine, HandleKind::Transaction, made_for, &topic)
                .map_err(ScopedError::OutOfScope)?;
            engine.end_transaction(id, commit, now).map_err(ScopedError::Engine)
        })?;
        match end.await? {
            // The producer may end it twice, by itself and as the answer to a check: the same end is no error.
            Err(ChangeError::Refused(ScopedError::Engine(TransactionError::Ended { committed, .. })))
                if committed == commit =>
            {
                Ok(())
            }
            other => other.map_err(ChangeError::into),
        }
    }

    pub(super) async fn recall(&self, request: RecallMessageRequest) -> Result<String, Refusal> {
        let name = self.topic_name(request.topic.as_ref())?;
        let unknown = || Refusal::new(Code::MessageNotFound, "no delayed message is known by this handle");
        let (number, made_for, key) = self.signer.read_recall(&request.recall_handle).ok_or_else(unknown)?;
        let shard = self.shards.get(number).ok_or_else(unknown)?;
        let delayed = self
            .ask(shard, move |engine, _| {
                check_topic(engine, HandleKind::Recall, made_for, &name)?;
                Ok::<_, Refusal>(engine.delayed(key))
            })
            .await??;
        // Read before the message is cancelled, because after that the answer must not fail.
        let id = match delayed {
            Some((position, size)) => self.message_id(shard, position, size).await?,
            None => String::new(),
        };
        self.change(shard, move |engine, now| engine.recall(key, now)).await?;
        Ok(id)
    }

    /// The id of a stored message; empty if the message is lost.
    async fn message_id(
        &self,
        shard: &ServedShard,
        position: Position,
        size: u32,
    ) -> Result<String, Refusal> {
        let fetched = shard.handle.bodies().fetch(position, size).await;
        match fetched.and_then(|fetched| Ok(fetched.message()?.id.to_owned())) {
            Ok(id) => Ok(id),
            Err(error) if error.proof().is_some() => Ok(String::new()),
            Err(error) => Err(Refusal::new(Code::InternalServerError, error.to_string())),
        }
    }

    /// Asks a producer of the topic about a transaction. Without a connected producer, the check is repeated later.
    pub(super) async fn check_transaction(&self, ShardCheck { shard, check }: ShardCheck) {
        let Some(shard) = self.shards.get(shard) else { return };
        let Ok(Some(topic)) = self.ask(shard, move |engine, _| engine.topic_name_of(check.topic)).await
        else {
            return;
        };
        let publishers = self.clients.publishers(&topic, |identity| {
            let needs = || Needs::nothing().topic(topic.as_str(), Action::Pub);
            // The question holds the message: it goes to those alone who may send to its topic now.
            identity.is_some_and(|identity| self.authorize(identity, needs).is_ok())
        });
        if publishers.is_empty() {
            return tracing::debug!(%topic, "no producer is connected to check a transaction");
        }
        let envelope = Envelope {
            topic: Resource { resource_namespace: String::new(), name: topic.to_string() },
            attempt: 1,
            ..Envelope::default()
        };
        let fetched = shard.handle.bodies().fetch(check.position, check.size).await;
        let message = match fetched.and_then(|fetched| to_wire(&fetched, envelope)) {
            Ok(message) => message,
            Err(error) => return shard.handle.bodies().failed(&error),
        };
        let command = RecoverOrphanedTransactionCommand {
            message: Some(message),
            transaction_id: self.signer.transaction(shard.number, check.topic, check.id),
        };
        let command = TelemetryCommand {
            status: Some(ok()),
            command: Some(Command::RecoverOrphanedTransactionCommand(command)),
        };
        // Another producer for each check: one may be unable to answer.
        let first = check.checks as usize % publishers.len();
        let (before, after) = publishers.split_at(first);
        for publisher in after.iter().chain(before) {
            if publisher.try_send(command.clone()).is_ok() {
                return;
            }
        }
    }
}
