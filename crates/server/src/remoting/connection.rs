//! One connection: requests run concurrently and are answered as they finish.
//!
//! A request is polled once as soon as it is read, in the order of the connection, so that the messages of one producer reach
//! the shard in the order in which they were sent. When the connection ends, waiting polls end with it. All other requests are
//! finished, because clients send a last request and close without waiting for the answer.
//!
//! Every byte is counted in the connection's account: the input buffer, then each request until its answer replaces it, then
//! the answers until they are written. While no bytes can be granted, nothing is read.
//!
//! When the broker stops, nothing further is read. Requests under way are answered, and then the connection is closed.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream::FuturesUnordered};
use redstart_wire::remoting::{Command, DecodeError, FRAME_BYTES_MAX, code, decode};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    Context,
    admission::admit,
    dispatch::{Kind, answer, count, kind},
    outbox::Outbox,
    peer::{Outgoing, Peer},
    read_buffer::{self, ReadBufferSizer},
    refusal::Refusal,
    request::{Answer, Received, Request},
};
use crate::{
    byte_budget::{Grant, Spent},
    listen::Activity,
    stall_detector::{STUCK_MAX, StallDetector},
    stream::Stream,
};

/// Requests of one connection at a time, waiting polls included.
const REQUESTS_MAX: usize = 8192;
/// Commands of the broker itself that are not yet written.
const PUSHED_MAX: usize = 1024;
/// A connection without requests for this long is closed, as in RocketMQ.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// Time for a frame to arrive completely.
const FRAME_TIME_MAX: Duration = Duration::from_secs(60);
/// Time for requests under way to end after the connection has ended.
const GRACE: Duration = Duration::from_secs(2);
/// When the broker stops: time for requests under way to be answered, and for the peer to read the answers and to close.
const FINISH_MAX: Duration = Duration::from_secs(2);
const LINGER_MAX: Duration = Duration::from_millis(500);
/// Bytes for a whole frame are granted once this much of it has arrived.
pub(super) const SMALL_FRAME: usize = 64 << 10;
/// Bytes of requests and answers of one connection.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of memory of a request beside its frame: its decoded header and the state of its handler.
const REQUEST_BYTES: usize = 4 << 10;
/// A body up to this size is copied out of the input buffer, unless the request is a send.
const COPIED_BODY_MAX: usize = 4 << 10;

pub(super) async fn serve(
    stream: Stream,
    context: Arc<Context>,
    activity: Arc<Activity>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let (pushed, pushes) = mpsc::channel(PUSHED_MAX);
    let account = context.node.config.resources.bytes.account(BYTES_MAX);
    let mut peer = Peer::new(stream.remote, stream.local, pushed, account);
    peer.certified_user = stream.certified_user();
    let peer = Arc::new(peer);
    let connected = ConnectedPeer { context: context.clone(), peer: peer.clone() };
    let mut connection = Connection::new(context, peer, activity);
    let result = connection.run(stream, pushes, stopped).await;
    drop(connected);
    let Connection { served, polls, outbox, .. } = connection;
    // Their undelivered messages go back to their queues now.
    drop((polls, outbox));
    if tokio::time::timeout(GRACE, served.for_each(|_| std::future::ready(()))).await.is_err() {
        tracing::debug!("requests of a closed connection did not finish in time");
    }
    result
}

/// Removes the peer from all groups when it is dropped, by the end of the connection or of its task.
struct ConnectedPeer {
    context: Arc<Context>,
    peer: Arc<Peer>,
}

impl Drop for ConnectedPeer {
    fn drop(&mut self) {
        self.peer.disconnected();
        self.context.disconnected(&self.peer);
    }
}

struct Connection {
    context: Arc<Context>,
    peer: Arc<Peer>,
    activity: Arc<Activity>,
    input: BytesMut,
    read_size: ReadBufferSizer,
    /// Grant for the input buffer, including the rest of its last frame.
    buffered: Grant,
    /// Grant of [`REQUEST_BYTES`] for the next request, if it had to wait for that.
    granted: Option<Grant>,
    /// Set while reading is paused until bytes are granted.
    pending_grant: Option<PendingGrant>,
    served: Served,
    polls: Served,
    outbox: Outbox,
    last_read_at: Instant,
    /// When the first part of an incomplete frame arrived.
    partial_since: Option<Instant>,
    /// Whether the peer reads its answers.
    stall: StallDetector,
    stopping: bool,
}

/// Requests under way; a one-way request ends with `None`.
type Served = FuturesUnordered<Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>>;

/// A wait for bytes, and their purpose.
struct PendingGrant {
    what: GrantFor,
    granted: Pin<Box<dyn Future<Output = Result<Grant, Spent>> + Send>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrantFor {
    /// The rest of a frame.
    Input,
    /// The handler of a request that has arrived completely.
    Request,
}

impl Connection {
    fn new(context: Arc<Context>, peer: Arc<Peer>, activity: Arc<Activity>) -> Connection {
        let now = Instant::now();
        Connection {
            buffered: peer.account.nothing(),
            context,
            peer,
            activity,
            input: BytesMut::new(),
            read_size: ReadBufferSizer::default(),
            granted: None,
            pending_grant: None,
            served: Served::new(),
            polls: Served::new(),
            outbox: Outbox::default(),
            last_read_at: now,
            partial_since: None,
            stall: StallDetector::new(now.into_std()),
            stopping: false,
        }
    }

