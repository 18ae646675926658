use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use bytes::{BufMut, Bytes, BytesMut};
use clap::Args;
use futures_util::future::join_all;

use super::{
    Common,
    grpc::{Client, Received},
    load,
    load::Meter,
    produce,
};

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    receiving: Receiving,
}

#[derive(Debug, Clone, Args)]
pub struct Receiving {
    /// The consumer group
    #[arg(long, default_value = "bench-group")]
    group: String,
    /// Messages asked for in one call
    #[arg(long, default_value_t = 32)]
    batch: i32,
    /// Receive calls under way at a time, over all connections
    #[arg(long, default_value_t = 8)]
    receivers: usize,
}

#[derive(Debug, Args)]
pub struct RoundTrip {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    receiving: Receiving,
    #[command(flatten)]
    messages: produce::Messages,
    /// Messages a second
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// Sends under way at a time
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
}

/// A message of a round trip begins with this and the time at which it was due to be sent.
const MARK: u64 = 0x7265_6473_7461_7274;
const HEAD: usize = 16;

async fn consumers(common: &Common, receiving: &Receiving) -> anyhow::Result<Vec<Arc<Client>>> {
    common.check()?;
    ensure!(receiving.receivers > 0, "--receivers must be at least 1");
    ensure!((1..=32).contains(&receiving.batch), "--batch must be from 1 to 32");
    let mut clients = Vec::with_capacity(common.connections);
    for n in 0..common.connections {
        clients.push(Arc::new(Client::consumer(&common.server, &common.topic, &receiving.group, n).await?));
    }
    Ok(clients)
}

/// Receives and acknowledges until the end; `each` sees every message.
async fn receive(
    client: Arc<Client>,
    meter: Arc<Meter>,
    batch: i32,
    each: impl Fn(&Meter, &Received, Instant) + Send + 'static,
) {
    while !meter.stopping() {
        let since = Instant::now();
        let received = match client.receive(batch).await {
            Ok(received) => received,
            Err(error) => {
                meter.failed(&format!("{error:#}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let acks = received.iter().map(|message| async {
            match client.ack(message).await {
                Ok(()) => each(&meter, message, since),
                Err(error) => meter.failed(&format!("{error:#}")),
            }
        });
        join_all(acks).await;
    }
}

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (common, receiving) = (&arguments.common, &arguments.receiving);
    let clients = consumers(common, receiving).await?;
    let meter = Meter::new(None)?;
    let workers = (0..receiving.receivers).map(|n| {
        let client = clients[n % clients.len()].clone();
        receive(client, meter.clone(), receiving.batch, |meter, _, since| meter.done(1, since))
    });
    load::measure("consume", common, &meter, workers.collect::<Vec<_>>()).await?.print(common.json)
}

pub async fn round_trip(arguments: &RoundTrip) -> anyhow::Result<()> {
    let (common, receiving) = (&arguments.common, &arguments.receiving);
    ensure!(arguments.in_flight > 0 && arguments.rate > 0, "--in-flight and --rate must be at least 1");
    let size = arguments.messages.size;
    ensure!(size >= HEAD, "--size must be at least {HEAD}: the time of sending is in the body");
    let clients = consumers(common, receiving).await?;
    let producer = Arc::new(Client::producer(&common.server, &common.topic, common.connections).await?);
    let meter = Meter::new(Some(arguments.rate))?;
    let origin = Instant::now();
    let fill = produce::body(size - HEAD);
    let senders = (0..arguments.in_flight).map(|_| {
        let (meter, producer, fill) = (meter.clone(), producer.clone(), fill.clone());
        let messages = arguments.messages.clone();
        async move {
            while !meter.stopping() {
                let due = meter.turn().await.saturating_duration_since(origin);
                if let Err(error) = producer.send(&messages, stamped(due, &fill)).await {
                    meter.failed(&format!("{error:#}"));
                }
            }
        }
    });
    let receivers = (0..receiving.receivers).map(|n| {
        let client = clients[n % clients.len()].clone();
        receive(client, meter.clone(), receiving.batch, move |meter, message, _| {
            // Messages of other runs are acknowledged and not counted.
            if let Some(due) = due_time(&message.body) {
                meter.done(1, origin + due);
            }
        })
    });
    type Worker = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    let senders = senders.map(|sender| Box::pin(sender) as Worker);
    let workers = senders.chain(receivers.map(|receiver| Box::pin(receiver) as Worker));
    load::measure("round trip", common, &meter, workers.collect::<Vec<_>>()).await?.print(common.json)
}

fn stamped(due: Duration, fill: &Bytes) -> Bytes {
    let mut body = BytesMut::with_capacity(HEAD + fill.len());
    body.put_u64(MARK ^ u64::from(std::process::id()));
    body.put_u64(due.as_nanos() as u64);
    body.put_slice(fill);
    body.freeze()
}

fn due_time(body: &[u8]) -> Option<Duration> {
    let (mark, rest) = body.split_first_chunk::<8>()?;
    let (due, _) = rest.split_first_chunk::<8>()?;
    let ours = u64::from_be_bytes(*mark) == MARK ^ u64::from(std::process::id());
    ours.then(|| Duration::from_nanos(u64::from_be_bytes(*due)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_this_run_tell_when_they_were_due() {
        let due = Duration::from_micros(1234);
        let body = stamped(due, &produce::body(100));
        assert_eq!(body.len(), HEAD + 100);
        assert_eq!(due_time(&body), Some(due));
        assert_eq!(due_time(&body[..HEAD - 1]), None);
        assert_eq!(due_time(&produce::body(100)), None);
    }
}
