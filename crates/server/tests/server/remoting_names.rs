//! The name service: routes, lists, values, and other brokers.

use redstart_wire::remoting::{Command, code};

use crate::remoting_support::{BROKER, Broker, Client, consumer, json, request};

async fn route(client: &mut Client, topic: &str) -> Command {
    client.call(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)]).await
}

#[tokio::test]
async fn a_route_names_the_broker_at_the_address_that_was_dialled() {
    let broker = Broker::start().await;
    broker.with_topic("t", 3).await;
    let mut names = Client::connect(broker.names).await;
    let found = json(&route(&mut names, "t").await);
    assert_eq!(found["brokerDatas"][0]["brokerAddrs"]["0"], broker.address.to_string());
    assert_eq!(found["queueDatas"][0]["readQueueNums"], 3);
    assert_eq!(found["queueDatas"][0]["perm"], 6);
    assert_eq!(found["queueDatas"][0]["brokerName"], BROKER);
    assert_eq!(route(&mut names, "unknown").await.code, code::TOPIC_NOT_EXIST);
    assert_eq!(route(&mut names, "no/name").await.code, code::TOPIC_NOT_EXIST);
    assert_eq!(names.call(code::GET_ROUTEINFO_BY_TOPIC, &[]).await.code, code::INVALID_PARAMETER);
    let cluster = json(&names.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await);
    assert_eq!(cluster["clusterAddrTable"]["DefaultCluster"][0], BROKER);
    let address = &cluster["brokerAddrTable"][BROKER]["brokerAddrs"]["0"];
    assert_eq!(*address, broker.address.to_string());
}

#[tokio::test]
async fn an_advertised_address_wins_and_the_pattern_topic_needs_its_flag() {
    let plain = Broker::start().await;
    assert_eq!(route(&mut plain.client().await, "TBW102").await.code, code::TOPIC_NOT_EXIST);
    let broker = Broker::start_with(|config, _| {
        config.advertise = Some("broker.example:8081".to_owned());
        config.auto_create_topics = true;
    })
    .await;
    let found = json(&route(&mut broker.client().await, "TBW102").await);
    assert_eq!(found["queueDatas"][0]["perm"], 7);
    let expected = format!("broker.example:{}", broker.address.port());
    assert_eq!(found["brokerDatas"][0]["brokerAddrs"]["0"], expected);
}

#[tokio::test]
async fn the_retry_topic_is_there_when_its_group_is() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    assert_eq!(route(&mut client, "%RETRY%g").await.code, code::TOPIC_NOT_EXIST);
    client.call_json(code::HEART_BEAT, &consumer("c", "g", "t", "*")).await;
    let found = json(&route(&mut client, "%RETRY%g").await);
    assert_eq!(found["queueDatas"][0]["readQueueNums"], 1);
    client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, r#"{"groupName":"h"}"#).await;
    assert_eq!(route(&mut client, "%RETRY%h").await.code, code::SUCCESS);
    let all = json(&client.ok(code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[]).await);
    assert_eq!(all["topicList"], serde_json::json!(["%RETRY%g", "%RETRY%h", "t"]));
    let system = json(&client.ok(code::GET_SYSTEM_TOPIC_LIST_FROM_NS, &[]).await);
    assert!(!system["topicList"].as_array().unwrap().contains(&"t".into()));
    let cluster = [("cluster", "other")];
    let other = json(&client.ok(code::GET_TOPICS_BY_CLUSTER, &cluster).await);
    assert_eq!(other["topicList"], serde_json::json!([]));
}

#[tokio::test]
async fn values_are_kept_by_namespace_and_key() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let at = [("namespace", "n"), ("key", "k")];
    assert_eq!(client.call(code::GET_KV_CONFIG, &at).await.code, code::QUERY_NOT_FOUND);
    client.ok(code::PUT_KV_CONFIG, &[at[0], at[1], ("value", "v")]).await;
    assert_eq!(client.ok(code::GET_KV_CONFIG, &at).await.field("value"), Some("v"));
    let all = json(&client.ok(code::GET_KVLIST_BY_NAMESPACE, &at[..1]).await);
    assert_eq!(all["table"], serde_json::json!({"k": "v"}));
    client.ok(code::DELETE_KV_CONFIG, &at).await;
    assert_eq!(client.call(code::GET_KVLIST_BY_NAMESPACE, &at[..1]).await.code, code::QUERY_NOT_FOUND);
    assert_eq!(client.call(code::PUT_KV_CONFIG, &at).await.code, code::INVALID_PARAMETER);
}

