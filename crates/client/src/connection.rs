//! One Remoting connection. Calls run concurrently: each has a number, and answers may come in any order.

use std::{
    io::ErrorKind,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
use redstart_wire::remoting::{self as wire, Command};
use rustc_hash::FxHashMap;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
};

use crate::{Credentials, Stream, Tls};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const READ_BYTES: usize = 64 << 10;
/// How often calls are checked for their timeout. A timer for each call would cost more than the call.
const SWEEP: Duration = Duration::from_millis(20);
/// Bytes of requests that may wait to be written; further calls are refused.
const UNSENT_BYTES_MAX: usize = 64 << 20;

/// Why a call on a connection failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each has the same two fields")]
pub enum Error {
    #[error("cannot connect to {address}: {why}")]
    Connect { address: String, why: String },
    #[error("{address} closed the connection")]
    Closed { address: String },
    #[error("{address} did not answer within {ms} ms")]
    Timeout { address: String, ms: u128 },
    #[error("more than {UNSENT_BYTES_MAX} bytes wait to be sent to {address}")]
    Congested { address: String },
}

/// A request of the server to this client.
#[derive(Debug)]
pub struct Question {
    /// The request.
    pub command: Command,
    /// The server that asks.
    pub address: String,
    shared: Arc<Shared>,
}

impl Question {
    /// Answers on the connection that the request came from. A request that is one-way gets no answer.
    pub fn answer(&self, answer: &Command) {
        if self.command.is_one_way() {
            return;
        }
        // A server that does not read has no use for more answers.
        let _ = self.shared.put(answer);
    }
}

/// A connection to a name server or a broker; it closes when dropped.
#[derive(Debug)]
pub struct Connection {
    address: String,
    shared: Arc<Shared>,
    next: AtomicI32,
    credentials: Option<Credentials>,
    tasks: [JoinHandle<()>; 3],
}

#[derive(Debug, Default)]
struct Shared {
    unsent: Mutex<BytesMut>,
    wake: Notify,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: FxHashMap<i32, Call>,
    closed: bool,
}

/// A call that waits for its answer.
#[derive(Debug)]
struct Call {
    answer: oneshot::Sender<Answer>,
    deadline: Instant,
}

#[derive(Debug)]
enum Answer {
    Came(Command),
    Late,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Queues a frame; `false` if too much waits already.
    fn put(&self, frame: &Command) -> bool {
        let mut unsent = lock(&self.unsent);
        if unsent.len() > UNSENT_BYTES_MAX {
            return false;
        }
        let idle = unsent.is_empty();
        wire::encode(frame, &mut unsent);
        drop(unsent);
        if idle {
            self.wake.notify_one();
        }
        true
    }

    /// The connection has ended: no call will be answered any more.
    fn close(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.closed = true;
        waiting.calls.clear();
    }
}

impl Connection {
    /// Connects without TLS.
    pub async fn open(address: &str) -> Result<Connection, Error> {
        Connection::open_over(address, None).await
    }

    /// Connects with TLS if it is given.
    pub async fn open_over(address: &str, tls: Option<&Tls>) -> Result<Connection, Error> {
        Connection::open_with(address, tls, None).await
    }

    /// The same; requests of the server go to `questions`. One for which there is no room is not answered.
    pub async fn open_with(
        address: &str,
        tls: Option<&Tls>,
        questions: Option<mpsc::Sender<Question>>,
    ) -> Result<Connection, Error> {
        let failed = |why: String| Error::Connect { address: address.to_owned(), why };
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, Stream::open(address, tls))
            .await
            .map_err(|_| failed(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())))?
            .map_err(|error| failed(reason(&error)))?;
        Ok(match stream {
            Stream::Plain(stream) => {
                let (input, output) = stream.into_split();
                Connection::start(address, input, output, questions)
            }
            Stream::Tls(stream) => {
                let (input, output) = tokio::io::split(stream);
                Connection::start(address, input, output, questions)
            }
        })
    }

    fn start(
        address: &str,
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
        questions: Option<mpsc::Sender<Question>>,
    ) -> Connection {
        let shared = Arc::new(Shared::default());
        let asking = questions.map(|questions| (questions, address.to_owned()));
        Connection {
            address: address.to_owned(),
            tasks: [
                tokio::spawn(read(input, shared.clone(), asking)),
                tokio::spawn(write(output, shared.clone())),
                tokio::spawn(sweep(shared.clone())),
            ],
            shared,
            next: AtomicI32::new(1),
            credentials: None,
        }
    }

    /// Signs every request from now on.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Option<Credentials>) -> Connection {
        self.credentials = credentials;
        self
    }

    /// The server, `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.waiting).closed
    }

    /// Sends a request that is not answered. Success says only that it was queued.
    pub fn tell(&self, request: Command) -> Result<(), Error> {
        let mut request = request.one_way();
        request.opaque = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(credentials) = &self.credentials {
            request = credentials.sign(request);
        }
        if self.is_closed() {
            return Err(self.closed());
        }
        self.put(&request)
    }

    /// Asks, and waits at most `timeout` for the answer, whatever its code.
    pub async fn call(&self, mut request: Command, timeout: Duration) -> Result<Command, Error> {
        let (sender, answer) = oneshot::channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        request.opaque = number;
        if let Some(credentials) = &self.credentials {
            request = credentials.sign(request);
        }
        {
            let mut waiting = lock(&self.shared.waiting);
            if waiting.closed {
                return Err(self.closed());
            }
            waiting.calls.insert(number, Call { answer: sender, deadline: Instant::now() + timeout });
        }
        // Dropping this call in any other way also ends the wait for its answer.
        let mut forget = Forget { shared: &self.shared, number: Some(number) };
        self.put(&request)?;
        let answer = answer.await;
        forget.number = None;
        match answer {
            Ok(Answer::Came(answer)) => Ok(answer),
            Ok(Answer::Late) => {
                Err(Error::Timeout { address: self.address.clone(), ms: timeout.as_millis() })
            }
            Err(_) => Err(self.closed()),
        }
    }

    fn put(&self, request: &Command) -> Result<(), Error> {
        if self.shared.put(request) {
            return Ok(());
        }
        Err(Error::Congested { address: self.address.clone() })
    }

    fn closed(&self) -> Error {
        Error::Closed { address: self.address.clone() }
    }
}

