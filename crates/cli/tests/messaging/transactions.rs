//! Transactional messages and their checks.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use redstart_client::{
    BuildError, Client, ExecuteError, Filter, InvalidMessage, Message, Protocol, Received, Receiver,
    SendError, TransactionError, TransactionProducer, Verdict,
};

use crate::broker::{BOTH, Broker, PATIENCE, until};

/// What became of the work, by the message's key, and how often the server has asked.
#[derive(Debug, Default)]
struct Book {
    verdicts: HashMap<String, Verdict>,
    asked: HashMap<String, u32>,
}

async fn start(client: &Client, topic: &str, book: &Arc<Mutex<Book>>) -> TransactionProducer {
    let book = book.clone();
    let checker = move |half: Received| {
        let key = half.keys()[0].clone();
        let mut book = book.lock().unwrap();
        *book.asked.entry(key.clone()).or_default() += 1;
        let verdict = book.verdicts.get(&key).copied().unwrap_or(Verdict::Unknown);
        std::future::ready(verdict)
    };
    client.producer().group("orders").transactions(checker).topic(topic).build().await.unwrap()
}

async fn receiver(client: &Client, topic: &str) -> Receiver {
    client.receiver("g").subscribe(topic, Filter::all()).from_start().build().await.unwrap()
}

async fn body(receiver: &Receiver) -> String {
    let delivery = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("a message").unwrap();
    let body = String::from_utf8(delivery.body().to_vec()).unwrap();
    delivery.ack().await.unwrap();
    body
}

#[tokio::test]
async fn a_message_is_delivered_if_its_work_succeeds_and_only_then() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 2, "TRANSACTION").await;
        let client = broker.client(protocol).await;
        let producer = start(&client, &topic, &Arc::default()).await;
        let failed = producer
            .execute(Message::new(&topic, "failed").key("a"), async |_id| Err::<(), _>("no"))
            .await
            .unwrap_err();
        assert!(matches!(failed, ExecuteError::Local("no")), "{failed}");
        let mut seen = String::new();
        let done = producer
            .execute(Message::new(&topic, "done").key("b"), async |id| {
                seen = id;
                Ok::<_, String>(7)
            })
            .await
            .unwrap();
        assert_eq!((done.value, &done.committed, &done.sent.id), (7, &Ok(()), &seen));
        let prepared = producer.prepare(Message::new(&topic, "by hand").key("c")).await.unwrap();
        let dropped = producer.prepare(Message::new(&topic, "dropped").key("d")).await.unwrap();
        dropped.rollback().await.unwrap();
        prepared.commit().await.unwrap();
        let receiver = receiver(&client, &topic).await;
        let mut bodies = [body(&receiver).await, body(&receiver).await];
        bodies.sort();
        assert_eq!(bodies, ["by hand", "done"], "{protocol:?}");
        assert!(receiver.try_recv().is_none());
    }
}

/// The process that prepared them is gone: another one of the group answers for it.
#[tokio::test]
async fn what_is_left_open_is_decided_by_the_checker_of_another_process() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 1, "TRANSACTION").await;
        let first = broker.client(protocol).await;
        let silent: Arc<Mutex<Book>> = Arc::default();
        let producer = start(&first, &topic, &silent).await;
        for key in ["commits", "rolls-back", "is-late"] {
            let prepared = producer.prepare(Message::new(&topic, key).key(key)).await.unwrap();
            drop(prepared);
        }
        drop((producer, first));
        let book: Arc<Mutex<Book>> = Arc::default();
        book.lock().unwrap().verdicts = HashMap::from([
            ("commits".to_owned(), Verdict::Commit),
            ("rolls-back".to_owned(), Verdict::Rollback),
        ]);
        let second = broker.client(protocol).await;
        let _producer = start(&second, &topic, &book).await;
        let receiver = receiver(&second, &topic).await;
        assert_eq!(body(&receiver).await, "commits", "{protocol:?}");
        until("it is asked about more than once", async || {
            book.lock().unwrap().asked.get("is-late").is_some_and(|asked| *asked >= 2)
        })
        .await;
        book.lock().unwrap().verdicts.insert("is-late".to_owned(), Verdict::Commit);
        assert_eq!(body(&receiver).await, "is-late", "{protocol:?}");
        assert!(receiver.try_recv().is_none());
        let asked = book.lock().unwrap().asked.clone();
        assert_eq!(
            (asked["commits"], asked["rolls-back"]),
            (1, 1),
            "{protocol:?}: a verdict ends the checks"
        );
    }
}

