//! Malicious and broken peers: the port stays open for others, and nothing grows without bound.

use std::time::Duration;

use redstart_server::http::Limits;
use tokio::io::AsyncWriteExt;

use crate::http_support::{Connection, PATIENCE, Pages, eventually};

/// Times out soon what may take long for honest peers.
fn impatient() -> Limits {
    Limits {
        idle_timeout: Duration::from_millis(300),
        write_timeout: Duration::from_millis(300),
        ..Limits::default()
    }
}

async fn still_serves(pages: &Pages) {
    assert_eq!(pages.get("/healthz").await.status, 200);
}

/// Waits until no connection is left.
async fn all_gone(pages: &Pages) {
    eventually(async || (pages.connections.count() == 0).then_some(())).await;
}

#[tokio::test]
async fn requests_that_are_too_large_are_refused() {
    let pages = Pages::start().await;
    let long = "x".repeat(100_000);
    let many: String = (0..200).map(|n| format!("H{n}: 1\r\n")).collect();
    let cases = [
        (format!("GET /healthz HTTP/1.1\r\nHost: x\r\nBig: {long}\r\n\r\n"), &[431][..]),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), &[414, 431]),
        (format!("GET /healthz HTTP/1.1\r\n{many}\r\n"), &[431]),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n".to_owned(), &[413]),
    ];
    for (request, expected) in cases {
        let mut connection = Connection::open(pages.address).await;
        connection.write(&request).await;
        let answer = connection.answer(false).await;
        assert!(expected.contains(&answer.status), "{} of {expected:?}", answer.status);
        drop(connection);
    }
    still_serves(&pages).await;
    all_gone(&pages).await;
}

#[tokio::test]
async fn a_body_that_nobody_reads_ends_the_connection() {
    let pages = Pages::start().await;
    let mut connection = Connection::open(pages.address).await;
    connection.write("GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    assert_eq!(connection.answer(false).await.status, 200);
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
    let flood = async { while connection.stream.write_all(chunk.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, flood).await.expect("it is closed");
    still_serves(&pages).await;
}

#[tokio::test]
async fn garbage_gets_an_error_and_no_more() {
    let pages = Pages::start().await;
    let cases: [&[u8]; 6] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nbad header\r\n\r\n",
        b"\0\0\0\x5a\0\0\0\x56{\"code\":10}",
    ];
    for bytes in cases {
        let mut connection = Connection::open(pages.address).await;
        connection.write(bytes).await;
        // It may be closed already.
        drop(connection.stream.shutdown().await);
        let answer = connection.rest().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{bytes:?}: {answer}");
    }
    // Good requests and, behind them, none.
    let mut connection = Connection::open(pages.address).await;
    let good = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    connection.write(format!("{good}{good}{good}\0\0\0garbage\r\n\r\n{good}")).await;
    for _ in 0..3 {
        assert_eq!(connection.answer(false).await.status, 200);
    }
    assert_eq!(connection.answer(false).await.status, 400);
    assert_eq!(connection.rest().await, "", "what follows garbage is not looked at");
    still_serves(&pages).await;
    all_gone(&pages).await;
}

#[tokio::test]
async fn those_who_say_nothing_or_speak_slowly_are_closed() {
    let pages = Pages::with(impatient()).await;
    let mut silent = Connection::open(pages.address).await;
    let mut slow = Connection::open(pages.address).await;
    let mut idle = Connection::open(pages.address).await;
    idle.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(idle.answer(false).await.status, 200);
    slow.write("GET /healthz HTTP/1.1\r\nHost: x\r\n").await;
    let dribble = async {
        // A header at a time, for ever.
        while slow.stream.write_all(b"A: 1\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, dribble).await.expect("the slow one is closed");
    for connection in [&mut silent, &mut idle] {
        let last = connection.rest().await;
        assert!(last.is_empty() || last.starts_with("HTTP/1.1 408"), "{last}");
    }
    all_gone(&pages).await;
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_answers_is_closed() {
    let pages = Pages::with(Limits { write_timeout: Duration::from_millis(300), ..Limits::default() }).await;
    let mut connection = Connection::open(pages.address).await;
    // Until neither side can write any more.
    let requests = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
    let ask = async { while connection.stream.write_all(requests.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, ask).await.expect("it is closed");
    all_gone(&pages).await;
    still_serves(&pages).await;
}

#[tokio::test]
async fn however_many_connections_there_are_a_new_one_is_served() {
    let limits = Limits { connections_max: 20, ..Limits::default() };
    let pages = Pages::with(limits).await;
    let mut crowd = Vec::new();
    for n in 0..200 {
        let mut connection = Connection::open(pages.address).await;
        connection.write("GET /healthz HT").await;
        crowd.push(connection);
        if n % 10 == 0 {
            still_serves(&pages).await;
        }
    }
    still_serves(&pages).await;
    assert!(pages.connections.count() <= 21, "{}", pages.connections.count());
    assert_eq!(crowd[0].rest().await, "", "the oldest made room");
    drop(crowd);
    all_gone(&pages).await;
}
