//! gRPC calls on bare HTTP/2 connections, one connection to each address.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream, client::SendRequest};
use http::{HeaderMap, HeaderValue, Request, Uri};
use prost::Message;
use tokio::task::AbortHandle;

use crate::{CallError, Stream, Tls};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const WINDOW_BYTES: u32 = 8 << 20;
/// Bytes before every message: a compression flag and the length.
const PREFIX_BYTES: usize = 5;
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Methods of the messaging service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Method {
    QueryRoute,
    SendMessage,
    ReceiveMessage,
    AckMessage,
    ChangeInvisibleDuration,
    ForwardMessageToDeadLetterQueue,
    RecallMessage,
    PullMessage,
    UpdateOffset,
    GetOffset,
    QueryOffset,
    EndTransaction,
    Heartbeat,
    NotifyClientTermination,
    Telemetry,
}

const METHODS: [&str; 15] = [
    "QueryRoute",
    "SendMessage",
    "ReceiveMessage",
    "AckMessage",
    "ChangeInvisibleDuration",
    "ForwardMessageToDeadLetterQueue",
    "RecallMessage",
    "PullMessage",
    "UpdateOffset",
    "GetOffset",
    "QueryOffset",
    "EndTransaction",
    "Heartbeat",
    "NotifyClientTermination",
    "Telemetry",
];

/// The connection to one address.
#[derive(Debug)]
pub(super) struct Channel {
    address: Arc<str>,
    requests: SendRequest<Bytes>,
    methods: Vec<Uri>,
    connection: AbortHandle,
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Channel {
    async fn open(address: &Arc<str>, tls: Option<&Tls>) -> Result<Channel, CallError> {
        let failed = |why: String| CallError::Connect { address: address.to_string(), why };
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, async {
            let stream = Stream::open(address, tls).await.map_err(|error| failed(error.to_string()))?;
            h2::client::Builder::new()
                .initial_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .handshake::<_, Bytes>(stream)
                .await
                .map_err(|error| failed(format!("it does not speak HTTP/2: {error}")))
        });
        let (requests, connection) = opened
            .await
            .map_err(|_| failed(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())))??;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let method =
            |name: &&str| format!("{scheme}://{address}/apache.rocketmq.v2.MessagingService/{name}").parse();
        let methods = METHODS.iter().map(method).collect::<Result<Vec<Uri>, _>>();
        let connection = tokio::spawn(async move {
            // The calls in flight report the error.
            drop(connection.await);
        });
        Ok(Channel {
            address: address.clone(),
            requests,
            methods: methods.map_err(|error| failed(error.to_string()))?,
            connection: connection.abort_handle(),
        })
    }

    fn is_open(&self) -> bool {
        !self.connection.is_finished()
    }

    fn lost(&self, error: &h2::Error) -> CallError {
        tracing::debug!(address = %self.address, %error, "a call was lost");
        CallError::Closed { address: self.address.to_string() }
    }

    /// Starts a call with one request message; `end` says whether the request stream ends with it.
    pub async fn begin(
        &self,
        method: Method,
        headers: HeaderMap,
        request: &impl Message,
        end: bool,
    ) -> Result<(Answers, SendStream<Bytes>), CallError> {
        let refused = |error: h2::Error| CallError::Connect {
            address: self.address.to_string(),
            why: error.to_string(),
        };
        let mut requests = self.requests.clone().ready().await.map_err(refused)?;
        let mut head = Request::new(());
        *head.method_mut() = http::Method::POST;
        *head.uri_mut() = self.methods[method as usize].clone();
        *head.headers_mut() = headers;
        let (response, mut sending) = requests.send_request(head, false).map_err(refused)?;
        sending.send_data(framed(request), end).map_err(|error| self.lost(&error))?;
        let (head, body) = response.await.map_err(|error| self.lost(&error))?.into_parts();
        if head.status != 200 {
            return Err(self.malformed(format!("HTTP status {}", head.status)));
        }
        self.check(&head.headers)?;
        Ok((Answers { body, buffer: BytesMut::new() }, sending))
    }

    /// A call with one answer.
    pub async fn unary<R: Message + Default>(
        &self,
        method: Method,
        headers: HeaderMap,
        request: &impl Message,
    ) -> Result<R, CallError> {
        let (mut answers, _) = self.begin(method, headers, request, true).await?;
        let answer = self.next(&mut answers).await?;
        let answer = answer.ok_or_else(|| self.malformed("the call ended without an answer".to_owned()))?;
        // The trailers may hold an error.
        match self.next::<R>(&mut answers).await? {
            None => Ok(answer),
            Some(_) => Err(self.malformed("more than one answer".to_owned())),
        }
    }

    /// The next message of an answer; `None` at its end.
    pub async fn next<R: Message + Default>(&self, answers: &mut Answers) -> Result<Option<R>, CallError> {
        loop {
            if let Some(message) = answers.take().map_err(|why| self.malformed(why))? {
                return R::decode(message).map(Some).map_err(|error| self.malformed(error.to_string()));
            }
            match answers.body.data().await {
                Some(data) => {
                    let data = data.map_err(|error| self.lost(&error))?;
                    let _ = answers.body.flow_control().release_capacity(data.len());
                    answers.put(data);
                }
                None => {
                    if !answers.buffer.is_empty() {
                        return Err(self.malformed("an answer ends in the middle of a message".to_owned()));
                    }
                    let trailers = poll_fn(|context| answers.body.poll_trailers(context)).await;
                    if let Some(trailers) = trailers.map_err(|error| self.lost(&error))? {
                        self.check(&trailers)?;
                    }
                    return Ok(None);
                }
            }
        }
    }

    fn malformed(&self, why: String) -> CallError {
        CallError::Malformed { address: self.address.to_string(), why }
    }

    /// A status of gRPC itself, which says that the call was lost. Refusals of the server are in its answers.
    fn check(&self, headers: &HeaderMap) -> Result<(), CallError> {
        match headers.get("grpc-status") {
            None => Ok(()),
            Some(status) if status.as_bytes() == b"0" => Ok(()),
            Some(status) => {
                let message = headers.get("grpc-message").map(HeaderValue::as_bytes).unwrap_or_default();
                let (status, message) = (status.to_str().unwrap_or("?"), String::from_utf8_lossy(message));
                match status {
                    // Cancelled, deadline exceeded, unavailable.
                    "1" | "4" | "14" => Err(CallError::Closed { address: self.address.to_string() }),
                    _ => Err(self.malformed(format!("gRPC status {status}: {message}"))),
                }
            }
        }
    }
}

