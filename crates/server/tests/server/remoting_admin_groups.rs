//! Operators and consumer groups: settings, progress, and moving them.

use redstart_wire::remoting::{Command, code};

use crate::remoting_support::{
    Broker, Client, consumer, create_topic, json, odd_json, request, row, send_message,
};

async fn group(client: &mut Client, name: &str) -> serde_json::Value {
    json(&client.ok(code::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", name)]).await)
}

async fn commit(client: &mut Client, group: &str, topic: &str, queue: &str, offset: &str) {
    let fields = [("consumerGroup", group), ("topic", topic), ("queueId", queue), ("commitOffset", offset)];
    client.ok(code::UPDATE_CONSUMER_OFFSET, &fields).await;
}

async fn committed(client: &mut Client, group: &str, topic: &str, queue: &str) -> String {
    let fields =
        [("consumerGroup", group), ("topic", topic), ("queueId", queue), ("setZeroIfNotFound", "false")];
    client.call(code::QUERY_CONSUMER_OFFSET, &fields).await.field("offset").unwrap_or("none").to_owned()
}

fn pull(group: &str, offset: &str, commit: Option<&str>) -> Command {
    let flags = if commit.is_some() { "5" } else { "4" };
    let fields = [
        ("consumerGroup", group),
        ("topic", "t"),
        ("queueId", "0"),
        ("queueOffset", offset),
        ("maxMsgNums", "32"),
        ("sysFlag", flags),
        ("commitOffset", commit.unwrap_or("0")),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    request(code::PULL_MESSAGE, &fields)
}

/// Topic `t` with one queue and some messages, and a group.
async fn filled(broker: &Broker, messages: usize) -> Client {
    let mut client = broker.with_topic("t", 1).await;
    for n in 0..messages {
        send_message(&mut client, "t", 0, "", &format!("m{n}")).await;
    }
    client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, r#"{"groupName":"g"}"#).await;
    client
}

#[tokio::test]
async fn a_group_is_shown_as_it_was_set() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let body = r#"{"groupName":"g","consumeEnable":false,"consumeMessageOrderly":true,"retryMaxTimes":5,"retryQueueNums":2,
        "consumeBroadcastEnable":false,"brokerId":3,"attributes":{"+a":"1"},
        "groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1000,"max":9000,"multiplier":3}}}"#;
    let put = client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).await;
    assert_eq!(put.code, code::SUCCESS, "{:?}", put.remark);
    let shown = group(&mut client, "g").await;
    let expected = [
        ("consumeEnable", false.into()),
        ("consumeMessageOrderly", true.into()),
        ("retryMaxTimes", 5.into()),
        ("retryQueueNums", 2.into()),
        ("consumeBroadcastEnable", false.into()),
        ("brokerId", 3.into()),
        ("notifyConsumerIdsChangedEnable", true.into()),
        ("attributes", serde_json::json!({"a": "1"})),
    ];
    for (key, value) in expected {
        assert_eq!(shown[key], value, "{key}");
    }
    assert_eq!(shown["groupRetryPolicy"]["exponentialRetryPolicy"]["multiplier"], 3);
    client
        .call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, r#"{"groupName":"g","retryMaxTimes":7}"#)
        .await;
    let shown = group(&mut client, "g").await;
    assert_eq!((&shown["retryMaxTimes"], &shown["retryQueueNums"]), (&7.into(), &1.into()));
    let broker = broker.restart().await;
    assert_eq!(group(&mut broker.client().await, "g").await["retryMaxTimes"], 7);
}

#[tokio::test]
async fn groups_come_in_lists_and_pages_and_go() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let list =
        |second: &str| format!(r#"{{"groupConfigList":[{{"groupName":"a"}},{{"groupName":"{second}"}}]}}"#);
    let bad = client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, &list("no/name")).await;
    assert_eq!(bad.code, code::INVALID_PARAMETER);
    let good = client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, &list("b")).await;
    assert_eq!(good.code, code::SUCCESS);
    let all = client.ok(code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &[]).await;
    assert_eq!(all.field("totalGroupNum"), Some("2"));
    let page = [("groupSeq", "1"), ("maxGroupNum", "5")];
    let page = json(&client.ok(code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &page).await);
    assert_eq!(page["subscriptionGroupTable"]["b"]["retryMaxTimes"], 16);
    assert!(page["subscriptionGroupTable"]["a"].is_null());
    for _ in 0..2 {
        client.ok(code::DELETE_SUBSCRIPTIONGROUP, &[("groupName", "a")]).await;
    }
    let all = client.ok(code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &[]).await;
    assert_eq!(all.field("totalGroupNum"), Some("1"));
    let broken = client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, r#"{"groupName":["a"]}"#).await;
    assert_eq!(broken.code, code::INVALID_PARAMETER);
    let many = r#"{"groupName":"c","retryMaxTimes":100000}"#;
    let many = client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, many).await;
    assert_eq!(many.code, code::INVALID_PARAMETER);
}