#[tokio::test]
async fn an_end_that_comes_too_late_is_refused() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 1, "TRANSACTION").await;
        let client = broker.client(protocol).await;
        let book: Arc<Mutex<Book>> = Arc::default();
        book.lock().unwrap().verdicts.insert("k".to_owned(), Verdict::Rollback);
        let producer = start(&client, &topic, &book).await;
        let prepared = producer.prepare(Message::new(&topic, "x").key("k")).await.unwrap();
        until("the checker was asked", async || book.lock().unwrap().asked.contains_key("k")).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let error = prepared.commit().await.unwrap_err();
        assert!(matches!(error, TransactionError::End(_)), "{protocol:?}: {error}");
        let group = producer.prepare(Message::new(&topic, "x").group("g")).await.unwrap_err();
        let TransactionError::Send(SendError::Invalid(InvalidMessage::Conflict { .. })) = group else {
            panic!("{group}")
        };
    }
}

#[tokio::test]
async fn a_request_is_answered_by_a_worker_and_by_a_receiver() {
    let broker = Broker::start().await;
    for topic in ["worker", "receiver"] {
        broker.topic(topic, 2, "NORMAL").await;
    }
    let (asks, answers) = (broker.client(Protocol::Remoting).await, broker.client(Protocol::Remoting).await);
    let worker = answers
        .worker("w")
        .subscribe("worker", Filter::all())
        .from_start()
        .run(|job| async move {
            assert!(job.expects_reply());
            let number: u32 = String::from_utf8_lossy(job.body()).parse().unwrap();
            job.reply((number * 2).to_string()).await
        })
        .await
        .unwrap();
    let requester = asks.producer().group("asker").requests().await.unwrap();
    let many = (0..50_u32).map(|n| {
        let requester = requester.clone();
        tokio::spawn(async move {
            let answer = requester.request(Message::new("worker", n.to_string()), PATIENCE).await.unwrap();
            assert_eq!(answer.body(), &(n * 2).to_string());
        })
    });
    for one in many.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    assert_eq!(requester.counters().answered, 50);
    let receiver =
        answers.receiver("r").subscribe("receiver", Filter::all()).from_start().build().await.unwrap();
    let (answer, ()) = tokio::join!(requester.request(Message::new("receiver", "?"), PATIENCE), async {
        let delivery = receiver.recv().await.unwrap();
        delivery.reply("!").await.unwrap();
        delivery.ack().await.unwrap();
    });
    assert_eq!(&answer.unwrap().body()[..], b"!");
    worker.shutdown(PATIENCE).await;
}

#[tokio::test]
async fn a_request_that_is_over_is_not_processed_and_a_late_answer_is_counted() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    let client = broker.client(Protocol::Remoting).await;
    let requester = client.producer().requests().await.unwrap();
    let short = Duration::from_millis(300);
    let error = requester.request(Message::new("t", "nobody"), short).await.unwrap_err();
    assert_eq!(error, redstart_client::RequestError::Timeout { within: short });
    let receiver = client.receiver("late").subscribe("t", Filter::all()).from_start().build().await.unwrap();
    let delivery = receiver.recv().await.unwrap();
    delivery.reply("too late").await.unwrap();
    delivery.ack().await.unwrap();
    until("the answer is counted", async || requester.counters().late == 1).await;
    let worker = client
        .worker("w")
        .subscribe("t", Filter::all())
        .from_start()
        .run(|job| async move { panic!("{} is over", job.id()) as Result<(), String> })
        .await
        .unwrap();
    until("it is skipped", async || {
        let counters = worker.counters();
        (counters.expired, counters.acked) == (1, 1)
    })
    .await;
    let grpc = broker.client(Protocol::Grpc).await;
    let error = grpc.producer().requests().await.unwrap_err();
    assert!(matches!(error, BuildError::Invalid { .. }), "{error}");
}
