//! The HTTP front end on a loopback port, a client that speaks raw HTTP, and a strict reader of Prometheus' text format.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod exposition;

use std::{net::SocketAddr, time::Duration};

use redstart_server::{
    Resources, Transport,
    http::{Config, Health, Http, Limits, Metrics, Router, Sources, Stage},
    statistics::LiveCount,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

/// How long a test waits for a condition before it fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Asks until there is an answer.
pub async fn eventually<R>(ask: impl AsyncFn() -> Option<R>) -> R {
    let asking = async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it comes true in time")
}

pub struct Pages {
    pub address: SocketAddr,
    pub health: Health,
    pub metrics: Metrics,
    pub connections: LiveCount,
    pub stop: watch::Sender<bool>,
}

impl Pages {
    pub async fn start() -> Pages {
        Pages::with(Limits::default()).await
    }

    pub async fn with(limits: Limits) -> Pages {
        let health = Health::default();
        let metrics = Metrics::fresh_after("DefaultCluster", "broker-a", Duration::ZERO);
        let router =
            Router::default().with(health.live_page()).with(health.ready_page()).with(metrics.page());
        let (transport, resources) = (Transport::default(), Resources::default());
        let config = Config { listen: "127.0.0.1:0".parse().unwrap(), limits, transport, resources };
        let http = Http::bind(config, router).await.unwrap();
        let (address, connections) = (http.address().unwrap(), http.connections());
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(http.serve(stopped));
        Pages { address, health, metrics, connections, stop }
    }

    /// As the broker does when every port accepts.
    pub fn serving(&self, sources: Sources) {
        self.health.watch(sources.shards.all().iter().map(|shard| shard.handle.clone()));
        self.metrics.attach(sources);
        self.health.set(Stage::Serving);
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).await
    }

    pub async fn ask(&self, method: &str, path: &str) -> Answer {
        let mut connection = Connection::open(self.address).await;
        connection.write(format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
        let answer = connection.answer(method == "HEAD").await;
        assert_eq!(connection.rest().await, "", "nothing comes after the answer");
        answer
    }

    /// What `/metrics` says, read as strictly as the format allows.
    pub async fn scrape(&self) -> exposition::Exposition {
        let answer = self.get("/metrics").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        exposition::Exposition::read(&answer.body)
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

pub struct Connection {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Connection {
        Connection { stream: TcpStream::connect(address).await.unwrap(), input: Vec::new() }
    }

    /// The peer may have closed the connection already.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()).await);
    }

    /// One answer; of a `HEAD` without its body.
    pub async fn answer(&mut self, head: bool) -> Answer {
        let end = loop {
            if let Some(at) = self.input.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await, "the connection ended in an answer's head: {:?}", self.text());
        };
        let head_text = String::from_utf8(self.input.drain(..end).collect()).unwrap();
        let mut lines = head_text.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let mut answer = Answer { status, headers: lines.map(header).collect(), body: String::new() };
        if !head {
            let length: usize = answer.header("content-length").unwrap().parse().unwrap();
            while self.input.len() < length {
                assert!(self.more().await, "the connection ended in an answer");
            }
            answer.body = String::from_utf8(self.input.drain(..length).collect()).unwrap();
        }
        answer
    }

    /// Everything until the connection is closed.
    pub async fn rest(&mut self) -> String {
        while self.more().await {}
        self.text()
    }

    /// `false` when the peer has closed the connection.
    async fn more(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.input));
        matches!(read.await.expect("the server neither answers nor closes"), Ok(read) if read > 0)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.input).into_owned()
    }
}
