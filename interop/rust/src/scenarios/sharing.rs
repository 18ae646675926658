//! One group, several consumers; and one group across a restart of the server.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::task::JoinSet;

use crate::clients::{bodies, on_apache, sorted, Arrival, Clients, Consumer, Wanted};
use crate::harness::{check, check_equal, Failure, Outcome};

const CONSUMERS: usize = 3;
const MESSAGES: usize = 30;

/// Consumers outnumber the queues; each message still goes to exactly one of them.
pub async fn share_queue(clients: Clients) -> Outcome {
    let consumers = tokio::try_join!(clients.consumer(), clients.consumer(), clients.consumer())?;
    let producer = clients.producer().await?;
    let mut sent = Vec::new();
    for i in 0..MESSAGES {
        let receipt = producer.send(clients.message(i.to_string()).build()?).await?;
        sent.push(receipt.message_id().to_string());
    }

    let got = Arc::new(Mutex::new(Vec::new()));
    let mut running = JoinSet::new();
    for consumer in <[Consumer; CONSUMERS]>::from(consumers) {
        running.spawn(consume_share(consumer, got.clone()));
    }
    let mut shares = Vec::new();
    while let Some(share) = running.join_next().await {
        shares.push(share.map_err(|error| Failure::Failed(error.to_string()))??);
    }
    let got = std::mem::take(&mut *got.lock().expect("no consumer panics"));
    check_equal(sorted(got), sorted(sent), "ids of all consumers together")?;
    let active = shares.iter().filter(|share| **share > 0).count();
    check(active > 1, format!("one consumer got everything: {shares:?}"))?;
    Ok(format!("shares {}/{}/{}", shares[0], shares[1], shares[2]))
}

async fn consume_share(consumer: Consumer, got: Arc<Mutex<Vec<String>>>) -> Result<usize, Failure> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut share = 0;
    while got.lock().expect("no consumer panics").len() < MESSAGES && Instant::now() < deadline {
        let once = Wanted { within: Duration::from_millis(1), batch: 2, ..Wanted::count(1) };
        let arrivals = consumer.receive(once).await?;
        share += arrivals.len();
        let ids = arrivals.iter().map(|arrival| arrival.message.message_id().to_string());
        got.lock().expect("no consumer panics").extend(ids);
    }
    Ok(share)
}

/// Nothing acknowledged comes again, nothing waiting is lost, and the clients that were there go on.
pub async fn resume_after_restart(clients: Clients) -> Outcome {
    let consumer = clients.consumer().await?;
    let producer = clients.producer().await?;
    for body in ["done-1", "done-2", "done-3"] {
        producer.send(clients.message(body).build()?).await?;
    }
    let before = consumer.receive(Wanted::count(3)).await?;
    check_equal(
        sorted(bodies(&before)).join(" "),
        "done-1 done-2 done-3".into(),
        "bodies before the restart",
    )?;
    for body in ["waiting-1", "waiting-2", "waiting-3"] {
        producer.send(clients.message(body).build()?).await?;
    }

    restart().await?;
    let back = Instant::now();
    while let Err(error) = producer.send(clients.message("after").build()?).await {
        check(back.elapsed() < Duration::from_secs(30), format!("send after the restart: {error}"))?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (which, after) = match receive_again(&consumer).await {
        Ok(arrivals) => ("same", arrivals),
        // This client never opens its settings stream again. Apache has forgotten it; Redstart must serve it from
        // what the request says.
        Err(_) if on_apache() => ("new", clients.consumer().await?.receive(Wanted::count(4)).await?),
        Err(failure) => return Err(failure),
    };
    let expected = "after waiting-1 waiting-2 waiting-3";
    check_equal(sorted(bodies(&after)).join(" "), expected.into(), "bodies after the restart")?;
    let seconds = (after[0].at - back).as_secs_f32();
    Ok(format!("{which} clients served again {seconds:.1} s after the restart"))
}

async fn restart() -> Result<(), Failure> {
    let control =
        std::env::var("INTEROP_CONTROL").map_err(|_| Failure::Failed("INTEROP_CONTROL is not set".into()))?;
    let output = Command::new(control).arg("restart").output().await?;
    check(output.status.success(), "the server did not come back")
}

/// Clients need a moment to connect again; an error only counts when it lasts.
async fn receive_again(consumer: &Consumer) -> Result<Vec<Arrival>, Failure> {
    let started = Instant::now();
    loop {
        match consumer.receive(Wanted::count(4)).await {
            Ok(arrivals) if !arrivals.is_empty() => return Ok(arrivals),
            Ok(_) => check(false, "nothing arrives after the restart")?,
            Err(failure) if started.elapsed() > Duration::from_secs(40) => return Err(failure),
            Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    }
}
