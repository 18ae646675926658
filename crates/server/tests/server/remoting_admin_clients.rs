//! Operators and clients of both protocols: who is connected, and what is asked of them through the broker.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use redstart_server::remoting::{
    DeliveryMode, NoReply, OtherClient, OtherMessage, OtherProtocolClients, OtherSubscription, ReplyFuture,
    Role,
};
use redstart_wire::remoting::{Command, code};

use crate::remoting_support::{
    self, Broker, Client, consumer, json, messages, odd_json, producer, row, send_message,
};

/// Two clients of the other protocol: a consumer that answers, and a producer.
#[derive(Debug, Default)]
struct Others {
    tried: Mutex<Vec<String>>,
}

fn other(id: &str, role: Role) -> OtherClient {
    OtherClient {
        id: id.to_owned(),
        role,
        language: "RUST".to_owned(),
        version: "5.0.1".to_owned(),
        remote: Some("10.1.2.3:4".parse().unwrap()),
        silent_for: Duration::from_secs(1),
    }
}

impl OtherProtocolClients for Others {
    fn clients(&self) -> Vec<OtherClient> {
        let subscription =
            OtherSubscription { topic: "t".to_owned(), expression: "a || b".to_owned(), sql: false };
        let consumer = |group: &str| Role::Consumer {
            group: group.to_owned(),
            delivery: DeliveryMode::Push,
            subscriptions: vec![subscription.clone()],
        };
        let producer = Role::Producer { topics: vec!["t".to_owned()] };
        vec![other("five", consumer("g5")), other("deaf", consumer("g5")), other("writer", producer)]
    }

    fn thread_dump<'a>(&'a self, client: &'a str) -> ReplyFuture<'a, String> {
        Box::pin(async move {
            if client == "deaf" { Err(NoReply::Timeout) } else { Ok(format!("threads of {client}")) }
        })
    }

    fn try_message<'a>(
        &'a self,
        client: &'a str,
        message: OtherMessage,
    ) -> ReplyFuture<'a, Result<(), String>> {
        Box::pin(async move {
            self.tried.lock().unwrap().push(format!("{client} {}", message.topic));
            Ok(if client == "five" { Ok(()) } else { Err("no".to_owned()) })
        })
    }
}

async fn join(client: &mut Client, id: &str, group: &str) {
    client.call_json(code::HEART_BEAT, &consumer(id, group, "t", "a")).await;
}

/// Calls without waiting for the answer, which depends on what `client` says to the broker's question.
async fn relayed(
    operator: &mut Client,
    request: Command,
    client: &mut Client,
    answer: impl FnOnce(&Command) -> Command,
) -> Command {
    let code = request.code;
    let opaque = operator.send(request).await;
    let question = client.asked(code).await;
    client.write(&answer(&question)).await;
    operator.answer(opaque).await
}

fn ask(code: i32, group: &str, client: &str) -> Command {
    remoting_support::request(code, &[("consumerGroup", group), ("clientId", client)])
}

#[tokio::test]
async fn consumers_of_a_group_are_listed_with_what_they_want() {
    let broker = Broker::start_beside(Arc::new(Others::default())).await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "four", "g4").await;
    let shown = json(&client.ok(code::GET_CONSUMER_CONNECTION_LIST, &[("consumerGroup", "g4")]).await);
    let connection = &shown["connectionSet"][0];
    assert_eq!((&connection["clientId"], &connection["language"]), (&"four".into(), &"RUST".into()));
    assert_eq!(connection["clientAddr"], client.stream.local_addr().unwrap().to_string());
    assert_eq!(shown["subscriptionTable"]["t"]["subString"], "a");
    assert_eq!(
        (&shown["consumeType"], &shown["messageModel"]),
        (&"CONSUME_PASSIVELY".into(), &"CLUSTERING".into())
    );
    let other = json(&client.ok(code::GET_CONSUMER_CONNECTION_LIST, &[("consumerGroup", "g5")]).await);
    assert_eq!(other["connectionSet"].as_array().unwrap().len(), 2);
    assert_eq!(other["connectionSet"][0]["clientAddr"], "10.1.2.3:4");
    assert_eq!(other["connectionSet"][0]["version"], 415);
    assert_eq!(other["subscriptionTable"]["t"]["tagsSet"], serde_json::json!(["a", "b"]));
    assert_eq!(other["consumeType"], "CONSUME_PASSIVELY");
    let nobody = client.call(code::GET_CONSUMER_CONNECTION_LIST, &[("consumerGroup", "g")]).await;
    assert_eq!(nobody.code, code::CONSUMER_NOT_ONLINE);
}

