//! A node with several shards: both protocols, topics and groups that reach all of them, handles that name theirs.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use redstart_engine::{GroupConfig, GroupName, Message, MessageType, SendOptions, TopicName};
use redstart_log::{FsStorage, Options};
use redstart_server::{
    Shards,
    grpc::{Grpc, ShardCheck},
    remoting::{self, Remoting},
    shard::{self, Shard, ShardHandle},
};
use redstart_wire::{
    remoting::{
        body::{ClusterInfo, TopicRoute},
        code,
    },
    v2::{self, AckMessageEntry, AckMessageRequest, Code, QueryAssignmentRequest, QueryRouteRequest},
};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

use crate::{
    grpc_commands::{Telemetry, consumer_settings},
    remoting_support,
    support::*,
};

struct Node {
    shards: Vec<Shard>,
    table: Shards,
    grpc: std::net::SocketAddr,
    names: std::net::SocketAddr,
    brokers: Vec<std::net::SocketAddr>,
    stop: watch::Sender<bool>,
}

impl Node {
    async fn start(dir: &TempDir, count: usize) -> Node {
        let shards: Vec<Shard> = (0..count).map(|number| open(dir, number)).collect();
        let names = redstart_server::broker_names("broker-a", count);
        let table = Shards::open(names.into_iter().zip(shards.iter().map(Shard::handle))).await.unwrap();
        let (_, checks) = mpsc::channel::<ShardCheck>(1);
        let grpc = Grpc::bind(config(), table.clone(), checks, dir.path()).await.unwrap();
        let config = remoting::Config { auto_create_topics: true, ..remoting_support::config() };
        let remoting = Remoting::bind(config, table.clone(), dir.path()).await.unwrap();
        grpc.set_pull_consumers(Arc::new(remoting.monitor()));
        let (at, (namesrv, _)) = (grpc.address().unwrap(), remoting.addresses().unwrap());
        let brokers = remoting.broker_addresses().unwrap();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(grpc.serve(stopped.clone()));
        tokio::spawn(remoting.serve(stopped));
        Node { shards, table, grpc: at, names: namesrv, brokers, stop }
    }

    fn handle(&self, number: usize) -> ShardHandle {
        self.shards[number].handle()
    }

    async fn client(&self) -> Client {
        connect(self.grpc, "c", "JAVA").await
    }

    /// A topic on all shards, made as `mqadmin -c` does: each broker is told.
    async fn topic(&self, name: &str, attributes: &str) {
        for broker in &self.brokers {
            let mut client = remoting_support::Client::connect(*broker).await;
            remoting_support::create_topic(&mut client, name, 2, attributes).await;
        }
    }

    async fn route(&self, topic: &str) -> TopicRoute {
        let mut names = remoting_support::Client::connect(self.names).await;
        let answer = names.ok(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)]).await;
        serde_json::from_slice(&answer.body).unwrap()
    }

    async fn stop(self) {
        let Node { shards, stop, .. } = self;
        drop(stop);
        shards.into_iter().for_each(|shard| shard.stop().unwrap());
    }
}

fn open(dir: &TempDir, number: usize) -> Shard {
    let storage = FsStorage::open(dir.path().join(format!("shard-{number}"))).unwrap();
    let options = Options::with_segment_bytes(16 << 20);
    Shard::open(Arc::new(storage), options, engine(), shard::Config::default()).unwrap().shard
}

async fn topics(shard: &ShardHandle) -> BTreeSet<String> {
    let names = shard.ask(|engine, _| engine.topic_names()).unwrap().await.unwrap();
    names.iter().filter(|name| !name.is_reserved()).map(ToString::to_string).collect()
}

async fn groups(shard: &ShardHandle) -> BTreeSet<String> {
    let names = shard.ask(|engine, _| engine.group_names()).unwrap().await.unwrap();
    names.iter().map(ToString::to_string).collect()
}

