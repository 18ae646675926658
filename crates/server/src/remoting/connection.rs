//! One connection: requests run beside each other and are answered as they finish.
//!
//! A request is polled once as soon as it is read, in the order of the connection: what one producer sends reaches the
//! shard in that order. When the connection ends, held polls end with it; everything else is carried through, for clients
//! say their last word and close.
//!
//! Every byte is counted in the connection's account: those of the input buffer, then those of each request until its
//! answer takes their place, then those of answers until they are written. Without bytes for more, nothing is read.
//!
//! When the broker stops, nothing further is read. What is under way is answered, and then the connection is closed.

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
    appetite::{self, Appetite},
    dispatch::answer,
    outbox::Outbox,
    peer::{Outgoing, Peer},
    refusal::Refusal,
    request::{Answer, Request},
};
use crate::{
    byte_budget::{Grant, Spent},
    listen::Activity,
    progress::{Progress, STUCK_MAX},
    stream::Stream,
};

/// Requests of one connection at a time, held polls included.
const REQUESTS_MAX: usize = 8192;
/// What the broker says of its own accord and has not yet written.
const TOLD_MAX: usize = 1024;
/// A connection that says nothing for this long is closed, as RocketMQ does.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// For a frame to come in whole.
const FRAME_TIME_MAX: Duration = Duration::from_secs(60);
/// One-way requests get this long to end after the connection has.
const GRACE: Duration = Duration::from_secs(2);
/// When the broker stops: for requests under way to be answered, and for the peer to read that and to close.
const FINISH_MAX: Duration = Duration::from_secs(2);
const LINGER_MAX: Duration = Duration::from_millis(500);
/// So much of a frame must have come before bytes are taken for the whole of it.
pub(super) const SMALL_FRAME: usize = 64 << 10;
/// Bytes of requests and answers of one connection.
const BYTES_MAX: usize = 64 << 20;
/// What a request takes beside its frame: its decoded header and the state of its handler.
const REQUEST_BYTES: usize = 4 << 10;
/// A body up to this is copied out of the input buffer, unless it is a message's.
const COPIED_BODY_MAX: usize = 4 << 10;

pub(super) async fn serve(
    stream: Stream,
    context: Arc<Context>,
    activity: Arc<Activity>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let (told, telling) = mpsc::channel(TOLD_MAX);
    let account = context.config.resources.bytes.account(BYTES_MAX);
    let peer = Arc::new(Peer::new(stream.remote()?, stream.local()?, told, account));
    let presence = Presence { context: context.clone(), peer: peer.clone() };
    let mut connection = Connection::new(context, peer, activity);
    let result = connection.run(stream, telling, stopped).await;
    drop(presence);
    let Connection { served, polls, outbox, .. } = connection;
    // What they would have delivered goes back now.
    drop((polls, outbox));
    if tokio::time::timeout(GRACE, served.for_each(|_| std::future::ready(()))).await.is_err() {
        tracing::debug!("requests of a closed connection did not end in time");
    }
    result
}

/// The peer is there until this is dropped, by the end of the connection or of its task.
struct Presence {
    context: Arc<Context>,
    peer: Arc<Peer>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.peer.gone();
        self.context.disconnected(&self.peer);
    }
}

struct Connection {
    context: Arc<Context>,
    peer: Arc<Peer>,
    activity: Arc<Activity>,
    input: BytesMut,
    appetite: Appetite,
    /// For the input buffer and what is to come into it.
    buffered: Grant,
    /// For the next request beside its frame, when it had to wait for that.
    granted: Option<Grant>,
    /// A request is there whole and has to wait for bytes, or what is to come has.
    asked: Option<Asked>,
    served: Served,
    polls: Served,
    outbox: Outbox,
    heard_at: Instant,
    /// Since when a frame is there in part.
    part_since: Option<Instant>,
    /// Whether the peer reads its answers.
    progress: Progress,
    stopping: bool,
}

/// Requests under way, each with its answer unless it wants none.
type Served = FuturesUnordered<Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>>;

