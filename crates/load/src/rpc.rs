//! gRPC calls on a bare HTTP/2 connection. The load generator shares the machine with the server that it measures, so its own
//! calls must be cheap.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream, client::SendRequest};
use http::{HeaderMap, HeaderValue, Request, Uri};
use prost::Message;
use redstart_client::{Credentials, Stream};

use super::Server;

const WINDOW_BYTES: u32 = 4 << 20;
/// Bytes before every message: a compression flag and the length.
const PREFIX_BYTES: usize = 5;
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A connection that any number of calls share.
#[derive(Debug, Clone)]
pub struct Connection {
    requests: SendRequest<Bytes>,
    base: String,
    headers: HeaderMap,
    signature: Option<Arc<Signature>>,
}

/// The headers that sign calls. The signed date has whole seconds, so they are made once a second.
#[derive(Debug)]
struct Signature {
    credentials: Credentials,
    /// The second for which they were made last, and the headers.
    made: Mutex<Option<(u64, SignedHeaders)>>,
}

type SignedHeaders = [(&'static str, HeaderValue); 2];

/// The messages that answer a call.
#[derive(Debug)]
pub struct Answers {
    body: RecvStream,
    buffer: BytesMut,
}

impl Connection {
    /// Connects. Every call carries the client's id.
    pub async fn open(server: &Server, client_id: &str) -> anyhow::Result<Connection> {
        let Server { address: server, credentials, tls } = server;
        let stream = Stream::open(server, tls.as_ref())
            .await
            .with_context(|| format!("cannot connect to {server}; is it up?"))?;
        let (requests, connection) = h2::client::Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(stream)
            .await
            .with_context(|| format!("{server} does not speak HTTP/2"))?;
        tokio::spawn(async move {
            // The calls in flight report the error.
            drop(connection.await);
        });
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers.insert("x-mq-client-id", client_id.parse().context("the client id is no header value")?);
        headers.insert("x-mq-language", HeaderValue::from_static("RUST"));
        headers.insert("x-mq-protocol", HeaderValue::from_static("v2"));
        headers.insert("x-mq-client-version", HeaderValue::from_static("5.0.0"));
        Ok(Connection {
            requests,
            base: format!("http://{server}/apache.rocketmq.v2.MessagingService"),
            headers,
            signature: credentials
                .clone()
                .map(|credentials| Arc::new(Signature { credentials, made: Mutex::default() })),
        })
    }

    /// The URI of a method, built once for many calls.
    pub fn method(&self, name: &str) -> anyhow::Result<Uri> {
        format!("{}/{name}", self.base).parse().with_context(|| format!("no address: {}", self.base))
    }

    /// Starts a call with one request message; `end` says whether the request stream ends with it.
    async fn begin(
        &self,
        method: &Uri,
        request: &impl Message,
        end: bool,
    ) -> anyhow::Result<(Answers, SendStream<Bytes>)> {
        let mut requests = self.requests.clone().ready().await?;
        let mut head = Request::post(method.clone()).body(())?;
        head.headers_mut().clone_from(&self.headers);
        if let Some(signature) = &self.signature {
            signature.add_to(head.headers_mut())?;
        }
        if end {
            // Apache's proxy refuses a receive without a timeout.
            head.headers_mut().insert("grpc-timeout", HeaderValue::from_static("30S"));
        }
        let (response, mut sending) = requests.send_request(head, false)?;
        sending.send_data(framed(request), end)?;
        let (head, body) = response.await?.into_parts();
        ensure!(head.status == 200, "HTTP status {}", head.status);
        check(&head.headers)?;
        Ok((Answers { body, buffer: BytesMut::new() }, sending))
    }

    /// A unary call.
    pub async fn unary<R: Message + Default>(
        &self,
        method: &Uri,
        request: &impl Message,
    ) -> anyhow::Result<R> {
        let mut answers = self.stream(method, request).await?;
        let answer = answers.next().await?.context("the call ended without an answer")?;
        ensure!(answers.next::<R>().await?.is_none(), "more than one answer");
        Ok(answer)
    }

    /// A call with a stream of answers.
    pub async fn stream(&self, method: &Uri, request: &impl Message) -> anyhow::Result<Answers> {
        Ok(self.begin(method, request, true).await?.0)
    }

    /// A call whose request stream stays open while the second part of the result is held.
    pub async fn conversation(
        &self,
        method: &Uri,
        request: &impl Message,
    ) -> anyhow::Result<(Answers, SendStream<Bytes>)> {
        self.begin(method, request, false).await
    }
}

impl Answers {
    pub async fn next<R: Message + Default>(&mut self) -> anyhow::Result<Option<R>> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(R::decode(message)?));
            }
            match self.body.data().await {
                Some(data) => {
                    let data = data?;
                    self.body.flow_control().release_capacity(data.len())?;
                    self.buffer.extend_from_slice(&data);
                }
                None => {
                    ensure!(self.buffer.is_empty(), "the answer ends in the middle of a message");
                    if let Some(trailers) = poll_fn(|context| self.body.poll_trailers(context)).await? {
                        check(&trailers)?;
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The next complete message in the buffer.
    fn take(&mut self) -> anyhow::Result<Option<Bytes>> {
        let Some(mut prefix) = self.buffer.get(..PREFIX_BYTES) else { return Ok(None) };
        ensure!(prefix.get_u8() == 0, "a compressed answer");
        let length = prefix.get_u32() as usize;
        ensure!(length <= MESSAGE_BYTES_MAX, "an answer of {length} bytes");
        if self.buffer.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

impl Signature {
    fn add_to(&self, headers: &mut HeaderMap) -> anyhow::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let signed = match &mut *made {
            Some((at, signed)) if *at == now => signed,
            outdated => &mut outdated.insert((now, self.headers(now)?)).1,
        };
        for (name, value) in signed {
            headers.insert(*name, value.clone());
        }
        Ok(())
    }

    fn headers(&self, now: u64) -> anyhow::Result<SignedHeaders> {
        let [(date, date_value), (authorization, value)] = self.credentials.call_headers(now as i64);
        let value = value.try_into().context("the user's name is no header value")?;
        Ok([(date, date_value.try_into()?), (authorization, value)])
    }
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(length as u32);
    message.encode_raw(&mut frame);
    frame.freeze()
}

fn check(headers: &HeaderMap) -> anyhow::Result<()> {
    match headers.get("grpc-status") {
        None => Ok(()),
        Some(status) if status.as_bytes() == b"0" => Ok(()),
        Some(status) => {
            let message = headers.get("grpc-message").map(HeaderValue::as_bytes).unwrap_or_default();
            bail!("gRPC status {}: {}", status.to_str().unwrap_or("?"), String::from_utf8_lossy(message))
        }
    }
}
