//! Bodies with types, and traces.

use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use redstart_client::{Filter, Json, Message, Poison, RetryPolicy, TraceContext};
use serde_json::Value;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::broker::{BOTH, Broker, PATIENCE, until};

#[tokio::test]
async fn a_body_without_a_value_goes_to_the_dead_letters_with_the_reason() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let (topic, group) = (format!("t-{protocol:?}"), format!("g-{protocol:?}"));
        broker.topic(&topic, 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let sum: Arc<Mutex<u32>> = Arc::default();
        let worker = client
            .worker(&group)
            .subscribe(&topic, Filter::all())
            .from_start()
            .run_typed(Json, {
                let sum = sum.clone();
                move |_job, numbers: Vec<u32>| {
                    *sum.lock().unwrap() += numbers.iter().sum::<u32>();
                    async { Ok::<_, String>(()) }
                }
            })
            .await
            .unwrap();
        producer.send(Message::encode(&topic, &Json, &vec![1_u32, 2]).unwrap()).await.unwrap();
        producer.send(Message::new(&topic, "poison")).await.unwrap();
        producer.send(Message::encode(&topic, &Json, &vec![4_u32]).unwrap()).await.unwrap();
        until("all are settled", async || {
            let counters = worker.counters();
            (counters.acked, counters.retried, counters.dead_lettered) == (2, 0, 1)
        })
        .await;
        assert_eq!(*sum.lock().unwrap(), 7, "{protocol:?}");
        let dead = client
            .receiver(format!("{group}-dead"))
            .subscribe(format!("%DLQ%{group}"), Filter::all())
            .from_start()
            .build()
            .await
            .unwrap();
        let letter = tokio::time::timeout(PATIENCE, dead.recv()).await.expect("a dead letter").unwrap();
        let reason = letter.origin().unwrap().reason.clone().unwrap();
        assert!(reason.starts_with("the body cannot be decoded: expected value"), "{protocol:?}: {reason}");
        letter.ack().await.unwrap();
    }
}

#[tokio::test]
async fn a_body_without_a_value_can_wait_for_a_newer_program() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    let client = broker.client(redstart_client::Protocol::Remoting).await;
    let builder = || {
        client
            .worker("g")
            .subscribe("t", Filter::all())
            .from_start()
            .retry_policy(RetryPolicy::every(Duration::from_millis(50)))
            .poison(Poison::Retry)
    };
    let old =
        builder().run_typed(Json, |_job, _numbers: Vec<u32>| async { Ok::<_, String>(()) }).await.unwrap();
    let producer = client.producer().build().await.unwrap();
    producer.send(Message::new("t", "\"text\"")).await.unwrap();
    until("it was tried", async || old.counters().retried >= 2).await;
    old.shutdown(PATIENCE).await;
    let new = builder().run_typed(Json, |_job, _text: String| async { Ok::<_, String>(()) }).await.unwrap();
    until("it is done", async || new.counters().acked == 1).await;
}

/// What is written to it, in lines.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The spans that have ended, by their names.
    fn spans(&self) -> BTreeMap<String, Vec<Value>> {
        let mut spans: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if line["fields"]["message"] == "close" {
                spans
                    .entry(line["span"]["name"].as_str().unwrap().to_owned())
                    .or_default()
                    .push(line["span"].clone());
            }
        }
        spans
    }
}

#[tokio::test]
async fn spans_have_opentelemetrys_names_and_a_trace_goes_on_in_what_a_handler_sends() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let broker = Broker::start().await;
    for protocol in BOTH {
        let (orders, bills) = (format!("orders-{protocol:?}"), format!("bills-{protocol:?}"));
        for topic in [&orders, &bills] {
            broker.topic(topic, 1, "NORMAL").await;
        }
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let worker = client
            .worker("billing")
            .subscribe(&orders, Filter::all())
            .from_start()
            .run({
                let (producer, bills) = (producer.clone(), bills.clone());
                move |_job| {
                    let (producer, bills) = (producer.clone(), bills.clone());
                    async move { producer.send(Message::new(&bills, "bill")).await.map(drop) }
                }
            })
            .await
            .unwrap();
        let context: TraceContext =
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
        let order = Message::new(&orders, "order").tag("a").key("k1").key("k2").trace_context(context);
        let sent = producer.send(order).await.unwrap();
        let receiver =
            client.receiver("mail").subscribe(&bills, Filter::all()).from_start().build().await.unwrap();
        let bill = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("a bill").unwrap();
        let carried = bill.trace_context().expect("a context");
        assert_eq!(carried.trace_id, context.trace_id, "{protocol:?}");
        assert_ne!(carried.span_id, context.span_id);
        bill.ack().await.unwrap();
        until("the order is settled", async || worker.counters().acked == 1).await;
        let spans = lines.spans();
        let find = |name: &str, field: &str, value: &str| {
            spans[name]
                .iter()
                .find(|span| span[field] == value)
                .cloned()
                .unwrap_or_else(|| panic!("{spans:#?}"))
        };
        let send = find("send", "messaging.message.id", &sent.id);
        for (field, value) in [
            ("messaging.system", "rocketmq"),
            ("messaging.destination.name", orders.as_str()),
            ("messaging.operation.type", "send"),
            ("messaging.rocketmq.message.type", "normal"),
            ("messaging.rocketmq.message.tag", "a"),
            ("messaging.rocketmq.message.keys", "k1 k2"),
        ] {
            assert_eq!(send[field], value, "{send}");
        }
        let process = find("process", "messaging.message.id", &sent.id);
        assert_eq!(process["messaging.consumer.group.name"], "billing");
        assert_eq!(process["link.trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
        find("settle", "messaging.operation.name", "ack");
        find("receive", "messaging.destination.name", &orders);
        worker.shutdown(PATIENCE).await;
    }
}