#[tokio::test]
async fn a_topic_can_be_taken_from_a_group() {
    let broker = Broker::start().await;
    let mut client = filled(&broker, 1).await;
    let named = [("group", "g"), ("topic", "t")];
    let with = |readable| [&named[..], &[("readable", readable)]].concat();
    assert_eq!(json(&client.ok(code::UPDATE_AND_GET_GROUP_FORBIDDEN, &named).await)["readable"], true);
    client.ok(code::UPDATE_AND_GET_GROUP_FORBIDDEN, &with("false")).await;
    let refused = client.call_with(pull("g", "0", None)).await;
    assert_eq!((refused.code, refused.field("forbiddenType")), (code::NO_PERMISSION, Some("5")));
    let all = json(&client.ok(code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &[]).await);
    assert_eq!(all["forbiddenTable"]["g"]["t"], 4);
    assert_eq!(group(&mut client, "g").await["attributes"], serde_json::json!({}));
    client.ok(code::UPDATE_AND_GET_GROUP_FORBIDDEN, &with("true")).await;
    assert_eq!(client.call_with(pull("g", "0", None)).await.code, code::SUCCESS);
    let unknown = [("group", "x"), ("topic", "t")];
    let unknown = client.call(code::UPDATE_AND_GET_GROUP_FORBIDDEN, &unknown).await;
    assert_eq!(unknown.code, code::SUBSCRIPTION_GROUP_NOT_EXIST);
}

#[tokio::test]
async fn progress_has_the_lag_of_each_queue() {
    let broker = Broker::start().await;
    let mut client = filled(&broker, 5).await;
    commit(&mut client, "g", "t", "0", "3").await;
    let stats = odd_json(&client.ok(code::GET_CONSUME_STATS, &[("consumerGroup", "g")]).await);
    let found = row(&stats["offsetTable"], "t", 0);
    assert_eq!((&found["brokerOffset"], &found["consumerOffset"]), (&5.into(), &3.into()));
    assert!(
        found["lastTimestamp"].as_u64().unwrap() > 1_600_000_000_000,
        "of the last message that was read"
    );
    let fields = [("consumerGroup", "g"), ("topicList", "u;v;")];
    let other = odd_json(&client.ok(code::GET_CONSUME_STATS, &fields).await);
    assert_eq!(other["offsetTable"], serde_json::json!({}), "topics that do not exist");
    let unknown = client.call(code::GET_CONSUME_STATS, &[("consumerGroup", "x"), ("topic", "t")]).await;
    assert_eq!(unknown.code, code::SUBSCRIPTION_GROUP_NOT_EXIST);
    let all = odd_json(&client.ok(code::GET_BROKER_CONSUME_STATS, &[("isOrder", "false")]).await);
    assert_eq!((&all["totalDiff"], &all["brokerAddr"]), (&2.into(), &broker.address.to_string().into()));
    let of_group = &all["consumeStatsList"][0]["g"][0];
    assert_eq!(row(&of_group["offsetTable"], "t", 0)["consumerOffset"], 3);
    let ordered = odd_json(&client.ok(code::GET_BROKER_CONSUME_STATS, &[("isOrder", "true")]).await);
    assert_eq!(ordered["consumeStatsList"], serde_json::json!([]));
    let spans = json(&client.ok(code::QUERY_CONSUME_TIME_SPAN, &[("topic", "t"), ("group", "g")]).await);
    let span = &spans["consumeTimeSpanSet"][0];
    assert!(span["minTimeStamp"].as_u64() <= span["consumeTimeStamp"].as_u64());
    assert!(span["consumeTimeStamp"].as_u64() <= span["maxTimeStamp"].as_u64());
    let offsets = json(&client.ok(code::GET_ALL_CONSUMER_OFFSET, &[]).await);
    assert_eq!(offsets["offsetTable"], serde_json::json!({"t@g": {"0": 3}}));
}

