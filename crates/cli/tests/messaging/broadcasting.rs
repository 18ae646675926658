use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use redstart_client::{
    Backoff, Broadcast, Client, FileStore, Filter, MemoryStore, Message, Position, Protocol,
};

use crate::broker::{BOTH, Broker, PATIENCE, until};

type Seen = Arc<Mutex<HashMap<String, u32>>>;

fn count(seen: &Seen) -> (usize, u32) {
    let seen = seen.lock().unwrap();
    (seen.len(), seen.values().sum())
}

async fn start(
    client: &Client,
    topic: &str,
    instance: &str,
    file: Option<FileStore>,
    seen: &Seen,
) -> Broadcast {
    let mut builder =
        client.broadcast("b", instance).subscribe(topic, Filter::all()).start(Position::Earliest);
    if let Some(file) = file {
        builder = builder.store(file);
    }
    let seen = seen.clone();
    let handler = move |message: Arc<redstart_client::Received>| {
        let body = String::from_utf8(message.body().to_vec()).unwrap();
        *seen.lock().unwrap().entry(body).or_default() += 1;
        async { Ok::<_, String>(()) }
    };
    builder.run(handler).await.unwrap()
}

async fn send(client: &Client, topic: &str, numbers: std::ops::Range<u32>) {
    let producer = client.producer().build().await.unwrap();
    let messages = numbers.map(|n| Message::new(topic, n.to_string())).collect();
    assert!(producer.send_many(messages).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn every_instance_gets_every_message_and_goes_on_where_it_was() {
    let broker = Broker::start().await;
    let folder = tempfile::tempdir().unwrap();
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 4, "NORMAL").await;
        let client = broker.client(protocol).await;
        let file = || FileStore::new(folder.path().join(&topic));
        let (on_server, in_file) = (Seen::default(), Seen::default());
        let one = start(&client, &topic, "one", None, &on_server).await;
        let two = start(&client, &topic, "two", Some(file()), &in_file).await;
        send(&client, &topic, 0..50).await;
        until("both have all", async || count(&on_server).0 == 50 && count(&in_file).0 == 50).await;
        for instance in [one, two] {
            let report = instance.shutdown(PATIENCE).await;
            assert_eq!((report.finished, report.returned, report.abandoned), (50, 0, 0), "{protocol:?}");
        }
        send(&client, &topic, 50..60).await;
        let _one = start(&client, &topic, "one", None, &on_server).await;
        let _two = start(&client, &topic, "two", Some(file()), &in_file).await;
        until("both have the rest", async || count(&on_server).0 == 60 && count(&in_file).0 == 60).await;
        assert_eq!((count(&on_server).1, count(&in_file).1), (60, 60), "{protocol:?}: none twice");
    }
}

#[tokio::test]
async fn a_message_that_fails_is_tried_here_and_then_dropped() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    let client = broker.client(Protocol::Remoting).await;
    send(&client, "t", 0..3).await;
    let dropped: Arc<Mutex<Vec<String>>> = Arc::default();
    let attempts: Seen = Arc::default();
    let broadcast = client
        .broadcast("b", "one")
        .subscribe("t", Filter::all())
        .start(Position::Earliest)
        .store(MemoryStore::default())
        .attempts(3, Backoff { first: Duration::from_millis(5), ..Backoff::default() })
        .on_drop({
            let dropped = dropped.clone();
            move |message, why| {
                dropped.lock().unwrap().push(format!("{:?} {why}", message.body()));
            }
        })
        .run({
            let attempts = attempts.clone();
            move |message| {
                let body = String::from_utf8(message.body().to_vec()).unwrap();
                let tried = {
                    let mut attempts = attempts.lock().unwrap();
                    let tried = attempts.entry(body.clone()).or_default();
                    *tried += 1;
                    *tried
                };
                async move {
                    match (body.as_str(), tried) {
                        ("0", _) => Err("never"),
                        ("1", 1) => panic!("as it should"),
                        _ => Ok(()),
                    }
                }
            }
        })
        .await
        .unwrap();
    until("all are finished", async || {
        let counters = broadcast.counters();
        (counters.done, counters.dropped, counters.retried) == (2, 1, 3)
    })
    .await;
    assert_eq!(*dropped.lock().unwrap(), ["b\"0\" never"]);
}

/// The client's own shutdown keeps the progress as well.
#[tokio::test]
async fn a_client_that_is_shut_down_keeps_the_progress_of_its_broadcasts() {
    let broker = Broker::start().await;
    broker.topic("t", 2, "NORMAL").await;
    let client = broker.client(Protocol::Remoting).await;
    let seen = Seen::default();
    let _broadcast = start(&client, "t", "one", None, &seen).await;
    send(&client, "t", 0..20).await;
    until("all came", async || count(&seen).0 == 20).await;
    client.shutdown(PATIENCE).await;
    let client = broker.client(Protocol::Remoting).await;
    let _broadcast = start(&client, "t", "one", None, &seen).await;
    send(&client, "t", 20..30).await;
    until("the rest came", async || count(&seen).0 == 30).await;
    assert_eq!(count(&seen).1, 30, "none twice");
}
