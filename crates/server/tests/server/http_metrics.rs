//! `/metrics` of a running broker: the counters are right, the format is kept, and the dashboard asks for nothing else.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redstart_engine::{
    Filter, GroupConfig, GroupName, HalfOptions, Message, MessageType, SendOptions, SendReceipt, Start,
    Timestamp, TopicName,
};
use redstart_server::{
    http::{Sources, metrics::FAMILIES},
    shard::{PopRequest, ShardHandle},
};
use redstart_wire::v2;

use crate::http_support::{Pages, eventually};
use crate::support::{
    Broker, handle_of, id_of, message, one_shard, receive, receive_request, resource, send,
};

async fn start() -> (Broker, Pages) {
    let (broker, pages) = (Broker::start().await, Pages::start().await);
    pages.serving(Sources {
        shards: one_shard(broker.shard()).await,
        grpc: Some(broker.view.clone()),
        remoting: None,
        http: Some(pages.connections.clone()),
        tls: None,
    });
    (broker, pages)
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

fn plain(id: &str) -> Message {
    Message { id: id.to_owned(), body: "0123456789".into(), ..Message::default() }
}

async fn store(shard: &ShardHandle, to: &str, message: Message, options: SendOptions) -> SendReceipt {
    shard.send(topic(to), vec![message], options).unwrap().await.unwrap().unwrap().remove(0)
}

fn pop(from: &str, by: &str, wait: Duration) -> PopRequest {
    PopRequest {
        group: group(by),
        topic: topic(from),
        queue: None,
        max: 32,
        invisible: Duration::from_secs(30),
        filter: Filter::All,
        attempt: None,
        client: "test".to_owned(),
        start: Start::Earliest,
        one_per_group: false,
        refused_attribute: None,
        only_if_begun: false,
        in_order: false,
        with_retry_topic: false,
        wait,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_and_lags_tell_what_clients_did() {
    let (broker, pages) = start().await;
    broker.topic("orders", MessageType::Normal).await;
    broker.group("shop", GroupConfig::default()).await;
    let mut client = broker.client("c1").await;
    let empty = v2::ReceiveMessageRequest {
        long_polling_timeout: Some(prost_types::Duration { seconds: 0, nanos: 1 }),
        ..receive_request("shop", "orders")
    };
    assert_eq!(receive(&mut client, empty).await.1.len(), 0, "the group begins here");
    for n in 0..5 {
        send(&mut client, message("orders", &format!("m{n}"), b"0123456789")).await;
    }
    let two = v2::ReceiveMessageRequest { batch_size: 2, ..receive_request("shop", "orders") };
    let (_, taken) = receive(&mut client, two).await;
    assert_eq!(taken.len(), 2);
    let entry = v2::AckMessageEntry {
        message_id: id_of(&taken[0]).to_owned(),
        receipt_handle: handle_of(&taken[0]),
        ..v2::AckMessageEntry::default()
    };
    let ack = v2::AckMessageRequest {
        group: Some(resource("shop")),
        topic: Some(resource("orders")),
        entries: vec![entry],
    };
    client.ack_message(ack).await.unwrap();

    let found = pages.scrape().await;
    let node = [("cluster", "DefaultCluster"), ("node_type", "broker"), ("node_id", "broker-a")];
    let of = |own: &[(&'static str, &'static str)]| [&node[..], own].concat();
    let sent = of(&[("topic", "orders"), ("message_type", "normal"), ("is_system", "false")]);
    assert_eq!(found.value("rocketmq_messages_in_total", &sent), Some(5.0));
    let bytes = found.value("rocketmq_throughput_in_total", &sent).unwrap();
    assert!(bytes > 50.0, "records are larger than bodies: {bytes}");
    assert_eq!(found.value("rocketmq_message_size_count", &sent), Some(5.0));
    assert_eq!(found.value("rocketmq_message_size_sum", &sent), Some(bytes));
    let smallest = [&sent[..], &[("le", "1024.0")]].concat();
    assert_eq!(found.value("rocketmq_message_size_bucket", &smallest), Some(5.0));
    let got = of(&[("topic", "orders"), ("consumer_group", "shop"), ("is_system", "false")]);
    assert_eq!(found.value("rocketmq_messages_out_total", &got), Some(2.0));
    assert_eq!(found.value("rocketmq_throughput_out_total", &got), Some(bytes / 5.0 * 2.0));
    let stands =
        of(&[("topic", "orders"), ("consumer_group", "shop"), ("is_retry", "false"), ("is_system", "false")]);
    let expected = [
        ("rocketmq_consumer_lag_messages", 4.0),
        ("rocketmq_consumer_inflight_messages", 1.0),
        ("rocketmq_consumer_ready_messages", 3.0),
    ];
    for (name, value) in expected {
        assert_eq!(found.value(name, &stands), Some(value), "{name}");
    }
    let [lag, queueing] =
        ["rocketmq_consumer_lag_latency_milliseconds", "rocketmq_consumer_queueing_latency_milliseconds"]
            .map(|name| found.value(name, &stands).unwrap());
    assert!((0.0..60_000.0).contains(&lag) && queueing <= lag, "{lag} {queueing}");
    let calls = |method| {
        let labels = [("protocol_type", "grpc"), ("request_code", method), ("response_code", "ok")];
        found.value("rocketmq_rpc_latency_milliseconds_count", &labels)
    };
    assert_eq!(
        [calls("send_message"), calls("receive_message"), calls("ack_message")],
        [Some(5.0), Some(2.0), Some(1.0)]
    );
    assert_eq!(found.value("rocketmq_topic_number", &node), Some(1.0));
    assert_eq!(found.value("rocketmq_consumer_group_number", &node), Some(1.0));
    assert_eq!(found.value("redstart_connections", &[("protocol", "grpc")]), Some(1.0));
    assert_eq!(found.value("redstart_connections", &[("protocol", "http")]), Some(1.0), "this one");
    assert_eq!(found.value("redstart_empty_receives_total", &[]), Some(1.0));
    assert_eq!(found.value("redstart_memory_budget_used_bytes", &[("budget", "store")]), Some(0.0));
    // Deliveries and acks are synced a moment after they are written.
    let synced = async {
        while pages.scrape().await.value("rocketmq_storage_flush_behind_bytes", &node) != Some(0.0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), synced).await.expect("all is synced");
    let frames = found.value("redstart_frame_bytes_count", &[]).unwrap();
    assert!(frames >= 6.0, "{frames}");
    assert_eq!(found.value("redstart_frame_records_count", &[]), Some(frames));
    assert!(found.value("redstart_frame_records_sum", &[]).unwrap() >= 9.0);
    for name in ["redstart_commit_latency_seconds", "redstart_flush_latency_seconds"] {
        assert!(found.value(&format!("{name}_count"), &[]).unwrap() > 0.0, "{name}");
        assert!(found.value(&format!("{name}_sum"), &[]).unwrap() > 0.0, "{name}");
    }
    broker.stop().await;
}

/// A metric, some of its labels, its value.
type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

#[tokio::test(flavor = "multi_thread")]
async fn delayed_and_transactional_messages_and_dead_letters_are_counted() {
    let (broker, pages) = start().await;
    for (name, kind) in
        [("later", MessageType::Delay), ("tx", MessageType::Transaction), ("bad", MessageType::Normal)]
    {
        broker.topic(name, kind).await;
    }
    let shard = broker.shard();
    broker.group("g", GroupConfig::default()).await;
    let now = Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64);
    let due = |after| Message { deliver_at: Some(now.after(after)), ..plain("d") };
    store(&shard, "later", due(Duration::from_secs(7200)), SendOptions::default()).await;
    store(&shard, "later", due(Duration::from_secs(2)), SendOptions::default()).await;
    let soon = shard.pop(pop("later", "g", Duration::from_secs(15))).unwrap().await.unwrap().unwrap();
    assert_eq!(soon.deliveries.len(), 1, "the one that is due");

    let half = SendOptions { half: Some(HalfOptions::default()), ..SendOptions::default() };
    let mut halves = Vec::new();
    for id in ["a", "b", "c"] {
        halves.push(store(&shard, "tx", plain(id), half).await.position);
    }
    for (id, commit) in [(halves[0], true), (halves[1], false)] {
        let end = shard.change(move |engine, now| engine.end_transaction(id, commit, now));
        end.unwrap().await.unwrap().unwrap();
    }

    store(&shard, "bad", plain("x"), SendOptions::default()).await;
    let popped = shard.pop(pop("bad", "g", Duration::ZERO)).unwrap().await.unwrap().unwrap();
    let receipt = popped.deliveries[0].receipt;
    // The first try makes the topic for dead letters.
    loop {
        let forward =
            shard.change(move |engine, now| engine.forward_to_dead_letters(receipt, None, now)).unwrap();
        if forward.await.unwrap().is_ok() {
            break;
        }
    }

    let found = pages.scrape().await;
    let disk = [("storage_type", "local"), ("storage_medium", "disk")];
    let later = [&disk[..], &[("topic", "later")]].concat();
    let tx = [("topic", "tx")];
    let expected: [Expected<'_>; 12] = [
        ("rocketmq_timing_messages", &later, 1.0),
        ("rocketmq_timer_enqueue_total", &later, 2.0),
        ("rocketmq_timer_dequeue_total", &later, 1.0),
        ("rocketmq_delay_message_latency_seconds_count", &later, 2.0),
        ("rocketmq_timer_dequeue_lag", &disk, 0.0),
        ("rocketmq_timer_dequeue_latency_milliseconds", &disk, 0.0),
        ("rocketmq_half_messages", &tx, 1.0),
        ("rocketmq_commit_messages_total", &tx, 1.0),
        ("rocketmq_rollback_messages_total", &tx, 1.0),
        ("rocketmq_finish_message_latency_milliseconds_count", &tx, 1.0),
        ("rocketmq_messages_in_total", &[("topic", "tx"), ("message_type", "transaction")], 3.0),
        ("rocketmq_send_to_dlq_messages_total", &[("topic", "bad"), ("consumer_group", "g")], 1.0),
    ];
    for (name, labels, value) in expected {
        assert_eq!(found.value(name, labels), Some(value), "{name}");
    }
    let sum = found.value("rocketmq_delay_message_latency_seconds_sum", &later).unwrap();
    assert!((7190.0..=7202.0).contains(&sum), "{sum}");
    assert_eq!(found.value("rocketmq_messages_in_total", &[("topic", "%DLQ%g")]), None);
    assert_eq!(found.value("rocketmq_messages_in_total", &[("message_type", "delay")]), Some(2.0));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_receive_is_seen_while_it_waits() {
    let (broker, pages) = start().await;
    broker.topic("t", MessageType::Normal).await;
    broker.group("g", GroupConfig::default()).await;
    let held = broker.shard().pop(pop("t", "g", Duration::from_secs(60))).unwrap();
    // The shard tells how many wait when its round is over.
    let waiting = async |expected| {
        let found = pages.scrape().await.value("redstart_waiting_receives", &[]);
        (found == Some(expected)).then_some(())
    };
    eventually(async || waiting(1.0).await).await;
    store(&broker.shard(), "t", plain("a"), SendOptions::default()).await;
    assert_eq!(held.await.unwrap().unwrap().deliveries.len(), 1);
    eventually(async || waiting(0.0).await).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_declared_and_most_have_values_from_the_start() {
    let (broker, pages) = start().await;
    let found = pages.scrape().await;
    for family in FAMILIES {
        let metric = found.metrics.get(family.name).unwrap_or_else(|| panic!("{} is missing", family.name));
        assert_eq!((metric.kind.as_str(), metric.help.as_str()), (family.kind.name(), family.help));
    }
    assert_eq!(found.metrics.len(), FAMILIES.len(), "nothing is shown that is not in the list");
    for family in FAMILIES.iter().filter(|family| family.labels.is_empty()) {
        // The volume is looked at once a second, an empty log has no oldest message, and this broker has no certificate.
        if !family.name.contains("disk") && !family.name.contains("tls_certificate") {
            assert!(!found.metrics[family.name].samples.is_empty(), "{} has no value", family.name);
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_of_many_groups_and_queues_is_whole() {
    let (broker, pages) = start().await;
    let shard = broker.shard();
    const TOPICS: usize = 300;
    for n in 0..TOPICS {
        let name = format!("t{n}");
        broker.topic(&name, MessageType::Normal).await;
        store(&shard, &name, plain("a"), SendOptions::default()).await;
    }
    broker.group("g", GroupConfig::default()).await;
    for n in 0..TOPICS {
        let popped = shard.pop(pop(&format!("t{n}"), "g", Duration::ZERO)).unwrap().await.unwrap().unwrap();
        assert_eq!(popped.deliveries.len(), 1);
    }
    let found = pages.scrape().await;
    for n in 0..TOPICS {
        let name = format!("t{n}");
        let labels = [("topic", name.as_str()), ("consumer_group", "g")];
        assert_eq!(found.value("rocketmq_consumer_inflight_messages", &labels), Some(1.0), "{name}");
    }
    assert_eq!(found.value("redstart_subscriptions_left_out", &[]), Some(0.0));
    broker.stop().await;
}

/// The words of a query that could be metrics: not functions, not labels or their values, not keywords.
fn metrics_of(query: &str) -> BTreeSet<String> {
    let mut outside = String::new();
    let mut depth = 0_i32;
    for c in query.chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth -= 1;
                outside.push(' ');
            }
            c if depth == 0 => outside.push(c),
            _ => {}
        }
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let prefixes = ["rocketmq_", "redstart_", "process_"];
    outside
        .split(|c| !word(c))
        .filter(|found| prefixes.iter().any(|prefix| found.starts_with(prefix)))
        .map(str::to_owned)
        .collect()
}

fn queries(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    serde_json::Value::String(text) if ["expr", "query", "definition"].contains(&&**name) => {
                        found.push(text.clone());
                    }
                    value => queries(value, found),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_asks_only_for_what_is_there() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/grafana/redstart.json");
    let dashboard: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let source = variables.iter().find(|variable| variable["type"] == "datasource").unwrap();
    assert_eq!(source["query"], "prometheus");
    let mut asked = Vec::new();
    queries(&dashboard, &mut asked);
    let (broker, pages) = start().await;
    let found = pages.scrape().await;
    let mut used = BTreeSet::new();
    for name in asked.iter().flat_map(|query| metrics_of(query)) {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
            let base = name.strip_suffix(suffix)?;
            found.metrics.get(base).filter(|metric| metric.kind == "histogram").map(|_| base.to_owned())
        });
        let plain =
            || found.metrics.get(&name).filter(|metric| metric.kind != "histogram").map(|_| name.clone());
        used.insert(base.or_else(plain).unwrap_or_else(|| panic!("the dashboard asks for {name}")));
    }
    assert!(used.len() >= 40, "only {} metrics are on the dashboard", used.len());
    broker.stop().await;
}
