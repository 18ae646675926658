use std::{pin::Pin, sync::Arc, time::Duration};

use redstart_engine::{Engine, GroupName, Proof, Receipt, Timestamp, TopicName, TopicView, TransactionCheck};
use redstart_wire::v2::{self, Code, Resource};
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tonic::Status;

use super::{
    Config,
    answer::Part,
    call::Head,
    clients::Clients,
    commands::Questions,
    handle::Signer,
    metadata,
    receive::Received,
    renewal::Renewal,
    request::Incoming,
    status::{Refusal, ok},
    telemetry::Opener,
};
use crate::{
    drain::Drained,
    handover::Returns,
    shard::{ChangeError, ShardHandle},
};

/// How often silent clients are forgotten and held messages renewed.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The messaging service. Each call is translated in a module of its own.
#[derive(Clone)]
pub(super) struct Service {
    pub shard: ShardHandle,
    pub config: Arc<Config>,
    pub clients: Arc<Clients>,
    pub questions: Arc<Questions>,
    pub drained: Drained,
    /// Turns true when the server goes down.
    pub stopped: watch::Receiver<bool>,
    pub renewal: Arc<Renewal>,
    pub returns: Returns,
    pub signer: Arc<Signer>,
    /// Knows the consumers of the other protocol; nobody, when it is not spoken.
    pub pullers: Arc<std::sync::OnceLock<Arc<dyn super::PullConsumers>>>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Service {
    /// Runs beside the calls: asks about transactions, renews, forgets. None of the three waits for another: the shard may
    /// be slow to take what one of them asks.
    pub(super) async fn upkeep(self, mut checks: mpsc::Receiver<TransactionCheck>) {
        let mut stopped = self.stopped.clone();
        let renewing = async {
            let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
            loop {
                interval.tick().await;
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
        ask: impl FnOnce(&mut Engine, Timestamp) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        Ok(self.shard.ask(ask)?.await?)
    }

    pub(super) async fn change<E: Into<Refusal> + Send + 'static>(
        &self,
        propose: impl FnOnce(&mut Engine, Timestamp) -> Result<redstart_engine::Ticket, E> + Send + 'static,
    ) -> Result<(), Refusal> {
        self.shard.change(propose)?.await?.map_err(ChangeError::into)
    }

    pub(super) fn topic_name(&self, resource: Option<&Resource>) -> Result<TopicName, Refusal> {
        Ok(TopicName::new(resource.map_or("", |resource| &resource.name))?)
    }

    pub(super) fn group_name(&self, resource: Option<&Resource>) -> Result<GroupName, Refusal> {
        let name = GroupName::new(resource.map_or("", |resource| &resource.name))?;
        name.not_reserved()?;
        Ok(name)
    }

    pub(super) async fn topic(&self, resource: &Resource) -> Result<TopicView, Refusal> {
        let name = self.topic_name(Some(resource))?;
        let asked = name.clone();
        match self.ask(move |engine, _| engine.topic(&asked)).await? {
            Some(topic) => Ok(topic),
            None => Err(redstart_engine::SendError::UnknownTopic { topic: name }.into()),
        }
    }

    /// Creates the group if it is not there and that is allowed.
    pub(super) async fn ensure_group(&self, group: &GroupName) -> Result<(), Refusal> {
        let asked = group.clone();
        if self.ask(move |engine, _| engine.group_id(&asked).is_some()).await? {
            return Ok(());
        }
        if !self.config.auto_create_groups {
            let why = format!(
                "subscription group [{group}] does not exist; create it with: mqadmin updateSubGroup -c DefaultCluster -g {group}"
            );
            return Err(Refusal::new(Code::ConsumerGroupNotFound, why));
        }
        self.shard.ensure_group(group.clone())?.await?.map_err(ChangeError::into)
    }

    /// The message of a delivery is proven to be lost: it is done with, so that it does not come for ever.
    pub(super) fn pass_over(&self, receipt: Receipt, proof: Proof) {
        // Without room for this it comes again when its time is out, and is passed over then.
        drop(self.shard.ask(move |engine, _| engine.pass_over(receipt, proof)));
    }

    fn client<'a>(&self, head: &'a Head) -> Result<&'a str, Refusal> {
        let id = metadata::client_id(&head.headers).ok_or_else(Refusal::client_id)?;
        self.clients.seen(id);
        Ok(id)
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

/// The methods of the protocol.
impl Service {
    pub(super) async fn query_route(
        &self,
        head: &Head,
        request: v2::QueryRouteRequest,
    ) -> v2::QueryRouteResponse {
        let result = match self.client(head) {
            Ok(_) => self.route(request, &head.peer).await,
            Err(refusal) => Err(refusal),
        };
        answer!(QueryRouteResponse { message_queues } = result)
    }

    pub(super) async fn query_assignment(
        &self,
        head: &Head,
        request: v2::QueryAssignmentRequest,
    ) -> v2::QueryAssignmentResponse {
        let result = match self.client(head) {
            Ok(_) => self.assignment(request, &head.peer).await,
            Err(refusal) => Err(refusal),
        };
        answer!(QueryAssignmentResponse { assignments } = result)
    }

    pub(super) async fn heartbeat(&self, head: &Head, _: v2::HeartbeatRequest) -> v2::HeartbeatResponse {
        let result = metadata::client_id(&head.headers).ok_or_else(Refusal::client_id).and_then(|id| {
            if self.clients.seen(id) {
                return Ok(());
            }
            let why =
                "this client is not known here: it sends its settings again with its next telemetry stream";
            Err(Refusal::new(Code::UnrecognizedClientType, why))
        });
        answer!(HeartbeatResponse = result)
    }

    pub(super) async fn send_message(
        &self,
        head: &Head,
        request: v2::SendMessageRequest,
    ) -> v2::SendMessageResponse {
        let response = match self.client(head) {
            Ok(client) => self.send(client, request).await,
            Err(refusal) => Err(refusal),
        };
        response.unwrap_or_else(|refusal| v2::SendMessageResponse {
            status: Some(refusal.status()),
            entries: Vec::new(),
        })
    }

    pub(super) async fn receive_message(&self, head: &Head, request: v2::ReceiveMessageRequest) -> Received {
        let caller = self.client(head).map(|id| metadata::caller(&head.headers, id));
        match caller {
            Ok(caller) => self.receive(caller, request, &head.peer.account).await,
            Err(refusal) => super::receive::refused(&refusal),
        }
    }

    pub(super) async fn ack_message(
        &self,
        head: &Head,
        request: v2::AckMessageRequest,
    ) -> v2::AckMessageResponse {
        match self.client(head) {
            Ok(_) => self.ack(request).await,
            Err(refusal) => super::ack::refused(request, &refusal),
        }
    }

    pub(super) async fn change_invisible_duration(
        &self,
        head: &Head,
        request: v2::ChangeInvisibleDurationRequest,
    ) -> v2::ChangeInvisibleDurationResponse {
        let result = match self.client(head) {
            Ok(_) => self.change_invisible(&request).await,
            Err(refusal) => Err(refusal),
        };
        // The Java client keeps the handle of the answer even when it is a refusal: then the old one goes on.
        let (status, receipt_handle) = match result {
            Ok(changed) => (ok(), changed),
            Err(refusal) => (refusal.status(), request.receipt_handle),
        };
        v2::ChangeInvisibleDurationResponse { status: Some(status), receipt_handle }
    }

    pub(super) async fn forward_message_to_dead_letter_queue(
        &self,
        head: &Head,
        request: v2::ForwardMessageToDeadLetterQueueRequest,
    ) -> v2::ForwardMessageToDeadLetterQueueResponse {
        let result = match self.client(head) {
            Ok(_) => self.forward(request).await,
            Err(refusal) => Err(refusal),
        };
        answer!(ForwardMessageToDeadLetterQueueResponse = result)
    }

    pub(super) async fn end_transaction(
        &self,
        head: &Head,
        request: v2::EndTransactionRequest,
    ) -> v2::EndTransactionResponse {
        let result = match self.client(head) {
            Ok(_) => self.end(request).await,
            Err(refusal) => Err(refusal),
        };
        answer!(EndTransactionResponse = result)
    }

    pub(super) async fn recall_message(
        &self,
        head: &Head,
        request: v2::RecallMessageRequest,
    ) -> v2::RecallMessageResponse {
        let result = match self.client(head) {
            Ok(_) => self.recall(request).await,
            Err(refusal) => Err(refusal),
        };
        answer!(RecallMessageResponse { message_id } = result)
    }

    pub(super) fn telemetry(&self, head: &Head, incoming: Incoming) -> Answers<v2::TelemetryCommand> {
        let client = metadata::client_id(&head.headers).map(str::to_owned);
        self.open_telemetry(Opener { client, peer: head.peer.clone() }, incoming)
    }

    pub(super) async fn notify_client_termination(
        &self,
        head: &Head,
        _: v2::NotifyClientTerminationRequest,
    ) -> v2::NotifyClientTerminationResponse {
        // A client that is not known has nothing to take leave of.
        if let Some(id) = metadata::client_id(&head.headers) {
            self.clients.remove(id);
            self.renewal.leave(id).await;
            self.lite_upkeep(vec![id.to_owned()]).await;
        }
        answer!(NotifyClientTerminationResponse = Ok::<_, Refusal>(()))
    }

    pub(super) async fn pull_message(
        &self,
        head: &Head,
        request: v2::PullMessageRequest,
    ) -> Answers<v2::PullMessageResponse> {
        let stream = match self.client(head) {
            Ok(_) => self.pull(request, &head.peer.account).await,
            Err(refusal) => Err(refusal),
        };
        stream.unwrap_or_else(|refusal| super::offsets::refused(&refusal))
    }

    pub(super) async fn update_offset(
        &self,
        head: &Head,
        request: v2::UpdateOffsetRequest,
    ) -> v2::UpdateOffsetResponse {
        let result = match self.client(head) {
            Ok(_) => self.store_offset(request).await,
            Err(refusal) => Err(refusal),
        };
        answer!(UpdateOffsetResponse = result)
    }

    pub(super) async fn get_offset(
        &self,
        head: &Head,
        request: v2::GetOffsetRequest,
    ) -> v2::GetOffsetResponse {
        let result = match self.client(head) {
            Ok(_) => self.stored_offset(request).await,
            Err(refusal) => Err(refusal),
        };
        answer!(GetOffsetResponse { offset } = result)
    }

    pub(super) async fn query_offset(
        &self,
        head: &Head,
        request: v2::QueryOffsetRequest,
    ) -> v2::QueryOffsetResponse {
        let result = match self.client(head) {
            Ok(_) => self.find_offset(request).await,
            Err(refusal) => Err(refusal),
        };
        answer!(QueryOffsetResponse { offset } = result)
    }

    pub(super) async fn sync_lite_subscription(
        &self,
        head: &Head,
        request: v2::SyncLiteSubscriptionRequest,
    ) -> v2::SyncLiteSubscriptionResponse {
        let result = match self.client(head).map(str::to_owned) {
            Ok(client) => self.sync_lites(&client, request).await,
            Err(refusal) => Err(refusal),
        };
        answer!(SyncLiteSubscriptionResponse = result)
    }
}
