//! A broker with both front ends in a process of its own.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use redstart_engine::{Engine, MessageType, TopicConfig, TopicName};
use redstart_log::{FsStorage, Options};
use redstart_server::{
    ByteBudget, Resources, grpc, remoting,
    shard::{self, Shard},
};
use redstart_wire::remoting::code;
use tempfile::TempDir;

use crate::{
    remoting_support::{self, Client},
    support::{
        self,
        child_process::{ChildProcess, run_child},
        connect,
        front_ends::FrontEnds,
        message, send,
    },
};

pub const MIB: usize = 1 << 20;
/// The broker's budget for requests and answers under way.
const BUDGET: usize = 64 * MIB;
/// What a flood may cost in all: the budget, as much again for what is being decoded or copied, and what the allocator keeps.
pub const COST_MAX: usize = 2 * BUDGET + 64 * MIB;
/// For what happens at once on a machine that has nothing else to do.
pub const SOON: Duration = Duration::from_secs(60);

pub const TOPIC: &str = "t";
/// Its route is large.
pub const WIDE_TOPIC: &str = "wide";
const WIDE_QUEUES: u32 = 1000;
/// Its only message is of this many bytes.
pub const LARGE_TOPIC: &str = "large";
const LARGE_BODY: usize = 4 * MIB - 1024;

pub struct Process {
    child: ChildProcess,
    pub grpc: SocketAddr,
    pub remoting: SocketAddr,
    /// Resident memory before the flood.
    before: usize,
}

impl Process {
    pub async fn start() -> Process {
        let child = ChildProcess::start("process::child_broker");
        let mut addresses = child.announced.split(' ').map(|address| address.parse().unwrap());
        let (grpc, remoting) = (addresses.next().unwrap(), addresses.next().unwrap());
        let mut process = Process { child, grpc, remoting, before: 0 };
        process.serves().await;
        process.before = process.child.memory();
        process
    }

    /// What it has in memory beyond what it had before the flood.
    pub fn cost(&self) -> usize {
        self.child.memory().saturating_sub(self.before)
    }

    /// Looks at the cost for a while, in which what was sent is taken in; the most that was seen must be little enough.
    pub async fn check_cost(&self, what: &str, cost_max: usize) {
        let (started, mut most) = (Instant::now(), 0);
        while started.elapsed() < Duration::from_secs(2) {
            most = most.max(self.cost());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("{what}: {} MiB", most / MIB);
        assert!(most < cost_max, "{what}: {} MiB", most / MIB);
    }

    /// Honest clients of both protocols are served, perhaps after a few tries.
    pub async fn serves(&self) {
        let started = Instant::now();
        while !self.try_serve().await {
            assert!(started.elapsed() < SOON, "honest clients are not served");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn try_serve(&self) -> bool {
        let over_grpc = async {
            let mut client = connect(self.grpc, "honest", "JAVA").await;
            let request =
                redstart_wire::v2::SendMessageRequest { messages: vec![message(TOPIC, "m", b"body")] };
            let answer = client.send_message(request).await.unwrap().into_inner();
            support::code(answer.status) == redstart_wire::v2::Code::Ok
        };
        let over_remoting = async {
            let mut client = Client::connect(self.remoting).await;
            client.call(code::GET_BROKER_CLUSTER_INFO, &[]).await.code == code::SUCCESS
        };
        let both = async { over_grpc.await && over_remoting.await };
        tokio::time::timeout(SOON, both).await.expect("honest clients are answered")
    }
}

/// Not a test by itself: the process that is watched.
#[test]
fn child_broker() {
    run_child(serve());
}

async fn serve() -> (String, (Shard, FrontEnds, TempDir)) {
    let dir = TempDir::new().unwrap();
    let storage = FsStorage::open(dir.path().join("shard-0")).unwrap();
    let options = Options::with_segment_bytes(32 << 20);
    let shard =
        Shard::open(Arc::new(storage), options, support::engine(), shard::Config::default()).unwrap().shard;
    let resources = Resources { bytes: ByteBudget::new(BUDGET), ..Resources::default() };
    let grpc = grpc::Config { resources: resources.clone(), ..support::config() };
    let remoting = remoting::Config { foreign_brokers: true, resources, ..remoting_support::config() };
    let front_ends = FrontEnds::start(shard.handle(), dir.path(), grpc, remoting).await;
    for (name, queues) in [(TOPIC, 1), (WIDE_TOPIC, WIDE_QUEUES), (LARGE_TOPIC, 1)] {
        let config = TopicConfig {
            message_type: MessageType::Normal,
            read_queues: queues,
            write_queues: queues,
            ..TopicConfig::default()
        };
        let name = TopicName::new(name).unwrap();
        let put = move |engine: &mut Engine, _| engine.put_topic(&name, config);
        shard.handle().change(put).unwrap().await.unwrap().unwrap();
    }
    let mut client = connect(front_ends.grpc, "producer", "JAVA").await;
    send(&mut client, message(LARGE_TOPIC, "m", &vec![7; LARGE_BODY])).await;
    (format!("{} {}", front_ends.grpc, front_ends.remoting), (shard, front_ends, dir))
}