/// The message queues that a consumer of the group is assigned, by broker.
async fn assigned(client: &mut Client, group: &str, topic: &str) -> BTreeMap<String, v2::MessageQueue> {
    let request = QueryAssignmentRequest {
        topic: Some(resource(topic)),
        group: Some(resource(group)),
        endpoints: None,
    };
    let answer = client.query_assignment(request).await.unwrap().into_inner();
    assert_eq!(code(answer.status), Code::Ok);
    let queues = answer.assignments.into_iter().filter_map(|assignment| assignment.message_queue);
    queues.map(|queue| (queue.broker.clone().unwrap().name, queue)).collect()
}

/// All messages that a group has on a shard, acked as they come.
async fn drain(client: &mut Client, group: &str, topic: &str, queue: &v2::MessageQueue) -> Vec<v2::Message> {
    let mut all = Vec::new();
    loop {
        let mut request = receive_request(group, topic);
        request.message_queue = Some(queue.clone());
        request.long_polling_timeout = Some(prost_types::Duration { seconds: 0, nanos: 100_000_000 });
        let (_, got) = receive(client, request).await;
        if got.is_empty() {
            return all;
        }
        let entries = got.iter().map(|message| AckMessageEntry {
            message_id: id_of(message).to_owned(),
            receipt_handle: handle_of(message),
            ..AckMessageEntry::default()
        });
        let ack = AckMessageRequest {
            group: Some(resource(group)),
            topic: Some(resource(topic)),
            entries: entries.collect(),
        };
        assert_eq!(code(client.ack_message(ack).await.unwrap().into_inner().status), Code::Ok);
        all.extend(got);
    }
}

async fn put_group(node: &Node, name: &str, config: GroupConfig) {
    let group = GroupName::new(name).unwrap();
    for shard in &node.shards {
        let (group, config) = (group.clone(), config.clone());
        let put = shard.handle().change(move |engine, _| engine.put_group(&group, config)).unwrap();
        put.await.unwrap().unwrap();
    }
}

