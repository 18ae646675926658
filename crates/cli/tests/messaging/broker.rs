//! The real binary, on loopback.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use redstart_client::{
    Client, Protocol,
    admin::{Admin, TopicSpec},
};
use redstart_wire::remoting::body::GroupConfig;
use tempfile::TempDir;

/// No condition of a test takes as long, on a machine however busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const BOTH: [Protocol; 2] = [Protocol::Remoting, Protocol::Grpc];
/// Another process may take a port after it is found free and before it is used.
const STARTS_MAX: usize = 10;
const RESTARTS_MAX: usize = 100;

pub struct Broker {
    child: Child,
    ports: [u16; 3],
    data: Arc<TempDir>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

impl Broker {
    pub async fn start() -> Broker {
        let start =
            || Broker::try_start(&Arc::new(TempDir::new().expect("a folder")), [(); 3].map(|()| free_port()));
        (0..STARTS_MAX).find_map(|_| start()).expect("a broker starts")
    }

    /// Ends the process with SIGKILL, and starts another on the same data and ports.
    pub async fn restart(self) -> Broker {
        let (data, ports) = (self.data.clone(), self.ports);
        drop(self);
        // A connection of another process may have one of the ports for a while.
        for _ in 0..RESTARTS_MAX {
            if let Some(broker) = Broker::try_start(&data, ports) {
                return broker;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("it does not start again");
    }

    fn try_start(data: &Arc<TempDir>, ports: [u16; 3]) -> Option<Broker> {
        let [names, broker, grpc] = ports;
        let mut child = Command::new(env!("CARGO_BIN_EXE_redstart"))
            .env_clear()
            .arg("serve")
            .arg(format!("--namesrv-port={names}"))
            .arg(format!("--broker-port={broker}"))
            .arg(format!("--grpc-port={grpc}"))
            .args(["--http-port=0", "--new-groups-from=earliest"])
            .args(["--transaction-check-after=1s", "--transaction-check-interval=1s", "--data-dir"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let ready = lines.any(|line| line.contains("Remoting"));
        let broker = Broker { child, ports, data: data.clone() };
        ready.then_some(broker)
    }

    fn names(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    fn broker(&self) -> String {
        format!("127.0.0.1:{}", self.ports[1])
    }

    pub async fn client(&self, protocol: Protocol) -> Client {
        let address = match protocol {
            Protocol::Remoting => self.names(),
            Protocol::Grpc => format!("grpc://127.0.0.1:{}", self.ports[2]),
        };
        Client::connect(&address).await.expect("the broker is there")
    }

    /// Makes a topic of a type: NORMAL, FIFO, DELAY, PRIORITY.
    pub async fn topic(&self, name: &str, queues: u32, kind: &str) {
        let spec = TopicSpec { attributes: format!("+message.type={kind}"), ..TopicSpec::new(name, queues) };
        Admin::new(&self.names()).put_topic(&self.broker(), &spec).await.expect("the topic is made");
    }

    /// Makes a consumer group whose message groups are delivered in order.
    pub async fn ordered_group(&self, name: &str) {
        let group = GroupConfig {
            group_name: name.to_owned(),
            consume_enable: true,
            consume_message_orderly: true,
            retry_max_times: 16,
            ..GroupConfig::default()
        };
        Admin::new(&self.names()).put_group(&self.broker(), &group).await.expect("the group is made");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}
