//! The databases that `run` has started, and brokers of the tests' own.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use redstart_client::{
    Client,
    admin::{Admin, TopicSpec},
};
use redstart_wire::remoting::body::GroupConfig;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: use run"))
}

/// A database of its own for each test, made by `run`.
pub fn postgres(name: &str) -> String {
    format!("{}/{name}", variable("POSTGRES_URL"))
}

pub fn tokio_postgres(name: &str) -> String {
    format!("{}/tokio_{name}", variable("POSTGRES_URL"))
}

pub fn mysql(name: &str) -> String {
    format!("{}/{name}", variable("MYSQL_URL"))
}

pub fn sqlite(name: &str) -> String {
    let folder = variable("SQLITE_FOLDER");
    format!("sqlite://{folder}/{name}.db")
}

/// `redstart serve`, on loopback.
pub struct Broker {
    child: Child,
    ports: [u16; 3],
    data: tempfile::TempDir,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Broker {
    pub fn start() -> Broker {
        let ports = [(); 3].map(|()| free_port());
        let data = tempfile::TempDir::new().unwrap();
        let child = Broker::serve(ports, &data).expect("it starts");
        Broker { child, ports, data }
    }

    fn serve(ports: [u16; 3], data: &tempfile::TempDir) -> Option<Child> {
        let mut child = Command::new(variable("REDSTART"))
            .arg("serve")
            .arg(format!("--namesrv-port={}", ports[0]))
            .arg(format!("--broker-port={}", ports[1]))
            .arg(format!("--grpc-port={}", ports[2]))
            .args(["--http-port=0", "--new-groups-from=earliest", "--transaction-check-after=1s"])
            .args(["--transaction-check-interval=1s", "--data-dir"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        if lines.any(|line| line.contains("Remoting")) {
            return Some(child);
        }
        let _ = child.kill();
        let _ = child.wait();
        None
    }

    /// Ends it with SIGKILL and starts it again on the same data.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        for _ in 0..100 {
            if let Some(child) = Broker::serve(self.ports, &self.data) {
                self.child = child;
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("it does not start again");
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.address()).await.unwrap()
    }

    /// Makes a group whose messages do not become dead letters, however often their consumers are killed.
    pub async fn patient_group(&self, name: &str) {
        let group = GroupConfig {
            group_name: name.to_owned(),
            consume_enable: true,
            // The most that a broker takes.
            retry_max_times: 1000,
            ..GroupConfig::default()
        };
        let broker = format!("127.0.0.1:{}", self.ports[1]);
        Admin::new(&self.address()).put_group(&broker, &group).await.unwrap();
    }

    pub async fn topic(&self, name: &str, kind: &str) {
        let spec = TopicSpec { attributes: format!("+message.type={kind}"), ..TopicSpec::new(name, 4) };
        let broker = format!("127.0.0.1:{}", self.ports[1]);
        Admin::new(&self.address()).put_topic(&broker, &spec).await.unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
