//! Readers of queues: positions, members that share them, broadcasts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use redstart_client::{
    Allocation, BuildError, Client, Filter, Message, Position, Protocol, Queue, QueueError, QueueReader,
    ReceiveError,
};

use crate::broker::{BOTH, Broker, PATIENCE, until};

async fn send(client: &Client, topic: &str, bodies: impl Iterator<Item = u32>) {
    let producer = client.producer().build().await.unwrap();
    // One by one: a batch would be in one queue.
    for n in bodies {
        producer.send(Message::new(topic, n.to_string()).tag(["even", "odd"][n as usize % 2])).await.unwrap();
    }
}

/// Reads so many messages; each queue's must come in order.
async fn read(reader: &QueueReader, count: usize) -> Vec<(Queue, i64, String)> {
    let mut read: Vec<(Queue, i64, String)> = Vec::new();
    while read.len() < count {
        let batch = tokio::time::timeout(PATIENCE, reader.next()).await.expect("more messages").unwrap();
        for message in &batch.messages {
            let body = String::from_utf8(message.body().to_vec()).unwrap();
            let before = read.iter().rev().find(|(queue, ..)| *queue == batch.queue);
            assert!(before.is_none_or(|(_, offset, _)| *offset < message.offset()), "in order");
            read.push((message.queue().clone(), message.offset(), body));
        }
        reader.commit(&batch).await.unwrap();
    }
    assert_eq!(read.len(), count);
    read
}

fn bodies(read: &[(Queue, i64, String)]) -> BTreeSet<u32> {
    read.iter().map(|(.., body)| body.parse().unwrap()).collect()
}

#[tokio::test]
async fn assigned_queues_are_read_in_order_and_from_where_the_group_left_off() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 2, "NORMAL").await;
        let client = broker.client(protocol).await;
        send(&client, &topic, 0..100).await;
        let queues = client.queues(&topic).await.unwrap();
        assert_eq!(queues.len(), 2);
        let start = |start: Position| {
            client.queue_reader("g").assign(queues.clone()).start(start).batch_size(10).build()
        };
        let reader = start(Position::Earliest).await.unwrap();
        let all = read(&reader, 100).await;
        assert_eq!(bodies(&all), (0..100).collect(), "{protocol:?}");
        assert_eq!(reader.assignment(), queues);
        let ends: BTreeMap<&Queue, i64> = all.iter().map(|(queue, offset, _)| (queue, offset + 1)).collect();
        for queue in &queues {
            assert_eq!(reader.committed(queue).await.unwrap(), Some(ends[queue]));
            assert_eq!(reader.offset(queue, Position::Latest).await.unwrap(), ends[queue]);
        }
        let report = reader.shutdown(PATIENCE).await;
        assert_eq!(report.finished, 100);
        assert_eq!(reader.next().await, Err(ReceiveError::ShutDown));

        send(&client, &topic, 100..110).await;
        let reader = start(Position::Earliest).await.unwrap();
        assert_eq!(bodies(&read(&reader, 10).await), (100..110).collect(), "from where it left off");
        let stranger = Queue::new(&topic, "nobody", 0);
        let error = reader.seek(&stranger, Position::Earliest).await.unwrap_err();
        assert_eq!(error, QueueError::NotAssigned { queue: stranger });
    }
}

#[tokio::test]
async fn a_seek_moves_a_queue_and_a_pause_holds_it() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 2, "NORMAL").await;
        let client = broker.client(protocol).await;
        send(&client, &topic, 0..20).await;
        let queues = client.queues(&topic).await.unwrap();
        let reader =
            client.queue_reader("g").assign(queues.clone()).start(Position::Earliest).build().await.unwrap();
        let all = read(&reader, 20).await;
        let of = |queue: &Queue| all.iter().filter(|(of, ..)| of == queue).count();
        // While a long poll is on its way.
        reader.seek(&queues[0], Position::Earliest).await.unwrap();
        assert_eq!(read(&reader, of(&queues[0])).await.len(), of(&queues[0]));
        reader.seek(&queues[1], Position::Offset(2)).await.unwrap();
        let again = read(&reader, of(&queues[1]) - 2).await;
        assert_eq!(again[0].1, 2);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = SystemTime::now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        send(&client, &topic, 20..24).await;
        let late = read(&reader, 4).await;
        for queue in &queues {
            reader.seek(queue, Position::At(now)).await.unwrap();
        }
        assert_eq!(bodies(&read(&reader, 4).await), bodies(&late), "{protocol:?}: from a time on");
        reader.pause(&queues[0]).unwrap();
        send(&client, &topic, 24..32).await;
        let end = reader.offset(&queues[1], Position::Latest).await.unwrap();
        while reader.next().await.unwrap().next_offset < end {}
        let nothing = tokio::time::timeout(Duration::from_millis(300), reader.next()).await;
        assert!(nothing.is_err(), "{protocol:?}: {nothing:?}");
        reader.resume(&queues[0]).unwrap();
        assert_eq!(reader.next().await.unwrap().queue, queues[0]);
    }
}

