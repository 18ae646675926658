//! Three shards with their threads, and links in memory that can be cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use bytes::Bytes;
use redstart_engine::{Message as StoredMessage, SendOptions, TopicConfig, TopicName};
use redstart_log::sim::SimStorage;

use super::*;
use crate::shard::{Reply, SendFailure, Unavailable};

const PATIENCE: Duration = Duration::from_secs(60);

/// The links of all nodes.
#[derive(Default)]
struct Links {
    inputs: Mutex<BTreeMap<u32, ReplicaInputs>>,
    /// Nodes that hear and say nothing.
    cut: Mutex<BTreeSet<u32>>,
}

impl Links {
    fn carry(&self, from: u32, message: &Message) {
        let to = redstart_raft::message::recipient(message).node;
        let cut = self.cut.lock();
        if cut.contains(&from) || cut.contains(&to) {
            return;
        }
        if let Some(inputs) = self.inputs.lock().get(&to) {
            inputs.give(ReplicaInput::Message { message: Box::new(message.clone()), held: None });
        }
    }
}

struct TestNode {
    shard: Shard,
    storage: SimStorage,
    standing: watch::Receiver<Standing>,
    inputs: ReplicaInputs,
}

struct Group {
    nodes: BTreeMap<u32, TestNode>,
    links: Arc<Links>,
}

fn topic() -> TopicName {
    TopicName::new("t").unwrap()
}

fn message(body: &str) -> StoredMessage {
    StoredMessage {
        id: body.to_owned(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        ..StoredMessage::default()
    }
}

impl Group {
    fn new() -> Group {
        let mut group = Group { nodes: BTreeMap::new(), links: Arc::default() };
        for node in 1..=3 {
            group.start(node, SimStorage::new(u64::from(node)));
        }
        group
    }

    fn start(&mut self, node: u32, storage: SimStorage) {
        let (inputs, incoming) = ReplicaInputs::new();
        self.links.inputs.lock().insert(node, inputs.clone());
        let (standing_tx, standing) = watch::channel(Standing::default());
        let links = self.links.clone();
        let replication = Replication {
            member: Member { node, incarnation: 0 },
            founders: vec![1, 2, 3],
            seed: u64::from(node) * 77,
            inputs: incoming,
            send: Box::new(move |message| links.carry(node, message)),
            standing: standing_tx,
            view: SharedView::default(),
        };
        let options = LogOptions::with_segment_bytes(1 << 20);
        let opened = Shard::open_replicated(
            Arc::new(storage.clone()),
            options,
            EngineConfig::default(),
            Config::default(),
            replication,
        );
        let (shard, _) = opened.unwrap();
        self.nodes.insert(node, TestNode { shard, storage, standing, inputs });
    }

    /// Waits for a node that serves and is none of these.
    fn leader(&self, but: &[u32]) -> u32 {
        wait(|| {
            let serves = |node: &TestNode| node.standing.borrow().serves.is_some();
            let mut found = self.nodes.iter().filter(|(number, node)| !but.contains(number) && serves(node));
            found.next().map(|(number, _)| *number)
        })
    }

    fn handle(&self, node: u32) -> ShardHandle {
        self.nodes[&node].shard.handle()
    }

    fn create_topic(&self, at: u32) {
        let config = TopicConfig { read_queues: 1, write_queues: 1, ..TopicConfig::default() };
        let put = self.handle(at).change(move |engine, _| engine.put_topic(&topic(), config)).unwrap();
        put.wait().unwrap().unwrap();
    }

    fn begin_send(
        &self,
        at: u32,
        body: &str,
    ) -> Reply<Result<Vec<redstart_engine::SendReceipt>, SendFailure>> {
        self.handle(at).send(topic(), vec![message(body)], SendOptions::default()).unwrap()
    }

    fn send(&self, at: u32, count: usize) {
        for n in 0..count {
            self.begin_send(at, &format!("{at}-{n}")).wait().unwrap().unwrap();
        }
    }

    /// How many messages a node has, as its own state says.
    fn stored(&self, at: u32) -> u64 {
        let asked = self.handle(at).query(|engine, _| {
            engine.topic(&topic()).map_or(0, |view| view.queues.iter().map(|(_, _, end)| end.0).sum())
        });
        asked.unwrap().wait().unwrap()
    }

    fn all_have(&self, count: u64) {
        wait(|| self.nodes.keys().all(|node| self.stored(*node) == count).then_some(()));
    }
}

fn wait<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < until, "it did not come about in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_was_acknowledged_is_there_when_another_node_leads_and_when_the_first_is_back() {
    let mut group = Group::new();
    let first = group.leader(&[]);
    group.create_topic(first);
    group.send(first, 20);
    let gone = group.nodes.remove(&first).unwrap();
    group.links.inputs.lock().remove(&first);
    gone.shard.stop().unwrap();
    let second = group.leader(&[first]);
    assert_eq!(group.stored(second), 20);
    group.send(second, 20);
    group.all_have(40);
    group.start(first, gone.storage.snapshot());
    group.all_have(40);
}

