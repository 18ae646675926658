//! Order per message group, and what an unacknowledged message holds back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::clients::{on_apache, Clients};
use crate::harness::{check, check_equal, Failure, Outcome};

const PER_GROUP: usize = 4;
const CALM: [&str; 4] = ["calm-1", "calm-2", "calm-3", "calm-4"];
const POISON: &str = "poison";
const INVISIBLE: Duration = Duration::from_secs(15);

/// Apache blocks the whole queue of an unacknowledged message; Redstart only its group, also inside one queue.
pub async fn fifo_order(clients: Clients) -> Outcome {
    if on_apache() {
        return one_blocked_group(&clients, "fifo-order", 1).await;
    }
    let several_queues = one_blocked_group(&clients, "fifo-order", CALM.len());
    let one_queue = one_blocked_group(&clients, "fifo-same-queue", CALM.len());
    let (several_queues, one_queue) = tokio::try_join!(several_queues, one_queue)?;
    Ok(format!("{several_queues}; in one queue {one_queue}"))
}

async fn one_blocked_group(clients: &Clients, name: &str, must_finish: usize) -> Outcome {
    let mut clients = clients.on_topic(clients.named(name));
    clients.group = clients.topic.clone();
    let consumer = clients.consumer().await?;
    send_all(&clients).await?;

    // The first poison message is taken and not acknowledged; everything else is.
    let mut seen: HashMap<String, Vec<String>> = HashMap::new();
    let mut poisoned_at = None;
    let mut calm_done = 0;
    let deadline = Instant::now() + Duration::from_secs(90);
    while seen.get(POISON).map_or(0, Vec::len) < PER_GROUP + 1 && Instant::now() < deadline {
        for message in consumer.take(1, INVISIBLE).await? {
            let group = message.message_group().unwrap_or("none").to_string();
            let log = seen.entry(group.clone()).or_default();
            log.push(String::from_utf8_lossy(message.body()).into_owned());
            let count = log.len();
            if group != POISON {
                let poison_blocked = seen.get(POISON).map_or(0, Vec::len) <= 1;
                calm_done += usize::from(count == PER_GROUP && poison_blocked);
            } else if count == 1 {
                poisoned_at = Some(Instant::now());
                continue;
            } else if count == 2 {
                let held = poisoned_at.map_or(Duration::ZERO, |at: Instant| at.elapsed());
                let early = "poison moved on before its first message was due again";
                check(held >= INVISIBLE - Duration::from_millis(500), early)?;
                check_equal(message.delivery_attempt(), 2, "attempt of the poison message")?;
            }
            consumer.inner.ack(&message).await?;
        }
    }

    for group in CALM {
        check_equal(
            seen.remove(group).unwrap_or_default().concat(),
            "0123".into(),
            &format!("order of {group}"),
        )?;
    }
    check_equal(seen.remove(POISON).unwrap_or_default().concat(), "00123".into(), "order of poison")?;
    check(
        calm_done >= must_finish,
        format!("only {calm_done} healthy groups were served beside the failing one"),
    )?;
    Ok(format!("{calm_done} of {} healthy groups done while one was blocked", CALM.len()))
}

async fn send_all(clients: &Clients) -> Result<(), Failure> {
    let producer = clients.producer().await?;
    for i in 0..PER_GROUP {
        for group in [POISON].into_iter().chain(CALM) {
            producer.send(clients.message(i.to_string()).set_message_group(group).build()?).await?;
        }
    }
    Ok(())
}
