use std::{pin::Pin, sync::Arc, time::Duration};

use redstart_engine::{Engine, GroupName, Timestamp, TopicName, TopicView, TransactionCheck};
use redstart_wire::v2::{self, Code, Resource, messaging_service_server::MessagingService};
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Config,
    clients::Clients,
    commands::Questions,
    handle::Signer,
    io::Peer,
    metadata,
    outflow::in_turn,
    renewal::Renewal,
    status::{Refusal, ok},
    telemetry::Opener,
};
use crate::shard::{ChangeError, ShardHandle};

/// How often silent clients are forgotten and held messages renewed.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The messaging service. Each call is translated in a module of its own.
#[derive(Clone)]
pub(super) struct Service {
    pub shard: ShardHandle,
    pub config: Arc<Config>,
    pub clients: Arc<Clients>,
    pub questions: Arc<Questions>,
    /// Turns true when the server goes down.
    pub stopped: watch::Receiver<bool>,
    pub renewal: Arc<Renewal>,
    pub signer: Arc<Signer>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Service {
    /// Runs beside the calls: asks about transactions, renews, forgets.
    pub(super) async fn upkeep(self, mut checks: mpsc::Receiver<TransactionCheck>) {
        let mut stopped = self.stopped.clone();
        let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            tokio::select! {
                Some(check) = checks.recv() => self.check_transaction(check).await,
                _ = interval.tick() => {
                    self.lite_upkeep(self.clients.expire()).await;
                    self.renewal.renew().await;
                }
                _ = stopped.changed() => return,
            }
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
                "consumer group {group} does not exist; create it with: mqadmin updateSubGroup -c DefaultCluster -g {group}"
            );
            return Err(Refusal::new(Code::ConsumerGroupNotFound, why));
        }
        self.shard.ensure_group(group.clone())?.await?.map_err(ChangeError::into)
    }

    fn client<'a, T>(&self, request: &'a Request<T>) -> Result<&'a str, Refusal> {
        let id = metadata::client_id(request.metadata()).ok_or_else(Refusal::client_id)?;
        self.clients.seen(id);
        Ok(id)
    }
}

/// Which address the call came in on.
fn peer<T>(request: &Request<T>) -> Option<Peer> {
    request.extensions().get::<Peer>().cloned()
}

pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Answers with the result, or with its refusal as the status.
macro_rules! answer {
    ($response:ident = $result:expr) => {
        Ok(Response::new(v2::$response {
            status: Some($result.map_or_else(|refusal: Refusal| refusal.status(), |()| ok())),
        }))
    };
    ($response:ident { $field:ident } = $result:expr) => {{
        let (status, $field) = match $result {
            Ok(value) => (ok(), value),
            Err(refusal) => (refusal.status(), Default::default()),
        };
        Ok(Response::new(v2::$response { status: Some(status), $field }))
    }};
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl MessagingService for Service {
    type ReceiveMessageStream = Answers<v2::ReceiveMessageResponse>;
    type PullMessageStream = Answers<v2::PullMessageResponse>;
    type TelemetryStream = Answers<v2::TelemetryCommand>;

    async fn query_route(&self, request: Request<v2::QueryRouteRequest>) -> Answer<v2::QueryRouteResponse> {
        let result = match self.client(&request) {
            Ok(_) => {
                let peer = peer(&request);
                self.route(request.into_inner(), peer).await
            }
            Err(refusal) => Err(refusal),
        };
        answer!(QueryRouteResponse { message_queues } = result)
    }

    async fn query_assignment(
        &self,
        request: Request<v2::QueryAssignmentRequest>,
    ) -> Answer<v2::QueryAssignmentResponse> {
        let result = match self.client(&request) {
            Ok(_) => {
                let peer = peer(&request);
                self.assignment(request.into_inner(), peer).await
            }
            Err(refusal) => Err(refusal),
        };
        answer!(QueryAssignmentResponse { assignments } = result)
    }

    async fn heartbeat(&self, request: Request<v2::HeartbeatRequest>) -> Answer<v2::HeartbeatResponse> {
        let result = metadata::client_id(request.metadata()).ok_or_else(Refusal::client_id).and_then(|id| {
            if self.clients.seen(id) {
                return Ok(());
            }
            let why =
                "this client is not known here: it sends its settings again with its next telemetry stream";
            Err(Refusal::new(Code::UnrecognizedClientType, why))
        });
        answer!(HeartbeatResponse = result)
    }

    async fn send_message(
        &self,
        request: Request<v2::SendMessageRequest>,
    ) -> Answer<v2::SendMessageResponse> {
        let response = match self.client(&request) {
            Ok(_) => self.send(request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        Ok(Response::new(response.unwrap_or_else(|refusal| v2::SendMessageResponse {
            status: Some(refusal.status()),
            entries: Vec::new(),
        })))
    }

    async fn receive_message(
        &self,
        request: Request<v2::ReceiveMessageRequest>,
    ) -> Answer<Self::ReceiveMessageStream> {
        let peer = peer(&request);
        let caller = self.client(&request).map(|id| metadata::caller(request.metadata(), id));
        let stream = match caller {
            Ok(caller) => self.receive(caller, request.into_inner()).await,
            Err(refusal) => super::receive::refused(&refusal),
        };
        Ok(Response::new(in_turn(peer, stream).await))
    }

    async fn ack_message(&self, request: Request<v2::AckMessageRequest>) -> Answer<v2::AckMessageResponse> {
        Ok(Response::new(match self.client(&request) {
            Ok(_) => self.ack(request.into_inner()).await,
            Err(refusal) => super::ack::refused(request.into_inner(), &refusal),
        }))
    }

    async fn change_invisible_duration(
        &self,
        request: Request<v2::ChangeInvisibleDurationRequest>,
    ) -> Answer<v2::ChangeInvisibleDurationResponse> {
        let result = match self.client(&request) {
            Ok(_) => self.change_invisible(request.get_ref()).await,
            Err(refusal) => Err(refusal),
        };
        // The Java client keeps the handle of the answer even when it is a refusal: then the old one goes on.
        let (status, receipt_handle) = match result {
            Ok(changed) => (ok(), changed),
            Err(refusal) => (refusal.status(), request.into_inner().receipt_handle),
        };
        Ok(Response::new(v2::ChangeInvisibleDurationResponse { status: Some(status), receipt_handle }))
    }

    async fn forward_message_to_dead_letter_queue(
        &self,
        request: Request<v2::ForwardMessageToDeadLetterQueueRequest>,
    ) -> Answer<v2::ForwardMessageToDeadLetterQueueResponse> {
        let result = match self.client(&request) {
            Ok(_) => self.forward(request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        answer!(ForwardMessageToDeadLetterQueueResponse = result)
    }

    async fn end_transaction(
        &self,
        request: Request<v2::EndTransactionRequest>,
    ) -> Answer<v2::EndTransactionResponse> {
        let result = match self.client(&request) {
            Ok(_) => self.end(request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        answer!(EndTransactionResponse = result)
    }

    async fn recall_message(
        &self,
        request: Request<v2::RecallMessageRequest>,
    ) -> Answer<v2::RecallMessageResponse> {
        let result = match self.client(&request) {
            Ok(_) => self.recall(request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        answer!(RecallMessageResponse { message_id } = result)
    }

    async fn telemetry(
        &self,
        request: Request<Streaming<v2::TelemetryCommand>>,
    ) -> Answer<Self::TelemetryStream> {
        let opener = Opener {
            client: metadata::client_id(request.metadata()).map(str::to_owned),
            remote: peer(&request).and_then(|peer| peer.remote),
        };
        Ok(Response::new(self.open_telemetry(opener, request.into_inner())))
    }

    async fn notify_client_termination(
        &self,
        request: Request<v2::NotifyClientTerminationRequest>,
    ) -> Answer<v2::NotifyClientTerminationResponse> {
        // A client that is not known has nothing to take leave of.
        if let Some(id) = metadata::client_id(request.metadata()) {
            self.clients.remove(id);
            self.lite_upkeep(vec![id.to_owned()]).await;
            self.renewal.leave(id).await;
        }
        answer!(NotifyClientTerminationResponse = Ok::<_, Refusal>(()))
    }

    async fn pull_message(
        &self,
        request: Request<v2::PullMessageRequest>,
    ) -> Answer<Self::PullMessageStream> {
        let peer = peer(&request);
        let stream = match self.client(&request) {
            Ok(_) => self.pull(request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        let stream = stream.unwrap_or_else(|refusal| super::offsets::refused(&refusal));
        Ok(Response::new(in_turn(peer, stream).await))
    }

    async fn update_offset(
        &self,
        request: Request<v2::UpdateOffsetRequest>,
    ) -> Answer<v2::UpdateOffsetResponse> {
        let result = match self.client(&request) {
            Ok(_) => self.store_offset(request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        answer!(UpdateOffsetResponse = result)
    }

    async fn get_offset(&self, request: Request<v2::GetOffsetRequest>) -> Answer<v2::GetOffsetResponse> {
        let result = match self.client(&request) {
            Ok(_) => self.stored_offset(request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        answer!(GetOffsetResponse { offset } = result)
    }

    async fn query_offset(
        &self,
        request: Request<v2::QueryOffsetRequest>,
    ) -> Answer<v2::QueryOffsetResponse> {
        let result = match self.client(&request) {
            Ok(_) => self.find_offset(request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        answer!(QueryOffsetResponse { offset } = result)
    }

    async fn sync_lite_subscription(
        &self,
        request: Request<v2::SyncLiteSubscriptionRequest>,
    ) -> Answer<v2::SyncLiteSubscriptionResponse> {
        let result = match self.client(&request).map(str::to_owned) {
            Ok(client) => self.sync_lites(&client, request.into_inner()).await,
            Err(refusal) => Err(refusal),
        };
        answer!(SyncLiteSubscriptionResponse = result)
    }
}
