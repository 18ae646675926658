//! Links of several nodes over loopback.

use std::{net::SocketAddr, time::Duration};

use redstart_raft::Member;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use super::*;
use crate::shard::{ReplicaInput, ReplicaInputs};

const SOON: Duration = Duration::from_secs(10);

struct TestNode {
    peers: Peers,
    inputs: crate::shard::ReplicaIncoming,
    relayed: mpsc::Receiver<Relayed>,
    _dir: tempfile::TempDir,
}

async fn listeners(count: u32) -> Vec<TcpListener> {
    let mut made = Vec::new();
    for _ in 0..count {
        made.push(TcpListener::bind(("127.0.0.1", 0)).await.unwrap());
    }
    made
}

fn start(number: u32, listener: TcpListener, addresses: &[SocketAddr]) -> TestNode {
    let dir = tempfile::tempdir().unwrap();
    let (identity, known) = Identity::open(dir.path(), "c", number).unwrap();
    let others = (1..).zip(addresses).filter(|(node, _)| *node != number);
    let config = Config {
        identity,
        secret: Secret::new("a secret of the cluster").unwrap(),
        peers: others.map(|(node, at)| (node, at.to_string())).collect(),
        face: Face { host: String::new(), broker_port: number as u16 },
    };
    let (replica, inputs) = ReplicaInputs::new();
    let (to, relayed) = mpsc::channel(8);
    let peers = Peers::start(listener, config, known, Sinks { replica, relayed: to });
    TestNode { peers, inputs, relayed, _dir: dir }
}

async fn nodes(count: u32) -> (Vec<TestNode>, Vec<SocketAddr>) {
    let listeners = listeners(count).await;
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let nodes = (1..).zip(listeners).map(|(number, listener)| start(number, listener, &addresses));
    (nodes.collect(), addresses)
}

async fn connected(nodes: &[TestNode]) {
    let all = || nodes.iter().all(|node| node.peers.views().iter().all(|view| view.connected));
    timeout(SOON, async {
        while !all() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

async fn next(node: &TestNode) -> ReplicaInput {
    timeout(SOON, async {
        loop {
            match node.inputs.try_take() {
                Some(input) => return input,
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    })
    .await
    .unwrap()
}

fn member(node: u32) -> Member {
    Member { node, incarnation: 0 }
}

#[tokio::test]
async fn messages_reach_the_node_that_they_are_for() {
    let (nodes, _) = nodes(3).await;
    connected(&nodes).await;
    let sender = nodes[0].peers.sender();
    for (to, term) in [(2, 7), (3, 8), (2, 9)] {
        sender.send(&message::heartbeat(member(1), member(to), term));
    }
    for (at, term) in [(1, 7), (1, 9), (2, 8)] {
        let ReplicaInput::Message { message, .. } = next(&nodes[at]).await else { panic!("no message") };
        assert_eq!((message::sender(&message), message.term), (member(1), term));
    }
    assert_eq!(nodes[0].peers.dialler().faces()[&3], Face { host: "127.0.0.1".to_owned(), broker_port: 3 });
}

#[tokio::test]
async fn a_node_that_goes_is_news_and_is_dialled_again_when_it_is_back() {
    let (mut nodes, addresses) = nodes(2).await;
    connected(&nodes).await;
    let gone = nodes.remove(1);
    let TestNode { peers, inputs, relayed, _dir } = gone;
    drop((peers, inputs, relayed));
    assert!(matches!(next(&nodes[0]).await, ReplicaInput::LinkDown(lost) if lost == member(2)));
    let sender = nodes[0].peers.sender();
    sender.send(&message::heartbeat(member(1), member(2), 7));
    timeout(SOON, async {
        while nodes[0].peers.views()[0].dropped == 0 {
            sender.send(&message::heartbeat(member(1), member(2), 7));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    // Another directory under its number: it lost its data.
    let listener = TcpListener::bind(addresses[1]).await.unwrap();
    let _back = start(2, listener, &addresses);
    timeout(SOON, async {
        loop {
            let trouble = nodes[0].peers.views()[0].trouble.clone().unwrap_or_default();
            if trouble.contains("had another data directory before") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn strangers_that_flood_or_say_nothing_do_not_keep_peers_away() {
    let listeners = listeners(2).await;
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let mut listeners = listeners.into_iter();
    let first = start(1, listeners.next().unwrap(), &addresses);
    let mut strangers = Vec::new();
    for n in 0..200 {
        let mut stranger = TcpStream::connect(addresses[0]).await.unwrap();
        if n % 2 == 0 {
            drop(stranger.write_all(&[n as u8; 512]).await);
        }
        strangers.push(stranger);
    }
    drop(strangers);
    let second = start(2, listeners.next().unwrap(), &addresses);
    connected(&[first, second]).await;
}

#[tokio::test]
async fn a_message_of_another_member_closes_the_link() {
    let (nodes, _) = nodes(2).await;
    connected(&nodes).await;
    // Node 1 claims that it carries a message of node 3.
    nodes[0].peers.sender().send(&message::heartbeat(member(3), member(2), 7));
    let closed = next(&nodes[1]).await;
    assert!(matches!(closed, ReplicaInput::LinkDown(lost) if lost == member(1)), "{closed:?}");
    // The link of the honest node comes back.
    connected(&nodes).await;
}

#[tokio::test]
async fn a_client_is_relayed_with_its_addresses() {
    let (mut nodes, _) = nodes(2).await;
    connected(&nodes).await;
    let open = handshake::RelayOpen {
        port: handshake::RelayedPort::Grpc,
        local: "10.0.0.1:8081".parse().unwrap(),
        remote: "10.0.0.9:4711".parse().unwrap(),
    };
    let mut stream = nodes[0].peers.dialler().relay(2, &open).await.unwrap();
    stream.write_all(b"bytes of the client").await.unwrap();
    let relayed = timeout(SOON, nodes[1].relayed.recv()).await.unwrap().unwrap();
    assert_eq!(relayed.open, open);
    let mut read = [0; 19];
    let mut from = relayed.stream;
    tokio::io::AsyncReadExt::read_exact(&mut from, &mut read).await.unwrap();
    assert_eq!(&read, b"bytes of the client");
}