#[tokio::test]
async fn another_broker_shows_up_in_routes_until_it_leaves() {
    let broker = Broker::start_with(|config, _| config.foreign_brokers = true).await;
    let mut client = broker.with_topic("t", 1).await;
    let other = [
        ("brokerName", "broker-z"),
        ("brokerAddr", "10.0.0.9:10911"),
        ("clusterName", "DefaultCluster"),
        ("brokerId", "0"),
    ];
    let body = r#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"topicName":"t","readQueueNums":5,
        "writeQueueNums":5,"perm":6}},"dataVersion":{"counter":3,"timestamp":1}},"filterServerList":[]}"#;
    let register = Command { body: body.into(), ..request(code::REGISTER_BROKER, &other) };
    assert_eq!(client.call_with(register).await.code, code::SUCCESS);
    let found = json(&route(&mut client, "t").await);
    assert_eq!(found["queueDatas"].as_array().unwrap().len(), 2);
    assert_eq!(found["queueDatas"][0]["readQueueNums"], 5);
    assert_eq!(found["brokerDatas"][0]["brokerAddrs"]["0"], "10.0.0.9:10911");
    let version = Command {
        body: r#"{"counter":3,"stateVersion":0,"timestamp":1}"#.into(),
        ..request(code::QUERY_DATA_VERSION, &other)
    };
    assert_eq!(client.call_with(version).await.field("changed"), Some("false"));
    client.ok(code::BROKER_HEARTBEAT, &other).await;
    client.ok(code::UNREGISTER_BROKER, &other).await;
    assert_eq!(json(&route(&mut client, "t").await)["brokerDatas"].as_array().unwrap().len(), 1);
    let mut own = other;
    own[0].1 = BROKER;
    assert_eq!(client.call(code::REGISTER_BROKER, &own).await.code, code::INVALID_PARAMETER);
}

#[tokio::test]
async fn a_write_permission_that_was_wiped_stays_so_until_the_brokers_topics_change() {
    let broker = Broker::start_with(|config, _| config.foreign_brokers = true).await;
    let mut client = broker.client().await;
    let other = [
        ("brokerName", "broker-z"),
        ("brokerAddr", "10.0.0.9:10911"),
        ("clusterName", "DefaultCluster"),
        ("brokerId", "0"),
    ];
    let register = |version: u32| {
        let body = format!(
            r#"{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{"t":{{"topicName":"t","readQueueNums":1,
            "writeQueueNums":1,"perm":6}}}},"dataVersion":{{"counter":{version},"timestamp":1}}}}}}"#
        );
        Command { body: body.into(), ..request(code::REGISTER_BROKER, &other) }
    };
    assert_eq!(client.call_with(register(1)).await.code, code::SUCCESS);
    let wiped = client.ok(code::WIPE_WRITE_PERM_OF_BROKER, &other[..1]).await;
    assert_eq!(wiped.field("wipeTopicCount"), Some("1"));
    for (version, permission) in [(1, 4), (2, 6)] {
        assert_eq!(client.call_with(register(version)).await.code, code::SUCCESS);
        let found = json(&route(&mut client, "t").await);
        assert_eq!(found["queueDatas"][0]["perm"], permission, "version {version}");
    }
}

/// What `RegisterBrokerBody.encode(true)` of 5.5.0 makes of two topics: see `wire`'s `registration.rs` for the layout.
const PACKED: &str = concat!(
    "78da636060d0a9564ace2fcd2b492d52b232d0512a2e492c490d4b2d2acecccf030b9464e6a60205730b94ac0c6b19181898",
    "80583fbf2805a844c11c08cd14823dfddc7d5ce3431cdd15aa95808a8b13d353f54a2a0b5295ac94dc3cddfc9540da249332",
    "73728a158c81d0044507d8cce85820c900005851262f"
);

#[tokio::test]
async fn a_broker_may_register_compressed() {
    let broker = Broker::start_with(|config, _| config.foreign_brokers = true).await;
    let mut client = broker.client().await;
    let other = [
        ("brokerName", "broker-z"),
        ("brokerAddr", "10.0.0.9:10911"),
        ("clusterName", "DefaultCluster"),
        ("brokerId", "0"),
        ("compressed", "true"),
    ];
    let cut = Command { body: vec![0x78, 0x9c].into(), ..request(code::REGISTER_BROKER, &other) };
    assert_eq!(client.call_with(cut).await.code, code::INVALID_PARAMETER);
    let byte = |at| u8::from_str_radix(&PACKED[at..at + 2], 16).unwrap();
    let packed: Vec<u8> = (0..PACKED.len()).step_by(2).map(byte).collect();
    let register = Command { body: packed.into(), ..request(code::REGISTER_BROKER, &other) };
    assert_eq!(client.call_with(register).await.code, code::SUCCESS);
    let found = json(&route(&mut client, "orders").await);
    assert_eq!(found["queueDatas"][0]["writeQueueNums"], 7);
    assert_eq!(found["queueDatas"][0]["perm"], 6);
    assert_eq!(json(&route(&mut client, "bills").await)["queueDatas"][0]["readQueueNums"], 3);
}

/// Else any peer could send every client to an address of its own.
#[tokio::test]
async fn brokers_register_only_if_a_setting_lets_them() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let other = [
        ("brokerName", "broker-z"),
        ("brokerAddr", "10.0.0.9:10911"),
        ("clusterName", "DefaultCluster"),
        ("brokerId", "0"),
    ];
    let refused = client.call(code::REGISTER_BROKER, &other).await;
    assert_eq!(refused.code, code::NO_PERMISSION);
    assert!(refused.remark.unwrap().contains("foreign_brokers"));
    let cluster = json(&client.ok(code::GET_BROKER_CLUSTER_INFO, &[]).await);
    assert!(cluster["brokerAddrTable"]["broker-z"].is_null(), "{cluster}");
}
