//! Operators and the broker itself: settings, what it is doing, the name service, and what it does not have.

use std::collections::BTreeMap;

use redstart_wire::remoting::{Command, code};

use crate::remoting_support::{BROKER, Broker, Client, consumer, json, request, send_message};

async fn config(client: &mut Client, code: i32) -> BTreeMap<String, String> {
    let answer = client.ok(code, &[]).await;
    let text = std::str::from_utf8(&answer.body).unwrap();
    text.lines()
        .map(|line| line.split_once('=').unwrap())
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

#[tokio::test]
async fn settings_have_rocketmqs_names_and_some_can_be_changed_for_good() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let shown = config(&mut client, code::GET_BROKER_CONFIG).await;
    let expected = [
        ("brokerName", BROKER),
        ("brokerClusterName", "DefaultCluster"),
        ("flushDiskType", "SYNC_FLUSH"),
        ("fileReservedTime", "72"),
        ("autoCreateTopicEnable", "false"),
        ("messageDelayLevel", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"),
    ];
    for (key, value) in expected {
        assert_eq!(shown.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(shown["listenPort"], broker.address.port().to_string());
    let pattern = [("topic", "TBW102")];
    assert_eq!(client.call(code::GET_ROUTEINFO_BY_TOPIC, &pattern).await.code, code::TOPIC_NOT_EXIST);
    let text = "autoCreateTopicEnable=true\nfileReservedTime = 5\ntransactionCheckMax=3";
    let put = client.call_json(code::UPDATE_BROKER_CONFIG, text).await;
    assert_eq!(put.code, code::SUCCESS, "{:?}", put.remark);
    client.ok(code::GET_ROUTEINFO_BY_TOPIC, &pattern).await;
    send_message(&mut client, "made-by-a-send", 0, "", "m").await;
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    let shown = config(&mut client, code::GET_BROKER_CONFIG).await;
    assert_eq!((&*shown["fileReservedTime"], &*shown["transactionCheckMax"]), ("5", "3"));
    client.ok(code::GET_ROUTEINFO_BY_TOPIC, &pattern).await;
}

#[tokio::test]
async fn what_cannot_be_changed_stays_and_is_named() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let before = client.ok(code::GET_BROKER_CONFIG, &[]).await;
    for (text, expected) in [
        ("brokerName=other", code::INVALID_PARAMETER),
        ("storePathRootDir=/tmp/x", code::INVALID_PARAMETER),
        ("rocketmqHome=/tmp/x", code::NO_PERMISSION),
        ("brokerConfigPath=/tmp/x", code::NO_PERMISSION),
        ("fileReservedTime=9\nno-such-setting=1", code::INVALID_PARAMETER),
        ("fileReservedTime=0", code::INVALID_PARAMETER),
        ("", code::INVALID_PARAMETER),
    ] {
        let answer = client.call_json(code::UPDATE_BROKER_CONFIG, text).await;
        assert_eq!(answer.code, expected, "{text}");
        assert!(answer.remark.unwrap().len() > 15, "{text}");
    }
    let after = client.ok(code::GET_BROKER_CONFIG, &[]).await;
    assert_eq!((after.body, after.fields), (before.body, before.fields));
}

#[tokio::test]
async fn the_broker_says_what_it_is_doing() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    for body in ["1", "22"] {
        send_message(&mut client, "t", 0, "", body).await;
    }
    client.call_json(code::HEART_BEAT, &consumer("c", "g", "t", "*")).await;
    let pull = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "32"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subVersion", "0"),
        ("subscription", "*"),
    ];
    client.ok(code::PULL_MESSAGE, &pull).await;
    let info = json(&client.ok(code::GET_BROKER_RUNTIME_INFO, &[]).await)["table"].clone();
    assert_eq!((&info["msgPutTotalTodayNow"], &info["msgGetTotalTodayNow"]), (&"2".into(), &"2".into()));
    assert_eq!((&info["brokerActive"], &info["putMessageSizeTotal"]), (&"true".into(), &"3".into()));
    for key in ["putTps", "getTransferredTps", "getFoundTps", "getMissTps", "getTotalTps"] {
        let numbers: Vec<f64> = info[key].as_str().unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
        assert_eq!(numbers.len(), 3, "{key}");
    }
    for key in ["earliestMessageTimeStamp", "commitLogMaxOffset", "bootTimestamp", "sendThreadPoolQueueSize"]
    {
        info[key].as_str().unwrap().parse::<u64>().unwrap();
    }
    assert!(info["commitLogDiskRatio"].as_str().unwrap().parse::<f64>().unwrap() >= 0.0);
    assert!(info["runtime"].as_str().unwrap().starts_with("[ 0 days"));

    let of = |name, key| [("statsName", name), ("statsKey", key)];
    let put = json(&client.ok(code::VIEW_BROKER_STATS_DATA, &of("TOPIC_PUT_NUMS", "t")).await);
    for span in ["statsMinute", "statsHour", "statsDay"] {
        assert_eq!(put[span]["sum"], 2, "{span}");
    }
    let bytes = json(&client.ok(code::VIEW_BROKER_STATS_DATA, &of("TOPIC_PUT_SIZE", "t")).await);
    assert_eq!(bytes["statsDay"]["sum"], 3);
    let got = json(&client.ok(code::VIEW_BROKER_STATS_DATA, &of("GROUP_GET_NUMS", "t@g")).await);
    assert_eq!(got["statsMinute"]["sum"], 2);
    let all = json(&client.ok(code::VIEW_BROKER_STATS_DATA, &of("BROKER_PUT_NUMS", "DefaultCluster")).await);
    assert_eq!(all["statsDay"]["sum"], 2);
    for (name, key) in
        [("TOPIC_PUT_NUMS", "u"), ("GROUP_GET_NUMS", "t"), ("ODD", "t"), ("BROKER_PUT_NUMS", "x")]
    {
        let answer = client.call(code::VIEW_BROKER_STATS_DATA, &of(name, key)).await;
        assert_eq!(answer.code, code::SYSTEM_ERROR, "{name} {key}");
    }
    let ha = json(&client.ok(code::GET_BROKER_HA_STATUS, &[]).await);
    assert_eq!((&ha["master"], &ha["inSyncSlaveNums"]), (&true.into(), &0.into()));
    for harmless in
        [code::CLEAN_EXPIRED_CONSUMEQUEUE, code::CLEAN_UNUSED_TOPIC, code::DELETE_EXPIRED_COMMITLOG]
    {
        client.ok(harmless, &[]).await;
    }
    client.ok(code::GET_TOPIC_CONFIG, &[("topic", "t")]).await;
}

