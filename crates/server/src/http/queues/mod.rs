//! Queues over HTTP, for programs in languages without a RocketMQ client: send, receive, and what becomes of a delivery.
//!
//! A request's path names its operation, topic and group ([`operation`]), so that the caller's rights are decided before its body is
//! read. Handles, limits and refusals are those of the other protocols.

mod bounded;
mod message;
mod operation;
mod receive;
mod received;
mod refusals;
mod send;
mod settle;
mod unpack;
mod waiting;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use http::{Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use parking_lot::RwLock;
use redstart_engine::{GroupName, TopicName};
use serde::de::DeserializeOwned;

use super::{
    Limits,
    answer::Answer,
    call::{Call, Right},
    refusal::{Form, Refusal},
    router::{Answering, Part, Request},
};
use crate::{grpc::PullConsumers, scope::Scope, shards::Shards, signer::Signer};
use operation::{Operation, Step};
use waiting::WaitingPlaces;

const PATH: &str = "/v1";
/// Bytes of a request that names handles or says what to receive.
const SMALL_BODY_BYTES_MAX: usize = 256 << 10;

/// The queues. They are mounted before the shards are open, and refuse requests until [`Queues::attach`]. Clones share one state.
#[derive(Debug, Clone)]
pub struct Queues {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    message_bytes_max: usize,
    /// `None` until the ports accept connections, and while another node leads.
    served: RwLock<Option<Arc<Served>>>,
    stopping: AtomicBool,
    /// Where the next receive looks first.
    turn: AtomicUsize,
    waiting: WaitingPlaces,
}

/// What the queues serve.
#[derive(Debug)]
pub struct Served {
    pub shards: Shards,
    pub signer: Arc<Signer>,
    pub pull_consumers: Arc<dyn PullConsumers>,
    /// Create an unknown consumer group when it first consumes.
    pub auto_create_groups: bool,
}

impl Queues {
    /// `message_bytes_max` is the largest body of a message, `connections_max` the number of connections that the port takes.
    pub fn new(message_bytes_max: usize, connections_max: usize) -> Queues {
        let state = State {
            message_bytes_max,
            served: RwLock::default(),
            stopping: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
            waiting: WaitingPlaces::new(connections_max),
        };
        Queues { state: Arc::new(state) }
    }

    /// All ports accept connections.
    pub fn attach(&self, served: Served) {
        *self.state.served.write() = Some(Arc::new(served));
    }

    /// Another node leads: requests are refused until the next [`Queues::attach`].
    pub fn detach(&self) {
        *self.state.served.write() = None;
    }

    /// Refuses requests from now on, and answers receives that wait.
    pub fn stop(&self) {
        self.state.stopping.store(true, Ordering::SeqCst);
        if let Some(served) = &*self.state.served.read() {
            served.shards.end_polls();
        }
    }

    pub fn part(&self) -> impl Part + use<> {
        QueuesPart(self.clone())
    }
}

#[derive(Debug)]
struct QueuesPart(Queues);

impl Part for QueuesPart {
    fn path(&self) -> &'static str {
        PATH
    }

    fn has(&self, _: &str) -> bool {
        true
    }

    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn form(&self) -> Form {
        Form::Json
    }

    fn right(&self, request: &Request) -> Result<Right, Refusal> {
        // Browsers name the page that makes a request. A page that a person happens to look at must not use a broker that trusts
        // everyone who can reach it.
        if request.headers().contains_key(header::ORIGIN) {
            let why = "requests of web pages are not served";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "web_page", why));
        }
        Ok(operation(request.uri().path())?.right())
    }

    fn body_bytes_max(&self, _: &Limits) -> u64 {
        self.0.state.json_bytes_max() as u64
    }

    fn answer(&self, call: Call, body: Incoming) -> Answering<'_> {
        Box::pin(async move {
            let answered = self.0.state.answer(call, body).await;
            answered.unwrap_or_else(|refusal| refusal.answer(Form::Json))
        })
    }
}

