//! How many pops wait for messages, and pops that ask for order.

use redstart_wire::remoting::{Command, code};

use crate::remoting_support::{Broker, Client, PATIENCE, messages, request, send_message};

fn pop(queue: &str) -> Command {
    let fields = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", queue),
        ("maxMsgNums", "1"),
        ("invisibleTime", "60000"),
        ("pollTime", "60000"),
        ("bornTime", "0"),
        ("initMode", "0"),
    ];
    request(code::POP_MESSAGE, &fields)
}

async fn waiting(client: &mut Client, queue: &str) -> String {
    let of = [("consumerGroup", "g"), ("topic", "t"), ("queueId", queue)];
    client.ok(code::POLLING_INFO, &of).await.field("pollingNum").unwrap().to_owned()
}

/// Asks until the answer is this.
async fn until(client: &mut Client, queue: &str, expected: &str) {
    let asked = async { while waiting(client, queue).await != expected {} };
    tokio::time::timeout(PATIENCE, asked).await.expect("the number that should wait");
}

#[tokio::test]
async fn pops_are_counted_by_the_queue_that_they_wait_for() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 2).await;
    let of = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "-1")];
    let unknown = client.call(code::POLLING_INFO, &of).await;
    assert_eq!(unknown.code, code::SUBSCRIPTION_GROUP_NOT_EXIST);
    client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, r#"{"groupName":"g"}"#).await;
    assert_eq!(waiting(&mut client, "-1").await, "0");
    let mut other = broker.client().await;
    let first = client.send(pop("-1")).await;
    client.send(pop("-1")).await;
    other.send(pop("1")).await;
    until(&mut client, "-1", "2").await;
    until(&mut client, "1", "1").await;
    assert_eq!(waiting(&mut client, "0").await, "0");

    send_message(&mut broker.client().await, "t", 0, "", "m").await;
    assert_eq!(client.answer(first).await.code, code::SUCCESS, "the one that has waited longest");
    until(&mut client, "-1", "1").await;
    drop(other);
    until(&mut client, "1", "0").await;
}

#[tokio::test]
async fn where_no_pop_could_wait_the_question_is_refused_as_the_pop_would_be() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    let ask = |topic, queue| {
        request(code::POLLING_INFO, &[("consumerGroup", "g"), ("topic", topic), ("queueId", queue)])
    };
    assert_eq!(client.call_with(ask("unknown", "0")).await.code, code::TOPIC_NOT_EXIST);
    assert_eq!(client.call_with(ask("t", "1")).await.code, code::INVALID_PARAMETER);
    let off = r#"{"groupName":"g","consumeEnable":false}"#;
    client.call_json(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, off).await;
    assert_eq!(client.call_with(ask("t", "0")).await.code, code::NO_PERMISSION);
    assert_eq!(client.call(code::POLLING_INFO, &[]).await.code, code::INVALID_PARAMETER);
}

/// The flag is the client's own word: the group's setting does not ask for order.
#[tokio::test]
async fn a_pop_that_asks_for_order_waits_for_what_was_popped_before() {
    let broker = Broker::start().await;
    let mut client = broker.with_topic("t", 1).await;
    for body in ["first", "second"] {
        send_message(&mut client, "t", 0, "", body).await;
    }
    let ordered = pop("0").with_field("pollTime", 0).with_field("order", true);
    let found = client.call_with(ordered.clone()).await;
    assert_eq!(messages(&found)[0].body, "first");
    let blocked = client.call_with(ordered.clone()).await;
    assert_eq!(blocked.code, code::POLLING_TIMEOUT, "the first is not done");
    let time = |name| found.field(name).unwrap();
    let handle = format!("0 {} {} 0 0 broker-a 0 0", time("popTime"), time("invisibleTime"));
    let done =
        [("consumerGroup", "g"), ("topic", "t"), ("queueId", "0"), ("offset", "0"), ("extraInfo", &handle)];
    client.ok(code::ACK_MESSAGE, &done).await;
    let found = client.call_with(ordered).await;
    assert_eq!(messages(&found)[0].body, "second");
}
