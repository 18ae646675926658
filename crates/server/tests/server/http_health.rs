//! `/healthz`, `/readyz`, and what the port answers otherwise.

use std::sync::Arc;

use redstart_log::{FsStorage, Options};
use redstart_server::{
    http::{Sources, Stage},
    shard::{self, Shard, ShardHandle},
};
use tempfile::TempDir;

use crate::http_support::{Connection, Pages, eventually};
use crate::support;

async fn sources(shard: ShardHandle) -> Sources {
    Sources { shards: support::one_shard(shard).await, grpc: None, remoting: None, http: None, tls: None }
}

fn open(dir: &TempDir, adjust: impl FnOnce(&mut redstart_engine::Config)) -> Shard {
    let mut engine = support::engine();
    adjust(&mut engine);
    let storage = FsStorage::open(dir.path()).unwrap();
    let options = Options::with_segment_bytes(1 << 20);
    Shard::open(Arc::new(storage), options, engine, shard::Config::default()).unwrap().shard
}

async fn expect(pages: &Pages, path: &str, status: u16, text: &str) {
    let answer = pages.get(path).await;
    assert_eq!((answer.status, answer.body.as_str()), (status, text), "{path}");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_life_of_the_process() {
    let pages = Pages::start().await;
    expect(&pages, "/healthz", 200, "ok\n").await;
    expect(&pages, "/readyz", 503, "starting\n").await;
    let early = pages.scrape().await;
    assert!(early.value("process_resident_memory_bytes", &[]).is_some(), "the process is measured already");
    let dir = TempDir::new().unwrap();
    let shard = open(&dir, |_| {});
    pages.serving(sources(shard.handle()).await);
    expect(&pages, "/readyz", 200, "ok\n").await;
    expect(&pages, "/healthz", 200, "ok\n").await;
    pages.health.set(Stage::Stopping);
    expect(&pages, "/readyz", 503, "stopping\n").await;
    expect(&pages, "/healthz", 200, "ok\n").await;
    shard.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_no_reason_to_restart_but_to_stay_away() {
    let pages = Pages::start().await;
    let dir = TempDir::new().unwrap();
    let shard = open(&dir, |engine| engine.retention.refuse_percent = 0);
    pages.serving(sources(shard.handle()).await);
    // The shard looks at its disk in its first round.
    let full = eventually(async || {
        let answer = pages.get("/readyz").await;
        (answer.status == 503).then_some(answer.body)
    });
    let full = full.await;
    assert!(full.starts_with("the disk is ") && full.ends_with(" % on nothing is stored\n"), "{full}");
    expect(&pages, "/healthz", 200, "ok\n").await;
    shard.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_has_failed_is_told_with_its_reason() {
    let pages = Pages::start().await;
    let dir = TempDir::new().unwrap();
    let shard = open(&dir, |_| {});
    let handle = shard.handle();
    pages.serving(sources(handle.clone()).await);
    let asked = handle.ask(|_, _| std::panic::resume_unwind(Box::new("a test"))).unwrap();
    let lost: Result<(), _> = asked.await;
    assert!(lost.is_err());
    // The answer is lost while the thread still unwinds.
    eventually(async || (pages.get("/healthz").await.status == 503).then_some(())).await;
    let why = "the shard has failed: the owner thread panicked\n";
    expect(&pages, "/healthz", 503, why).await;
    expect(&pages, "/readyz", 503, why).await;
    assert_eq!(pages.get("/metrics").await.status, 200, "counters can be read all the same");
    assert!(shard.stop().is_err());
}

#[tokio::test]
async fn what_is_not_there_and_what_may_not_be_done_is_said() {
    let pages = Pages::start().await;
    for path in ["/", "/metric", "/metrics/", "/healthz/x", "/%2e%2e/etc/passwd"] {
        expect(&pages, path, 404, "not found; the paths are /healthz, /metrics, /readyz\n").await;
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"] {
        let answer = pages.ask(method, "/metrics").await;
        assert_eq!((answer.status, answer.body.as_str()), (405, "/metrics takes GET, HEAD\n"), "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }
    let (head, get) = (pages.ask("HEAD", "/readyz").await, pages.get("/readyz").await);
    assert_eq!((head.status, head.body.as_str()), (503, ""));
    assert_eq!(head.header("content-length"), get.header("content-length"));
    assert_eq!(pages.get("/healthz?verbose=1").await.status, 200, "a query is no part of the path");
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_ends_with_the_server() {
    let pages = Pages::start().await;
    let mut connection = Connection::open(pages.address).await;
    for path in ["/healthz", "/readyz", "/nothing"] {
        connection.write(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        connection.answer(false).await;
    }
    pages.stop.send_replace(true);
    assert_eq!(connection.rest().await, "", "it is closed");
}
