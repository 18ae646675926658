//! What a member gets whose leader no longer has the frames that it needs: where the leader's log begins, who took part then, and a
//! checkpoint of the state. All retained frames follow as always.
//!
//! It is stored as one file, and the member starts again. The start replaces the log by an empty one that begins where the
//! leader's does. Until the frames are there that the leader had committed, the checkpoint waits in a file of its own: a log takes
//! none of a frame that it does not have. No engine can be opened meanwhile, because segments may be gone that were retired
//! after the checkpoint was taken.

use std::{io, sync::Arc};

use bytes::Bytes;
use raft::eraftpb::{ConfState, Snapshot};
use redstart_log::{DiskLog, Index, Options, Origin, Recovery, SegmentId, Storage};

use crate::{
    config::Config,
    message::{Malformed, Take, put_members},
    replica::Failure,
    vote_file::{Vote, VoteFile},
};

/// To be installed by the next start.
const NAME: &str = "catch-up";
/// Installed; the checkpoint waits for its frame.
const BEGUN: &str = "catch-up.begun";
const TEMPORARY: &str = "catch-up.tmp";
const MAGIC: &[u8; 7] = b"rscatch";
const VERSION: u8 = 1;

/// The content of the files `catch-up` and `catch-up.begun`. All integers are little endian.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 7 | `rscatch` |
/// | 7 | 1 | version, 1 |
/// | 8 | 24 | member, term, vote, as in the vote file |
/// | 32 | 24 | base of the oldest segment, index of its first frame, term of the frame before |
/// | 56 | n | members at the frame before: four lists, as in the vote file |
/// |  | 8 | the frame that the checkpoint was taken of |
/// |  | 8 | the frame that must be committed here before the checkpoint is used |
/// |  | n | the checkpoint |
/// |  | 4 | CRC-32C of the bytes before it |
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CatchUp {
    pub member: u64,
    pub term: u64,
    pub vote: u64,
    pub origin: Origin,
    pub members: ConfState,
    pub checkpoint: Index,
    pub usable_at: Index,
    pub state: Bytes,
}

/// The data of a snapshot: where the log begins, the term before that as it is stored, the checkpoint, and how far the leader
/// has committed.
pub(crate) fn snapshot_data(origin: Origin, committed: Index, checkpoint: Index, state: &[u8]) -> Bytes {
    let numbers = [origin.segment.0, origin.previous_term, committed.0, checkpoint.0].map(u64::to_le_bytes);
    Bytes::from([numbers.as_flattened(), state].concat())
}

impl CatchUp {
    pub(crate) fn of(snapshot: &Snapshot, member: u64, term: u64, vote: u64) -> Result<Self, Malformed> {
        let mut take = Take::new(snapshot.data.clone());
        let (segment, previous_term) = (take.u64()?, take.u64()?);
        let (committed, checkpoint) = (take.u64()?, take.u64()?);
        let first = Index(snapshot.metadata.index + 1);
        let origin = Origin { segment: SegmentId(segment), first, previous_term };
        let members = snapshot.metadata.conf_state.clone();
        if checkpoint + 1 < first.0 || members.voters.is_empty() {
            return Err(Malformed("the snapshot has a checkpoint from before its log, or no members"));
        }
        let state = take.rest();
        let (checkpoint, usable_at) = (Index(checkpoint), Index(checkpoint.max(committed)));
        Ok(Self { member, term, vote, origin, members, checkpoint, usable_at, state })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = [&MAGIC[..], &[VERSION]].concat();
        let Origin { segment, first, previous_term } = self.origin;
        for number in [self.member, self.term, self.vote, segment.0, first.0, previous_term] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_members(&mut out, &self.members);
        out.extend_from_slice(&self.checkpoint.0.to_le_bytes());
        out.extend_from_slice(&self.usable_at.0.to_le_bytes());
        out.extend_from_slice(&self.state);
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let at = bytes.len().checked_sub(4).ok_or(Malformed("catch-up file is too short"))?;
        let (content, crc) = (bytes.slice(..at), bytes.slice(at..));
        if crc[..] != crc32c::crc32c(&content).to_le_bytes() {
            return Err(Malformed("catch-up file does not match its checksum"));
        }
        let mut take = Take::new(content);
        if take.bytes(MAGIC.len())? != MAGIC[..] || take.u8()? != VERSION {
            return Err(Malformed("catch-up file has a version that is not known here"));
        }
        Ok(Self {
            member: take.u64()?,
            term: take.u64()?,
            vote: take.u64()?,
            origin: Origin {
                segment: SegmentId(take.u64()?),
                first: Index(take.u64()?),
                previous_term: take.u64()?,
            },
            members: take.members()?,
            checkpoint: Index(take.u64()?),
            usable_at: Index(take.u64()?),
            state: take.rest(),
        })
    }

