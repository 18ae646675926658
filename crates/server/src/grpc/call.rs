//! One call: reads its request, admits it, runs the method, writes the answer.

use std::sync::{Arc, atomic::Ordering};

use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, header::CONTENT_TYPE};

use tokio::time::Instant;

use super::{
    answer::{Answer, Chunk},
    connection::Peer,
    metadata::deadline,
    method::Method,
    receive::Received,
    request::{Content, Incoming, Rejected},
    service::Service,
    status::Status,
    telemetry::refused as refused_stream,
    timing::Timing,
};

/// Bytes of memory of a call beside its headers and its request: the state of its handler and of its stream.
const CALL_BYTES: usize = 4 << 10;
/// Bytes of memory of a header beside its text.
const HEADER_BYTES: usize = 64;

/// The headers of a call and the connection it came over.
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
                let answer = match $service.admit(&$call.head, request) {
                    Ok(admitted) => $service.$method(admitted).await,
                    Err(refused) => refused,
                };
                let body = $call.answer.body_of(&answer);
                drop(answer);
                $call.answer.send(body).await;
            }
            Err(rejected) => $call.answer.reject(rejected).await,
        }
    };
}

/// The same for methods that are called less often. Boxed, so that the futures of the other calls stay small.
macro_rules! boxed {
    ($service:ident . $method:ident, $call:ident) => {
        Box::pin(async { unary!($service.$method, $call) }).await
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
    let method = Method::of_path(head.uri.path());
    let timing = Timing::begin(method, service.shards.first().handle.counters().clone());
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
    let Some(method) = method else {
        return answer.refuse(&Status::unimplemented("there is no such method here"));
    };
    let content = if method == Method::SendMessage { Content::Bodies } else { Content::Fields };
    let incoming = Incoming::new(body, content, grant, limits.request_timeout);
    let mut call = Call { head: Head { headers: head.headers, peer }, incoming, answer };
    match method {
        Method::SendMessage => unary!(service.send_message, call),
        Method::ReceiveMessage => receive(&service, call).await,
        Method::AckMessage => unary!(service.ack_message, call),
        Method::QueryRoute => boxed!(service.query_route, call),
        Method::Heartbeat => boxed!(service.heartbeat, call),
        Method::QueryAssignment => boxed!(service.query_assignment, call),
        Method::ChangeInvisibleDuration => boxed!(service.change_invisible_duration, call),
        Method::ForwardMessageToDeadLetterQueue => {
            boxed!(service.forward_message_to_dead_letter_queue, call);
        }
        Method::EndTransaction => boxed!(service.end_transaction, call),
        Method::RecallMessage => boxed!(service.recall_message, call),
        Method::NotifyClientTermination => boxed!(service.notify_client_termination, call),
        Method::UpdateOffset => boxed!(service.update_offset, call),
        Method::GetOffset => boxed!(service.get_offset, call),
        Method::QueryOffset => boxed!(service.query_offset, call),
        Method::SyncLiteSubscription => boxed!(service.sync_lite_subscription, call),
        Method::PullMessage => Box::pin(pull(&service, call)).await,
        Method::Telemetry => Box::pin(telemetry(&service, call)).await,
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
        let Received { frames, deliveries } = match service.admit(head, request) {
            Ok(admitted) => answer.unless_reset(service.receive_message(admitted)).await?,
            Err(refused) => refused,
        };
        // The semaphore is never closed.
        let _place = answer.unless_reset(head.peer.answers.acquire()).await?;
        if answer.stream(frames).await {
            deliveries.into_iter().for_each(|deliveries| head.peer.unflushed.put(deliveries));
        }
        Some(())
    };
    match deadline {
        // After the deadline the client has given the call up, whether or not its cancellation has arrived.
        Some(deadline) => drop(tokio::time::timeout_at(deadline, answering).await),
        None => drop(answering.await),
    }
}

/// Ends early when the client cancels the call: no messages are read for it then.
async fn pull(service: &Service, mut call: Call) {
    let Call { head, incoming, answer } = &mut call;
    let request = match incoming.only().await {
        Ok(request) => request,
        Err(rejected) => return answer.reject(rejected).await,
    };
    let found = match service.admit(head, request) {
        Ok(admitted) => answer.unless_reset(service.pull_message(admitted)).await,
        Err(refused) => Some(refused),
    };
    let Some(found) = found else { return };
    // The semaphore is never closed.
    let Some(_place) = answer.unless_reset(head.peer.answers.acquire()).await else { return };
    answer.stream(found).await;
}

async fn telemetry(service: &Service, mut call: Call) {
    let _open = TelemetryOpen::of(&call.head.peer);
    let commands = match service.admit_stream(&call.head) {
        Ok((caller, identity)) => {
            service.open_telemetry(caller, identity, call.incoming.without_pause_limit())
        }
        Err(refusal) => refused_stream(&refusal),
    };
    call.answer.stream(commands).await;
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES).sum()
}
