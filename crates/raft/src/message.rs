//! What members tell each other, as bytes. All integers are little endian.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | kind of message, as numbered by `raft` |
//! | 2 | 1 | 1 for a refusal |
//! | 3 | 72 | to, from, term, term of the log, index, commit, term of the commit, hint of a refusal, requested snapshot |
//! | 75 | 8 | priority |
//! | 83 | 4+n | context: length and bytes |
//! | | 4 | number of frames |
//! | | n | each: kind (u8), term, index, timestamp, position (u64 each), length (u32), payload |
//! | | 1 | 1 if a snapshot follows |
//! | | n | index, term, four lists of members (count u32, members u64), length (u32) and bytes of its data |

use bytes::{Buf, Bytes};
pub use raft::eraftpb::Message;
use raft::eraftpb::{ConfState, Entry, EntryType, MessageType, Snapshot, SnapshotMetadata};

use crate::membership::Member;

const VERSION: u8 = 1;
/// Where a frame is and when it was written, in the context of an entry.
const PLACE_BYTES: usize = 16;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

const SHORT: Malformed = Malformed("the bytes end too early");

/// When a frame was written, and where its payload begins on every replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub timestamp_ms: u64,
    pub position: u64,
}

impl Place {
    pub(crate) fn encode(self) -> Bytes {
        Bytes::from([self.timestamp_ms.to_le_bytes(), self.position.to_le_bytes()].concat())
    }

    /// The place of an entry; `None` for one that `raft` has made and that is not written yet.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let (timestamp_ms, position) = entry.context.split_at_checked(PLACE_BYTES / 2)?;
        Some(Self {
            timestamp_ms: u64::from_le_bytes(timestamp_ms.try_into().ok()?),
            position: u64::from_le_bytes(position.try_into().ok()?),
        })
    }
}

/// The member that a message is for.
pub fn recipient(message: &Message) -> Member {
    Member::of(message.to)
}

/// The member that a message claims to be of.
pub fn sender(message: &Message) -> Member {
    Member::of(message.from)
}

/// What a leader tells a member that it has nothing else to say to.
pub fn heartbeat(from: Member, to: Member, term: u64) -> Message {
    Message { msg_type: MessageType::MsgHeartbeat, from: from.id(), to: to.id(), term, ..Message::default() }
}

/// Encodes a message whose entries have places.
pub fn encode(message: &Message) -> Vec<u8> {
    let size: usize = message.entries.iter().map(|entry| entry.data.len() + 40).sum();
    let mut out = Vec::with_capacity(128 + size + message.snapshot.data.len());
    out.extend_from_slice(&[VERSION, message.msg_type.number(), u8::from(message.reject)]);
    for number in numbers(message) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&message.priority.to_le_bytes());
    put_bytes(&mut out, &message.context);
    out.extend_from_slice(&(message.entries.len() as u32).to_le_bytes());
    for entry in &message.entries {
        let place = Place::of(entry).unwrap_or(Place { timestamp_ms: 0, position: 0 });
        out.push(entry.entry_type.number());
        for number in [entry.term, entry.index, place.timestamp_ms, place.position] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_bytes(&mut out, &entry.data);
    }
    let snapshot = &message.snapshot;
    out.push(u8::from(!snapshot.is_empty()));
    if !snapshot.is_empty() {
        let SnapshotMetadata { conf_state, index, term } = &snapshot.metadata;
        out.extend_from_slice(&index.to_le_bytes());
        out.extend_from_slice(&term.to_le_bytes());
        put_members(&mut out, conf_state);
        put_bytes(&mut out, &snapshot.data);
    }
    out
}

