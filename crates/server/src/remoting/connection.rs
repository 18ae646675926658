//! One connection: requests run beside each other and are answered as they finish.
//!
//! A request is polled once as soon as it is read, in the order of the connection: what one producer sends reaches the
//! shard in that order. When the connection ends, held polls end with it; everything else is carried through, for clients
//! say their last word and close.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{StreamExt, stream::FuturesUnordered};
use redstart_wire::remoting::{Command, DecodeError, FRAME_BYTES_MAX, code, decode, encode, encode_head};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::mpsc,
};

use super::{
    Context,
    appetite::Appetite,
    dispatch::answer,
    peer::{Outgoing, Peer},
    refusal::Refusal,
    request::{Answer, Request},
    room::Room,
};
use crate::stream::Stream;

/// Requests of one connection at a time, held polls included.
const REQUESTS_MAX: usize = 8192;
/// Answers and questions that wait to be written.
const OUTBOX_MAX: usize = 1024;
/// Written with one call, when more than one frame is ready.
const WRITE_BYTES: usize = 256 << 10;
/// Such a body is written from where it is, instead of being copied behind its header.
const LARGE_BODY: usize = 16 << 10;
/// A connection that says nothing for this long is closed, as RocketMQ does.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// A frame must be read and written in this time: a peer that stops in the middle is gone.
const FRAME_MAX: Duration = Duration::from_secs(30);
/// One-way requests get this long to end after the connection has.
const GRACE: Duration = Duration::from_secs(2);
/// Frames above this wait for room before they are read.
pub(super) const SMALL_FRAME: usize = 64 << 10;

pub(super) async fn serve(stream: Stream, context: Arc<Context>) -> io::Result<()> {
    let (local, remote) = (stream.local()?, stream.remote()?);
    let (reader, writer) = tokio::io::split(stream);
    let (outbox, outgoing) = mpsc::channel(OUTBOX_MAX);
    let peer = Arc::new(Peer::new(remote, local, outbox.clone()));
    let requests = Requests { context: context.clone(), peer: peer.clone(), outbox };
    let mut served = Served::new();
    let result = tokio::select! {
        result = requests.read(reader, &mut served) => result,
        result = write(writer, outgoing) => result,
    };
    peer.gone();
    context.disconnected(&peer);
    if tokio::time::timeout(GRACE, served.for_each(|_| std::future::ready(()))).await.is_err() {
        tracing::debug!("requests of a closed connection did not end in time");
    }
    result
}

/// What is being served on one connection.
struct Requests {
    context: Arc<Context>,
    peer: Arc<Peer>,
    outbox: mpsc::Sender<Outgoing>,
}

impl Requests {
    async fn read(&self, mut reader: ReadHalf<Stream>, served: &mut Served) -> io::Result<()> {
        let mut input = BytesMut::new();
        let mut appetite = Appetite::default();
        let mut room = None;
        let mut polls = Served::new();
        loop {
            match self.take_frame(&mut input, &mut room).await {
                Ok(Some((command, _))) if command.is_response() => {
                    self.peer.answered(command);
                    continue;
                }
                Ok(Some((command, room))) if polls.len() + served.len() < REQUESTS_MAX => {
                    let set = if is_poll(command.code) { &mut polls } else { &mut *served };
                    set.push(Box::pin(run(self.request(command), room)));
                }
                // Nobody is told of a one-way request: what is too much is dropped, as RocketMQ does.
                Ok(Some((command, _))) if command.is_one_way() => {}
                Ok(Some((command, _))) => {
                    let busy = Answer::from(Refusal::busy("requests of one connection", REQUESTS_MAX));
                    self.send(outgoing(busy, &command)).await?;
                }
                Ok(None) => {}
                Err(error) => return Err(error),
            }
            // Finished requests are answered while the next frame is read.
            let more = frame_is_whole(&input);
            if !more {
                appetite.reserve(&mut input);
            }
            let before = input.len();
            let idle = if room.is_some() { FRAME_MAX } else { IDLE_MAX };
            tokio::select! {
                biased;
                Some(finished) = served.next() => self.answer(finished).await?,
                Some(finished) = polls.next() => self.answer(finished).await?,
                () = std::future::ready(()), if more => {}
                read = tokio::time::timeout(idle, reader.read_buf(&mut input)), if !more => match read {
                    Ok(Ok(0)) => return Ok(()),
                    Ok(Ok(_)) => appetite.fed(input.len() - before),
                    Ok(Err(error)) => return Err(error),
                    Err(_) if !polls.is_empty() && room.is_none() => {}
                    Err(elapsed) => return Err(elapsed.into()),
                },
            }
        }
    }