/// The wait for bytes, and what for.
struct Asked {
    what: Wanted,
    granted: Pin<Box<dyn Future<Output = Result<Grant, Spent>> + Send>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The rest of a frame.
    Input,
    /// A request that is there whole.
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
            appetite: Appetite::default(),
            granted: None,
            asked: None,
            served: Served::new(),
            polls: Served::new(),
            outbox: Outbox::default(),
            heard_at: now,
            part_since: None,
            progress: Progress::new(now.into_std()),
            stopping: false,
        }
    }

    async fn run(
        &mut self,
        stream: Stream,
        mut telling: mpsc::Receiver<Outgoing>,
        mut stopped: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let timer = tokio::time::sleep(STUCK_MAX);
        tokio::pin!(timer);
        // Polled only when it is woken. The sender is gone only when the broker is.
        let stopped = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        let mut stop = FuturesUnordered::from_iter([Box::pin(stopped)]);
        loop {
            let open = !self.outbox.is_full();
            if self.stopping && self.is_finished() {
                return close(reader, writer).await;
            }
            if open && self.asked.is_none() && !self.stopping {
                self.take_frames()?;
                self.prepare_input();
            }
            let reading = open && self.asked.is_none() && !self.stopping;
            self.activity.set_busy(!self.is_idle());
            // What has finished comes before what is written, so that much is written at once.
            tokio::select! {
                biased;
                Some(finished) = self.served.next(), if open => self.put(finished),
                Some(finished) = self.polls.next(), if open => self.put(finished),
                Some(told) = telling.recv(), if open => self.put(Some(told)),
                written = self.outbox.write(&mut writer), if !self.outbox.is_done() => {
                    self.wrote(written?);
                }
                granted = wait(&mut self.asked), if self.asked.is_some() => self.granted(granted)?,
                read = reader.read_buf(&mut self.input), if reading => match read? {
                    0 => return Ok(()),
                    bytes => {
                        self.appetite.fed(bytes);
                        self.heard_at = Instant::now();
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

    /// Begins nothing further.
    fn stop(&mut self) {
        self.stopping = true;
        self.asked = None;
    }

    fn is_finished(&self) -> bool {
        self.served.is_empty() && self.polls.is_empty() && self.outbox.is_done()
    }

    /// Begins every request that is there whole, while there are bytes for it.
    fn take_frames(&mut self) -> io::Result<()> {
        loop {
            let announced = self.announced();
            let mut grant = match self.granted.take() {
                Some(granted) => granted,
                None if self.input.len() < announced.max(4) => self.peer.account.nothing(),
                None => match self.peer.account.try_grant(REQUEST_BYTES) {
                    Ok(grant) => grant,
                    Err(_) => {
                        self.ask(Wanted::Request, REQUEST_BYTES);
                        break;
                    }
                },
            };
            let Some(command) = self.take_frame()? else { break };
            grant.absorb(&mut self.buffered, announced);
            if command.is_response() {
                self.peer.answered(command);
            } else if self.polls.len() + self.served.len() < REQUESTS_MAX {
                let set = if is_poll(command.code) { &mut self.polls } else { &mut self.served };
                let request = Request { command, peer: self.peer.clone(), context: self.context.clone() };
                set.push(Box::pin(run(request, grant)));
            } else if self.refuse(&command, Refusal::busy("requests of one connection", REQUESTS_MAX), grant)
            {
                break;
            }
        }
        if self.input.is_empty() || self.outbox.is_full() {
            self.part_since = None;
        } else {
            self.part_since.get_or_insert(self.heard_at);
        }
        Ok(())
    }

    /// Nothing is under way and no part of a request has come.
    fn is_idle(&self) -> bool {
        self.input.is_empty() && self.served.is_empty() && self.polls.is_empty() && self.outbox.is_done()
    }

    fn take_frame(&mut self) -> io::Result<Option<Command>> {
        let invalid = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
        let Some(mut command) = decode(&mut self.input).map_err(invalid)? else { return Ok(None) };
        self.part_since = None;
        self.activity.requested();
        // A small body of a request that may take long would keep a whole input buffer in memory.
        if command.body.len() <= COPIED_BODY_MAX && !is_send(command.code) {
            command.body = Bytes::copy_from_slice(&command.body);
        }
        Ok(Some(command))
    }

    /// Answers that there is too much. `true` when the peer has to read before anything else is done.
    fn refuse(&mut self, command: &Command, refusal: Refusal, grant: Grant) -> bool {
        // Nobody is told of a one-way request: what is too much is dropped, as RocketMQ does.
        if !command.is_one_way() {
            self.put(Some(Answer::from(refusal).outgoing(command, grant)));
        }
        self.outbox.is_full()
    }

    /// Takes bytes for what is to come, or asks for them.
    fn prepare_input(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let announced = self.announced();
        let begun = self.input.len() >= SMALL_FRAME;
        // A peer that announces a large frame and sends little of it takes little.
        let needed = if begun { announced } else { announced.min(SMALL_FRAME) }.max(appetite::LEAST);
        if self.buffered.try_resize(needed.max(self.appetite.bytes())).is_err() {
            self.appetite = Appetite::default();
            let missing = needed.saturating_sub(self.buffered.bytes());
            if missing > 0 {
                return self.ask(Wanted::Input, missing);
            }
        }
        if begun {
            self.input.reserve(announced.saturating_sub(self.input.len()));
        }
        self.appetite.reserve(&mut self.input);
    }

    fn ask(&mut self, what: Wanted, bytes: usize) {
        let account = self.peer.account.clone();
        self.asked = Some(Asked { what, granted: Box::pin(async move { account.grant(bytes).await }) });
    }

    /// The wait for bytes has ended.
    fn granted(&mut self, granted: Result<Grant, Spent>) -> io::Result<()> {
        let Some(Asked { what, .. }) = self.asked.take() else { return Ok(()) };
        self.heard_at = Instant::now();
        match (granted, what) {
            (Ok(grant), Wanted::Input) => self.buffered.merge(grant),
            (Ok(grant), Wanted::Request) => self.granted = Some(grant),
            (Err(spent), Wanted::Input) => {
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, spent.to_string()));
            }
            (Err(spent), Wanted::Request) => {
                if let Some(command) = self.take_frame()?.filter(|command| !command.is_response()) {
                    self.refuse(&command, spent.into(), self.peer.account.nothing());
                }
            }
        }
        Ok(())
    }

    /// The size of the frame that begins the input.
    fn announced(&self) -> usize {
        let len = self.input.first_chunk::<4>().map_or(0, |len| u32::from_be_bytes(*len) as usize + 4);
        len.min(FRAME_BYTES_MAX)
    }

    fn put(&mut self, finished: Option<Outgoing>) {
        let Some(answer) = finished else { return };
        if self.outbox.is_done() {
            self.progress.is_done(Instant::now().into_std());
        }
        self.outbox.put(answer);
    }

    fn wrote(&mut self, bytes: usize) {
        self.progress.read(bytes, Instant::now().into_std());
    }

    /// Ends a connection whose peer has stopped; else says when to look again.
    fn look_at_clock(&mut self) -> io::Result<Instant> {
        let now = Instant::now();
        if self.stopping {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "requests under way did not end in time"));
        }
        self.peer.account.trim();
        let silent = now - self.heard_at;
        let scarce = self.peer.account.budget().is_scarce();
        let stuck = self.progress.is_stuck(now.into_std(), STUCK_MAX, scarce);
        let (in_part, reading) = (self.part_since.is_some(), !self.outbox.is_full() && self.asked.is_none());
        let silent_max = if in_part { STUCK_MAX } else { IDLE_MAX };
        // One whose polls are held has nothing to say.
        let idle = reading && silent >= silent_max && (self.polls.is_empty() || in_part);
        let slow = self.part_since.is_some_and(|since| reading && now - since >= FRAME_TIME_MAX);
        if idle || slow || (!self.outbox.is_done() && stuck) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(now + STUCK_MAX / 2)
    }
}