fn numbers(message: &Message) -> [u64; 9] {
    [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
        message.request_snapshot,
    ]
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Writes the four lists of a membership.
pub(crate) fn put_members(out: &mut Vec<u8>, members: &ConfState) {
    for list in [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next] {
        out.extend_from_slice(&(list.len() as u32).to_le_bytes());
        list.iter().for_each(|member| out.extend_from_slice(&member.to_le_bytes()));
    }
}

/// Decodes a message. Payloads share the bytes that are given.
pub fn decode(bytes: Bytes) -> Result<Message, Malformed> {
    let mut take = Take::new(bytes);
    if take.u8()? != VERSION {
        return Err(Malformed("the message has a version that is not known here"));
    }
    let msg_type =
        MessageType::from_number(take.u8()?).ok_or(Malformed("the kind of message is not known"))?;
    let reject = take.flag()?;
    let mut message = Message {
        msg_type,
        reject,
        to: take.u64()?,
        from: take.u64()?,
        term: take.u64()?,
        log_term: take.u64()?,
        index: take.u64()?,
        commit: take.u64()?,
        commit_term: take.u64()?,
        reject_hint: take.u64()?,
        request_snapshot: take.u64()?,
        priority: take.u64()? as i64,
        context: take.counted()?,
        ..Message::default()
    };
    for _ in 0..take.u32()? {
        message.entries.push(entry(&mut take)?);
    }
    if take.flag()? {
        let (index, term) = (take.u64()?, take.u64()?);
        let conf_state = take.members()?;
        let metadata = SnapshotMetadata { conf_state, index, term };
        message.snapshot = Snapshot { data: take.counted()?, metadata };
    }
    take.end()?;
    Ok(message)
}

fn entry(take: &mut Take<Bytes>) -> Result<Entry, Malformed> {
    let entry_type = EntryType::from_number(take.u8()?).ok_or(Malformed("the kind of frame is not known"))?;
    let (term, index) = (take.u64()?, take.u64()?);
    let place = Place { timestamp_ms: take.u64()?, position: take.u64()? };
    let data = take.counted()?;
    Ok(Entry { entry_type, term, index, data, context: place.encode(), ..Entry::default() })
}

/// Reads bytes from the front; too few are an error.
pub(crate) struct Take<B>(B);

impl<B: Buf> Take<B> {
    pub(crate) fn new(bytes: B) -> Self {
        Self(bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.0.try_get_u8().map_err(|_| SHORT)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.0.try_get_u32_le().map_err(|_| SHORT)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.0.try_get_u64_le().map_err(|_| SHORT)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<Bytes, Malformed> {
        if len > self.0.remaining() {
            return Err(SHORT);
        }
        Ok(self.0.copy_to_bytes(len))
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.0.copy_to_bytes(self.0.remaining())
    }

    fn counted(&mut self) -> Result<Bytes, Malformed> {
        let len = self.u32()? as usize;
        self.bytes(len)
    }

    /// Reads the four lists of a membership.
    pub(crate) fn members(&mut self) -> Result<ConfState, Malformed> {
        let mut list = || -> Result<Vec<u64>, Malformed> {
            let count = self.u32()? as usize;
            if count > self.0.remaining() / 8 {
                return Err(SHORT);
            }
            (0..count).map(|_| self.u64()).collect()
        };
        Ok(ConfState {
            voters: list()?,
            learners: list()?,
            voters_outgoing: list()?,
            learners_next: list()?,
            auto_leave: false,
        })
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.has_remaining() { Err(Malformed("there are bytes behind the end")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let entry = |index: u64, entry_type, data: &'static [u8]| Entry {
            entry_type,
            term: 3,
            index,
            data: Bytes::from_static(data),
            context: Place { timestamp_ms: 1000 + index, position: index * 64 }.encode(),
            ..Entry::default()
        };
        let conf_state = ConfState { voters: vec![1, 2], learners: vec![7], ..ConfState::default() };
        Message {
            msg_type: MessageType::MsgAppend,
            to: 1,
            from: u64::MAX,
            term: 3,
            log_term: 4,
            index: 5,
            commit: 6,
            commit_term: 7,
            reject: true,
            reject_hint: 8,
            request_snapshot: 9,
            priority: -10,
            context: Bytes::from_static(b"context"),
            entries: vec![
                entry(1, EntryType::EntryNormal, b"payload"),
                entry(2, EntryType::EntryConfChangeV2, b""),
            ],
            snapshot: Snapshot {
                data: Bytes::from_static(b"checkpoint"),
                metadata: SnapshotMetadata { conf_state, index: 11, term: 2 },
            },
            ..Message::default()
        }
    }

    #[test]
    fn a_message_reads_back() {
        for message in [message(), Message::default()] {
            assert_eq!(decode(encode(&message).into()), Ok(message));
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = encode(&message());
        for len in 0..bytes.len() {
            assert!(decode(Bytes::copy_from_slice(&bytes[..len])).is_err(), "{len} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(decode(longer.into()).is_err());
        for (at, value) in [(0, 2), (1, 19), (2, 2)] {
            let mut other = bytes.clone();
            other[at] = value;
            assert!(decode(other.into()).is_err(), "byte {at}");
        }
        // Counts and lengths that are not true are noticed before anything is allocated for them.
        for at in 83..bytes.len() - 3 {
            let mut other = bytes.clone();
            other[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            let _ = decode(other.into());
        }
    }
}
