//! Sends messages, also to measure the round-trip time.

use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use redstart_client::admin::{Error, OutgoingMessage, Receipt, TRACE_TOPIC, places, property};

use super::{
    context::{Context, Outcome, say},
    message,
    read::address,
    text::{now, second},
};

/// The template of topics that a broker creates automatically.
const DEFAULT_TOPIC: &str = "TBW102";
/// Largest body of a message that measures the round-trip time, in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Sends to a topic. A broker with automatic creation creates a missing topic.
async fn send(c: &Context, message: &OutgoingMessage) -> Result<Receipt, Error> {
    match c.admin.send(message).await {
        Err(Error::UnknownTopic { topic }) => {
            let unknown = || Error::UnknownTopic { topic: topic.clone() };
            let route = c.admin.route(DEFAULT_TOPIC).await.map_err(|_| unknown())?;
            let place = places(&route).into_iter().next().ok_or_else(unknown)?;
            c.admin.send_to(&place.address, &place.broker, place.queue, message).await
        }
        other => other,
    }
}

pub async fn one(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    let mut message = OutgoingMessage::new(topic, Bytes::from(c.text("p")?.to_owned()));
    if let Some(keys) = c.get("k") {
        message.set(property::KEYS, keys);
    }
    if let Some(tag) = c.get("c") {
        message.set_tag(tag);
    }
    ensure!(!c.has("i") || c.has("b"), "Broker name must be set if the queue is chosen!");
    let started = Instant::now();
    let receipt = match c.get("b").filter(|_| c.has("i")) {
        Some(broker) => {
            let address = address(c, topic, broker).await?;
            c.admin.send_to(&address, broker, c.number("i")?, &message).await?
        }
        None => send(c, &message).await?,
    };
    if c.is_true("m") {
        trace(c, &message, &receipt, started.elapsed()).await?;
    }
    say!(c, "{:<32}  {:<4}  {:<20}    {}", "#Broker Name", "#QID", "#Send Result", "#MsgId");
    let status = message::status(receipt.status);
    say!(c, "{:<32}  {:<4}  {status:<20}    {}", receipt.broker, receipt.queue, receipt.message_id);
    Ok(())
}

/// The trace of a sent message in the form that producers write: fields separated by 0x01, the record ended by 0x02.
async fn trace(c: &Context, message: &OutgoingMessage, receipt: &Receipt, took: Duration) -> Outcome {
    let of = |name: &str| {
        let found = message.properties.iter().find(|(known, _)| known == name);
        found.map_or_else(|| "null".to_owned(), |(_, value)| value.clone())
    };
    let keys = of(property::KEYS);
    let words = [
        "Pub".to_owned(),
        now().to_string(),
        "DefaultRegion".to_owned(),
        "TOOLS_PRODUCER".to_owned(),
        message.topic.clone(),
        receipt.message_id.clone(),
        of(property::TAGS),
        keys.clone(),
        receipt.broker.clone(),
        message.body.len().to_string(),
        took.as_millis().to_string(),
        "0".to_owned(),
        receipt.offset_id.clone(),
        "true".to_owned(),
    ];
    let mut traced = OutgoingMessage::new(TRACE_TOPIC, Bytes::from(words.join("\u{1}") + "\u{2}"));
    let keys =
        if keys == "null" { receipt.message_id.clone() } else { format!("{} {keys}", receipt.message_id) };
    traced.set(property::KEYS, keys);
    c.admin.send(&traced).await?;
    Ok(())
}

fn body(c: &Context, option: &str) -> anyhow::Result<Bytes> {
    let size: usize = c.number_or(option, 128)?;
    ensure!(size <= BODY_BYTES_MAX, "the option -{option} is at most {BODY_BYTES_MAX}, not {size}");
    Ok(Bytes::from("a".repeat(size)))
}

/// The mean of all round trips but the first, which includes opening the connection.
fn mean(times: &[u128]) -> f64 {
    match times {
        [] | [_] => 0.0,
        [_, rest @ ..] => rest.iter().sum::<u128>() as f64 / rest.len() as f64,
    }
}

pub async fn round_trips(c: &Context) -> Outcome {
    let topic = c.text("t")?;
    let amount: usize = c.number_or("a", 100)?;
    let body = body(c, "s")?;
    let places = places(&c.admin.route(topic).await?);
    if places.is_empty() {
        return Err(Error::NotWritable { topic: topic.to_owned() }.into());
    }
    say!(c, "{:<32}  {:<4}  {:<20}    {}", "#Broker Name", "#QID", "#Send Result", "#RT");
    let mut times = Vec::new();
    for index in 0..amount {
        let place = &places[index % places.len()];
        let message = OutgoingMessage::new(topic, body.clone());
        let started = Instant::now();
        let sent = c.admin.send_to(&place.address, &place.broker, place.queue, &message).await.is_ok();
        let took = started.elapsed().as_millis();
        times.push(took);
        say!(c, "{:<32}  {:<4}  {sent:<20}    {took}", place.broker, place.queue);
    }
    say!(c, "Avg RT: {:.2}", mean(&times));
    Ok(())
}

pub async fn cluster_round_trips(c: &Context) -> Outcome {
    let amount: usize = c.number_or("a", 100)?;
    let body = body(c, "s")?;
    let as_log = c.is_true("p");
    let room = c.get("m").unwrap_or("noname");
    let brokers = match c.get("c") {
        Some(cluster) => c.of_cluster(cluster).await?,
        None => c.admin.brokers().await?,
    };
    if !as_log {
        say!(
            c,
            "{:<24}  {:<24}  {:<4}  {:<8}  {:<8}",
            "#Cluster Name",
            "#Broker Name",
            "#RT",
            "#successCount",
            "#failCount"
        );
    }
    loop {
        for broker in brokers.iter().filter(|broker| broker.id == 0) {
            let mut times = Vec::new();
            let mut sent = 0;
            for _ in 0..amount {
                // Every broker has a topic with its own name.
                let message = OutgoingMessage::new(&broker.name, body.clone());
                let started = Instant::now();
                sent += usize::from(c.admin.send(&message).await.is_ok());
                times.push(started.elapsed().as_micros());
            }
            let mean = mean(&times) / 1000.0;
            if as_log {
                say!(c, "{}|{room}|{}|{}|{mean:.0}", second(now()), broker.cluster, broker.name);
            } else {
                let mean = format!("{mean:.2}");
                let failed = amount - sent;
                say!(c, "{:<24}  {:<24}  {mean:<8}  {sent:<16}  {failed:<16}", broker.cluster, broker.name);
            }
        }
        c.flush()?;
        tokio::time::sleep(Duration::from_secs(c.number_or("i", 10)?)).await;
    }
}

pub async fn to_broker(c: &Context) -> Outcome {
    let broker = c.text("b")?;
    let count: usize = c.number_or("c", 50)?;
    let body = body(c, "s")?;
    // The first message opens the connection.
    send(c, &OutgoingMessage::new(broker, body.slice(..body.len().min(16)))).await?;
    for _ in 0..count {
        let started = Instant::now();
        let receipt = send(c, &OutgoingMessage::new(broker, body.clone())).await?;
        say!(c, "rt={}ms, SendResult={}", started.elapsed().as_millis(), message::receipt(broker, &receipt));
    }
    Ok(())
}
