//! A broker with both front ends in a process of its own.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use redstart_engine::{Config as EngineConfig, Engine, MessageType, TopicConfig, TopicName};
use redstart_log::{FsStorage, Options};
use redstart_server::{
    ByteBudget, Resources,
    grpc::{self, Grpc},
    remoting::{Config, Remoting},
    shard::{self, Shard},
};
use redstart_wire::remoting::code;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

use crate::{
    remoting_support::{BROKER, Client},
    support::{self, connect, message, send},
};

const CHILD: &str = "REDSTART_FLOODS_CHILD";
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
    child: Child,
    pub grpc: SocketAddr,
    pub remoting: SocketAddr,
    /// Resident memory before the flood.
    before: usize,
    /// It ends when this closes.
    _stdin: ChildStdin,
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Process {
    pub async fn start() -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::child_broker", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.map_while(Result::ok).find_map(|line| line.strip_prefix('@').map(str::to_owned));
        let said = said.unwrap();
        let mut addresses = said.split(' ').map(|address| address.parse().unwrap());
        let (grpc, remoting) = (addresses.next().unwrap(), addresses.next().unwrap());
        let mut process = Process { child, grpc, remoting, before: 0, _stdin: stdin };
        process.serves().await;
        process.before = process.memory();
        process
    }

    fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    /// What it has in memory beyond what it had before the flood.
    pub fn cost(&self) -> usize {
        self.memory().saturating_sub(self.before)
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
    if std::env::var(CHILD).is_err() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = TempDir::new().unwrap();
    let _held = runtime.block_on(serve(&dir));
    // Until the parent lets go.
    drop(std::io::stdin().read(&mut [0]));
    drop(dir);
    std::process::exit(0);
}

async fn serve(dir: &TempDir) -> (Shard, watch::Sender<bool>) {
    let storage = FsStorage::open(dir.path().join("shard-0")).unwrap();
    let options = Options::with_segment_bytes(32 << 20);
    let shard =
        Shard::open(Arc::new(storage), options, support::engine(), shard::Config::default()).unwrap().shard;
    let resources = Resources { bytes: ByteBudget::new(BUDGET), ..Resources::default() };
    let config = grpc::Config { resources: resources.clone(), ..support::config() };
    let grpc = Grpc::bind(config, shard.handle(), mpsc::channel(1).1, dir.path()).await.unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let config = Config {
        cluster: "DefaultCluster".to_owned(),
        broker: BROKER.to_owned(),
        namesrv: any,
        listen: any,
        advertise: None,
        certificate: None,
        auto_create_groups: true,
        auto_create_topics: false,
        foreign_brokers: true,
        check_types: false,
        delay_levels: EngineConfig::default().delay_levels,
        resources,
    };
    let remoting = Remoting::bind(config, shard.handle(), dir.path()).await.unwrap();
    let addresses = (grpc.address().unwrap(), remoting.addresses().unwrap().1);
    let (stop, stopped) = watch::channel(false);
    let mut stopping = stopped.clone();
    tokio::spawn(grpc.serve(async move { drop(stopping.wait_for(|stopped| *stopped).await) }));
    tokio::spawn(remoting.serve(stopped));
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
    let mut client = connect(addresses.0, "producer", "JAVA").await;
    send(&mut client, message(LARGE_TOPIC, "m", &vec![7; LARGE_BODY])).await;
    println!("\n@{} {}", addresses.0, addresses.1);
    (shard, stop)
}
