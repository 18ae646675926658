//! Operators and topics: creating, changing, showing, deleting.

use redstart_wire::remoting::{Command, code};

use crate::remoting_support::{Broker, Client, create_topic, json, odd_json, request, row, send_message};

fn put<'a>(topic: &'a str, attributes: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("topic", topic),
        ("readQueueNums", "2"),
        ("writeQueueNums", "2"),
        ("perm", "6"),
        ("attributes", attributes),
    ]
}

async fn config(client: &mut Client, topic: &str) -> serde_json::Value {
    json(&client.ok(code::GET_TOPIC_CONFIG, &[("topic", topic)]).await)
}

#[tokio::test]
async fn a_topics_type_can_be_set_changed_and_taken_back() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    client.ok(code::UPDATE_AND_CREATE_TOPIC, &put("t", "")).await;
    assert_eq!(config(&mut client, "t").await["attributes"], serde_json::json!({}));
    for (attributes, shown) in
        [("+message.type=FIFO", "FIFO"), ("+message.type=DELAY", "DELAY"), ("", "DELAY")]
    {
        client.ok(code::UPDATE_AND_CREATE_TOPIC, &put("t", attributes)).await;
        assert_eq!(config(&mut client, "t").await["attributes"]["message.type"], shown);
    }
    client.ok(code::UPDATE_AND_CREATE_TOPIC, &put("t", "-message.type")).await;
    let shown = config(&mut client, "t").await;
    assert_eq!(shown["attributes"], serde_json::json!({}));
    assert_eq!((&shown["readQueueNums"], &shown["perm"]), (&2.into(), &6.into()));
    assert_eq!((&shown["topicFilterType"], &shown["order"]), (&"SINGLE_TAG".into(), &false.into()));
    client.ok(code::UPDATE_AND_CREATE_TOPIC, &[&put("t", "")[..], &[("order", "true")]].concat()).await;
    let shown = config(&mut client, "t").await;
    assert_eq!((&shown["order"], &shown["attributes"]), (&true.into(), &serde_json::json!({})));
}

#[tokio::test]
async fn what_is_wrong_with_a_topic_is_said() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let cases = [
        ("topic", "SCHEDULE_TOPIC_XXXX", code::INVALID_PARAMETER),
        ("topic", "rmq_sys_x", code::INVALID_PARAMETER),
        ("topic", "../etc/passwd", code::INVALID_PARAMETER),
        ("topic", "", code::INVALID_PARAMETER),
        ("perm", "8", code::INVALID_PARAMETER),
        ("perm", "-1", code::INVALID_PARAMETER),
        ("readQueueNums", "0", code::INVALID_PARAMETER),
        ("writeQueueNums", "1025", code::INVALID_PARAMETER),
        ("attributes", "+unknown.key=1", code::SYSTEM_ERROR),
        ("attributes", "-message.type", code::SYSTEM_ERROR),
    ];
    for (field, value, expected) in cases {
        let fields: Vec<_> =
            put("t", "").into_iter().filter(|(name, _)| *name != field).chain([(field, value)]).collect();
        let answer = client.call(code::UPDATE_AND_CREATE_TOPIC, &fields).await;
        assert_eq!(answer.code, expected, "{field}={value}");
        assert!(answer.remark.unwrap().len() > 15, "{field}={value}");
    }
    let answer = client.call(code::GET_TOPIC_CONFIG, &[("topic", "t")]).await;
    assert_eq!(answer.code, code::TOPIC_NOT_EXIST, "nothing was made");
}

#[tokio::test]
async fn a_list_of_topics_is_made_whole_or_not_begun() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let list = |second: &str| {
        format!(
            r#"{{"topicConfigList":[{{"topicName":"a","readQueueNums":3,"writeQueueNums":3,"perm":6,
            "attributes":{{"+message.type":"FIFO"}}}},{{"topicName":"{second}","perm":4}}]}}"#
        )
    };
    let bad = client.call_json(code::UPDATE_AND_CREATE_TOPIC_LIST, &list("TBW102")).await;
    assert_eq!(bad.code, code::INVALID_PARAMETER);
    assert_eq!(client.call(code::GET_TOPIC_CONFIG, &[("topic", "a")]).await.code, code::TOPIC_NOT_EXIST);
    let good = client.call_json(code::UPDATE_AND_CREATE_TOPIC_LIST, &list("b")).await;
    assert_eq!(good.code, code::SUCCESS, "{:?}", good.remark);
    assert_eq!(config(&mut client, "a").await["attributes"]["message.type"], "FIFO");
    let b = config(&mut client, "b").await;
    assert_eq!((&b["readQueueNums"], &b["perm"]), (&16.into(), &4.into()));
}