#[tokio::test]
async fn only_the_messages_that_are_wanted_are_read() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 1, "NORMAL").await;
        let client = broker.client(protocol).await;
        send(&client, &topic, 0..20).await;
        let reader = client
            .queue_reader("g")
            .assign(client.queues(&topic).await.unwrap())
            .subscribe(&topic, Filter::tags("odd"))
            .start(Position::Earliest)
            .build()
            .await
            .unwrap();
        assert!(bodies(&read(&reader, 10).await).iter().all(|n| n % 2 == 1), "{protocol:?}");
    }
}

#[tokio::test]
async fn members_share_the_queues_and_hand_them_over_with_their_progress() {
    let broker = Broker::start().await;
    broker.topic("t", 8, "NORMAL").await;
    let clients = [broker.client(Protocol::Remoting).await, broker.client(Protocol::Remoting).await];
    send(&clients[0], "t", 0..400).await;
    let revoked: Arc<Mutex<Vec<Queue>>> = Arc::default();
    let start = |client: &Client, revoked: Arc<Mutex<Vec<Queue>>>| {
        let builder = client.queue_reader("g").balanced(Allocation::Averagely);
        builder.subscribe("t", Filter::all()).start(Position::Earliest).batch_size(7).on_rebalance(
            move |change| {
                let revoked = revoked.clone();
                async move {
                    for queue in change.revoked() {
                        if let Some(offset) = change.position(queue) {
                            change.commit(queue, offset).await.unwrap();
                        }
                        revoked.lock().unwrap().push(queue.clone());
                    }
                }
            },
        )
    };
    let first = start(&clients[0], revoked.clone()).build().await.unwrap();
    until("the first has all queues", async || first.assignment().len() == 8).await;
    let mut seen: BTreeSet<(Queue, i64)> = BTreeSet::new();
    fn take(
        seen: &mut BTreeSet<(Queue, i64)>,
        batch: redstart_client::QueueBatch,
        known: &BTreeSet<(Queue, i64)>,
    ) {
        for message in &batch.messages {
            let message = (batch.queue.clone(), message.offset());
            assert!(
                known.contains(&message) || seen.insert(message),
                "{} {:?} twice",
                batch.queue,
                batch.messages
            );
        }
    }
    // Nothing is committed but by the hook.
    while seen.len() < 100 {
        take(&mut seen, first.next().await.unwrap(), &BTreeSet::new());
    }
    // The second may begin before the first has run its hook, and then reads again what the first had read until now.
    let before = seen.clone();
    let second = start(&clients[1], Arc::default()).build().await.unwrap();
    until("each has half of the queues", async || {
        (first.assignment().len(), second.assignment().len()) == (4, 4)
    })
    .await;
    let (mine, others) = (first.assignment(), second.assignment());
    assert!(mine.iter().all(|queue| !others.contains(queue)), "no queue twice");
    assert_eq!(*revoked.lock().unwrap(), others, "the hook ran for what went");
    let error = first.commit_offset(&others[0], 0).await.unwrap_err();
    assert!(matches!(error, QueueError::NotAssigned { .. }));
    loop {
        tokio::select! {
            batch = first.next() => take(&mut seen, batch.unwrap(), &BTreeSet::new()),
            batch = second.next() => take(&mut seen, batch.unwrap(), &before),
        }
        if seen.len() == 400 {
            break;
        }
    }
    second.shutdown(PATIENCE).await;
    until("the first has all queues again", async || first.assignment().len() == 8).await;
    send(&clients[0], "t", 400..440).await;
    while seen.len() < 440 {
        take(&mut seen, first.next().await.unwrap(), &BTreeSet::new());
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_said_when_the_reader_is_built() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    let (remoting, grpc) = (broker.client(Protocol::Remoting).await, broker.client(Protocol::Grpc).await);
    let faults = |error: BuildError| match error {
        BuildError::Invalid { faults } => faults.len(),
        error => panic!("{error}"),
    };
    assert_eq!(faults(remoting.queue_reader("").batch_size(0).build().await.unwrap_err()), 3);
    let balanced = |client: &Client| {
        client.queue_reader("g").balanced(Allocation::Averagely).subscribe("t", Filter::all()).build()
    };
    assert!(balanced(&grpc).await.unwrap_err().to_string().contains("needs Remoting"));
    let _reader = balanced(&remoting).await.unwrap();
    assert!(balanced(&remoting).await.unwrap_err().to_string().contains("a member in this client"));
    let error = remoting.queue_reader("g").assign([Queue::new("none", "b", 0)]).build().await.unwrap_err();
    assert_eq!(error.to_string(), "there is no topic none");
}
