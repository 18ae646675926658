//! Receivers: settling, leases, filters, order.

use std::{
    collections::HashSet,
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use redstart_client::{BuildError, Filter, Message, Protocol, ReceiveError, RetryPolicy};

use crate::broker::{BOTH, Broker, PATIENCE, until};

async fn send(broker: &Broker, topic: &str, bodies: impl IntoIterator<Item = String>) {
    let producer = broker.client(Protocol::Remoting).await.producer().build().await.expect("a producer");
    for sent in producer.send_many(bodies.into_iter().map(|body| Message::new(topic, body)).collect()).await {
        sent.expect("stored");
    }
}

#[tokio::test]
async fn a_stream_has_every_message_and_ends_with_the_receiver() {
    use tokio_stream::StreamExt as _;
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 2, "NORMAL").await;
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        for n in 0..10 {
            producer.send(Message::new(&topic, n.to_string())).await.unwrap();
        }
        let receiver =
            client.receiver("g").subscribe(&topic, Filter::all()).from_start().build().await.unwrap();
        let mut deliveries = std::pin::pin!(receiver.stream());
        for _ in 0..10 {
            deliveries.next().await.unwrap().unwrap().ack().await.unwrap();
        }
        receiver.shutdown(PATIENCE).await;
        assert!(deliveries.next().await.is_none(), "{protocol:?}");
    }
}

#[tokio::test]
async fn what_is_acked_stays_away_and_what_is_not_comes_again() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let receiver =
            client.receiver("g").subscribe(&topic, Filter::all()).from_start().build().await.unwrap();
        send(&broker, &topic, ["one".to_owned(), "two".to_owned()]).await;
        let one = receiver.recv().await.unwrap();
        let two = receiver.recv().await.unwrap();
        one.ack().await.unwrap();
        let began = Instant::now();
        two.retry_after(Duration::from_millis(300)).await.unwrap();
        let again = receiver.recv().await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(290), "{protocol:?}");
        assert_eq!((&again.body()[..], again.attempt()), (&b"two"[..], 2));
        again.ack().await.unwrap();
        let none = tokio::time::timeout(Duration::from_millis(300), receiver.recv()).await;
        assert!(none.is_err(), "both are done");
        let counters = receiver.counters();
        assert_eq!((counters.acked, counters.retried, counters.received), (2, 1, 3));
    }
}

#[tokio::test]
async fn a_delivery_that_is_dropped_comes_again_by_the_policy() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let policy = RetryPolicy::every(Duration::from_millis(200));
        let receiver = client
            .receiver("g")
            .subscribe(&topic, Filter::all())
            .from_start()
            .retry_policy(policy)
            .build()
            .await
            .unwrap();
        send(&broker, &topic, ["x".to_owned()]).await;
        let task = tokio::spawn({
            let delivery = receiver.recv().await.unwrap();
            async move {
                let _delivery = delivery;
                panic!("a handler that fails");
            }
        });
        assert!(task.await.is_err());
        let again = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("long before 60 s").unwrap();
        assert_eq!(again.attempt(), 2);
        assert_eq!(receiver.counters().dropped, 1);
        let (received, settle) = again.into_parts();
        assert_eq!(&received.body()[..], b"x");
        tokio::spawn(settle.ack()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn tags_and_sql_select_messages() {
    let broker = Broker::start().await;
    broker.topic("t", 2, "NORMAL").await;
    let producer = broker.client(Protocol::Remoting).await.producer().build().await.unwrap();
    for (tag, price) in [("a", 5), ("b", 15), ("c", 25), ("a", 35)] {
        let message = Message::new("t", price.to_string()).tag(tag).property("price", price.to_string());
        producer.send(message).await.unwrap();
    }
    for protocol in BOTH {
        let client = broker.client(protocol).await;
        for (name, filter, expected) in [
            ("tags", Filter::tags("a || c"), HashSet::from(["5", "25", "35"])),
            ("sql", Filter::sql("price > 10 AND TAGS <> 'c'"), HashSet::from(["15", "35"])),
        ] {
            let group = format!("g-{name}-{protocol:?}");
            let receiver = client.receiver(group).subscribe("t", filter).from_start().build().await.unwrap();
            let mut found = HashSet::new();
            while found.len() < expected.len() {
                let delivery = receiver.recv().await.unwrap();
                found.insert(String::from_utf8(delivery.body().to_vec()).unwrap());
                delivery.ack().await.unwrap();
            }
            assert_eq!(found, expected.into_iter().map(str::to_owned).collect(), "{name} {protocol:?}");
        }
    }
}

#[tokio::test]
async fn what_is_given_up_is_a_dead_letter_with_its_reason() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let (topic, group) = (format!("t-{protocol:?}"), format!("g-{protocol:?}"));
        broker.topic(&topic, 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let receiver =
            client.receiver(&group).subscribe(&topic, Filter::all()).from_start().build().await.unwrap();
        let producer = client.producer().build().await.unwrap();
        producer.send(Message::new(&topic, "poison").tag("a").key("k")).await.unwrap();
        receiver.recv().await.unwrap().dead_letter("no such customer: 42").await.unwrap();
        let dead = format!("%DLQ%{group}");
        until("the dead-letter topic", async || producer.queues(&dead).await.is_ok()).await;
        let reader =
            client.receiver("undertaker").subscribe(&dead, Filter::all()).from_start().build().await.unwrap();
        let letter = tokio::time::timeout(PATIENCE, reader.recv()).await.expect("in time").unwrap();
        assert_eq!((&letter.body()[..], letter.tag()), (&b"poison"[..], Some("a")));
        let origin = letter.origin().expect("it is a dead letter").clone();
        assert_eq!(
            (origin.topic.as_str(), origin.reason.as_deref()),
            (topic.as_str(), Some("no such customer: 42"))
        );
        letter.ack().await.unwrap();
        let none = tokio::time::timeout(Duration::from_millis(200), receiver.recv()).await;
        assert!(none.is_err(), "its own queue is done with it");
    }
}