#[tokio::test]
async fn all_topics_are_shown_page_by_page_with_a_version_that_follows_them() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for topic in ["a", "b", "c"] {
        create_topic(&mut client, topic, 1, "").await;
    }
    let all = client.ok(code::GET_ALL_TOPIC_CONFIG, &[]).await;
    assert_eq!(all.field("totalTopicNum"), Some("3"));
    assert_eq!(json(&all)["topicConfigTable"].as_object().unwrap().len(), 3);
    let page = client.ok(code::GET_ALL_TOPIC_CONFIG, &[("topicSeq", "1"), ("maxTopicNum", "1")]).await;
    let keys: Vec<_> = json(&page)["topicConfigTable"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["b"]);
    assert_eq!(json(&page)["dataVersion"], json(&all)["dataVersion"]);
    create_topic(&mut client, "d", 1, "").await;
    let later = client.ok(code::GET_ALL_TOPIC_CONFIG, &[]).await;
    assert_ne!(json(&later)["dataVersion"], json(&all)["dataVersion"]);
}

#[tokio::test]
async fn a_deleted_topic_is_gone_from_everywhere_at_once() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    send_message(&mut client, "t", 0, "", "m").await;
    client.ok(code::DELETE_TOPIC_IN_BROKER, &[("topic", "t")]).await;
    client.ok(code::DELETE_TOPIC_IN_NAMESRV, &[("topic", "t")]).await;
    let mut names = Client::connect(broker.names).await;
    let route = names.call(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t")]).await;
    assert_eq!(route.code, code::TOPIC_NOT_EXIST);
    client.ok(code::DELETE_TOPIC_IN_BROKER, &[("topic", "t")]).await;
    let reserved = client.call(code::DELETE_TOPIC_IN_BROKER, &[("topic", "TBW102")]).await;
    assert_eq!(reserved.code, code::INVALID_PARAMETER);
    let stats = client.call(code::GET_TOPIC_STATS_INFO, &[("topic", "t")]).await;
    assert_eq!(stats.code, code::TOPIC_NOT_EXIST);
    create_topic(&mut client, "t", 1, "").await;
    let stats = odd_json(&client.ok(code::GET_TOPIC_STATS_INFO, &[("topic", "t")]).await);
    assert_eq!(row(&stats["offsetTable"], "t", 0)["maxOffset"], 0, "a new topic of the old name");
}

#[tokio::test]
async fn statistics_of_a_topic_have_a_row_for_each_queue() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 2).await;
    for body in ["1", "2"] {
        send_message(&mut client, "t", 1, "", body).await;
    }
    let stats = odd_json(&client.ok(code::GET_TOPIC_STATS_INFO, &[("topic", "t")]).await);
    let (empty, full) = (row(&stats["offsetTable"], "t", 0), row(&stats["offsetTable"], "t", 1));
    assert_eq!((&empty["maxOffset"], &empty["lastUpdateTimestamp"]), (&0.into(), &0.into()));
    assert_eq!((&full["minOffset"], &full["maxOffset"]), (&0.into(), &2.into()));
    assert!(full["lastUpdateTimestamp"].as_u64().unwrap() > 1_600_000_000_000);
    assert!(stats["topicPutTps"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn the_entries_of_a_queue_can_be_looked_at() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    for (tag, body) in [("a", "1"), ("b", "2"), ("a", "3")] {
        send_message(&mut client, "t", 0, tag, body).await;
    }
    let at = |index, count| [("topic", "t"), ("queueId", "0"), ("index", index), ("count", count)];
    let found = json(&client.ok(code::QUERY_CONSUME_QUEUE, &at("1", "5")).await);
    assert_eq!((&found["minQueueIndex"], &found["maxQueueIndex"]), (&0.into(), &3.into()));
    let codes: Vec<_> =
        found["queueData"].as_array().unwrap().iter().map(|entry| entry["tagsCode"].clone()).collect();
    assert_eq!(codes, [98, 97]);
    let none = json(&client.ok(code::QUERY_CONSUME_QUEUE, &at("3", "5")).await);
    assert_eq!(none["queueData"], serde_json::json!([]));
    let fields = [&at("0", "5")[..], &[("consumerGroup", "g")]].concat();
    let offline = json(&client.ok(code::QUERY_CONSUME_QUEUE, &fields).await);
    assert_eq!(offline["filterData"], "g@t is not online!");
    let bad = [("topic", "t"), ("queueId", "7"), ("index", "0")];
    assert_eq!(client.call(code::QUERY_CONSUME_QUEUE, &bad).await.code, code::INVALID_PARAMETER);
}

#[tokio::test]
async fn topics_of_the_brokers_own_names_are_there_for_tools() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    for topic in ["broker-a", "DefaultCluster", "RMQ_SYS_TRACE_TOPIC"] {
        let route = json(&client.ok(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)]).await);
        assert_eq!(route["queueDatas"][0]["perm"], 6, "{topic}");
        send_message(&mut client, topic, 0, "", "m").await;
    }
    let static_topic =
        Command { body: "{}".into(), ..request(code::UPDATE_AND_CREATE_STATIC_TOPIC, &put("s", "")) };
    let refused = client.call_with(static_topic).await;
    assert_eq!(refused.code, code::REQUEST_CODE_NOT_SUPPORTED);
    assert!(refused.remark.unwrap().contains("static topics"));
}