/// What waits for messages: without its client it must not take any.
pub(crate) fn is_poll(request: i32) -> bool {
    matches!(request, code::PULL_MESSAGE | code::LITE_PULL_MESSAGE | code::POP_MESSAGE | code::NOTIFICATION)
}

fn is_send(request: i32) -> bool {
    matches!(request, code::SEND_MESSAGE | code::SEND_MESSAGE_V2 | code::SEND_BATCH_MESSAGE)
}

async fn wait(asked: &mut Option<Asked>) -> Result<Grant, Spent> {
    match asked {
        Some(asked) => asked.granted.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Ends a connection so that its peer gets what was written: while bytes of the peer are unread, a close would discard it.
async fn close(mut reader: impl AsyncRead + Unpin, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
    let end = async {
        writer.shutdown().await?;
        tokio::io::copy(&mut reader, &mut tokio::io::sink()).await
    };
    tokio::time::timeout(LINGER_MAX, end).await.map_or(Ok(()), |ended| ended.map(|_| ()))
}

async fn run(request: Request, mut grant: Grant) -> Option<Outgoing> {
    let mut answer = answer(&request).await;
    // What was changed has a small answer; a large one says what is there, and can be asked for again.
    if answer.body.len() > SMALL_FRAME
        && answer.grant.is_none()
        && let Err(spent) = grant.try_resize(answer.body.len())
    {
        answer = Refusal::from(spent).into();
    }
    if !request.is_one_way() {
        return Some(answer.outgoing(&request.command, grant));
    }
    if answer.code != code::SUCCESS {
        let remark = answer.remark.unwrap_or_default();
        tracing::debug!(request = request.code, answer.code, remark, "a one-way request failed");
    }
    None
}
