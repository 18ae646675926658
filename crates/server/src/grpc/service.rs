//! The messaging service: its state, what the modules of its methods share, and the methods themselves.

use std::{pin::Pin, sync::Arc, time::Duration};

use redstart_engine::{Engine, GroupName, Proof, Receipt, Timestamp, TopicName};
use redstart_wire::v2::{self, Code, MessageQueue, Resource};
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;

use super::{
    Config, ShardCheck,
    admission::Admitted,
    answer::Part,
    clients::Clients,
    commands::PendingCommands,
    receive::Received,
    refusal::{Refusal, ok},
    renewal::Renewal,
    status::Status,
};
use crate::{
    scope::Scope,
    shard::ChangeError,
    shards::{ServedShard, Shards},
    signer::Signer,
};

/// How often silent clients are forgotten and invisible times renewed.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The messaging service. Each method has a module of its own; this file dispatches and holds what they share.
#[derive(Clone)]
pub(super) struct Service {
    pub shards: Shards,
    pub config: Arc<Config>,
    pub clients: Arc<Clients>,
    pub pending_commands: Arc<PendingCommands>,
    /// Turns true when the server stops.
    pub stopped: watch::Receiver<bool>,
    pub renewal: Arc<Renewal>,
    pub signer: Arc<Signer>,
    /// The Remoting front end; empty if it is not running.
    pub pull_consumers: Arc<std::sync::OnceLock<Arc<dyn super::PullConsumers>>>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Service {
    /// Runs beside the calls: asks producers about transactions, renews invisible times, forgets silent clients. The three are
    /// concurrent, because each may wait for an overloaded shard.
    pub(super) async fn upkeep(self, mut checks: mpsc::Receiver<ShardCheck>) {
        let mut stopped = self.stopped.clone();
        let renewing = async {
            let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
            let mut rights_changed = self.config.resources.access.changes();
            loop {
                tokio::select! {
                    _ = interval.tick() => {}
                    () = rights_changed.next() => {}
                }
                self.renewal.renew().await;
            }
        };
        let forgetting = async {
            let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
            loop {
                interval.tick().await;
                self.lite_upkeep(self.clients.expire()).await;
            }
        };
        let asking = async {
            while let Some(check) = checks.recv().await {
                self.check_transaction(check).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = async { tokio::join!(renewing, forgetting, asking); } => {}
            _ = stopped.changed() => {}
        }
    }

    pub(super) async fn ask<R: Send + 'static>(
        &self,
        shard: &ServedShard,
        ask: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(shard.handle.ask(ask)?.await?)
    }

    /// Runs a closure that records facts, such as acks.
    pub(super) async fn record<R: Send + 'static>(
        &self,
        shard: &ServedShard,
        record: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(shard.handle.record(record)?.await?)
    }

    pub(super) async fn change<E: Into<Refusal> + Send + 'static>(
        &self,
        shard: &ServedShard,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<redstart_engine::Ticket, E> + Send + 'static,
    ) -> Result<(), Refusal> {
        shard.handle.change(propose)?.await?.map_err(ChangeError::into)
    }

    /// The shard of a message queue, by the name of its broker.
    pub(super) fn shard_of(&self, queue: Option<&MessageQueue>) -> Result<&ServedShard, Refusal> {
        if self.shards.is_single() {
            return Ok(self.shards.first());
        }
        let name = queue.and_then(|queue| queue.broker.as_ref()).map_or("", |broker| &broker.name);
        self.shards.of_broker(name).ok_or_else(|| {
            let why = format!("the message queue names the broker {name:?}, which is not one of this server");
            Refusal::new(Code::BadRequest, why)
        })
    }

    pub(super) fn topic_name(&self, resource: Option<&Resource>) -> Result<TopicName, Refusal> {
        Ok(TopicName::new(resource.map_or("", |resource| &resource.name))?)
    }

    pub(super) fn group_name(&self, resource: Option<&Resource>) -> Result<GroupName, Refusal> {
        let name = GroupName::new(resource.map_or("", |resource| &resource.name))?;
        name.not_reserved()?;
        Ok(name)
    }

    pub(super) fn scope(&self, group: Option<&Resource>, topic: Option<&Resource>) -> Result<Scope, Refusal> {
        Ok(Scope { group: self.group_name(group)?, topic: self.topic_name(topic)? })
    }

    /// Creates the group unless it exists, if the configuration allows it.
    pub(super) async fn ensure_group(&self, group: &GroupName) -> Result<(), Refusal> {
        let asked = group.clone();
        if self.ask(self.shards.first(), move |engine, _| engine.group_id(&asked).is_some()).await? {
            return Ok(());
        }
        if !self.config.auto_create_groups {
            let why = format!(
                "subscription group [{group}] does not exist; create it with: redstart group create {group}"
            );
            return Err(Refusal::new(Code::ConsumerGroupNotFound, why));
        }
        Ok(self.shards.ensure_group(group).await?)
    }

    /// Ends the delivery of a message that is proven to be lost; otherwise it would be delivered again for ever.
    pub(super) fn pass_over(&self, shard: &ServedShard, receipt: Receipt, proof: Proof) {
        // If the shard is overloaded, the message is delivered again after its invisible time and passed over then.
        drop(shard.handle.ask(move |engine, _| engine.pass_over(receipt, proof)));
    }
}

pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<Part<T>, Status>> + Send>>;