    /// Stores it for the next start. Durable when this returns.
    pub(crate) fn store(&self, storage: &dyn Storage) -> io::Result<()> {
        let file = storage.create(TEMPORARY)?;
        file.write_at(0, &self.encode())?;
        file.sync_data()?;
        storage.rename(TEMPORARY, NAME)?;
        storage.sync_dir()
    }

    fn read(storage: &dyn Storage, name: &str) -> io::Result<Option<Self>> {
        match storage.read(name) {
            Ok(bytes) => {
                let damaged = |Malformed(what)| io::Error::new(io::ErrorKind::InvalidData, what);
                Self::decode(bytes.into()).map(Some).map_err(damaged)
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// What was installed and is not complete.
    pub(crate) fn begun(storage: &dyn Storage) -> io::Result<Option<Self>> {
        Self::read(storage, BEGUN)
    }

    /// The checkpoint has its place in the log's directory.
    pub(crate) fn complete(storage: &dyn Storage) -> io::Result<()> {
        storage.remove(BEGUN)?;
        storage.sync_dir()
    }
}

/// Opens the log of a member. What it was sent to catch up replaces its log first.
pub fn open_log(
    storage: &Arc<dyn Storage>,
    options: Options,
    config: &Config,
) -> Result<(DiskLog, Recovery), Failure> {
    if let Some(catch_up) = CatchUp::read(storage.as_ref(), NAME)? {
        DiskLog::begin_at(storage.as_ref(), &options, catch_up.origin)?;
        let commit = catch_up.origin.first.0 - 1;
        let vote = Vote {
            member: catch_up.member,
            term: catch_up.term,
            vote: catch_up.vote,
            commit,
            memberships: vec![(commit, catch_up.members)],
        };
        VoteFile::new(Arc::clone(storage), Vote::default()).save(vote, config)?;
        // Each step before may be repeated; from here on the log gets frames.
        storage.rename(NAME, BEGUN)?;
        storage.sync_dir()?;
    }
    Ok(DiskLog::open(Arc::clone(storage), options)?)
}

#[cfg(test)]
mod tests {
    use redstart_log::{Log, sim::SimStorage};

    use super::*;
    use crate::membership::Member;

    fn catch_up() -> CatchUp {
        let origin = Origin { segment: SegmentId(4096), first: Index(8), previous_term: 3 };
        CatchUp {
            member: Member { node: 1, incarnation: 2 }.id(),
            term: 9,
            vote: 4,
            origin,
            members: ConfState { voters: vec![4, 5], ..ConfState::default() },
            checkpoint: Index(11),
            usable_at: Index(13),
            state: Bytes::from_static(b"state"),
        }
    }

    #[test]
    fn it_reads_back_and_damage_is_noticed() {
        let bytes = catch_up().encode();
        assert_eq!(CatchUp::decode(bytes.clone().into()), Ok(catch_up()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(CatchUp::decode(damaged.into()).is_err(), "byte {at}");
            assert!(CatchUp::decode(Bytes::copy_from_slice(&bytes[..at])).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_start_that_is_cut_short_at_any_step_is_repeated() {
        let config = Config::new(Member { node: 1, incarnation: 2 }, 1);
        let options = || Options::with_segment_bytes(8192);
        for at in 1..60 {
            let storage = SimStorage::new(at);
            let shared: Arc<dyn Storage> = Arc::new(storage.clone());
            let (mut log, _) = open_log(&shared, options(), &config).expect("nothing is there yet");
            for n in 0..20 {
                log.append(n, &[1; 1000]).expect("there is room");
            }
            log.flusher().flush().expect("nothing fails yet");
            log.checkpoints().save(Index(5), b"old").expect("nothing fails yet");
            drop(log);
            catch_up().store(shared.as_ref()).expect("nothing fails yet");
            storage.crash_at(at);
            let _ = open_log(&shared, options(), &config);
            let shared: Arc<dyn Storage> = Arc::new(storage.crash(at * 7));
            let (log, _) = open_log(&shared, options(), &config).expect("it is repeated");
            assert_eq!((log.appended(), log.previous_term()), (Index(7), 3));
            assert_eq!(log.segments()[0].id, SegmentId(4096));
            assert!(log.checkpoints().load().expect("they can be listed").0.is_empty());
            let vote = VoteFile::read(shared.as_ref()).expect("it can be read").expect("it is there");
            assert_eq!((vote.term, vote.vote, vote.commit), (9, 4, 7));
            assert_eq!(CatchUp::begun(shared.as_ref()).expect("it can be read"), Some(catch_up()));
        }
    }
}