#[test]
fn a_leader_that_is_cut_off_acknowledges_nothing_and_follows_when_it_is_back() {
    let group = Group::new();
    let first = group.leader(&[]);
    group.create_topic(first);
    group.send(first, 5);
    group.links.cut.lock().insert(first);
    let unknown = group.begin_send(first, "nobody hears of it");
    let second = group.leader(&[first]);
    group.send(second, 7);
    wait(|| group.nodes[&first].standing.borrow().serves.is_none().then_some(()));
    group.links.cut.lock().clear();
    // Whether it was stored is not known to the node that took it; here it was not.
    assert_eq!(unknown.wait().unwrap_err(), Unavailable::Stopped);
    group.all_have(12);
}

#[test]
fn a_node_that_follows_serves_reads_and_takes_no_decisions() {
    let group = Group::new();
    let leader = group.leader(&[]);
    group.create_topic(leader);
    group.send(leader, 3);
    group.all_have(3);
    let follower = group.nodes.keys().copied().find(|node| *node != leader).unwrap();
    assert_eq!(group.begin_send(follower, "not here").wait().unwrap_err(), Unavailable::Stopped);
    let config = TopicConfig::default();
    let put = group.handle(follower).change(move |engine, _| engine.put_topic(&topic(), config)).unwrap();
    assert!(put.wait().is_err());
    group.send(leader, 1);
    group.all_have(4);
}

#[test]
fn leadership_is_handed_over_and_requests_wait_meanwhile() {
    let group = Group::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let first = group.leader(&[]);
    group.create_topic(first);
    let target = group.nodes.keys().copied().find(|node| *node != first).unwrap();
    let moved = runtime.block_on(group.nodes[&first].inputs.transfer(Some(target)));
    assert_eq!(moved, Ok(target));
    assert_eq!(group.leader(&[first]), target);
    group.send(target, 3);
    group.all_have(3);
    let refused = runtime.block_on(group.nodes[&first].inputs.transfer(None));
    assert_eq!(refused, Err(TransferRefused::NotLeading));
}

#[test]
fn data_of_a_node_that_was_alone_is_refused() {
    let storage = SimStorage::new(1);
    let (log, _) = redstart_log::DiskLog::open(Arc::new(storage.clone()), LogOptions::default()).unwrap();
    let mut log: Box<dyn Log> = Box::new(log);
    log.append(1, b"a frame").unwrap();
    log.flusher().flush().unwrap();
    drop(log);
    let (_inputs, incoming) = ReplicaInputs::new();
    let replication = Replication {
        member: Member { node: 1, incarnation: 0 },
        founders: vec![1, 2, 3],
        seed: 1,
        inputs: incoming,
        send: Box::new(|_| {}),
        standing: watch::channel(Standing::default()).0,
        view: SharedView::default(),
    };
    let opened = Shard::open_replicated(
        Arc::new(storage.snapshot()),
        LogOptions::default(),
        EngineConfig::default(),
        Config::default(),
        replication,
    );
    assert!(matches!(opened, Err(StartError::WasAlone)));
}
