//! What a member must remember beside its log: its term and vote, how far the log is surely committed, and who takes part.

use std::{io, sync::Arc};

use raft::eraftpb::{ConfState, HardState};
use redstart_log::Storage;

use crate::{
    config::Config,
    message::{Malformed, Take, put_members},
    planted::planted,
};

const NAME: &str = "vote";
const TEMPORARY: &str = "vote.tmp";
const MAGIC: &[u8; 7] = b"rsvote\0";
const VERSION: u8 = 1;

/// The content of the file `vote`. It is written whole to a temporary file, synced, and renamed. All integers are little
/// endian.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 7 | `rsvote` and a zero |
/// | 7 | 1 | version, 1 |
/// | 8 | 8 | the member that this directory belongs to: node in the upper half, incarnation in the lower one |
/// | 16 | 8 | term |
/// | 24 | 8 | the member that was voted for in this term, 0 for none |
/// | 32 | 8 | index of a frame that is committed; frames after it may be |
/// | 40 | 4 | number of memberships |
/// | 44 | n | each: index of the frame from which on it holds, then four lists (voters, learners, outgoing voters, learners to be) with a count (u32) and so many members (u64) |
/// |  | 4 | CRC-32C of the bytes before it |
///
/// Memberships are in the order of their frames. The first is the one that holds before the oldest frame of the log, the
/// last holds at the committed frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Vote {
    pub member: u64,
    pub term: u64,
    pub vote: u64,
    pub commit: u64,
    pub memberships: Vec<(u64, ConfState)>,
}

impl Vote {
    pub(crate) fn hard_state(&self) -> HardState {
        HardState { term: self.term, vote: self.vote, commit: self.commit }
    }

    pub(crate) fn membership(&self) -> ConfState {
        self.memberships.last().map(|(_, members)| members.clone()).unwrap_or_default()
    }

    /// Forgets the memberships that ended before this frame.
    pub(crate) fn forget_before(&mut self, oldest: u64) {
        let ended = self.memberships.iter().skip(1).take_while(|(from, _)| *from < oldest).count();
        self.memberships.drain(..ended);
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = [&MAGIC[..], &[VERSION]].concat();
        for number in [self.member, self.term, self.vote, self.commit] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.memberships.len() as u32).to_le_bytes());
        for (from, members) in &self.memberships {
            out.extend_from_slice(&from.to_le_bytes());
            put_members(&mut out, members);
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (content, crc) = bytes.split_last_chunk::<4>().ok_or(Malformed("vote file is too short"))?;
        let mut take = Take::new(content);
        if take.bytes(MAGIC.len())? != MAGIC[..] {
            return Err(Malformed("vote file does not begin as one"));
        }
        if take.u8()? != VERSION {
            return Err(Malformed("vote file has a version that is not known here"));
        }
        if u32::from_le_bytes(*crc) != crc32c::crc32c(content) {
            return Err(Malformed("vote file does not match its checksum"));
        }
        let mut vote = Self {
            member: take.u64()?,
            term: take.u64()?,
            vote: take.u64()?,
            commit: take.u64()?,
            memberships: Vec::new(),
        };
        for _ in 0..take.u32()? {
            let from = take.u64()?;
            let members = take.members()?;
            vote.memberships.push((from, members));
        }
        take.end()?;
        Ok(vote)
    }
}

/// Whether a data directory has been used by a member of a group.
pub fn has_vote(storage: &dyn Storage) -> io::Result<bool> {
    Ok(VoteFile::read(storage)?.is_some())
}

/// The file, and what it holds.
#[derive(Debug)]
pub(crate) struct VoteFile {
    storage: Arc<dyn Storage>,
    stored: Vote,
}

impl VoteFile {
    /// Reads the file; `None` where there is none.
    pub(crate) fn read(storage: &dyn Storage) -> io::Result<Option<Vote>> {
        match storage.read(NAME) {
            Ok(bytes) => {
                let damaged = |Malformed(what)| io::Error::new(io::ErrorKind::InvalidData, what);
                Vote::decode(&bytes).map(Some).map_err(damaged)
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err),
        }
    }

    pub(crate) fn new(storage: Arc<dyn Storage>, stored: Vote) -> Self {
        Self { storage, stored }
    }

    /// What the file holds.
    pub(crate) fn stored(&self) -> &Vote {
        &self.stored
    }

    /// Replaces the content. Durable when this returns.
    pub(crate) fn save(&mut self, vote: Vote, config: &Config) -> io::Result<()> {
        if planted!(config, SkipVoteFile) {
            self.stored = vote;
            return Ok(());
        }
        let storage = self.storage.as_ref();
        let file = storage.create(TEMPORARY)?;
        file.write_at(0, &vote.encode())?;
        if !planted!(config, SkipVoteSync) {
            file.sync_data()?;
        }
        storage.rename(TEMPORARY, NAME)?;
        if !planted!(config, SkipVoteSync) {
            storage.sync_dir()?;
        }
        self.stored = vote;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redstart_log::sim::SimStorage;

    use super::*;
    use crate::membership::Member;

    fn vote() -> Vote {
        let members = ConfState {
            voters: vec![1, 2, 3],
            learners: vec![9],
            voters_outgoing: vec![3, 4],
            learners_next: vec![4],
            auto_leave: false,
        };
        let birth = ConfState { voters: vec![1], ..ConfState::default() };
        let memberships = vec![(0, birth.clone()), (5, members), (8, birth)];
        Vote { member: 1 << 32, term: 7, vote: 2, commit: 11, memberships }
    }

    #[test]
    fn what_was_saved_is_read_after_every_crash() {
        let config = Config::new(Member { node: 1, incarnation: 0 }, 1);
        let first = vote();
        let second = Vote { term: 8, ..vote() };
        for at in 1..8 {
            let storage = SimStorage::new(at);
            let mut file = VoteFile::new(Arc::new(storage.clone()), Vote::default());
            file.save(first.clone(), &config).expect("nothing fails yet");
            storage.crash_at(at);
            let saved = file.save(second.clone(), &config);
            for seed in 0..20 {
                let found = VoteFile::read(&storage.crash(seed)).expect("the file can be read");
                let found = found.expect("the file is there");
                assert!(found == second || saved.is_err() && found == first, "{found:?}");
            }
        }
    }

    #[test]
    fn damage_is_reported() {
        let storage = SimStorage::new(1);
        assert!(VoteFile::read(&storage).is_ok_and(|vote| vote.is_none()));
        let bytes = vote().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            storage.put(NAME, &damaged);
            assert!(VoteFile::read(&storage).is_err(), "byte {at}");
            storage.put(NAME, &bytes[..at]);
            assert!(VoteFile::read(&storage).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn memberships_of_removed_frames_are_forgotten() {
        let from = |vote: &Vote| vote.memberships.iter().map(|(from, _)| *from).collect::<Vec<_>>();
        let mut vote = vote();
        vote.forget_before(5);
        assert_eq!(from(&vote), [0, 5, 8], "frame 5 is still there, and the first holds before it");
        vote.forget_before(6);
        assert_eq!(from(&vote), [5, 8]);
        vote.forget_before(100);
        assert_eq!(from(&vote), [8]);
    }
}