/// The messages that answer a call.
#[derive(Debug)]
pub(super) struct Answers {
    body: RecvStream,
    buffer: BytesMut,
}

impl Answers {
    fn put(&mut self, data: Bytes) {
        if self.buffer.is_empty() {
            // The usual answer is one frame, which is then not copied.
            self.buffer = data.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        } else {
            self.buffer.extend_from_slice(&data);
        }
    }

    /// The next complete message in the buffer.
    fn take(&mut self) -> Result<Option<Bytes>, String> {
        let Some(mut prefix) = self.buffer.get(..PREFIX_BYTES) else { return Ok(None) };
        if prefix.get_u8() != 0 {
            return Err("a compressed answer".to_owned());
        }
        let length = prefix.get_u32() as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(format!("an answer of {length} bytes"));
        }
        if self.buffer.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

pub(super) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(length as u32);
    // There is room for all of it.
    message.encode_raw(&mut frame);
    frame.freeze()
}

/// The channels of a client.
#[derive(Debug, Default)]
pub(super) struct Channels {
    tls: Option<Tls>,
    open: RwLock<HashMap<Arc<str>, Arc<Channel>>>,
    opening: Mutex<HashMap<Arc<str>, Arc<tokio::sync::Mutex<()>>>>,
}

impl Channels {
    pub fn new(tls: Option<&Tls>) -> Channels {
        Channels { tls: tls.map(Tls::for_http2), ..Channels::default() }
    }

    /// The open channel to an address, or a new one.
    pub async fn get(&self, address: &Arc<str>) -> Result<Arc<Channel>, CallError> {
        if let Some(open) = self.opened(address) {
            return Ok(open);
        }
        let gate = {
            let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            opening.entry(address.clone()).or_default().clone()
        };
        let _turn = gate.lock().await;
        if let Some(open) = self.opened(address) {
            return Ok(open);
        }
        let channel = Arc::new(Channel::open(address, self.tls.as_ref()).await?);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(address.clone(), channel.clone());
        Ok(channel)
    }

    fn opened(&self, address: &str) -> Option<Arc<Channel>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(address).filter(|channel| channel.is_open()).cloned()
    }
}
