//! Two nodes over loopback.

use std::path::Path;

use redstart_raft::Member;
use tokio::net::TcpListener;

use super::*;
use crate::peers::Identity;

const SECRET: &str = "a secret of the cluster";

struct Node {
    config: Config,
    known: KnownPeers,
}

/// A node of three, with its directory.
fn node(dir: &Path, number: u32) -> Node {
    let (identity, known) = Identity::open(dir, "c", number).unwrap();
    let peers = (1..=3).filter(|other| *other != number).map(|other| (other, String::new())).collect();
    let face = Face { host: format!("host{number}"), broker_port: 10_911 };
    Node { config: Config { identity, secret: Secret::new(SECRET).unwrap(), peers, face }, known }
}

fn nodes() -> (tempfile::TempDir, Node, Node) {
    let dir = tempfile::tempdir().unwrap();
    let made = |number: u32| {
        let own = dir.path().join(number.to_string());
        std::fs::create_dir(&own).unwrap();
        node(&own, number)
    };
    let (first, second) = (made(1), made(2));
    (dir, first, second)
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (dialled, listener.accept().await.unwrap().0)
}

/// The first dials the second. Returns what each says of the other.
async fn meet(first: &Node, second: &Node) -> (Result<Hello, Failure>, Result<Hello, Failure>) {
    let (mut dialled, mut accepted) = pair().await;
    let second_accepts = async {
        let met = accept(&mut accepted, &second.config, &second.known).await;
        // As the process would: the connection of a peer that is refused is closed.
        if met.is_err() {
            drop(accepted);
        }
        met
    };
    let first_dials = async {
        let met = dial(&mut dialled, &first.config, &first.known, 2, Purpose::Replication).await;
        if met.is_err() {
            drop(dialled);
        }
        met
    };
    tokio::join!(first_dials, second_accepts)
}

fn why(met: Result<Hello, Failure>) -> String {
    met.unwrap_err().to_string()
}

#[tokio::test]
async fn two_nodes_of_a_cluster_learn_of_each_other() {
    let (_dir, first, second) = nodes();
    let (of_second, of_first) = meet(&first, &second).await;
    let (of_second, of_first) = (of_second.unwrap(), of_first.unwrap());
    assert_eq!((of_second.node, of_first.node), (2, 1));
    assert_eq!(of_first.face, first.config.face);
    assert_eq!(of_first.directory, first.config.identity.directory);
}

#[tokio::test]
async fn a_node_with_another_secret_is_refused() {
    let (_dir, mut first, second) = nodes();
    first.config.secret = Secret::new("another secret of it").unwrap();
    let (of_second, of_first) = meet(&first, &second).await;
    assert_eq!(why(of_second), "it does not know the secret of this cluster");
    assert!(of_first.is_err());
    // Nothing of it was remembered.
    assert!(second.known.is_same(1, 4711).unwrap());
}

#[tokio::test]
async fn one_that_skips_its_own_check_is_refused_too() {
    let (_dir, mut first, second) = nodes();
    first.config.secret = Secret::new("another secret of it").unwrap();
    let (mut dialled, mut accepted) = pair().await;
    let stranger = async {
        let own = Hello::of(&first.config, Purpose::Replication, 2).unwrap().encode();
        write_part(&mut dialled, &[&own]).await.unwrap();
        let answer = read_part(&mut dialled).await.unwrap();
        let theirs = &answer[1..answer.len() - PROOF_BYTES];
        // The proof of the other role, sent back, is none.
        for proof in
            [&first.config.secret.prove(DIALS, [&own, theirs])[..], &answer[answer.len() - PROOF_BYTES..]]
        {
            write_part(&mut dialled, &[proof]).await.unwrap();
        }
        read_part(&mut dialled).await.unwrap()
    };
    let (answer, met) = tokio::join!(stranger, accept(&mut accepted, &second.config, &second.known));
    assert_eq!(why(met), "the secret of the cluster is another here");
    assert_eq!(yes(&answer).unwrap_err().to_string(), "it says: the secret of the cluster is another here");
}

#[tokio::test]
async fn other_clusters_other_nodes_and_doubles_are_refused_with_a_sentence() {
    type Change = fn(&mut Config);
    let cases: [(Change, &str); 4] = [
        (|first| first.identity.cluster = "d".to_owned(), "it says: the cluster is d there and c here"),
        (
            |first| first.identity.member = Member { node: 2, incarnation: 0 },
            "it says: this is node 2 too: two nodes cannot have one number",
        ),
        (
            |first| first.identity.member = Member { node: 9, incarnation: 0 },
            "it says: node 9 is not among the peers of node 2",
        ),
        (|first| drop(first.peers.remove(&2)), "node 2 is not among the peers of node 1"),
    ];
    for (change, expected) in cases {
        let (_dir, mut first, second) = nodes();
        change(&mut first.config);
        let (of_second, of_first) = meet(&first, &second).await;
        assert_eq!(why(of_second), expected);
        assert!(of_first.is_err());
    }
}

#[tokio::test]
async fn a_node_that_lost_its_data_or_has_the_number_of_another_is_refused() {
    let (_dir, mut first, second) = nodes();
    meet(&first, &second).await.1.unwrap();
    first.config.identity.directory += 1;
    let (of_second, _) = meet(&first, &second).await;
    assert_eq!(
        why(of_second),
        "it says: node 1 had another data directory before: either it lost its data, or two nodes have one number"
    );
}

#[tokio::test]
async fn what_is_no_hello_is_refused_with_a_sentence() {
    let (_dir, first, second) = nodes();
    let hello = Hello::of(&first.config, Purpose::Relay, 2).unwrap().encode();
    let mut newer = hello.clone();
    newer[7] = 9;
    let mut longer = hello.clone();
    longer.push(0);
    for (bytes, expected) in [
        (b"GET / HTTP/1.1".to_vec(), "it does not speak as a peer"),
        (newer, "its version of the peer protocol is 9 and not 1"),
        (hello[..30].to_vec(), "its hello cannot be read"),
        (longer, "its hello cannot be read"),
    ] {
        let (mut dialled, mut accepted) = pair().await;
        write_part(&mut dialled, &[&bytes]).await.unwrap();
        assert_eq!(why(accept(&mut accepted, &second.config, &second.known).await), expected);
    }
    let (mut dialled, mut accepted) = pair().await;
    dialled.write_all(&[0xff; 64]).await.unwrap();
    assert_eq!(
        why(accept(&mut accepted, &second.config, &second.known).await),
        "it does not speak as a peer"
    );
}

#[test]
fn a_relayed_client_reads_back() {
    let open = RelayOpen {
        port: RelayedPort::Broker,
        local: "127.0.0.1:10911".parse().unwrap(),
        remote: "[::1]:5".parse().unwrap(),
    };
    assert_eq!(RelayOpen::decode(&open.encode()), Some(open));
    let bytes = open.encode();
    for length in 0..bytes.len() {
        assert_eq!(RelayOpen::decode(&bytes[..length]), None);
    }
}

#[test]
fn a_short_secret_is_refused() {
    let short = Secret::new("short").unwrap_err().to_string();
    assert_eq!(short, "the secret has 5 characters, and 16 is the least that it can have");
}