fn operation(path: &str) -> Result<Operation, Refusal> {
    Operation::of(path.strip_prefix(PATH).unwrap_or(path))
}

impl State {
    /// A list of messages in base64 is larger than what is stored of it.
    fn json_bytes_max(&self) -> usize {
        2 * self.message_bytes_max.max(4 << 20) + SMALL_BODY_BYTES_MAX
    }

    async fn answer(&self, call: Call, body: Incoming) -> Result<Answer, Refusal> {
        if call.head.uri.query().is_some_and(|query| !query.is_empty()) {
            return Err(Refusal::bad("bad_path", "the path takes no query: what to do is said in the body"));
        }
        let operation = operation(call.head.uri.path())?;
        let attached = self.served()?;
        let served = &*attached;
        match operation {
            Operation::Send { topic } => self.send(served, call, body, &topic).await,
            Operation::Recall { topic } => self.recall(served, call, body, &topic).await,
            Operation::Consume { topic, group, step } => {
                let group = GroupName::new(&group)?;
                group.not_reserved()?;
                let topic = TopicName::new(&topic)?;
                match step {
                    Step::Receive => self.receive(served, call, body, topic, group).await,
                    Step::Ack | Step::Nack | Step::Renew | Step::DeadLetter => {
                        self.settle(served, call, body, Scope { group, topic }, step).await
                    }
                }
            }
        }
    }

    fn served(&self) -> Result<Arc<Served>, Refusal> {
        let away = |why: &str| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why);
        if self.stopping.load(Ordering::SeqCst) {
            return Err(away("the broker is stopping"));
        }
        let served = self.served.read().clone();
        served.ok_or_else(|| away("the broker is starting, or another node leads"))
    }
}

/// Reads JSON. What is wrong with it is said with line and column.
fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| Refusal::bad("bad_json", error.to_string()))
}

/// The same where an empty body means that nothing is said.
fn read_json_or_default<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, Refusal> {
    if bytes.is_empty() { Ok(T::default()) } else { read_json(bytes) }
}

/// The kind of a body, without its parameters, in lower case. A body in another charset than UTF-8, or compressed, is refused.
fn media_type(head: &Parts) -> Result<Option<String>, Refusal> {
    let unsupported =
        |why: String| Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", why);
    if let Some(encoding) = head.headers.get(header::CONTENT_ENCODING)
        && encoding != "identity"
    {
        return Err(unsupported("compressed requests are not read".to_owned()));
    }
    let Some(value) = head.headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let text = value.to_str().map_err(|_| unsupported("the content type is no text".to_owned()))?;
    let mut parts =
        text.to_ascii_lowercase().split(';').map(|part| part.trim().to_owned()).collect::<Vec<_>>();
    let kind = parts.remove(0);
    let charset = parts.iter().find_map(|part| part.strip_prefix("charset="));
    match charset.map(|charset| charset.trim_matches('"')) {
        Some(charset) if kind == "application/json" && charset != "utf-8" => {
            Err(unsupported(format!("JSON is UTF-8, not {charset}")))
        }
        _ => Ok(Some(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charset_other_than_utf_8_and_compression_are_refused() {
        let head = |headers: &[(&str, &str)]| {
            let mut request = http::Request::builder();
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.body(()).unwrap().into_parts().0
        };
        let kind =
            |headers: &[(&str, &str)]| media_type(&head(headers)).map_err(|refusal| refusal.status.as_u16());
        assert_eq!(kind(&[]), Ok(None));
        assert_eq!(kind(&[("content-type", "Application/JSON")]), Ok(Some("application/json".to_owned())));
        let json = Ok(Some("application/json".to_owned()));
        assert_eq!(kind(&[("content-type", "application/json; charset=\"UTF-8\"")]), json);
        assert_eq!(kind(&[("content-type", "application/json;charset=gbk")]), Err(415));
        assert_eq!(kind(&[("content-type", "text/plain;charset=gbk")]), Ok(Some("text/plain".to_owned())));
        assert_eq!(kind(&[("content-encoding", "gzip")]), Err(415));
    }
}
