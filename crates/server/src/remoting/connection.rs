//! One connection: requests run beside each other and are answered as they finish.
//!
//! A request is polled once as soon as it is read, in the order of the connection: what one producer sends reaches the
//! shard in that order. When the connection ends, held polls end with it; everything else is carried through, for clients
//! say their last word and close.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures_util::{StreamExt, stream::FuturesUnordered};
use redstart_wire::remoting::{DecodeError, FRAME_BYTES_MAX, code, decode};
use tokio::{io::AsyncReadExt, sync::mpsc, time::Instant};

use super::{
    Context,
    appetite::Appetite,
    dispatch::answer,
    outbox::Outbox,
    peer::{Outgoing, Peer},
    refusal::Refusal,
    request::{Answer, Request},
    room::Room,
};
use crate::{listen::Activity, stream::Stream};

/// Requests of one connection at a time, held polls included.
const REQUESTS_MAX: usize = 8192;
/// What the broker says of its own accord and has not yet written.
const TOLD_MAX: usize = 1024;
/// A connection that says nothing for this long is closed, as RocketMQ does.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// A peer that stops for this long in the middle of a frame, or does not read, is gone.
const STUCK_MAX: Duration = Duration::from_secs(30);
/// For a frame to come in whole.
const FRAME_TIME_MAX: Duration = Duration::from_secs(60);
/// One-way requests get this long to end after the connection has.
const GRACE: Duration = Duration::from_secs(2);
/// Frames above this wait for room before they are read.
pub(super) const SMALL_FRAME: usize = 64 << 10;

pub(super) async fn serve(stream: Stream, context: Arc<Context>, activity: Arc<Activity>) -> io::Result<()> {
    let (told, telling) = mpsc::channel(TOLD_MAX);
    let peer = Arc::new(Peer::new(stream.remote()?, stream.local()?, told));
    let presence = Presence { context: context.clone(), peer: peer.clone() };
    let mut connection = Connection::new(context, peer, activity);
    let result = connection.run(stream, telling).await;
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
    /// For the large frame that is being read.
    room: Option<Room>,
    served: Served,
    polls: Served,
    outbox: Outbox,
    heard_at: Instant,
    /// Since when a frame is there in part.
    part_since: Option<Instant>,
    /// When the peer last read something, or had read everything.
    wrote_at: Instant,
}

/// Requests under way, each with its answer unless it wants none.
type Served = FuturesUnordered<Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>>;

type Asked = Pin<Box<dyn Future<Output = Option<Room>> + Send>>;

impl Connection {
    fn new(context: Arc<Context>, peer: Arc<Peer>, activity: Arc<Activity>) -> Connection {
        let now = Instant::now();
        Connection {
            context,
            peer,
            activity,
            input: BytesMut::new(),
            appetite: Appetite::default(),
            room: None,
            served: Served::new(),
            polls: Served::new(),
            outbox: Outbox::default(),
            heard_at: now,
            part_since: None,
            wrote_at: now,
        }
    }

    async fn run(&mut self, stream: Stream, mut telling: mpsc::Receiver<Outgoing>) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut asked_room: Option<Asked> = None;
        let timer = tokio::time::sleep(STUCK_MAX);
        tokio::pin!(timer);
        loop {
            let open = !self.outbox.is_full();
            if open && asked_room.is_none() {
                self.take_frames()?;
                asked_room = self.wanted_room();
                self.appetite.reserve(&mut self.input);
            }
            self.activity.set_busy(!self.is_idle());
            // What has finished comes before what is written, so that much is written at once.
            tokio::select! {
                biased;
                Some(finished) = self.served.next(), if open => self.put(finished),
                Some(finished) = self.polls.next(), if open => self.put(finished),
                Some(told) = telling.recv(), if open => self.put(Some(told)),
                written = self.outbox.write(&mut writer), if !self.outbox.is_done() => {
                    written?;
                    self.wrote_at = Instant::now();
                }
                room = async { asked_room.as_mut()?.await }, if asked_room.is_some() => {
                    asked_room = None;
                    self.begin_large(room)?;
                }
                read = reader.read_buf(&mut self.input), if open && asked_room.is_none() => match read? {
                    0 => return Ok(()),
                    bytes => {
                        self.appetite.fed(bytes);
                        self.heard_at = Instant::now();
                    }
                },
                () = &mut timer => timer.as_mut().reset(self.look_at_clock()?),
            }
        }
    }

    /// Begins every request that is there whole.
    fn take_frames(&mut self) -> io::Result<()> {
        let invalid = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
        while let Some(command) = decode(&mut self.input).map_err(invalid)? {
            self.part_since = None;
            let room = self.room.take();
            self.activity.requested();
            if command.is_response() {
                self.peer.answered(command);
            } else if self.polls.len() + self.served.len() < REQUESTS_MAX {
                let set = if is_poll(command.code) { &mut self.polls } else { &mut self.served };
                let request = Request { command, peer: self.peer.clone(), context: self.context.clone() };
                set.push(Box::pin(run(request, room)));
            } else if !command.is_one_way() {
                // Nobody is told of a one-way request: what is too much is dropped, as RocketMQ does.
                let busy = Answer::from(Refusal::busy("requests of one connection", REQUESTS_MAX));
                self.put(Some(busy.outgoing(&command)));
                if self.outbox.is_full() {
                    break;
                }
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

    /// A frame that is large waits for room before the rest of it is read.
    fn wanted_room(&self) -> Option<Asked> {
        let announced = self.announced();
        if announced <= SMALL_FRAME || self.room.is_some() || self.input.len() >= announced {
            return None;
        }
        let incoming = self.context.incoming.clone();
        Some(Box::pin(async move { incoming.take(announced).await }))
    }

    fn begin_large(&mut self, room: Option<Room>) -> io::Result<()> {
        let busy = || io::Error::new(io::ErrorKind::OutOfMemory, "no room for another large request");
        self.room = Some(room.ok_or_else(busy)?);
        self.heard_at = Instant::now();
        self.input.reserve(self.announced().saturating_sub(self.input.len()));
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
            self.wrote_at = Instant::now();
        }
        self.outbox.put(answer);
    }

    /// Ends a connection whose peer has stopped; else says when to look again.
    fn look_at_clock(&mut self) -> io::Result<Instant> {
        let now = Instant::now();
        let (silent, stuck) = (now - self.heard_at, now - self.wrote_at);
        let (in_part, reading) = (self.part_since.is_some(), !self.outbox.is_full());
        let silent_max = if in_part { STUCK_MAX } else { IDLE_MAX };
        // One whose polls are held has nothing to say.
        let idle = reading && silent >= silent_max && (self.polls.is_empty() || in_part);
        let slow = self.part_since.is_some_and(|since| reading && now - since >= FRAME_TIME_MAX);
        if idle || slow || (!self.outbox.is_done() && stuck >= STUCK_MAX) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(now + STUCK_MAX / 2)
    }
}

/// What waits for messages: without its client it must not take any.
pub(crate) fn is_poll(request: i32) -> bool {
    matches!(request, code::PULL_MESSAGE | code::LITE_PULL_MESSAGE | code::POP_MESSAGE | code::NOTIFICATION)
}

async fn run(request: Request, room: Option<Room>) -> Option<Outgoing> {
    let answer = answer(&request).await;
    drop(room);
    if !request.is_one_way() {
        return Some(answer.outgoing(&request.command));
    }
    if answer.code != code::SUCCESS {
        let remark = answer.remark.unwrap_or_default();
        tracing::debug!(request = request.code, answer.code, remark, "a one-way request failed");
    }
    None
}
