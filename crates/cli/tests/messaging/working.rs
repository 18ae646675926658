//! Workers: handlers that run on their own, and what becomes of their messages.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use redstart_client::{Filter, Message, Outcome, Protocol, RetryPolicy};

use crate::broker::{BOTH, Broker, PATIENCE, until};

#[tokio::test]
async fn errors_and_panics_are_tried_again_and_others_go_on() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 2, "NORMAL").await;
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let seen: Arc<Mutex<HashMap<String, Vec<u32>>>> = Arc::default();
        let worker = client
            .worker("g")
            .subscribe(&topic, Filter::all())
            .from_start()
            .retry_policy(RetryPolicy::every(Duration::from_millis(100)))
            .run({
                let seen = seen.clone();
                move |job| {
                    let body = String::from_utf8(job.body().to_vec()).unwrap();
                    let attempt = job.attempt();
                    seen.lock().unwrap().entry(body.clone()).or_default().push(attempt);
                    async move {
                        match (body.as_str(), attempt) {
                            ("panics", 1) => panic!("as it should"),
                            ("fails", 1) => Err("not yet"),
                            ("asks", 1) => Ok(Outcome::RetryAfter(Duration::from_millis(50))),
                            ("gives up", _) => Ok(Outcome::DeadLetter("never".to_owned())),
                            _ => Ok(Outcome::Done),
                        }
                    }
                }
            })
            .await
            .unwrap();
        for body in ["panics", "fails", "asks", "gives up", "works"] {
            producer.send(Message::new(&topic, body)).await.unwrap();
        }
        until("all are settled", async || {
            let counters = worker.counters();
            (counters.acked, counters.retried, counters.dead_lettered) == (4, 3, 1)
        })
        .await;
        let seen = seen.lock().unwrap().clone();
        for (body, attempts) in [
            ("panics", vec![1, 2]),
            ("fails", vec![1, 2]),
            ("asks", vec![1, 2]),
            ("gives up", vec![1]),
            ("works", vec![1]),
        ] {
            assert_eq!(seen[body], attempts, "{protocol:?} {body}");
        }
        let report = worker.shutdown(PATIENCE).await;
        assert_eq!((report.returned, report.abandoned), (0, 0));
    }
}

/// Within a message group the handlers run one after the other, in order; a message that fails holds back only its group.
#[tokio::test]
async fn message_groups_keep_their_order_and_go_on_side_by_side() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let (topic, group) = (format!("fifo-{protocol:?}"), format!("g-{protocol:?}"));
        broker.topic(&topic, 4, "FIFO").await;
        broker.ordered_group(&group).await;
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        for n in 0..10 {
            for area in ["north", "south", "west"] {
                producer.send(Message::new(&topic, n.to_string()).group(area)).await.unwrap();
            }
        }
        let done: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();
        let (now, most) =
            (Arc::new(Mutex::new(HashMap::<String, u32>::new())), Arc::new(AtomicUsize::new(0)));
        let worker = client
            .worker(&group)
            .subscribe(&topic, Filter::all())
            .from_start()
            .retry_policy(RetryPolicy::every(Duration::from_millis(300)))
            .run({
                let (done, now, most) = (done.clone(), now.clone(), most.clone());
                move |job| {
                    let (done, now, most) = (done.clone(), now.clone(), most.clone());
                    async move {
                        let area = job.group().unwrap().to_owned();
                        let n: u32 = String::from_utf8(job.body().to_vec()).unwrap().parse().unwrap();
                        let inside = {
                            let mut now = now.lock().unwrap();
                            *now.entry(area.clone()).or_default() += 1;
                            assert_eq!(now[&area], 1, "one at a time in {area}");
                            now.values().sum::<u32>() as usize
                        };
                        most.fetch_max(inside, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        *now.lock().unwrap().get_mut(&area).unwrap() -= 1;
                        if area == "north" && n == 2 && job.attempt() < 3 {
                            return Err("not yet");
                        }
                        done.lock().unwrap().push((area, n));
                        Ok(())
                    }
                }
            })
            .await
            .unwrap();
        until("all are done", async || done.lock().unwrap().len() == 30).await;
        let done = done.lock().unwrap().clone();
        for area in ["north", "south", "west"] {
            let order: Vec<u32> = done.iter().filter(|(of, _)| of == area).map(|(_, n)| *n).collect();
            assert_eq!(order, (0..10).collect::<Vec<_>>(), "{protocol:?} {area}");
        }
        let place =
            |wanted: (&str, u32)| done.iter().position(|(area, n)| (area.as_str(), *n) == wanted).unwrap();
        assert!(place(("south", 9)) < place(("north", 2)), "the others did not wait for north");
        assert!(most.load(Ordering::Relaxed) > 1, "groups run side by side");
        worker.shutdown(PATIENCE).await;
        until("all are settled", async || worker.counters().acked == 30).await;
    }
}

#[tokio::test]
async fn a_message_is_renewed_while_its_handler_runs() {
    let broker = Broker::start().await;
    broker.topic("t", 1, "NORMAL").await;
    let client = broker.client(Protocol::Remoting).await;
    let runs = Arc::new(AtomicU32::new(0));
    let worker = client
        .worker("g")
        .subscribe("t", Filter::all())
        .from_start()
        .invisible(Duration::from_secs(1))
        .run({
            let runs = runs.clone();
            move |job| {
                let runs = runs.clone();
                async move {
                    runs.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(2500)).await;
                    assert!(!job.lease().is_lost());
                    Ok::<_, String>(())
                }
            }
        })
        .await
        .unwrap();
    let producer = client.producer().build().await.unwrap();
    producer.send(Message::new("t", "slow")).await.unwrap();
    until("it is done", async || worker.counters().acked == 1).await;
    let report = worker.shutdown(PATIENCE).await;
    assert_eq!((runs.load(Ordering::Relaxed), report.finished), (1, 1), "one delivery was enough");
    assert!(worker.counters().renewed >= 3, "{:?}", worker.counters());
}

/// Everything that was received is settled or back, and nothing runs on.
#[tokio::test]
async fn a_shutdown_under_load_accounts_for_every_message() {
    let broker = Broker::start().await;
    for protocol in BOTH {
        let topic = format!("t-{protocol:?}");
        broker.topic(&topic, 4, "NORMAL").await;
        let client = broker.client(protocol).await;
        let producer = client.producer().build().await.unwrap();
        let messages = (0..2000).map(|n| Message::new(&topic, n.to_string())).collect();
        assert!(producer.send_many(messages).await.iter().all(Result::is_ok));
        let handled = Arc::new(AtomicU32::new(0));
        let start = |handled: Arc<AtomicU32>| {
            client.worker("g").subscribe(&topic, Filter::all()).from_start().concurrency(8).run(move |_job| {
                let handled = handled.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    handled.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, String>(())
                }
            })
        };
        let worker = start(handled.clone()).await.unwrap();
        until("some are handled", async || handled.load(Ordering::Relaxed) > 200).await;
        let report = worker.shutdown(PATIENCE).await;
        let counters = worker.counters();
        assert_eq!(report.abandoned, 0);
        assert_eq!(u64::from(handled.load(Ordering::Relaxed)), counters.acked, "each handled one is settled");
        assert_eq!(counters.received, counters.acked + report.returned, "{counters:?} {report:?}");
        drop(worker);
        let second = start(handled.clone()).await.unwrap();
        until("the rest is handled", async || handled.load(Ordering::Relaxed) == 2000).await;
        second.shutdown(PATIENCE).await;
        assert_eq!(handled.load(Ordering::Relaxed), 2000, "none twice: all went back before they were begun");
    }
}
