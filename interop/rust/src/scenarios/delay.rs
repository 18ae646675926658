//! Delayed messages: never early.

use crate::clients::{bodies, on_apache, unix_ms, Clients, Wanted};
use crate::harness::{check, check_equal, Outcome};

pub async fn delay(clients: Clients) -> Outcome {
    let late_max_ms = if on_apache() { 5_000 } else { 1_000 };
    let consumer = clients.consumer().await?;
    let producer = clients.producer().await?;
    // This client sends whole seconds.
    let now = unix_ms() / 1000;
    let due = [now + 3, now + 6];
    for at in due {
        producer.send(clients.message(at.to_string()).set_delivery_timestamp(at).build()?).await?;
    }
    let arrivals = consumer.receive(Wanted::count(due.len())).await?;
    check_equal(bodies(&arrivals), due.iter().map(i64::to_string).collect(), "messages by due time")?;
    let late: Vec<i64> = arrivals.iter().zip(due).map(|(arrival, at)| arrival.unix_ms - at * 1000).collect();
    for ms in &late {
        check(*ms >= 0, format!("came {} ms early", -ms))?;
        check(*ms <= late_max_ms, format!("came {ms} ms late"))?;
    }
    Ok(format!("late by {} and {} ms", late[0], late[1]))
}