async fn join(node: &Node, group: &str, topic: &str) {
    for shard in &node.shards {
        let (group, topic) = (GroupName::new(group).unwrap(), TopicName::new(topic).unwrap());
        let joined = shard
            .handle()
            .ask(move |engine, _| engine.join(&group, &topic, redstart_engine::Start::Earliest));
        joined.unwrap().await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shard_is_a_broker_with_a_name_and_a_port() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    node.topic("t", "").await;
    let mut names = remoting_support::Client::connect(node.names).await;
    let info = names.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await;
    let info: ClusterInfo = serde_json::from_slice(&info.body).unwrap();
    let ports: BTreeSet<String> =
        info.broker_addr_table.values().map(|broker| broker.broker_addrs["0"].clone()).collect();
    assert_eq!(info.broker_addr_table.keys().collect::<Vec<_>>(), ["broker-a", "broker-b", "broker-c"]);
    assert_eq!(ports, node.brokers.iter().map(ToString::to_string).collect());
    let route = node.route("t").await;
    let names: Vec<&str> = route.queue_datas.iter().map(|queue| queue.broker_name.as_str()).collect();
    assert_eq!(names, ["broker-a", "broker-b", "broker-c"]);
    let mut client = node.client().await;
    let request = QueryRouteRequest { topic: Some(resource("t")), endpoints: None };
    let queues = client.query_route(request).await.unwrap().into_inner().message_queues;
    let of: Vec<String> = queues.iter().map(|queue| queue.broker.clone().unwrap().name).collect();
    assert_eq!(of, ["broker-a", "broker-b", "broker-c", "broker-a", "broker-b", "broker-c"], "in turns");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_spread_and_comes_back_from_every_shard_once() {
    const MESSAGES: usize = 60;
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    node.topic("t", "").await;
    put_group(&node, "g", GroupConfig::default()).await;
    join(&node, "g", "t").await;
    let mut client = node.client().await;
    for n in 0..MESSAGES {
        send(&mut client, message("t", &format!("m{n}"), b"body")).await;
    }
    let assigned = assigned(&mut client, "g", "t").await;
    assert_eq!(assigned.len(), 3);
    let mut seen = BTreeSet::new();
    for (broker, queue) in &assigned {
        let got = drain(&mut client, "g", "t", queue).await;
        assert!(got.len() > MESSAGES / 10, "{broker} has {} of {MESSAGES}", got.len());
        seen.extend(got.iter().map(|message| id_of(message).to_owned()));
    }
    assert_eq!(seen.len(), MESSAGES);
    let mut nowhere = receive_request("g", "t");
    nowhere.message_queue.as_mut().unwrap().broker =
        Some(v2::Broker { name: "broker-z".to_owned(), ..v2::Broker::default() });
    let (status, _) = receive(&mut client, nowhere).await;
    assert_eq!(status, Code::BadRequest);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_group_stays_on_one_shard_in_order() {
    const GROUPS: usize = 12;
    const EACH: usize = 5;
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    node.topic("t", "+message.type=FIFO").await;
    put_group(&node, "g", GroupConfig::ordered()).await;
    join(&node, "g", "t").await;
    let mut client = node.client().await;
    for n in 0..EACH {
        for group in 0..GROUPS {
            send(&mut client, in_group("t", &format!("{group}-{n}"), &format!("group-{group}"))).await;
        }
    }
    let mut at: HashMap<String, (String, usize)> = HashMap::new();
    let mut shards = BTreeSet::new();
    for (broker, queue) in &assigned(&mut client, "g", "t").await {
        for message in drain(&mut client, "g", "t", queue).await {
            let (group, n) = id_of(&message).split_once('-').unwrap();
            let (on, next) = at.entry(group.to_owned()).or_insert_with(|| (broker.clone(), 0));
            assert_eq!((on.as_str(), *next), (broker.as_str(), n.parse().unwrap()), "group {group}");
            *next += 1;
            shards.insert(broker.clone());
        }
    }
    assert!(at.len() == GROUPS && at.values().all(|(_, next)| *next == EACH), "{at:?}");
    assert_eq!(shards.len(), 3, "the groups are spread");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_message_groups_of_several_shards_is_stored_on_each() {
    const GROUPS: usize = 12;
    let dir = TempDir::new().unwrap();
    let mut node = Node::start(&dir, 3).await;
    node.topic("t", "+message.type=FIFO").await;
    put_group(&node, "g", GroupConfig::ordered()).await;
    join(&node, "g", "t").await;
    let mut client = node.client().await;
    let messages = |n: usize| -> Vec<v2::Message> {
        let of = |group| in_group("t", &format!("{group}-{n}"), &format!("group-{group}"));
        (0..GROUPS).map(of).collect()
    };
    // One by one and together, each message group goes to the same shard.
    for message in messages(0) {
        send(&mut client, message).await;
    }
    let request = v2::SendMessageRequest { messages: messages(1) };
    let answer = client.send_message(request).await.unwrap().into_inner();
    assert_eq!(code(answer.status), Code::Ok);
    let sent: Vec<&str> = answer.entries.iter().map(|entry| entry.message_id.as_str()).collect();
    assert_eq!(sent, messages(1).iter().map(id_of).collect::<Vec<_>>(), "in the order of the request");
    let mut seen: HashMap<String, Vec<String>> = HashMap::new();
    for queue in assigned(&mut client, "g", "t").await.values() {
        let mut here: HashMap<String, Vec<String>> = HashMap::new();
        for message in drain(&mut client, "g", "t", queue).await {
            let (group, n) = id_of(&message).split_once('-').unwrap();
            here.entry(group.to_owned()).or_default().push(n.to_owned());
        }
        assert!((1..GROUPS).contains(&here.len()), "the groups are spread");
        seen.extend(here);
    }
    assert!(seen.len() == GROUPS && seen.values().all(|of| of == &["0", "1"]), "{seen:?}");

    node.shards.pop().unwrap().stop().unwrap();
    let request = v2::SendMessageRequest { messages: messages(2) };
    let answer = client.send_message(request).await.unwrap().into_inner();
    assert_eq!((code(answer.status), answer.entries.len()), (Code::MultipleResults, GROUPS));
    let stored = answer.entries.iter().filter(|entry| code(entry.status.clone()) == Code::Ok).count();
    assert!((1..GROUPS).contains(&stored), "{stored} of {GROUPS} are on shards that run");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_for_one_broker_stays_there_and_one_removed_from_a_broker_is_on_the_others() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    let mut second = remoting_support::Client::connect(node.brokers[1]).await;
    remoting_support::create_topic(&mut second, "only-b", 2, "").await;
    node.topic("everywhere", "").await;
    node.topic("not-on-b", "").await;
    second.ok(code::DELETE_TOPIC_IN_BROKER, &[("topic", "not-on-b")]).await;
    let on = async |node: &Node, topic: &str| -> Vec<String> {
        let route = node.route(topic).await;
        route.queue_datas.into_iter().map(|queue| queue.broker_name).collect()
    };
    let mut client = node.client().await;
    for _ in 0..20 {
        send(&mut client, message("only-b", "m", b"body")).await;
        send(&mut client, message("not-on-b", "m", b"body")).await;
    }
    node.stop().await;
    // Started again, and with one shard more.
    let node = Node::start(&dir, 4).await;
    assert_eq!(on(&node, "only-b").await, ["broker-b"]);
    assert_eq!(on(&node, "not-on-b").await, ["broker-a", "broker-c"]);
    assert_eq!(on(&node, "everywhere").await, ["broker-a", "broker-b", "broker-c", "broker-d"]);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_and_a_group_that_a_crash_kept_from_some_shards_reach_them_at_the_next_start() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 2).await;
    put_topic(&node.handle(0), "t", MessageType::Fifo).await;
    let group = GroupName::new("g").unwrap();
    let put = node.handle(0).change(move |engine, _| engine.put_group(&group, GroupConfig::ordered()));
    put.unwrap().await.unwrap().unwrap();
    let older = GroupName::new("g").unwrap();
    let put = node.handle(1).change(move |engine, _| engine.put_group(&older, GroupConfig::default()));
    put.unwrap().await.unwrap().unwrap();
    let lost = GroupName::new("on-second").unwrap();
    let put = node.handle(1).change(move |engine, _| engine.put_group(&lost, GroupConfig::default()));
    put.unwrap().await.unwrap().unwrap();
    node.stop().await;
    let node = Node::start(&dir, 3).await;
    for number in 0..3 {
        assert_eq!(topics(&node.handle(number)).await, BTreeSet::from(["t".to_owned()]), "shard {number}");
        let all = groups(&node.handle(number)).await;
        assert!(all.contains("g") && all.contains("on-second"), "shard {number}: {all:?}");
        let (topic, group) = (TopicName::new("t").unwrap(), GroupName::new("g").unwrap());
        let asked = node.handle(number).ask(move |engine, _| {
            (engine.topic(&topic).unwrap().config, engine.group(&group).unwrap().config.ordered)
        });
        let (config, ordered) = asked.unwrap().await.unwrap();
        assert_eq!((config.message_type, config.read_queues, ordered), (MessageType::Fifo, 1, true));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_shard_has_the_groups_of_its_topics_before_the_first_message() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 1).await;
    node.topic("t", "").await;
    put_group(&node, "g", GroupConfig::default()).await;
    join(&node, "g", "t").await;
    node.stop().await;
    let node = Node::start(&dir, 2).await;
    let mut client = node.client().await;
    // New groups begin at the end; this one has begun before.
    for n in 0..20 {
        send(&mut client, message("t", &format!("m{n}"), b"body")).await;
    }
    let assigned = assigned(&mut client, "g", "t").await;
    let mut seen = 0;
    for queue in assigned.values() {
        let got = drain(&mut client, "g", "t", queue).await;
        assert!(!got.is_empty());
        seen += got.len();
    }
    assert_eq!(seen, 20);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ack_may_have_handles_of_several_shards_and_transactions_end_on_their_own() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    node.topic("t", "+message.type=MIXED").await;
    put_group(&node, "g", GroupConfig::default()).await;
    join(&node, "g", "t").await;
    let mut client = node.client().await;
    let mut ended = 0;
    for n in 0..12 {
        let mut half = message("t", &format!("h{n}"), b"body");
        half.system_properties.as_mut().unwrap().message_type = v2::MessageType::Transaction.into();
        let transaction_id = send(&mut client, half).await.transaction_id;
        let end = v2::EndTransactionRequest {
            topic: Some(resource("t")),
            transaction_id,
            message_id: format!("h{n}"),
            resolution: v2::TransactionResolution::Commit.into(),
            ..v2::EndTransactionRequest::default()
        };
        ended +=
            usize::from(code(client.end_transaction(end).await.unwrap().into_inner().status) == Code::Ok);
    }
    assert_eq!(ended, 12);
    let mut entries = Vec::new();
    let mut by_broker = BTreeSet::new();
    for (broker, queue) in &assigned(&mut client, "g", "t").await {
        let mut request = receive_request("g", "t");
        request.message_queue = Some(queue.clone());
        request.long_polling_timeout = Some(prost_types::Duration { seconds: 0, nanos: 100_000_000 });
        let (_, got) = receive(&mut client, request).await;
        by_broker.extend((!got.is_empty()).then(|| broker.clone()));
        entries.extend(got.iter().map(|message| AckMessageEntry {
            message_id: id_of(message).to_owned(),
            receipt_handle: handle_of(message),
            ..AckMessageEntry::default()
        }));
    }
    assert_eq!((entries.len(), by_broker.len()), (12, 3));
    let ack = AckMessageRequest { group: Some(resource("g")), topic: Some(resource("t")), entries };
    let acked = client.ack_message(ack).await.unwrap().into_inner();
    assert_eq!((code(acked.status), acked.entries.len()), (Code::Ok, 12));
    for shard in node.table.all() {
        let (group, topic) = (GroupName::new("g").unwrap(), TopicName::new("t").unwrap());
        let progress = shard.handle.query(move |engine, _| engine.progress(&group, &topic)).unwrap();
        let progress = progress.await.unwrap().unwrap();
        assert!(progress.iter().all(|queue| queue.lag() == 0), "{progress:?}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_changed_over_one_broker_is_changed_on_all_and_deleted_on_all() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    let mut second = remoting_support::Client::connect(node.brokers[1]).await;
    let body = r#"{"groupName":"g","consumeEnable":true,"consumeMessageOrderly":true,"retryMaxTimes":3}"#;
    let request = |code, body: &str| redstart_wire::remoting::Command {
        body: body.to_owned().into(),
        ..redstart_wire::remoting::Command::request(code)
    };
    let answer = second.call_with(request(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)).await;
    assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
    for number in 0..3 {
        let group = GroupName::new("g").unwrap();
        let asked = node.handle(number).ask(move |engine, _| engine.group(&group).unwrap().config);
        let config = asked.unwrap().await.unwrap();
        assert_eq!((config.ordered, config.retries_max), (true, 3), "shard {number}");
    }
    second.ok(code::DELETE_SUBSCRIPTIONGROUP, &[("groupName", "g")]).await;
    for number in 0..3 {
        assert!(!groups(&node.handle(number)).await.contains("g"), "shard {number}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_a_first_message_creates_is_on_all_shards() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    let mut third = remoting_support::Client::connect(node.brokers[2]).await;
    remoting_support::send_message(&mut third, "made-by-send", 0, "a", "body").await;
    let mut client = node.client().await;
    send(&mut client, message("made-by-grpc", "m", b"body")).await;
    let expected = BTreeSet::from(["made-by-send".to_owned(), "made-by-grpc".to_owned()]);
    for number in 0..3 {
        assert_eq!(topics(&node.handle(number)).await, expected, "shard {number}");
    }
    node.stop().await;
}

/// Stores a dead letter on a shard. The first one makes the topic there, and only there.
async fn dead_letter(node: &Node, shard: usize, id: &str) {
    let topic = TopicName::new("%DLQ%failing").unwrap();
    let (shard, make) = (node.handle(shard), topic.clone());
    if !shard.ask(move |engine, _| engine.topic_id(&make).is_some()).unwrap().await.unwrap() {
        put_topic(&shard, topic.as_str(), MessageType::Mixed).await;
    }
    let letter = Message { id: id.to_owned(), ..Message::default() };
    shard.send(topic, vec![letter], SendOptions::default()).unwrap().await.unwrap().unwrap();
}

/// The ids of what a group gets of a topic, from all shards of its route.
async fn read_all(client: &mut Client, group: &str, topic: &str) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for queue in assigned(client, group, topic).await.values() {
        ids.extend(drain(client, group, topic, queue).await.iter().map(|message| id_of(message).to_owned()));
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_reads_dead_letters_gets_the_first_one_of_every_further_shard() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    let dlq = "%DLQ%failing";
    put_group(&node, "reader", GroupConfig::default()).await;
    dead_letter(&node, 1, "before").await;
    dead_letter(&node, 2, "before-too").await;
    let mut client = node.client().await;
    // New groups begin at the end, on all shards at once: this receive is one of the second shard alone.
    let mut request = receive_request("reader", dlq);
    request.message_queue = assigned(&mut client, "reader", dlq).await.remove("broker-b");
    request.long_polling_timeout = Some(prost_types::Duration::default());
    assert!(receive(&mut client, request).await.1.is_empty());
    dead_letter(&node, 0, "first-of-a").await;
    dead_letter(&node, 1, "second-of-b").await;
    dead_letter(&node, 2, "second-of-c").await;
    let got = read_all(&mut client, "reader", dlq).await;
    assert_eq!(got, ["first-of-a", "second-of-b", "second-of-c"].map(str::to_owned).into());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_connects_after_a_shard_got_its_topic_gets_what_was_stored_there() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    let mut first = remoting_support::Client::connect(node.brokers[0]).await;
    remoting_support::create_topic(&mut first, "growing", 2, "").await;
    put_group(&node, "g", GroupConfig::default()).await;
    let mut client = node.client().await;
    assert!(read_all(&mut client, "g", "growing").await.is_empty());
    // The topic gets queues on another broker, and messages there, while nobody reads.
    let mut third = remoting_support::Client::connect(node.brokers[2]).await;
    remoting_support::create_topic(&mut third, "growing", 2, "").await;
    for n in 0..20 {
        send(&mut client, message("growing", &format!("m{n}"), b"body")).await;
    }
    let mut again = node.client().await;
    let _telemetry = Telemetry::open(&mut again, consumer_settings("g", "growing")).await;
    assert_eq!(read_all(&mut again, "g", "growing").await.len(), 20);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_found_on_their_shards_by_key_and_by_the_id_that_names_the_shard() {
    const MESSAGES: usize = 30;
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    node.topic("t", "").await;
    let mut client = node.client().await;
    for n in 0..MESSAGES {
        let mut message = message("t", &format!("m{n}"), b"body");
        message.system_properties.as_mut().unwrap().keys = vec!["k".to_owned()];
        send(&mut client, message).await;
    }
    let fields = [
        ("topic", "t"),
        ("key", "k"),
        ("maxNum", "64"),
        ("beginTimestamp", "0"),
        ("endTimestamp", "9999999999999"),
    ];
    let mut ids = BTreeSet::new();
    for address in &node.brokers {
        let mut broker = remoting_support::Client::connect(*address).await;
        let found = remoting_support::messages(&broker.ok(code::QUERY_MESSAGE, &fields).await);
        assert!(!found.is_empty() && found.len() < MESSAGES, "{} on {address}", found.len());
        for message in found {
            // The id that tools make of this is the broker's address and the offset there.
            assert_eq!(message.store_host, *address);
            let offset = message.physical_offset.to_string();
            let viewed = broker.ok(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset)]).await;
            let viewed = remoting_support::properties(&remoting_support::messages(&viewed)[0]);
            assert!(ids.insert(viewed["UNIQ_KEY"].clone()), "{viewed:?} is on two shards");
        }
    }
    assert_eq!(ids.len(), MESSAGES);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_by_way_of_every_broker_brings_everything_again() {
    const MESSAGES: usize = 30;
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    node.topic("t", "").await;
    put_group(&node, "g", GroupConfig::default()).await;
    join(&node, "g", "t").await;
    let mut client = node.client().await;
    for n in 0..MESSAGES {
        send(&mut client, message("t", &format!("m{n}"), b"body")).await;
    }
    let first = read_all(&mut client, "g", "t").await;
    assert_eq!((first.len(), read_all(&mut client, "g", "t").await.len()), (MESSAGES, 0));
    let fields = [("group", "g"), ("topic", "t"), ("timestamp", "0"), ("isForce", "true")];
    for (address, shard) in node.brokers.iter().zip(node.table.all()) {
        let mut broker = remoting_support::Client::connect(*address).await;
        let moved = broker.ok(code::INVOKE_BROKER_TO_RESET_OFFSET, &fields).await;
        let moved = remoting_support::odd_json(&moved);
        let rows = moved["offsetTable"].as_object().unwrap();
        assert_eq!(rows.len(), 2, "the queues of one broker: {rows:?}");
        assert!(rows.keys().all(|queue| queue.contains(&shard.broker)), "{rows:?}");
    }
    assert_eq!(read_all(&mut client, "g", "t").await, first);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_fails_too_often_is_a_dead_letter_of_its_own_shard_and_is_read_from_there() {
    const MESSAGES: usize = 12;
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    node.topic("t", "").await;
    put_group(&node, "g", GroupConfig::default()).await;
    put_group(&node, "reader", GroupConfig::default()).await;
    join(&node, "g", "t").await;
    let mut client = node.client().await;
    // A first dead letter, so that the topic exists and the reader has begun.
    let dlq = "%DLQ%g";
    send(&mut client, message("t", "first", b"body")).await;
    give_up(&mut client, "g", "t").await;
    assert!(read_all(&mut client, "reader", dlq).await.is_empty(), "it begins at the end");
    let mut sent = BTreeSet::new();
    for n in 0..MESSAGES {
        send(&mut client, message("t", &format!("m{n}"), b"body")).await;
        sent.insert(format!("m{n}"));
    }
    let shards = give_up(&mut client, "g", "t").await;
    assert_eq!(shards, 3, "they are spread");
    assert_eq!(read_all(&mut client, "reader", dlq).await, sent);
    node.stop().await;
}

/// Gives up everything that a group can receive; the number of shards that had something.
async fn give_up(client: &mut Client, group: &str, topic: &str) -> usize {
    let mut shards = 0;
    for queue in assigned(client, group, topic).await.values() {
        let mut request = receive_request(group, topic);
        request.message_queue = Some(queue.clone());
        request.long_polling_timeout = Some(prost_types::Duration { seconds: 0, nanos: 100_000_000 });
        let (_, got) = receive(client, request).await;
        shards += usize::from(!got.is_empty());
        for message in got {
            let request = v2::ForwardMessageToDeadLetterQueueRequest {
                group: Some(resource(group)),
                topic: Some(resource(topic)),
                receipt_handle: handle_of(&message),
                message_id: id_of(&message).to_owned(),
                ..v2::ForwardMessageToDeadLetterQueueRequest::default()
            };
            let answer = client.forward_message_to_dead_letter_queue(request).await.unwrap().into_inner();
            assert_eq!(code(answer.status), Code::Ok);
        }
    }
    shards
}

#[tokio::test(flavor = "multi_thread")]
async fn every_broker_takes_traces() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    let topic = "RMQ_SYS_TRACE_TOPIC";
    let route = node.route(topic).await;
    assert_eq!(route.queue_datas.len(), 3, "{route:?}");
    for broker in &node.brokers {
        let mut client = remoting_support::Client::connect(*broker).await;
        remoting_support::send_message(&mut client, topic, 0, "", "a-trace").await;
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_route_of_a_retry_topic_has_the_brokers_that_know_the_consumers() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(&dir, 3).await;
    let brokers = async |topic: &str| -> Vec<String> {
        node.route(topic).await.queue_datas.into_iter().map(|queue| queue.broker_name).collect()
    };
    let mut second = remoting_support::Client::connect(node.brokers[1]).await;
    second.call_json(code::HEART_BEAT, &remoting_support::consumer("c", "g", "t", "*")).await;
    assert_eq!(brokers("%RETRY%g").await, ["broker-b"]);
    // Without a consumer of 4.x any broker is as good.
    put_group(&node, "unseen", GroupConfig::default()).await;
    assert_eq!(brokers("%RETRY%unseen").await, ["broker-a", "broker-b", "broker-c"]);
    node.stop().await;
}
