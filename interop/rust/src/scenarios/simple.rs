//! SimpleConsumer: acknowledgement, invisible time, receipt handles.

use std::time::Duration;

use crate::clients::{bodies, on_apache, sorted, Arrival, Clients, Consumer, Wanted};
use crate::harness::{check, check_equal, Failure, Outcome};

/// The shortest invisible time a receive may ask for.
const INVISIBLE: Duration = Duration::from_secs(10);
const EARLY_MAX: Duration = Duration::from_millis(500);

/// Apache wakes no waiting poll for a redelivery, so it can take a round of its revive and a whole poll longer.
fn late_max() -> Duration {
    Duration::from_secs(if on_apache() { 30 } else { 3 })
}

pub async fn ack(clients: Clients) -> Outcome {
    let consumer = send_bodies(&clients, &["a", "b", "c"]).await?;
    let arrivals = consumer.receive(Wanted { invisible: INVISIBLE, ..Wanted::count(3) }).await?;
    check_equal(sorted(bodies(&arrivals)).concat(), "abc".into(), "bodies")?;
    tokio::time::sleep(INVISIBLE + Duration::from_secs(1)).await;
    check_equal(consumer.leftovers().await?, vec![], "bodies that came again although acknowledged")?;
    Ok(String::new())
}

pub async fn no_ack(clients: Clients) -> Outcome {
    let consumer = send_bodies(&clients, &["again"]).await?;
    let first = take_without_ack(&consumer).await?;
    check_equal(first.message.delivery_attempt(), 1, "first delivery attempt")?;
    let second = take_without_ack(&consumer).await?;
    consumer.inner.ack(&second.message).await?;
    check_equal(second.message.message_id(), first.message.message_id(), "message id of the redelivery")?;
    check_equal(second.message.delivery_attempt(), 2, "delivery attempt of the redelivery")?;
    let after = second.at - first.at;
    let when = format!("again after {} ms", after.as_millis());
    check(after >= INVISIBLE - EARLY_MAX && after <= INVISIBLE + late_max(), when.clone())?;
    Ok(when)
}

pub async fn stale_handle(clients: Clients) -> Outcome {
    let consumer = send_bodies(&clients, &["stale"]).await?;
    let first = take_without_ack(&consumer).await?;
    let second = take_without_ack(&consumer).await?;
    let refusal = consumer.inner.ack(&first.message).await.err().map(|error| error.to_string());
    let refusal =
        refusal.ok_or_else(|| Failure::Failed("the handle of an earlier delivery was accepted".into()))?;
    check(refusal.contains("INVALID_RECEIPT_HANDLE"), format!("refused for another reason: {refusal}"))?;
    consumer.inner.ack(&second.message).await?;
    Ok(String::new())
}

async fn take_without_ack(consumer: &Consumer) -> Result<Arrival, Failure> {
    let within = INVISIBLE + late_max();
    let wanted = Wanted { within, invisible: INVISIBLE, ack: false, ..Wanted::count(1) };
    let mut arrivals = consumer.receive(wanted).await?;
    check_equal(arrivals.len(), 1, "number of messages")?;
    Ok(arrivals.remove(0))
}

async fn send_bodies(clients: &Clients, bodies: &[&str]) -> Result<Consumer, Failure> {
    let consumer = clients.consumer().await?;
    let producer = clients.producer().await?;
    for body in bodies {
        producer.send(clients.message(*body).build()?).await?;
    }
    Ok(consumer)
}
