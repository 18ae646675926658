use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use redstart_client::{BatchPolicy, Filter, Message, Outcome, Protocol, RetryPolicy};

use crate::broker::{BOTH, Broker, PATIENCE, until};

#[tokio::test]
async fn a_batch_is_full_or_has_waited() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 2, "NORMAL").await;
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
        let policy = BatchPolicy { count: 100, wait: Duration::from_millis(1500), ..BatchPolicy::default() };
        let worker = client
            .worker("g")
            .subscribe(&topic, Filter::all())
            .from_start()
            .run_batches(policy, {
                let sizes = sizes.clone();
                move |batch| {
                    sizes.lock().unwrap().push(batch.len());
                    async { Ok::<_, String>(()) }
                }
            })
            .await
            .unwrap();
        let messages = (0..250).map(|n| Message::new(&topic, n.to_string())).collect();
        assert!(producer.send_many(messages).await.iter().all(Result::is_ok));
        let began = Instant::now();
        until("all are settled", async || worker.counters().acked == 250).await;
        assert!(began.elapsed() >= Duration::from_millis(1200), "the last 50 waited for more");
        assert_eq!(*sizes.lock().unwrap(), [100, 100, 50], "{protocol:?}");
        let report = worker.shutdown(PATIENCE).await;
        assert_eq!((report.finished, report.abandoned), (250, 0));
    }
}

/// While a batch is collected, its messages stay this consumer's beyond their invisible time.
#[tokio::test]
async fn messages_are_renewed_while_a_batch_is_collected() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    let client = broker.client(Protocol::Remoting).await;
    let attempts: Arc<Mutex<Vec<u32>>> = Arc::default();
    let policy = BatchPolicy { count: 1024, wait: Duration::from_secs(4), ..BatchPolicy::default() };
    let worker = client
        .worker("g")
        .subscribe("t", Filter::all())
        .from_start()
        .invisible(Duration::from_secs(1))
        .run_batches(policy, {
            let attempts = attempts.clone();
            move |batch| {
                attempts.lock().unwrap().extend(batch.messages().iter().map(|message| message.attempt()));
                async { Ok::<_, String>(()) }
            }
        })
        .await
        .unwrap();
    let producer = client.producer().build().await.unwrap();
    for n in 0..5 {
        producer.send(Message::new("t", n.to_string())).await.unwrap();
    }
    until("the batch is settled", async || worker.counters().acked == 5).await;
    assert_eq!(*attempts.lock().unwrap(), [1; 5], "none came a second time");
    worker.shutdown(PATIENCE).await;
}

#[tokio::test]
async fn each_message_of_a_batch_has_its_own_outcome() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let seen: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
        let worker = client
            .worker("g")
            .subscribe(&topic, Filter::all())
            .from_start()
            .retry_policy(RetryPolicy::every(Duration::from_millis(100)))
            .run_batches(
                BatchPolicy { count: 4, wait: Duration::from_millis(500), ..BatchPolicy::default() },
                {
                    let seen = seen.clone();
                    move |batch| {
                        let seen = seen.clone();
                        async move {
                            for (index, message) in batch.messages().iter().enumerate() {
                                let body = String::from_utf8(message.body().to_vec()).unwrap();
                                *seen.lock().unwrap().entry(body.clone()).or_default() += 1;
                                match (body.as_str(), message.attempt()) {
                                    ("retry", 1) => batch.settle(index, Outcome::Retry),
                                    ("dead", _) => batch.settle(index, Outcome::DeadLetter("no".to_owned())),
                                    _ => {}
                                }
                            }
                            Ok::<_, String>(())
                        }
                    }
                },
            )
            .await
            .unwrap();
        let messages = ["done", "retry", "dead", "done too"].map(|body| Message::new(&topic, body)).to_vec();
        assert!(producer.send_many(messages).await.iter().all(Result::is_ok));
        until("all are settled", async || {
            let counters = worker.counters();
            (counters.acked, counters.retried, counters.dead_lettered) == (3, 1, 1)
        })
        .await;
        let seen = seen.lock().unwrap().clone();
        assert_eq!(
            (seen["done"], seen["retry"], seen["dead"], seen["done too"]),
            (1, 2, 1, 1),
            "{protocol:?}"
        );
        worker.shutdown(PATIENCE).await;
    }
}