#[tokio::test]
async fn a_reset_moves_a_group_and_its_consumers_follow() {
    let broker = Broker::start().await;
    let mut client = filled(&broker, 5).await;
    client.call_json(code::HEART_BEAT, &consumer("c", "g", "t", "*")).await;
    commit(&mut client, "g", "t", "0", "5").await;
    let fields = [("group", "g"), ("topic", "t"), ("timestamp", "0"), ("isForce", "true")];
    let mut operator = broker.client().await;
    let moved = odd_json(&operator.ok(code::INVOKE_BROKER_TO_RESET_OFFSET, &fields).await);
    assert_eq!(*row(&moved["offsetTable"], "t", 0), 0);
    let told = client.asked(code::RESET_CONSUMER_CLIENT_OFFSET).await;
    assert_eq!((told.field("topic"), told.field("group")), (Some("t"), Some("g")));
    assert_eq!(*row(&odd_json(&told)["offsetTable"], "t", 0), 0);
    // Until it has followed, the consumer's old offset counts for nothing.
    commit(&mut client, "g", "t", "0", "4").await;
    assert_eq!(committed(&mut client, "g", "t", "0").await, "0");
    let answer = client.call_with(pull("g", "5", Some("5"))).await;
    assert_eq!((answer.code, answer.field("nextBeginOffset")), (code::PULL_OFFSET_MOVED, Some("0")));
    assert_eq!(committed(&mut client, "g", "t", "0").await, "0");
    assert_eq!(client.call_with(pull("g", "0", None)).await.code, code::SUCCESS);
    commit(&mut client, "g", "t", "0", "2").await;
    assert_eq!(committed(&mut client, "g", "t", "0").await, "2", "it has followed");
}

#[tokio::test]
async fn a_reset_goes_to_an_offset_a_time_or_the_end() {
    let broker = Broker::start().await;
    let mut client = filled(&broker, 5).await;
    let base = [("group", "g"), ("topic", "t"), ("isForce", "true")];
    let with = |more: &[(&'static str, &'static str)]| [&base[..], more].concat();
    client.ok(code::INVOKE_BROKER_TO_RESET_OFFSET, &with(&[("timestamp", "-1")])).await;
    assert_eq!(committed(&mut client, "g", "t", "0").await, "5");
    let to_three = with(&[("timestamp", "-1"), ("queueId", "0"), ("offset", "3")]);
    client.ok(code::INVOKE_BROKER_TO_RESET_OFFSET, &to_three).await;
    assert_eq!(committed(&mut client, "g", "t", "0").await, "3");
    commit(&mut client, "g", "t", "0", "4").await;
    assert_eq!(committed(&mut client, "g", "t", "0").await, "4", "nobody was online to follow");
    for (field, value, expected) in [
        ("offset", "9", code::SYSTEM_ERROR),
        ("queueId", "4", code::INVALID_PARAMETER),
        ("topic", "unknown", code::TOPIC_NOT_EXIST),
        ("group", "unknown", code::SUBSCRIPTION_GROUP_NOT_EXIST),
        ("timestamp", "soon", code::INVALID_PARAMETER),
    ] {
        let fields: Vec<_> =
            to_three.iter().copied().filter(|(name, _)| *name != field).chain([(field, value)]).collect();
        let answer = client.call(code::INVOKE_BROKER_TO_RESET_OFFSET, &fields).await;
        assert_eq!(answer.code, expected, "{field}={value}: {:?}", answer.remark);
    }
    assert_eq!(committed(&mut client, "g", "t", "0").await, "4");
    let cpp = Command {
        language: redstart_wire::remoting::Language::CPP,
        ..request(code::INVOKE_BROKER_TO_RESET_OFFSET, &to_three)
    };
    let rows = json(&client.call_with(cpp).await);
    assert_eq!(
        (&rows["offsetTable"][0]["offset"], &rows["offsetTable"][0]["queueId"]),
        (&3.into(), &0.into())
    );
}

#[tokio::test]
async fn offsets_are_cloned_and_compared() {
    let broker = Broker::start().await;
    let mut client = filled(&broker, 5).await;
    create_topic(&mut client, "u", 1, "").await;
    commit(&mut client, "g", "t", "0", "3").await;
    client.ok(code::CLONE_GROUP_OFFSET, &[("srcGroup", "g"), ("destGroup", "h"), ("topic", "t")]).await;
    assert_eq!(committed(&mut client, "h", "t", "0").await, "3");
    commit(&mut client, "h", "t", "0", "4").await;
    let fields = |compare| [("topic", "t"), ("compareGroup", compare), ("filterGroups", "")];
    let ahead = json(&client.ok(code::QUERY_CORRECTION_OFFSET, &fields("h")).await);
    assert_eq!(ahead["correctionOffsets"]["0"], 3);
    let without = [("topic", "t"), ("compareGroup", "g"), ("filterGroups", "g")];
    let behind = json(&client.ok(code::QUERY_CORRECTION_OFFSET, &without).await);
    assert_eq!(behind["correctionOffsets"]["0"], i64::MAX, "the others are ahead of it");
    let unknown = [("srcGroup", "none"), ("destGroup", "h"), ("topic", "t")];
    let unknown = client.call(code::CLONE_GROUP_OFFSET, &unknown).await;
    assert_eq!(unknown.code, code::SUBSCRIPTION_GROUP_NOT_EXIST);
}