/// Why there was no answer, without the system's error number where plain words exist.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        kind @ (ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::TimedOut) => {
            kind.to_string()
        }
        _ => error.to_string(),
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct Forget<'a> {
    shared: &'a Shared,
    number: Option<i32>,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            lock(&self.shared.waiting).calls.remove(&number);
        }
    }
}

/// Hands answers to the calls that wait for them, and requests of the server to the one who answers them, if there is one.
async fn read(
    mut input: impl AsyncRead + Unpin,
    shared: Arc<Shared>,
    asking: Option<(mpsc::Sender<Question>, String)>,
) {
    let mut buffer = BytesMut::new();
    loop {
        match wire::decode(&mut buffer) {
            Ok(Some(command)) if command.is_response() => {
                let caller = lock(&shared.waiting).calls.remove(&command.opaque);
                if let Some(caller) = caller {
                    // A caller that has just given up needs no answer.
                    let _ = caller.answer.send(Answer::Came(command));
                }
                continue;
            }
            Ok(Some(command)) => {
                if let Some((questions, address)) = &asking {
                    let question = Question { command, address: address.clone(), shared: shared.clone() };
                    // Without room the server has no answer, and asks again or gives up.
                    let _ = questions.try_send(question);
                }
                continue;
            }
            Ok(None) => {}
            Err(_) => break,
        }
        if buffer.capacity() - buffer.len() < READ_BYTES / 4 {
            buffer.reserve(READ_BYTES);
        }
        match input.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    shared.close();
}

/// Ends calls whose time is up.
async fn sweep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let now = Instant::now();
        for (_, late) in lock(&shared.waiting).calls.extract_if(|_, call| call.deadline <= now) {
            let _ = late.answer.send(Answer::Late);
        }
    }
}

/// Writes the requests that are queued, all of them with one call.
async fn write(mut output: impl AsyncWrite + Unpin, shared: Arc<Shared>) {
    loop {
        shared.wake.notified().await;
        loop {
            let mut batch = std::mem::take(&mut *lock(&shared.unsent));
            if batch.is_empty() {
                break;
            }
            while batch.has_remaining() {
                if output.write_buf(&mut batch).await.is_err() {
                    return shared.close();
                }
            }
            // TLS keeps what it has not written yet.
            if output.flush().await.is_err() {
                return shared.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    const SECOND: Duration = Duration::from_secs(1);

    async fn server() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        (listener, address)
    }

    async fn next(stream: &mut TcpStream, buffer: &mut BytesMut) -> Command {
        loop {
            if let Some(command) = wire::decode(buffer).expect("a frame") {
                return command;
            }
            assert_ne!(stream.read_buf(buffer).await.expect("open"), 0, "the client closed");
        }
    }

    #[tokio::test]
    async fn answers_find_their_calls_in_any_order() {
        let (listener, address) = server().await;
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut buffer = BytesMut::new();
            let first = next(&mut stream, &mut buffer).await;
            let second = next(&mut stream, &mut buffer).await;
            let mut out = BytesMut::new();
            wire::encode(&second.answer(second.code, None), &mut out);
            wire::encode(&first.answer(first.code, None), &mut out);
            stream.write_all(&out).await.expect("written");
            stream
        });
        let connection = Connection::open(&address).await.expect("connected");
        let (one, two) = tokio::join!(
            connection.call(Command::request(1), SECOND),
            connection.call(Command::request(2), SECOND)
        );
        assert_eq!((one.expect("answered").code, two.expect("answered").code), (1, 2));
        drop(serving.await);
    }

    #[tokio::test]
    async fn a_closed_connection_ends_every_call() {
        let (listener, address) = server().await;
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            next(&mut stream, &mut BytesMut::new()).await;
        });
        let connection = Connection::open(&address).await.expect("connected");
        let error = connection.call(Command::request(1), SECOND * 30).await.expect_err("closed");
        assert!(matches!(error, Error::Closed { .. }), "{error}");
        serving.await.expect("served");
        let error = connection.call(Command::request(1), SECOND * 30).await.expect_err("closed");
        assert!(matches!(error, Error::Closed { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_call_without_an_answer_ends_in_time_and_leaves_nothing_behind() {
        let (listener, address) = server().await;
        let connection = Connection::open(&address).await.expect("connected");
        let error = connection.call(Command::request(1), Duration::from_millis(20)).await.expect_err("late");
        assert!(matches!(error, Error::Timeout { ms: 20, .. }), "{error}");
        assert!(lock(&connection.shared.waiting).calls.is_empty());
        drop(listener);
    }
}