    fn request(&self, command: Command) -> Request {
        Request { command, peer: self.peer.clone(), context: self.context.clone() }
    }

    /// The next frame if it is there whole. One that is large waits for room before the rest of it is read.
    async fn take_frame(
        &self,
        input: &mut BytesMut,
        room: &mut Option<Room>,
    ) -> io::Result<Option<(Command, Option<Room>)>> {
        let invalid = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
        if let Some(command) = decode(input).map_err(invalid)? {
            return Ok(Some((command, room.take())));
        }
        let announced = input.first_chunk::<4>().map_or(0, |len| u32::from_be_bytes(*len) as usize + 4);
        if announced > SMALL_FRAME && room.is_none() {
            let busy = || io::Error::new(io::ErrorKind::OutOfMemory, "no room for another large request");
            *room = Some(self.context.incoming.take(announced.min(FRAME_BYTES_MAX)).await.ok_or_else(busy)?);
            input.reserve(announced - input.len());
        }
        Ok(None)
    }

    async fn answer(&self, finished: Option<Outgoing>) -> io::Result<()> {
        match finished {
            Some(answer) => self.send(answer).await,
            None => Ok(()),
        }
    }

    async fn send(&self, answer: Outgoing) -> io::Result<()> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.outbox.send(answer).await.map_err(closed)
    }
}

/// Requests under way, each with its answer unless it wants none.
type Served = FuturesUnordered<Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>>;

/// What waits for messages: without its client it must not take any.
pub(crate) fn is_poll(request: i32) -> bool {
    matches!(request, code::PULL_MESSAGE | code::LITE_PULL_MESSAGE | code::POP_MESSAGE | code::NOTIFICATION)
}

async fn run(request: Request, room: Option<Room>) -> Option<Outgoing> {
    let answer = answer(&request).await;
    drop(room);
    if !request.is_one_way() {
        return Some(outgoing(answer, &request.command));
    }
    if answer.code != code::SUCCESS {
        let remark = answer.remark.unwrap_or_default();
        tracing::debug!(request = request.code, answer.code, remark, "a one-way request failed");
    }
    None
}

fn outgoing(answer: Answer, request: &Command) -> Outgoing {
    let (command, room) = answer.command(request);
    Outgoing { command, room }
}

fn frame_is_whole(input: &BytesMut) -> bool {
    input.first_chunk::<4>().is_some_and(|len| input.len() - 4 >= u32::from_be_bytes(*len) as usize)
}

/// Writes what is ready, many frames at a time.
async fn write(mut writer: WriteHalf<Stream>, mut outgoing: mpsc::Receiver<Outgoing>) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    let mut rooms = Vec::new();
    while let Some(first) = outgoing.recv().await {
        let mut next = Some(first);
        let mut large = Bytes::new();
        while let Some(Outgoing { command, room }) = next {
            rooms.extend(room);
            if command.body.len() >= LARGE_BODY {
                encode_head(&command, &mut bytes);
                large = command.body;
                break;
            }
            encode(&command, &mut bytes);
            next = if bytes.len() < WRITE_BYTES { outgoing.try_recv().ok() } else { None };
        }
        tokio::time::timeout(FRAME_MAX, async {
            writer.write_all_buf(&mut (&mut bytes).chain(large)).await?;
            writer.flush().await
        })
        .await??;
        rooms.clear();
        if bytes.capacity() > 2 * WRITE_BYTES {
            bytes = BytesMut::new();
        }
    }
    Ok(())
}