/// Answers with the result, or with its refusal as the status.
macro_rules! answer {
    ($response:ident = $result:expr) => {
        v2::$response { status: Some($result.map_or_else(|refusal: Refusal| refusal.status(), |()| ok())) }
    };
    ($response:ident { $field:ident } = $result:expr) => {{
        let (status, $field) = match $result {
            Ok(value) => (ok(), value),
            Err(refusal) => (refusal.status(), Default::default()),
        };
        v2::$response { status: Some(status), $field }
    }};
}

/// The methods of the protocol. Each takes an admitted request: see [`admission`](super::admission).
impl Service {
    pub(super) async fn query_route(
        &self,
        Admitted { caller, request, .. }: Admitted<'_, v2::QueryRouteRequest>,
    ) -> v2::QueryRouteResponse {
        answer!(QueryRouteResponse { message_queues } = self.route(request, caller.peer).await)
    }

    pub(super) async fn query_assignment(
        &self,
        Admitted { caller, request, .. }: Admitted<'_, v2::QueryAssignmentRequest>,
    ) -> v2::QueryAssignmentResponse {
        answer!(QueryAssignmentResponse { assignments } = self.assignment(request, caller.peer).await)
    }

    pub(super) async fn heartbeat(
        &self,
        Admitted { caller, .. }: Admitted<'_, v2::HeartbeatRequest>,
    ) -> v2::HeartbeatResponse {
        let unknown = || {
            let why = "the server does not know this client; it sends its settings again with its next telemetry stream";
            Refusal::new(Code::UnrecognizedClientType, why)
        };
        answer!(HeartbeatResponse = caller.has_settings.then_some(()).ok_or_else(unknown))
    }

    pub(super) async fn send_message(
        &self,
        admitted: Admitted<'_, v2::SendMessageRequest>,
    ) -> v2::SendMessageResponse {
        self.send(admitted).await.unwrap_or_else(|refusal| v2::SendMessageResponse {
            status: Some(refusal.status()),
            entries: Vec::new(),
        })
    }

    pub(super) async fn receive_message(
        &self,
        admitted: Admitted<'_, v2::ReceiveMessageRequest>,
    ) -> Received {
        self.receive(admitted).await
    }

    pub(super) async fn ack_message(
        &self,
        admitted: Admitted<'_, v2::AckMessageRequest>,
    ) -> v2::AckMessageResponse {
        self.ack(admitted.request).await
    }

    pub(super) async fn change_invisible_duration(
        &self,
        admitted: Admitted<'_, v2::ChangeInvisibleDurationRequest>,
    ) -> v2::ChangeInvisibleDurationResponse {
        self.change_invisible(admitted.request).await
    }

    pub(super) async fn forward_message_to_dead_letter_queue(
        &self,
        admitted: Admitted<'_, v2::ForwardMessageToDeadLetterQueueRequest>,
    ) -> v2::ForwardMessageToDeadLetterQueueResponse {
        answer!(ForwardMessageToDeadLetterQueueResponse = self.forward(admitted).await)
    }

    pub(super) async fn end_transaction(
        &self,
        admitted: Admitted<'_, v2::EndTransactionRequest>,
    ) -> v2::EndTransactionResponse {
        answer!(EndTransactionResponse = self.end(admitted.request).await)
    }

    pub(super) async fn recall_message(
        &self,
        admitted: Admitted<'_, v2::RecallMessageRequest>,
    ) -> v2::RecallMessageResponse {
        answer!(RecallMessageResponse { message_id } = self.recall(admitted.request).await)
    }

    pub(super) async fn notify_client_termination(
        &self,
        Admitted { caller, .. }: Admitted<'_, v2::NotifyClientTerminationRequest>,
    ) -> v2::NotifyClientTerminationResponse {
        self.clients.remove(caller.client);
        self.renewal.client_left(caller.client).await;
        self.lite_upkeep(vec![caller.client.to_owned()]).await;
        answer!(NotifyClientTerminationResponse = Ok::<_, Refusal>(()))
    }

    pub(super) async fn pull_message(
        &self,
        admitted: Admitted<'_, v2::PullMessageRequest>,
    ) -> Answers<v2::PullMessageResponse> {
        self.pull(admitted).await.unwrap_or_else(|refusal| super::offsets::refused(&refusal))
    }

    pub(super) async fn update_offset(
        &self,
        admitted: Admitted<'_, v2::UpdateOffsetRequest>,
    ) -> v2::UpdateOffsetResponse {
        answer!(UpdateOffsetResponse = self.store_offset(admitted.request).await)
    }

    pub(super) async fn get_offset(
        &self,
        admitted: Admitted<'_, v2::GetOffsetRequest>,
    ) -> v2::GetOffsetResponse {
        answer!(GetOffsetResponse { offset } = self.stored_offset(admitted.request).await)
    }

    pub(super) async fn query_offset(
        &self,
        admitted: Admitted<'_, v2::QueryOffsetRequest>,
    ) -> v2::QueryOffsetResponse {
        answer!(QueryOffsetResponse { offset } = self.find_offset(admitted.request).await)
    }

    pub(super) async fn sync_lite_subscription(
        &self,
        Admitted { caller, request, .. }: Admitted<'_, v2::SyncLiteSubscriptionRequest>,
    ) -> v2::SyncLiteSubscriptionResponse {
        answer!(SyncLiteSubscriptionResponse = self.sync_lites(caller.client, request).await)
    }
}
