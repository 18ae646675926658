//! What a running broker tells operators over HTTP, up to its end.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

struct Broker {
    child: Child,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Broker {
    fn start(data: &TempDir) -> Broker {
        let mut child = Command::new(env!("CARGO_BIN_EXE_redstart"))
            .args(["--grpc-port", "0", "--namesrv-port", "0", "--broker-port", "0", "--http-port", "0"])
            .arg("--data-dir")
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut address = |of: &str| {
            let line = lines.find(|line| line.contains(of)).expect("it says where it listens");
            let last = line.split_whitespace().last().unwrap().to_owned();
            last.trim_start_matches("http://").trim_end_matches("/metrics").parse().unwrap()
        };
        let (grpc, http) = (address("gRPC"), address("HTTP"));
        Broker { child, grpc, http }
    }

    /// The status and the body; `None` when nothing listens any more.
    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.http).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }
}

#[test]
fn a_broker_that_stops_says_so_before_it_closes_connections() {
    let data = TempDir::new().unwrap();
    let mut broker = Broker::start(&data);
    assert_eq!(broker.get("/readyz"), Some((200, "ok\n".to_owned())));
    assert_eq!(broker.get("/healthz"), Some((200, "ok\n".to_owned())));
    let (status, metrics) = broker.get("/metrics").unwrap();
    assert_eq!(status, 200);
    for part in ["redstart_connections{protocol=\"namesrv\"} 0\n", "redstart_build_info{version="] {
        assert!(metrics.contains(part), "{part}");
    }

    let mut client = TcpStream::connect(broker.grpc).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 9]).unwrap();
    kill_process(Pid::from_child(&broker.child), Signal::TERM).unwrap();
    // Until the connection is closed, or torn down.
    drop(client.read_to_end(&mut Vec::new()));
    match broker.get("/readyz") {
        None => {}
        Some(answer) => assert_eq!(answer, (503, "stopping\n".to_owned())),
    }
    assert!(broker.child.wait().unwrap().success());
}