#[tokio::test]
async fn a_broker_is_drained_by_taking_its_permission_to_write() {
    let broker = Broker::start().await;
    broker.with_topic("t", 1).await;
    let mut names = Client::connect(broker.names).await;
    let permission = async |names: &mut Client| {
        json(&names.ok(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t")]).await)["queueDatas"][0]["perm"]
            .clone()
    };
    let own = [("brokerName", BROKER)];
    let wiped = names.ok(code::WIPE_WRITE_PERM_OF_BROKER, &own).await;
    assert_eq!(wiped.field("wipeTopicCount"), Some("1"));
    assert_eq!(permission(&mut names).await, 4);
    let added = names.ok(code::ADD_WRITE_PERM_OF_BROKER, &own).await;
    assert_eq!(added.field("addTopicCount"), Some("1"));
    assert_eq!(permission(&mut names).await, 6);
    let unknown = names.ok(code::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "other")]).await;
    assert_eq!(unknown.field("wipeTopicCount"), Some("0"));
    assert_eq!(names.call(code::WIPE_WRITE_PERM_OF_BROKER, &[]).await.code, code::INVALID_PARAMETER);
}

#[tokio::test]
async fn a_topic_of_another_broker_can_be_added_wiped_and_forgotten() {
    let broker = Broker::start_with(|config, _| config.foreign_brokers = true).await;
    let mut names = Client::connect(broker.names).await;
    let other = [
        ("brokerName", "broker-z"),
        ("brokerAddr", "10.0.0.9:10911"),
        ("clusterName", "DefaultCluster"),
        ("brokerId", "0"),
    ];
    names.ok(code::REGISTER_BROKER, &other).await;
    let body = r#"{"queueDatas":[{"brokerName":"broker-z","readQueueNums":2,"writeQueueNums":2,"perm":6},
        {"brokerName":"unknown","readQueueNums":2,"writeQueueNums":2,"perm":6}]}"#;
    let topic = [("topic", "u")];
    let register = Command { body: body.into(), ..request(code::REGISTER_TOPIC_IN_NAMESRV, &topic) };
    assert_eq!(names.call_with(register).await.code, code::SUCCESS);
    let wiped = names.ok(code::WIPE_WRITE_PERM_OF_BROKER, &other[..1]).await;
    assert_eq!(wiped.field("wipeTopicCount"), Some("1"));
    let route = json(&names.ok(code::GET_ROUTEINFO_BY_TOPIC, &topic).await);
    assert_eq!(route["queueDatas"].as_array().unwrap().len(), 1);
    assert_eq!(route["queueDatas"][0]["perm"], 4);
    let members = [("clusterName", "DefaultCluster"), ("brokerName", "broker-z")];
    let members = json(&names.ok(code::GET_BROKER_MEMBER_GROUP, &members).await);
    assert_eq!(members["brokerMemberGroup"]["brokerAddrs"]["0"], "10.0.0.9:10911");
    names.ok(code::DELETE_TOPIC_IN_NAMESRV, &topic).await;
    assert_eq!(names.call(code::GET_ROUTEINFO_BY_TOPIC, &topic).await.code, code::TOPIC_NOT_EXIST);
    let nobody = [("clusterName", "x"), ("brokerName", "broker-z")];
    assert_eq!(names.call(code::GET_BROKER_MEMBER_GROUP, &nobody).await.code, code::SYSTEM_ERROR);
}

