//! The shared suite of logs on the replicated one: a group of one member, and of three whose messages a flush carries.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../log/tests/suite/mod.rs"]
#[allow(dead_code, unused_macros, reason = "what a log promises that has no other nodes is not asked here")]
mod suite;
mod support;

use std::sync::{Arc, Mutex};

use redstart_log::{
    Appended, Checkpoints, Error, Flusher, Frame, Index, IndexWriter, Log, Reader, SegmentId, SegmentInfo,
    Sizes, StoredCheckpoints, Usage,
};
use redstart_raft::ReplicatedLog;

use suite::suite;
use support::Group;

struct Made {
    log: Box<dyn Log>,
}

fn one() -> Made {
    let mut group = Group::new(1);
    let leader = group.elect();
    Made { log: Box::new(group.log(leader)) }
}

fn three() -> Made {
    let mut group = Group::new(3);
    let leader = group.elect();
    group.settle();
    let leader = group.log(leader);
    Made { log: Box::new(Carried { leader, group: Arc::new(Mutex::new(group)) }) }
}

suite!(group_of_one, crate::one);
suite!(group_of_three, crate::three);

/// The log of a leader. Its flushes carry what the members have to tell each other.
struct Carried {
    leader: ReplicatedLog,
    group: Arc<Mutex<Group>>,
}

impl Log for Carried {
    fn append(&mut self, timestamp_ms: u64, payload: &[u8]) -> Result<Appended, Error> {
        self.leader.append(timestamp_ms, payload)
    }
    fn copy(&mut self, frame: &Frame) -> Result<(), Error> {
        self.leader.copy(frame)
    }
    fn appended(&self) -> Index {
        self.leader.appended()
    }
    fn committed(&self) -> Index {
        self.leader.committed()
    }
    fn term(&self) -> u64 {
        self.leader.term()
    }
    fn set_term(&mut self, term: u64) {
        self.leader.set_term(term);
    }
    fn previous_term(&self) -> u64 {
        self.leader.previous_term()
    }
    fn sizes(&self) -> Sizes {
        self.leader.sizes()
    }
    fn set_sizes(&mut self, sizes: Sizes) {
        self.leader.set_sizes(sizes);
    }
    fn flusher(&self) -> Arc<dyn Flusher> {
        Arc::new(CarriedFlusher(self.leader.clone(), Arc::clone(&self.group)))
    }
    fn reader(&self) -> Arc<dyn Reader> {
        self.leader.reader()
    }
    fn truncate(&mut self, last: Index) -> Result<(), Error> {
        self.leader.truncate(last)
    }
    fn segments(&self) -> Vec<SegmentInfo> {
        self.leader.segments()
    }
    fn roll(&mut self) -> Result<(), Error> {
        self.leader.roll()
    }
    fn index_writer(&self) -> Arc<dyn IndexWriter> {
        self.leader.index_writer()
    }
    fn remove_oldest(&mut self, segment: SegmentId) -> Result<(), Error> {
        self.leader.remove_oldest(segment)
    }
    fn checkpoints(&self) -> Arc<dyn Checkpoints> {
        Arc::new(CarriedCheckpoints(self.leader.checkpoints(), Arc::clone(&self.group)))
    }
    fn usage(&self) -> Result<Usage, Error> {
        self.leader.usage()
    }
}

struct CarriedFlusher(ReplicatedLog, Arc<Mutex<Group>>);

impl Flusher for CarriedFlusher {
    fn flush(&self) -> Result<Index, Error> {
        self.1.lock().unwrap().settle();
        Ok(self.0.committed())
    }
}

struct CarriedCheckpoints(Arc<dyn Checkpoints>, Arc<Mutex<Group>>);

impl Checkpoints for CarriedCheckpoints {
    fn save(&self, at: Index, state: &[u8]) -> Result<(), Error> {
        self.0.save(at, state)?;
        self.1.lock().unwrap().settle();
        Ok(())
    }
    fn load(&self) -> Result<StoredCheckpoints, Error> {
        self.0.load()
    }
}