#[tokio::test]
async fn producers_are_listed_by_group_and_those_without_one_by_topic() {
    let broker = Broker::start_beside(Arc::new(Others::default())).await;
    let mut client = broker.client().await;
    client.call_json(code::HEART_BEAT, &producer("p4", "pg")).await;
    let shown = json(&client.ok(code::GET_PRODUCER_CONNECTION_LIST, &[("producerGroup", "pg")]).await);
    assert_eq!(shown["connectionSet"][0]["clientId"], "p4");
    let other = json(&client.ok(code::GET_PRODUCER_CONNECTION_LIST, &[("producerGroup", "t")]).await);
    assert_eq!(other["connectionSet"][0]["clientId"], "writer");
    let nobody = client.call(code::GET_PRODUCER_CONNECTION_LIST, &[("producerGroup", "x")]).await;
    assert_eq!(nobody.code, code::SYSTEM_ERROR);
    let all = json(&client.ok(code::GET_ALL_PRODUCER_INFO, &[]).await);
    assert_eq!(all["data"]["pg"][0]["clientId"], "p4");
    assert!(all["data"]["pg"][0]["lastUpdateTimestamp"].as_u64().unwrap() > 1_600_000_000_000);
    assert_eq!(all["data"]["t"][0]["remoteIP"], "10.1.2.3:4");
}

#[tokio::test]
async fn topics_and_groups_find_each_other() {
    let broker = Broker::start_beside(Arc::new(Others::default())).await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "four", "g4").await;
    send_message(&mut client, "t", 0, "", "m").await;
    let commit = [("consumerGroup", "g1"), ("topic", "t"), ("queueId", "0"), ("commitOffset", "1")];
    client.ok(code::UPDATE_CONSUMER_OFFSET, &commit).await;
    let groups = json(&client.ok(code::QUERY_TOPIC_CONSUME_BY_WHO, &[("topic", "t")]).await);
    assert_eq!(groups["groupList"], serde_json::json!(["g1", "g4", "g5"]));
    for group in ["g1", "g4", "g5"] {
        let topics = json(&client.ok(code::QUERY_TOPICS_BY_CONSUMER, &[("group", group)]).await);
        assert!(topics["topicList"].as_array().unwrap().contains(&"t".into()), "{group}: {topics}");
    }
    let wanted = [("group", "g5"), ("topic", "t")];
    let wanted = json(&client.ok(code::QUERY_SUBSCRIPTION_BY_CONSUMER, &wanted).await);
    assert_eq!(wanted["subscriptionData"]["codeSet"], serde_json::json!([97, 98]));
    let none = [("group", "g5"), ("topic", "u")];
    let none = json(&client.ok(code::QUERY_SUBSCRIPTION_BY_CONSUMER, &none).await);
    assert!(none["subscriptionData"].is_null());
}

