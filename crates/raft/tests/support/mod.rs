//! Members in one process, on simulated disks and one clock; messages arrive at once, unless a member is cut off.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    collections::BTreeSet,
    sync::{Arc, MutexGuard},
};

use raft::eraftpb::MessageType;
use redstart_log::{DiskLog, Frame, Log, Options, Position, Storage, sim::SimStorage};
use redstart_raft::{
    Config, Failure, Member, Message, Moment, Replica, ReplicatedLog, Role, message, open_log,
};

pub const SEGMENT_BYTES: u64 = 8192;

pub fn member(node: usize) -> Member {
    Member { node: node as u32 + 1, incarnation: 0 }
}

struct Node {
    storage: SimStorage,
    log: Option<ReplicatedLog>,
}

pub struct Group {
    nodes: Vec<Node>,
    founders: Vec<Member>,
    now: u64,
    cut_off: BTreeSet<usize>,
    stalled: BTreeSet<usize>,
    flushes: bool,
    lost_checkpoints: u32,
}

impl Group {
    pub fn new(members: usize) -> Self {
        Self::with_frames_of_one(members, 0)
    }

    /// The first node has a log already, from when it was alone.
    pub fn with_frames_of_one(members: usize, count: u64) -> Self {
        let founders: Vec<Member> = (0..members).map(member).collect();
        let mut group = Self {
            nodes: Vec::new(),
            founders,
            now: 0,
            cut_off: BTreeSet::new(),
            stalled: BTreeSet::new(),
            flushes: true,
            lost_checkpoints: 0,
        };
        for node in 0..members {
            let storage = SimStorage::new(node as u64);
            if node == 0 && count > 0 {
                let (mut log, _) = DiskLog::open(Arc::new(storage.clone()), options()).unwrap();
                for n in 0..count {
                    log.append(n, &vec![n as u8; 500]).unwrap();
                }
                log.flusher().flush().unwrap();
            }
            group.nodes.push(Node { storage, log: None });
            group.open(node);
        }
        group
    }

    /// A node that is no member yet.
    pub fn add_node(&mut self) -> usize {
        let node = self.nodes.len();
        self.nodes.push(Node { storage: SimStorage::new(node as u64), log: None });
        self.open(node);
        node
    }

    fn open(&mut self, node: usize) {
        let storage = self.nodes[node].storage.clone();
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let config = Config::new(member(node), node as u64 + 7);
        let (log, _) = open_log(&storage, options(), &config).unwrap();
        let replica =
            Replica::open(storage, Box::new(log), &self.founders, config, Moment(self.now)).unwrap();
        self.nodes[node].log = Some(ReplicatedLog::new(replica));
    }

    /// The power fails, and comes back.
    pub fn restart(&mut self, node: usize) {
        let storage = self.nodes[node].storage.crash(self.now);
        self.nodes[node] = Node { storage, log: None };
        self.open(node);
    }

    /// The process ends, and another begins.
    pub fn kill(&mut self, node: usize) {
        let storage = self.nodes[node].storage.snapshot();
        self.nodes[node] = Node { storage, log: None };
        self.open(node);
    }

    pub fn log(&self, node: usize) -> ReplicatedLog {
        self.nodes[node].log.clone().unwrap()
    }

    pub fn replica(&self, node: usize) -> MutexGuard<'_, Replica> {
        self.nodes[node].log.as_ref().unwrap().replica()
    }

    pub fn now(&self, _: usize) -> Moment {
        Moment(self.now)
    }

    pub fn may_serve(&self, node: usize) -> bool {
        self.replica(node).may_serve(Moment(self.now))
    }

    pub fn others(&self, than: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| *node != than).collect()
    }

    pub fn cut_off(&mut self, node: usize) {
        self.cut_off.insert(node);
    }

    /// Its disk answers no more.
    pub fn stall(&mut self, node: usize) {
        self.stalled.insert(node);
    }

    /// So many checkpoints do not arrive.
    pub fn lose_checkpoints(&mut self, count: u32) {
        self.lost_checkpoints = count;
    }

    pub fn checkpoints_to_lose(&self) -> u32 {
        self.lost_checkpoints
    }

    pub fn heal(&mut self) {
        self.cut_off.clear();
    }

    pub fn flush(&mut self, node: usize) {
        self.log(node).flusher().flush().unwrap();
    }

    /// Carries messages until there are none, and flushes nothing.
    pub fn carry_without_flushes(&mut self) {
        self.flushes = false;
        self.settle();
        self.flushes = true;
    }

    /// Carries messages and flushes until there is nothing to do.
    pub fn settle(&mut self) {
        loop {
            let mut messages: Vec<Message> = Vec::new();
            for node in 0..self.nodes.len() {
                if self.flushes && !self.stalled.contains(&node) && self.replica(node).wants_flush() {
                    self.flush(node);
                }
                let sent = self.replica(node).take_messages();
                messages.extend(sent.into_iter().filter(|_| !self.cut_off.contains(&node)));
            }
            if messages.is_empty() {
                return;
            }
            for message in messages {
                let message = message::decode(message::encode(&message).into()).unwrap();
                let to = (message.to >> 32) as usize - 1;
                let checkpoint = message.msg_type == MessageType::MsgSnapshot;
                if checkpoint && self.lost_checkpoints > 0 {
                    self.lost_checkpoints -= 1;
                } else if !self.cut_off.contains(&to) {
                    let received = self.replica(to).receive(Moment(self.now), message);
                    match received {
                        Err(Failure::StartAgain) => self.kill(to),
                        received => received.unwrap().unwrap(),
                    }
                }
            }
        }
    }

    pub fn run_ms(&mut self, ms: u64) {
        for _ in 0..ms / 25 {
            self.now += 25;
            for node in 0..self.nodes.len() {
                let now = Moment(self.now);
                self.replica(node).tick(now).unwrap();
            }
            self.settle();
        }
    }

    pub fn elect(&mut self) -> usize {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.elect_among(&all)
    }

    /// Runs until one of these leads.
    pub fn elect_among(&mut self, nodes: &[usize]) -> usize {
        for _ in 0..400 {
            self.run_ms(25);
            let leader = nodes.iter().find(|node| {
                let replica = self.replica(**node);
                replica.role() == Role::Leader && replica.leads().is_some()
            });
            if let Some(leader) = leader {
                return *leader;
            }
        }
        panic!("nobody was elected within ten seconds");
    }
}

fn options() -> Options {
    Options::with_segment_bytes(SEGMENT_BYTES)
}

/// All frames of a log, in order.
pub fn frames(log: &dyn Log) -> Vec<Frame> {
    let reader = log.reader();
    let mut frames = Vec::new();
    for segment in log.segments() {
        let mut position = Position(segment.id.0);
        while let Some(frame) = reader.frame(position).unwrap() {
            position = frame.next;
            frames.push(frame);
        }
    }
    frames
}