    async fn run(
        &mut self,
        stream: Stream,
        mut pushes: mpsc::Receiver<Outgoing>,
        mut stopped: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let timer = tokio::time::sleep(STUCK_MAX);
        tokio::pin!(timer);
        // In a set, so that it is polled only when it was woken. The sender outlives the connections.
        let stopped = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        let mut stop = FuturesUnordered::from_iter([Box::pin(stopped)]);
        loop {
            let open = !self.outbox.is_full();
            if self.stopping && self.is_finished() {
                return close(reader, writer).await;
            }
            if open && self.pending_grant.is_none() && !self.stopping {
                self.take_frames()?;
                self.prepare_input();
            }
            let reading = open && self.pending_grant.is_none() && !self.stopping;
            self.activity.set_busy(!self.is_idle());
            // Answers are collected before they are written, so that one write carries many.
            tokio::select! {
                biased;
                Some(finished) = self.served.next(), if open => self.put(finished),
                Some(finished) = self.polls.next(), if open => self.put(finished),
                Some(pushed) = pushes.recv(), if open => self.put(Some(pushed)),
                written = self.outbox.write(&mut writer), if !self.outbox.is_done() => {
                    self.wrote(written?);
                }
                granted = wait(&mut self.pending_grant), if self.pending_grant.is_some() => self.granted(granted)?,
                read = reader.read_buf(&mut self.input), if reading => match read? {
                    0 => return Ok(()),
                    bytes => {
                        self.read_size.observed(bytes);
                        self.last_read_at = Instant::now();
                    }
                },
                () = &mut timer => timer.as_mut().reset(self.look_at_clock()?),
                Some(()) = stop.next(), if !self.stopping => {
                    self.stop();
                    timer.as_mut().reset(Instant::now() + FINISH_MAX);
                }
            }
        }
    }

    /// Stops reading requests.
    fn stop(&mut self) {
        self.stopping = true;
        self.pending_grant = None;
    }

    fn is_finished(&self) -> bool {
        self.served.is_empty() && self.polls.is_empty() && self.outbox.is_done()
    }

    /// Begins every request that has arrived completely, while bytes are granted for it.
    fn take_frames(&mut self) -> io::Result<()> {
        loop {
            let announced = self.announced();
            let mut grant = match self.granted.take() {
                Some(granted) => granted,
                None if self.input.len() < announced.max(4) => self.peer.account.nothing(),
                None => match self.peer.account.try_grant(REQUEST_BYTES) {
                    Ok(grant) => grant,
                    Err(_) => {
                        self.ask(GrantFor::Request, REQUEST_BYTES);
                        break;
                    }
                },
            };
            let Some(command) = self.take_frame()? else { break };
            grant.absorb(&mut self.buffered, announced);
            if command.is_response() {
                self.peer.answered(command);
            } else if self.polls.len() + self.served.len() < REQUESTS_MAX {
                let set = match kind(command.code) {
                    Kind::Poll => &mut self.polls,
                    Kind::Send | Kind::Short => &mut self.served,
                };
                let received = Received { command, peer: self.peer.clone(), context: self.context.clone() };
                match admit(&received) {
                    Ok(admitted) => set.push(Box::pin(run(Request::new(received, admitted), grant))),
                    Err(refusal) => {
                        count(&received, refusal.code, Duration::ZERO);
                        if self.refuse(&received, refusal, grant) {
                            break;
                        }
                    }
                }
            } else if self.refuse(&command, Refusal::busy("requests of one connection", REQUESTS_MAX), grant)
            {
                break;
            }
        }
        if self.input.is_empty() || self.outbox.is_full() {
            self.partial_since = None;
        } else {
            self.partial_since.get_or_insert(self.last_read_at);
        }
        Ok(())
    }

    /// No request is under way and no part of one has arrived.
    fn is_idle(&self) -> bool {
        self.input.is_empty() && self.served.is_empty() && self.polls.is_empty() && self.outbox.is_done()
    }

    fn take_frame(&mut self) -> io::Result<Option<Command>> {
        let invalid = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
        let Some(mut command) = decode(&mut self.input).map_err(invalid)? else { return Ok(None) };
        self.partial_since = None;
        self.activity.requested();
        // A small body that refers to the input buffer would keep all of the buffer in memory while the request waits.
        if command.body.len() <= COPIED_BODY_MAX && kind(command.code) != Kind::Send {
            command.body = Bytes::copy_from_slice(&command.body);
        }
        Ok(Some(command))
    }

    /// Answers with a refusal. `true` when the outbox is full, so that the peer has to read first.
    fn refuse(&mut self, command: &Command, refusal: Refusal, grant: Grant) -> bool {
        // A one-way request has no answer: past a limit it is dropped, as in RocketMQ.
        if !command.is_one_way() {
            self.put(Some(Answer::from(refusal).outgoing(command, grant)));
        }
        self.outbox.is_full()
    }

