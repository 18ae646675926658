//! Exactly-once effects against the real broker, which is killed as well as its consumers.

use std::{
    collections::HashMap,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use redstart_client::{
    Client, ExecuteError, FencedChecker, Filter, LocalError, Message, OutboxError, Position, Receiver, Relay,
    RelayPolicy,
};

use crate::{counting::Counting, server::Broker};

const PATIENCE: Duration = Duration::from_secs(60);

async fn body(receiver: &Receiver) -> String {
    let delivery = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("a message").unwrap();
    let body = String::from_utf8(delivery.body().to_vec()).unwrap();
    delivery.ack().await.unwrap();
    body
}

pub async fn outbox<L: Counting>(ledger: L) {
    let broker = Broker::start();
    broker.topic("t", "FIFO").await;
    let client = broker.client().await;
    for n in 0..60 {
        let mut tx = ledger.begin().await.unwrap();
        let message = Message::new("t", format!("{}", n / 3)).group(format!("g{}", n % 3));
        ledger.enqueue(&mut tx, &message).await.map_err(|error| error.to_string()).unwrap();
        // Every fourth is rolled back: of each group.
        if (n / 3) % 4 == 3 {
            drop(tx);
        } else {
            ledger.commit(tx).await.unwrap();
        }
    }
    let mut tx = ledger.begin().await.unwrap();
    let invalid = ledger.enqueue(&mut tx, &Message::new("t", "")).await;
    assert!(matches!(invalid, Err(OutboxError::Invalid(_))));
    drop(tx);
    let producer = client.producer().build().await.unwrap();
    let policy = RelayPolicy { batch: 7, ..RelayPolicy::default() };
    let _relays = [(); 2].map(|()| Relay::start(ledger.clone(), producer.clone(), policy));
    let receiver = client.receiver("g").subscribe("t", Filter::all()).from_start().build().await.unwrap();
    let mut seen: HashMap<String, Vec<u32>> = HashMap::new();
    for _ in 0..45 {
        let delivery = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("a message").unwrap();
        let number = String::from_utf8_lossy(delivery.body()).parse().unwrap();
        seen.entry(delivery.group().unwrap().to_owned()).or_default().push(number);
        delivery.ack().await.unwrap();
    }
    let expected: Vec<u32> = (0..20).filter(|n| n % 4 != 3).collect();
    for group in ["g0", "g1", "g2"] {
        assert_eq!(seen[group], expected, "{group}");
    }
    assert!(receiver.try_recv().is_none());
    let mut tx = ledger.begin().await.unwrap();
    assert!(ledger.oldest(&mut tx, 10).await.unwrap().is_empty(), "what is sent is removed");
}

pub async fn fenced<L: Counting>(ledger: L) {
    let broker = Broker::start();
    broker.topic("t", "TRANSACTION").await;
    let client = broker.client().await;
    let checker = FencedChecker::new(ledger.clone(), "shop");
    let producer = client.producer().group("shop").transactions(checker).topic("t").build().await.unwrap();
    let receiver = client.receiver("g").subscribe("t", Filter::all()).from_start().build().await.unwrap();
    let count = |name: &'static str| {
        move |mut tx: L::Tx| async move {
            L::count(&mut tx, name).await?;
            Ok::<_, L::Error>(tx)
        }
    };
    producer
        .execute_in(&ledger, Message::new("t", "done"), count("done"))
        .await
        .map_err(|error| error.to_string())
        .unwrap();
    assert_eq!(body(&receiver).await, "done");
    let failed = producer
        .execute_in(&ledger, Message::new("t", "failed"), |_tx| async { Err::<L::Tx, _>("no") })
        .await
        .unwrap_err();
    assert!(matches!(failed, ExecuteError::Local(LocalError::Work("no"))));
    // The process stops between the commit and the word to the server: the checker finds the commit.
    let prepared = producer.prepare(Message::new("t", "left open")).await.unwrap();
    let mut tx = ledger.begin().await.unwrap();
    ledger.record(&mut tx, "shop", prepared.id()).await.unwrap();
    L::count(&mut tx, "left open").await.unwrap();
    ledger.commit(tx).await.unwrap();
    drop(prepared);
    assert_eq!(body(&receiver).await, "left open");
    // The work begins after the check: the fence is there, and it cannot commit without its message.
    let prepared = producer.prepare(Message::new("t", "too slow")).await.unwrap();
    let id = prepared.id().to_owned();
    drop(prepared);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let mut tx = ledger.begin().await.unwrap();
    let late = ledger.record(&mut tx, "shop", &id).await.unwrap();
    assert_eq!(late, redstart_client::Decision::Fenced);
    drop(tx);
    assert!(receiver.try_recv().is_none());
    assert_eq!(ledger.counts().await, (2, 1), "the database has what was delivered, and nothing else");
}

/// `count-once`, killed when it is dropped.
struct Consumer(Child);

impl Consumer {
    fn start(arguments: [&str; 5]) -> Consumer {
        let tests = std::env::current_exe().unwrap();
        let program: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples/count-once");
        let child = Command::new(program).args(arguments).stderr(Stdio::null()).spawn().expect("it runs");
        Consumer(child)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn dead_letters(client: &Client) -> i64 {
    let Ok(queues) = client.queues("%DLQ%counters").await else { return 0 };
    let reader = client.queue_reader("undertaker").assign(queues.clone()).build().await.unwrap();
    let mut dead = 0;
    for queue in &queues {
        dead += reader.offset(queue, Position::Latest).await.unwrap();
    }
    dead
}

/// Two consumers are killed again and again while they count, and the broker now and then.
pub async fn killed<L: Counting>(ledger: L, kind: &str, url: &str, batch: usize) {
    let messages: i64 = std::env::var("MESSAGES").map_or(3000, |number| number.parse().unwrap());
    let mut broker = Broker::start();
    broker.topic("t", "NORMAL").await;
    broker.patient_group("counters").await;
    let client = broker.client().await;
    let producer = client.producer().build().await.unwrap();
    for numbers in (0..messages).collect::<Vec<_>>().chunks(500) {
        let batch = numbers.iter().map(|n| Message::new("t", n.to_string())).collect();
        assert!(producer.send_many(batch).await.iter().all(Result::is_ok));
    }
    let (address, size) = (broker.address(), batch.to_string());
    let start = || Consumer::start([kind, url, &address, "t", &size]);
    let mut consumers = [start(), start()];
    let (began, mut kills, mut restarts) = (Instant::now(), 0, 0);
    let ledger = Arc::new(ledger);
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        // Times that do not repeat with anything else.
        tokio::time::sleep(Duration::from_millis(300 + 173 * (kills % 7))).await;
        let (counted, highest) = ledger.counts().await;
        assert!(highest <= 1, "a message counted {highest} times");
        if counted == messages {
            break;
        }
        if counted > last {
            (last, moved) = (counted, Instant::now());
        }
        if moved.elapsed() > PATIENCE {
            let dead = dead_letters(&broker.client().await).await;
            panic!("{counted} of {messages} counted, {dead} dead letters, and no more come");
        }
        // While there is nothing to interrupt, killing would only delay the rest.
        if counted > 0 && messages - counted > 50 {
            consumers[kills as usize % 2] = start();
            kills += 1;
            if kills % 5 == 0 {
                broker.kill();
                restarts += 1;
            }
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(ledger.counts().await, (messages, 1));
    println!(
        "{kind}, batches of {batch}: {messages} messages counted once in {:.1} s; consumers killed {kills} times, the broker {restarts} times",
        began.elapsed().as_secs_f64() - 3.0
    );
}