#[tokio::test]
async fn the_name_service_has_settings_of_its_own() {
    let broker = Broker::start().await;
    broker.with_topic("t", 1).await;
    let mut names = Client::connect(broker.names).await;
    let shown = config(&mut names, code::GET_NAMESRV_CONFIG).await;
    assert_eq!(shown["listenPort"], broker.names.port().to_string());
    let value = [("namespace", "ORDER_TOPIC_CONFIG"), ("key", "t"), ("value", "broker-a:1")];
    names.ok(code::PUT_KV_CONFIG, &value).await;
    let route = async |names: &mut Client| {
        json(&names.ok(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t")]).await)["orderTopicConf"].clone()
    };
    assert!(route(&mut names).await.is_null());
    let put = names.call_json(code::UPDATE_NAMESRV_CONFIG, "orderMessageEnable=true").await;
    assert_eq!(put.code, code::SUCCESS, "{:?}", put.remark);
    assert_eq!(route(&mut names).await, "broker-a:1");
    assert_eq!(config(&mut names, code::GET_NAMESRV_CONFIG).await["orderMessageEnable"], "true");
    for (text, expected) in [
        ("kvConfigPath=/tmp/x", code::NO_PERMISSION),
        ("listenPort=1", code::INVALID_PARAMETER),
        ("autoCreateTopicEnable=true", code::INVALID_PARAMETER),
    ] {
        assert_eq!(names.call_json(code::UPDATE_NAMESRV_CONFIG, text).await.code, expected, "{text}");
    }
    for units in [
        code::GET_UNIT_TOPIC_LIST,
        code::GET_HAS_UNIT_SUB_TOPIC_LIST,
        code::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ] {
        assert_eq!(json(&names.ok(units, &[]).await)["topicList"], serde_json::json!([]));
    }
}

#[tokio::test]
async fn what_is_not_there_is_refused_with_a_sentence() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let controller = code::CONTROLLER_FIRST..=code::CONTROLLER_LAST;
    let others = [
        code::ADD_BROKER,
        code::REMOVE_BROKER,
        code::EXCHANGE_BROKER_HA_INFO,
        code::RESET_MASTER_FLUSH_OFFSET,
        code::UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        code::REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        code::GET_COLD_DATA_FLOW_CTR_INFO,
        code::SET_COMMITLOG_READ_MODE,
        code::CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
        code::EXPORT_ROCKSDB_CONFIG_TO_JSON,
        code::GET_TIMER_CHECK_POINT,
        code::GET_TIMER_METRICS,
        code::POP_ROLLBACK,
        code::RESUME_CHECK_HALF_MESSAGE,
    ];
    for code in controller.chain(others) {
        let answer = client.call(code, &[("configPath", "/etc/passwd")]).await;
        assert_eq!(answer.code, code::REQUEST_CODE_NOT_SUPPORTED, "{code}");
        assert!(answer.remark.unwrap().split(' ').count() > 5, "{code}");
    }
    let unknown = client.call(987_654, &[]).await;
    assert_eq!(unknown.remark.as_deref(), Some(" request type 987654 not supported"));
}