    /// Gets bytes granted for the next read, or begins to wait for them.
    fn prepare_input(&mut self) {
        if self.pending_grant.is_some() {
            return;
        }
        let announced = self.announced();
        let begun = self.input.len() >= SMALL_FRAME;
        // A peer that announces a large frame and sends little of it gets few bytes granted.
        let needed =
            if begun { announced } else { announced.min(SMALL_FRAME) }.max(read_buffer::READ_BYTES_MIN);
        if self.buffered.try_resize(needed.max(self.read_size.bytes())).is_err() {
            self.read_size = ReadBufferSizer::default();
            let missing = needed.saturating_sub(self.buffered.bytes());
            if missing > 0 {
                return self.ask(GrantFor::Input, missing);
            }
        }
        if begun {
            self.input.reserve(announced.saturating_sub(self.input.len()));
        }
        self.read_size.reserve(&mut self.input);
    }

    fn ask(&mut self, what: GrantFor, bytes: usize) {
        let account = self.peer.account.clone();
        self.pending_grant =
            Some(PendingGrant { what, granted: Box::pin(async move { account.grant(bytes).await }) });
    }

    /// Continues after a wait for bytes.
    fn granted(&mut self, granted: Result<Grant, Spent>) -> io::Result<()> {
        let Some(PendingGrant { what, .. }) = self.pending_grant.take() else { return Ok(()) };
        self.last_read_at = Instant::now();
        match (granted, what) {
            (Ok(grant), GrantFor::Input) => self.buffered.merge(grant),
            (Ok(grant), GrantFor::Request) => self.granted = Some(grant),
            (Err(spent), GrantFor::Input) => {
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, spent.to_string()));
            }
            (Err(spent), GrantFor::Request) => {
                if let Some(command) = self.take_frame()?.filter(|command| !command.is_response()) {
                    self.refuse(&command, spent.into(), self.peer.account.nothing());
                }
            }
        }
        Ok(())
    }

    /// The size of the first frame in the input, by its length prefix.
    fn announced(&self) -> usize {
        let len = self.input.first_chunk::<4>().map_or(0, |len| u32::from_be_bytes(*len) as usize + 4);
        len.min(FRAME_BYTES_MAX)
    }

    fn put(&mut self, finished: Option<Outgoing>) {
        let Some(answer) = finished else { return };
        if self.outbox.is_done() {
            self.stall.reset(Instant::now().into_std());
        }
        self.outbox.put(answer);
    }

    fn wrote(&mut self, bytes: usize) {
        self.stall.peer_read(bytes, Instant::now().into_std());
    }

    /// Ends a connection whose peer has stopped reading or sending; otherwise returns when to check again.
    fn look_at_clock(&mut self) -> io::Result<Instant> {
        let now = Instant::now();
        if self.stopping {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "requests under way did not finish in time"));
        }
        self.peer.account.trim();
        let silent = now - self.last_read_at;
        let scarce = self.peer.account.budget().is_scarce();
        let stuck = self.stall.is_stuck(now.into_std(), STUCK_MAX, scarce);
        let (in_part, reading) =
            (self.partial_since.is_some(), !self.outbox.is_full() && self.pending_grant.is_none());
        let silent_max = if in_part { STUCK_MAX } else { IDLE_MAX };
        // A peer with waiting polls need not send anything.
        let idle = reading && silent >= silent_max && (self.polls.is_empty() || in_part);
        let slow = self.partial_since.is_some_and(|since| reading && now - since >= FRAME_TIME_MAX);
        if idle || slow || (!self.outbox.is_done() && stuck) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(now + STUCK_MAX / 2)
    }
}

async fn wait(pending: &mut Option<PendingGrant>) -> Result<Grant, Spent> {
    match pending {
        Some(pending) => pending.granted.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Closes a connection after the peer has read everything: if bytes of the peer were unread, the system would reset the
/// connection and discard what was written.
async fn close(mut reader: impl AsyncRead + Unpin, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
    let end = async {
        writer.shutdown().await?;
        tokio::io::copy(&mut reader, &mut tokio::io::sink()).await
    };
    tokio::time::timeout(LINGER_MAX, end).await.map_or(Ok(()), |ended| ended.map(|_| ()))
}

async fn run(request: Request, mut grant: Grant) -> Option<Outgoing> {
    let mut answer = answer(&request).await;
    // Only answers to queries are large, and a query can be repeated. An answer to a change is small and never refused.
    if answer.body.len() > SMALL_FRAME
        && answer.grant.is_none()
        && let Err(spent) = grant.try_resize(answer.body.len())
    {
        answer = Refusal::from(spent).into();
    }
    if !request.is_one_way() {
        return Some(answer.outgoing(&request, grant));
    }
    if answer.code != code::SUCCESS {
        let remark = answer.remark.unwrap_or_default();
        tracing::debug!(request = request.code, answer.code, remark, "a one-way request failed");
    }
    None
}