#[tokio::test]
async fn what_an_operator_asks_of_a_client_is_passed_on_as_it_is() {
    let broker = Broker::start_beside(Arc::new(Others::default())).await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "four", "g4").await;
    let id = send_message(&mut client, "t", 0, "a", "the message").await;
    let mut operator = broker.client().await;

    let request = ask(code::GET_CONSUMER_RUNNING_INFO, "g4", "four").with_field("jstackEnable", true);
    let info = relayed(&mut operator, request, &mut client, |question| {
        assert_eq!(question.field("jstackEnable"), Some("true"));
        Command { body: "{odd:1}".into(), ..question.answer(code::SUCCESS, None) }
    });
    assert_eq!(info.await.body, "{odd:1}", "byte for byte");

    let request = ask(code::CONSUME_MESSAGE_DIRECTLY, "g4", "four").with_field("msgId", &id);
    let result = relayed(&mut operator, request, &mut client, |question| {
        assert_eq!(question.field("brokerName"), Some(remoting_support::BROKER));
        assert_eq!(messages(question)[0].body, "the message");
        question.answer(code::SYSTEM_ERROR, Some("would not".to_owned()))
    });
    let result = result.await;
    assert_eq!((result.code, result.remark.as_deref()), (code::SYSTEM_ERROR, Some("would not")));

    for (request, names) in [
        (ask(code::GET_CONSUMER_RUNNING_INFO, "g4", "gone"), "not online"),
        (ask(code::GET_CONSUMER_RUNNING_INFO, "g9", "four"), "not online"),
        (
            ask(code::CONSUME_MESSAGE_DIRECTLY, "g4", "four").with_field("msgId", "00".repeat(16)),
            "no message",
        ),
        (ask(code::CONSUME_MESSAGE_DIRECTLY, "g4", "four").with_field("msgId", "../x"), "no message"),
    ] {
        let refused = operator.call_with(request).await;
        assert_eq!(refused.code, code::SYSTEM_ERROR);
        assert!(refused.remark.as_ref().unwrap().contains(names), "{:?}", refused.remark);
    }
}

#[tokio::test]
async fn clients_of_the_other_protocol_are_asked_in_its_way() {
    let others = Arc::new(Others::default());
    let broker = Broker::start_beside(others.clone()).await;
    let mut client = broker.with_topic("t", 1).await;
    let id = send_message(&mut client, "t", 0, "a", "m").await;
    let info = ask(code::GET_CONSUMER_RUNNING_INFO, "g5", "five");
    let without = json(&client.call_with(info.clone()).await);
    assert!(without["jstack"].is_null());
    assert_eq!(without["subscriptionSet"][0]["topic"], "t");
    let with = json(&client.call_with(info.with_field("jstackEnable", true)).await);
    assert_eq!(with["jstack"], "threads of five");
    let deaf = ask(code::GET_CONSUMER_RUNNING_INFO, "g5", "deaf").with_field("jstackEnable", true);
    assert_eq!(client.call_with(deaf).await.code, code::CONSUME_MSG_TIMEOUT);
    for (to, expected) in [("five", "CR_SUCCESS"), ("deaf", "CR_LATER")] {
        let request = ask(code::CONSUME_MESSAGE_DIRECTLY, "g5", to).with_field("msgId", &id);
        let result = json(&client.call_with(request).await);
        assert_eq!(result["consumeResult"], expected);
    }
    let by_own_id = ask(code::CONSUME_MESSAGE_DIRECTLY, "g5", "five");
    let by_own_id = by_own_id.with_field("msgId", "m").with_field("topic", "t");
    assert_eq!(client.call_with(by_own_id).await.code, code::SUCCESS);
    assert_eq!(*others.tried.lock().unwrap(), ["five t", "deaf t", "five t"]);
}

#[tokio::test]
async fn consumers_say_where_they_stand() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    join(&mut client, "four", "g").await;
    let mut operator = broker.client().await;
    let fields = [("topic", "t"), ("group", "g")];
    let opaque =
        operator.send(remoting_support::request(code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &fields)).await;
    let question = client.asked(code::GET_CONSUMER_STATUS_FROM_CLIENT).await;
    let body = r#"{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:7}}"#;
    client.write(&Command { body: body.into(), ..question.answer(code::SUCCESS, None) }).await;
    let answer = odd_json(&operator.answer(opaque).await);
    assert_eq!(*row(&answer["consumerTable"]["four"], "t", 0), 7);
    let nobody = [("topic", "t"), ("group", "x")];
    let nobody = operator.call(code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &nobody).await;
    assert_eq!(nobody.code, code::CONSUMER_NOT_ONLINE);
}
