//! One call: its request comes in, its method is found, its answer goes out.

use std::sync::{Arc, atomic::Ordering};

use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, header::CONTENT_TYPE};

use tokio::time::Instant;
use tonic::Status;

use super::{
    answer::{Answer, Chunk},
    io::Peer,
    metadata::deadline,
    receive::Received,
    request::{Content, Incoming, Rejected},
    service::Service,
    timing::Timing,
};

const SERVICE: &str = "/apache.rocketmq.v2.MessagingService/";
/// What a call takes beside its headers and its request: the state of its handler and of its stream.
const CALL_BYTES: usize = 4 << 10;
/// What a header takes beside its text.
const HEADER_BYTES: usize = 64;

/// What a method can ask about its call.
pub(super) struct Head {
    pub headers: HeaderMap,
    pub peer: Arc<Peer>,
}

struct Call {
    head: Head,
    incoming: Incoming,
    answer: Answer,
}

/// Answers a call with one message.
macro_rules! unary {
    ($service:ident . $method:ident, $call:ident) => {
        match $call.incoming.only().await {
            Ok(request) => {
                let answer = $service.$method(&$call.head, request).await;
                let body = $call.answer.body_of(&answer);
                drop(answer);
                $call.answer.send(body).await;
            }
            Err(rejected) => $call.answer.reject(rejected).await,
        }
    };
}

/// Answers a call with a stream of messages that hold bodies.
macro_rules! bodies {
    ($service:ident . $method:ident, $call:ident) => {
        match $call.incoming.only().await {
            Ok(request) => {
                let found = $service.$method(&$call.head, request);
                // A client that has lost interest must not get messages.
                let Some(found) = $call.answer.unless_reset(found).await else { return };
                // Never closed.
                let place = $call.head.peer.answers.acquire();
                let Some(_place) = $call.answer.unless_reset(place).await else { return };
                $call.answer.stream(found).await;
            }
            Err(rejected) => $call.answer.reject(rejected).await,
        }
    };
}

/// Counts a telemetry stream of a connection, until it is dropped.
struct TelemetryOpen(Arc<Peer>);

impl TelemetryOpen {
    fn of(peer: &Arc<Peer>) -> TelemetryOpen {
        peer.telemetry.fetch_add(1, Ordering::Relaxed);
        TelemetryOpen(peer.clone())
    }
}

impl Drop for TelemetryOpen {
    fn drop(&mut self) {
        self.0.telemetry.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) async fn serve(
    service: Arc<Service>,
    request: Request<RecvStream>,
    respond: SendResponse<Chunk>,
    peer: Arc<Peer>,
) {
    let (head, body) = request.into_parts();
    let timing = Timing::begin(head.uri.path(), service.shard.counters().clone());
    let limits = &service.config.limits;
    let mut answer = Answer::new(respond, timing, peer.account.clone(), limits.stuck_timeout);
    let grpc = |kind: &http::HeaderValue| kind.as_bytes().starts_with(b"application/grpc");
    if !head.headers.get(CONTENT_TYPE).is_some_and(grpc) {
        return answer.refuse_content_type();
    }
    let grant = match peer.account.try_grant(CALL_BYTES + header_bytes(&head.headers)) {
        Ok(grant) => grant,
        Err(spent) => return answer.reject(Rejected::Spent(spent)).await,
    };
    let method = head.uri.path().strip_prefix(SERVICE).unwrap_or("");
    let content = if method == "SendMessage" { Content::Bodies } else { Content::Fields };
    let incoming = Incoming::new(body, content, grant, limits.request_timeout);
    let mut call = Call { head: Head { headers: head.headers, peer }, incoming, answer };
    match method {
        "SendMessage" => unary!(service.send_message, call),
        "ReceiveMessage" => receive(&service, call).await,
        "AckMessage" => unary!(service.ack_message, call),
        // Boxed, so that the futures of the calls above stay small.
        _ => Box::pin(serve_other(service, method, call)).await,
    }
}

/// Messages that do not reach the client go back to their queue, whatever ends the call: it drops the answer's deliveries.
async fn receive(service: &Service, mut call: Call) {
    let request = match call.incoming.only().await {
        Ok(request) => request,
        Err(rejected) => return call.answer.reject(rejected).await,
    };
    let deadline = deadline(&call.head.headers).and_then(|time| Instant::now().checked_add(time));
    let Call { head, answer, .. } = &mut call;
    let answering = async {
        let Received { frames, deliveries } =
            answer.unless_reset(service.receive_message(head, request)).await?;
        // Never closed.
        let _place = answer.unless_reset(head.peer.answers.acquire()).await?;
        if answer.stream(frames).await {
            deliveries.into_iter().for_each(|deliveries| head.peer.sent.put(deliveries));
        }
        Some(())
    };
    match deadline {
        // After it the client has given the call up, whether or not it could say so.
        Some(deadline) => drop(tokio::time::timeout_at(deadline, answering).await),
        None => drop(answering.await),
    }
}

async fn serve_other(service: Arc<Service>, method: &str, mut call: Call) {
    match method {
        "QueryRoute" => unary!(service.query_route, call),
        "Heartbeat" => unary!(service.heartbeat, call),
        "QueryAssignment" => unary!(service.query_assignment, call),
        "ChangeInvisibleDuration" => unary!(service.change_invisible_duration, call),
        "ForwardMessageToDeadLetterQueue" => unary!(service.forward_message_to_dead_letter_queue, call),
        "EndTransaction" => unary!(service.end_transaction, call),
        "RecallMessage" => unary!(service.recall_message, call),
        "NotifyClientTermination" => unary!(service.notify_client_termination, call),
        "UpdateOffset" => unary!(service.update_offset, call),
        "GetOffset" => unary!(service.get_offset, call),
        "QueryOffset" => unary!(service.query_offset, call),
        "SyncLiteSubscription" => unary!(service.sync_lite_subscription, call),
        "PullMessage" => bodies!(service.pull_message, call),
        "Telemetry" => {
            let _open = TelemetryOpen::of(&call.head.peer);
            let incoming = call.incoming.patient();
            call.answer.stream(service.telemetry(&call.head, incoming)).await;
        }
        _ => call.answer.refuse(&Status::unimplemented("there is no such method here")),
    }
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES).sum()
}