#[tokio::test]
async fn an_extended_delivery_is_not_given_to_others() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    let client = broker.client(Protocol::Remoting).await;
    let receiver = client
        .receiver("g")
        .subscribe("t", Filter::all())
        .from_start()
        .invisible(Duration::from_secs(1))
        .build()
        .await
        .unwrap();
    send(&broker, "t", ["x".to_owned()]).await;
    let mut delivery = receiver.recv().await.unwrap();
    delivery.extend(Duration::from_secs(30)).await.unwrap();
    let none = tokio::time::timeout(Duration::from_millis(1500), receiver.recv()).await;
    assert!(none.is_err(), "beyond the first second");
    delivery.ack().await.unwrap();
}

/// A call that is dropped at any moment loses no message: what it fetched is there for the next one.
#[tokio::test]
async fn a_receive_that_is_dropped_loses_nothing() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 2, "NORMAL").await;
        let client = broker.client(protocol).await;
        let receiver =
            client.receiver("g").subscribe(&topic, Filter::all()).from_start().build().await.unwrap();
        send(&broker, &topic, (0..100).map(|n| n.to_string())).await;
        let mut found = HashSet::new();
        let mut polls = 0;
        while found.len() < 100 {
            polls += 1;
            // Polled some times, each with a chance for the fetchers, and then dropped.
            let mut receive = pin!(receiver.recv());
            let mut context = Context::from_waker(Waker::noop());
            let mut got = None;
            for _ in 0..polls % 4 {
                if let std::task::Poll::Ready(delivery) = receive.as_mut().poll(&mut context) {
                    got = Some(delivery.unwrap());
                    break;
                }
                tokio::task::yield_now().await;
            }
            if let Some(delivery) = got {
                assert_eq!(delivery.attempt(), 1, "no message waits for its invisible time");
                assert!(found.insert(delivery.body().clone()), "none comes twice");
                delivery.ack_later();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(receiver.counters().received, 100);
    }
}

#[tokio::test]
async fn what_was_fetched_and_not_received_goes_back_at_once() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let build =
            || client.receiver("g").subscribe(&topic, Filter::all()).from_start().prefetch(20).build();
        let first = build().await.unwrap();
        send(&broker, &topic, (0..20).map(|n| n.to_string())).await;
        until("all are fetched", async || first.counters().received == 20).await;
        first.recv().await.unwrap().ack().await.unwrap();
        let report = first.shutdown(PATIENCE).await;
        assert_eq!((report.finished, report.returned, report.abandoned), (1, 19, 0), "{protocol:?}");
        assert!(matches!(first.recv().await, Err(ReceiveError::ShutDown)));
        drop(first);
        let second = build().await.unwrap();
        let mut found = 0;
        while found < 19 {
            // Far less than the 60 s for which they would be invisible.
            let delivery = tokio::time::timeout(PATIENCE / 2, second.recv()).await.expect("at once").unwrap();
            delivery.ack().await.unwrap();
            found += 1;
        }
    }
}

#[tokio::test]
async fn a_receiver_goes_on_when_the_broker_comes_back() {
    for protocol in BOTH {
        let broker = Broker::start().await;
        broker.topic("t", 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let receiver = client.receiver("g").subscribe("t", Filter::all()).from_start().build().await.unwrap();
        let waiting = tokio::spawn(async move { receiver.recv().await.unwrap().body().clone() });
        let broker = broker.restart().await;
        send(&broker, "t", ["after".to_owned()]).await;
        let body = tokio::time::timeout(PATIENCE, waiting).await.expect("it never ends silently").unwrap();
        assert_eq!(body, "after", "{protocol:?}");
    }
}

#[tokio::test]
async fn dead_letters_can_be_waited_for_before_there_are_any() {
    for protocol in BOTH {
        let broker = Broker::start().await;
        broker.topic("t", 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        let letters =
            client.receiver("watch").subscribe("%DLQ%g", Filter::all()).from_start().build().await.unwrap();
        let waiting = tokio::spawn(async move { letters.recv().await.unwrap().origin().cloned() });
        send(&broker, "t", ["poison".to_owned()]).await;
        let receiver = client.receiver("g").subscribe("t", Filter::all()).from_start().build().await.unwrap();
        let delivery = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("a message").unwrap();
        delivery.dead_letter("unreadable").await.unwrap();
        let origin = tokio::time::timeout(PATIENCE, waiting).await.expect("a dead letter").unwrap().unwrap();
        assert_eq!(origin.topic, "t", "{protocol:?}");
    }
}

#[tokio::test]
async fn faults_of_the_settings_and_of_the_expression_are_named() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    for protocol in BOTH {
        let client = broker.client(protocol).await;
        let error = client.receiver("").invisible(Duration::ZERO).fetch_size(33).build().await.unwrap_err();
        let BuildError::Invalid { faults } = &error else { panic!("{error}") };
        assert_eq!(faults.len(), 4, "{faults:?}");
        let error = client.receiver("g").subscribe("nothing", Filter::all()).build().await.unwrap_err();
        assert_eq!(error.to_string(), "there is no topic nothing");
        let receiver = client.receiver("g").subscribe("t", Filter::sql("price >")).build().await.unwrap();
        let error = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("an answer").unwrap_err();
        assert!(matches!(error, ReceiveError::Refused(_)), "{error}");
    }
}
