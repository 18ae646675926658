//! Producers of the client library against the broker.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use redstart_client::{
    BuildError, Client, Filter, InvalidMessage, Message, Protocol, RouteError, Selector, SendError,
    SendStatus,
};

use crate::broker::{BOTH, Broker, PATIENCE, until};

#[tokio::test]
async fn a_message_arrives_with_all_it_had() {
    let broker = Broker::start().await;
    broker.topic("t", 2, "NORMAL").await;
    for protocol in BOTH {
        let client = broker.client(protocol).await;
        let producer = client.producer().group("orders-producer").build().await.unwrap();
        let all_bytes: Vec<u8> = (0..=255).collect();
        let message =
            Message::new("t", all_bytes.clone()).tag("a").key("k1").key("k2").property("region", "eu é");
        let sent = producer.send(message).await.unwrap();
        assert_eq!((sent.status, sent.queue.topic.as_str()), (SendStatus::Stored, "t"));
        assert!(sent.offset.is_some() && sent.recall.is_none());
        let receiver = client
            .receiver(format!("g-{protocol:?}"))
            .subscribe("t", Filter::all())
            .from_start()
            .build()
            .await
            .unwrap();
        // The other protocol's message is there as well.
        let delivery = loop {
            let delivery = receiver.recv().await.unwrap();
            if delivery.id() == sent.id {
                break delivery;
            }
            delivery.ack().await.unwrap();
        };
        assert_eq!(&delivery.body()[..], &all_bytes[..]);
        assert_eq!((delivery.tag(), delivery.keys()), (Some("a"), &["k1".to_owned(), "k2".to_owned()][..]));
        assert_eq!((delivery.property("region"), delivery.attempt()), (Some("eu é"), 1));
        assert_eq!(delivery.properties().count(), 1, "nothing of the protocol's own is shown: {delivery:?}");
        delivery.ack().await.unwrap();
        assert_eq!(producer.counters().sent, 1);
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_anything_is_sent() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    for protocol in BOTH {
        let producer = broker.client(protocol).await.producer().build().await.unwrap();
        let error = producer.send(Message::new("t", "")).await.unwrap_err();
        assert_eq!(error, SendError::Invalid(InvalidMessage::EmptyBody));
        assert!(!error.retryable() && !error.may_have_happened());
        let error = producer.send(Message::new("no-such-topic", "x")).await.unwrap_err();
        assert_eq!(error, SendError::Route(RouteError::UnknownTopic { topic: "no-such-topic".to_owned() }));
        assert_eq!(producer.counters().failed, 2);
    }
}

#[tokio::test]
async fn many_messages_go_in_few_requests_and_each_has_its_result() {
    let broker = Broker::start().await;
    broker.topic("t", 4, "NORMAL").await;
    broker.topic("other", 1, "NORMAL").await;
    for protocol in BOTH {
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let mut messages: Vec<Message> =
            (0..600).map(|n| Message::new("t", format!("{protocol:?} {n}"))).collect();
        messages.insert(3, Message::new("t", ""));
        messages.insert(7, Message::new("other", format!("{protocol:?}")));
        let results = producer.send_many(messages).await;
        assert_eq!(results.len(), 602);
        assert!(matches!(results[3], Err(SendError::Invalid(InvalidMessage::EmptyBody))));
        assert_eq!(results[7].as_ref().unwrap().queue.topic, "other");
        let ids: HashSet<&str> = results.iter().flatten().map(|sent| sent.id.as_str()).collect();
        assert_eq!(ids.len(), 601, "each has an id of its own");
        let receiver = client
            .receiver(format!("g-{protocol:?}"))
            .subscribe("t", Filter::all())
            .from_start()
            .build()
            .await
            .unwrap();
        let mut bodies = HashSet::new();
        while bodies.len() < 600 {
            for delivery in receiver.recv_many(32).await.unwrap() {
                let body = String::from_utf8(delivery.body().to_vec()).unwrap();
                if body.starts_with(&format!("{protocol:?}")) {
                    assert!(ids.contains(delivery.id()), "{body} has the id of its result");
                    assert!(bodies.insert(body));
                }
                delivery.ack_later();
            }
        }
        let report = receiver.shutdown(PATIENCE).await;
        assert_eq!(report.abandoned, 0, "{report:?}");
    }
}

#[tokio::test]
async fn a_message_without_an_answer_arrives_as_well() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    for protocol in BOTH {
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        producer.post(Message::new("t", format!("{protocol:?}"))).await.unwrap();
        let receiver = client
            .receiver(format!("g-{protocol:?}"))
            .subscribe("t", Filter::all())
            .from_start()
            .build()
            .await
            .unwrap();
        loop {
            let delivery = receiver.recv().await.unwrap();
            let body = delivery.body().clone();
            delivery.ack().await.unwrap();
            if body == format!("{protocol:?}") {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_delayed_message_is_not_early_and_a_recalled_one_never_comes() {
    let broker = Broker::start().await;
    broker.topic("later", 1, "DELAY").await;
    for protocol in BOTH {
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let receiver = client
            .receiver(format!("g-{protocol:?}"))
            .subscribe("later", Filter::all())
            .from_start()
            .build()
            .await
            .unwrap();
        let began = Instant::now();
        let recalled = Message::new("later", "recalled").after(Duration::from_millis(700));
        let recalled = producer.send(recalled).await.unwrap();
        let message = Message::new("later", format!("{protocol:?}")).after(Duration::from_millis(900));
        let sent = producer.send(message).await.unwrap();
        assert_eq!(sent.offset, None, "it is in no queue yet");
        let handle = recalled.recall.expect("a delayed message has a handle");
        assert_eq!(producer.recall("later", &handle).await.unwrap(), recalled.id);
        assert!(producer.recall("later", &handle).await.is_err() || protocol == Protocol::Remoting);
        loop {
            let delivery = receiver.recv().await.unwrap();
            let body = delivery.body().clone();
            assert_ne!(body, "recalled");
            delivery.ack().await.unwrap();
            if body == format!("{protocol:?}") {
                break;
            }
        }
        assert!(began.elapsed() >= Duration::from_millis(900));
    }
}

#[tokio::test]
async fn higher_priorities_come_first() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("urgent-{protocol:?}");
        broker.topic(&topic, 4, "PRIORITY").await;
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        for priority in [0, 3, 1, 2] {
            producer.send(Message::new(&topic, priority.to_string()).priority(priority)).await.unwrap();
        }
        let receiver =
            client.receiver("g").subscribe(&topic, Filter::all()).from_start().build().await.unwrap();
        let mut order = Vec::new();
        while order.len() < 4 {
            for delivery in receiver.recv_many(1).await.unwrap() {
                order.push((delivery.priority(), delivery.body().clone()));
                delivery.ack().await.unwrap();
            }
        }
        let expected = [3, 2, 1, 0].map(|n: u8| (Some(n), bytes::Bytes::from(n.to_string())));
        assert_eq!(order, expected, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_body_is_compressed_on_its_way_and_not_where_it_arrives() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    for from in BOTH {
        let body = format!("{from:?} ").repeat(2000);
        let producer = broker.client(from).await.producer().compress_from(100).build().await.unwrap();
        let sent = producer.send(Message::new("t", body.clone())).await.unwrap();
        for to in BOTH {
            let client = broker.client(to).await;
            let receiver = client
                .receiver(format!("g-{from:?}-{to:?}"))
                .subscribe("t", Filter::all())
                .from_start()
                .build()
                .await
                .unwrap();
            loop {
                let delivery = receiver.recv().await.unwrap();
                let found = delivery.id() == sent.id;
                assert!(!found || delivery.body() == body.as_bytes(), "{from:?} to {to:?}");
                delivery.ack().await.unwrap();
                if found {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn selectors_choose_the_queue_over_remoting_and_are_refused_over_grpc() {
    let broker = Broker::start().await;
    broker.topic("t", 8, "NORMAL").await;
    let client = broker.client(Protocol::Remoting).await;
    let by_hash = client.producer().selector(Selector::Hash).build().await.unwrap();
    for (key, queue) in [("order-1042", 4), ("customer-6", 1), ("polygenelubricants", 0)] {
        let sent = by_hash.send(Message::new("t", "x").shard_by(key)).await.unwrap();
        assert_eq!(sent.queue.id, queue, "{key}");
    }
    let last =
        client.producer().selector(Selector::by(|queues, _| Some(queues.len() - 1))).build().await.unwrap();
    assert_eq!(last.send(Message::new("t", "x")).await.unwrap().queue.id, 7);
    let in_turn = client.producer().build().await.unwrap();
    let mut queues = HashSet::new();
    for _ in 0..8 {
        queues.insert(in_turn.send(Message::new("t", "x")).await.unwrap().queue.id);
    }
    assert_eq!(queues.len(), 8);
    let rooms = Selector::MachineRoom { rooms: vec!["hz".to_owned()], strict: true };
    let strict = client.producer().selector(rooms).build().await.unwrap();
    let error = strict.send(Message::new("t", "x")).await.unwrap_err();
    assert_eq!(error, SendError::NoQueue { topic: "t".to_owned(), selector: Some("machine room") });
    let error = broker
        .client(Protocol::Grpc)
        .await
        .producer()
        .selector(Selector::Hash)
        .attempts(0)
        .build()
        .await
        .unwrap_err();
    let BuildError::Invalid { faults } = &error else { panic!("{error}") };
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[tokio::test]
async fn a_producer_goes_on_when_the_broker_comes_back() {
    for protocol in BOTH {
        let broker = Broker::start().await;
        broker.topic("t", 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let producer = client.producer().timeout(Duration::from_millis(500)).build().await.unwrap();
        producer.send(Message::new("t", "before")).await.unwrap();
        let broker = {
            let restarting = tokio::spawn(broker.restart());
            let _ = producer.send(Message::new("t", "meanwhile")).await;
            restarting.await.unwrap()
        };
        until("a send after the restart", async || producer.send(Message::new("t", "after")).await.is_ok())
            .await;
        drop(broker);
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_an_error_that_says_so() {
    let error = Client::connect("127.0.0.1:1").await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to 127.0.0.1:1"), "{error}");
    let error = Client::connect("grpc://127.0.0.1:1").await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to 127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn a_shutdown_waits_for_what_is_on_its_way_and_ends_the_producer() {
    let broker = Broker::start().await;
    broker.topic("t", 4, "NORMAL").await;
    for protocol in BOTH {
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let mut sends = tokio::task::JoinSet::new();
        for n in 0..200 {
            let producer = producer.clone();
            sends.spawn(async move { producer.send(Message::new("t", n.to_string())).await });
        }
        until("some are sent", async || producer.counters().sent > 20).await;
        let report = client.shutdown(PATIENCE).await;
        let mut stored = 0;
        while let Some(sent) = sends.join_next().await {
            match sent.unwrap() {
                Ok(_) => stored += 1,
                Err(error) => assert_eq!(error, SendError::ShutDown),
            }
        }
        assert_eq!((report.finished, report.abandoned), (stored, 0), "what was taken was stored");
        assert!(client.producer().build().await.is_err());
    }
}
