use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use bytes::{BufMut, Bytes, BytesMut};
use clap::{Args, ValueEnum};

use super::{
    Common,
    driver::{self, Producer, Received, Receiver},
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
    pub group: String,
    /// Messages asked for in one call
    #[arg(long, default_value_t = 32)]
    pub batch: i32,
    /// Receive calls under way at a time, over all connections (gRPC; over Remoting every queue has one)
    #[arg(long, default_value_t = 8)]
    pub receivers: usize,
    /// Where to begin in each queue (Remoting; over gRPC the server decides)
    #[arg(long, value_enum, default_value_t = From::Stored)]
    pub from: From,
}

/// Where a consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// Where the group stands, as clients do
    Stored,
    /// At the first message there is
    Earliest,
    /// At the next message that comes
    Latest,
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
pub const HEAD: usize = 16;

async fn receivers(common: &Common, receiving: &Receiving) -> anyhow::Result<Vec<Receiver>> {
    ensure!(receiving.receivers > 0, "--receivers must be at least 1");
    ensure!((1..=1024).contains(&receiving.batch), "--batch must be from 1 to 1024");
    Receiver::open_all(common, receiving).await
}

/// Receives until the end; `each` sees every message when it is done, and when its call began.
pub async fn receive(
    mut receiver: Receiver,
    meter: Arc<Meter>,
    each: impl Fn(&Meter, &Received, Instant) + Send + 'static,
) {
    let failed = |error: anyhow::Error| meter.failed(&format!("{error:#}"));
    while !meter.stopping() {
        let since = Instant::now();
        // At the end nobody waits for messages that may never come.
        let received = tokio::select! {
            received = receiver.receive() => received,
            () = meter.stopped() => break,
        };
        match received {
            Ok(received) => {
                let settled = receiver.settle(&received, |message| match message {
                    Ok(message) => each(&meter, message, since),
                    Err(error) => failed(error),
                });
                settled.await.unwrap_or_else(failed);
            }
            Err(error) => {
                failed(error);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    receiver.close().await.unwrap_or_else(failed);
}

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (common, receiving) = (&arguments.common, &arguments.receiving);
    common.check()?;
    driver::prepare(common, None).await?;
    let meter = Meter::new(common, None)?;
    let receivers = receivers(common, receiving).await?.into_iter();
    let workers =
        receivers.map(|receiver| receive(receiver, meter.clone(), |meter, _, since| meter.done(1, since)));
    load::measure("consume", common, &meter, workers.collect::<Vec<_>>()).await?.print(common.target.json)
}

pub async fn round_trip(arguments: &RoundTrip) -> anyhow::Result<()> {
    let (common, receiving) = (&arguments.common, &arguments.receiving);
    common.check()?;
    ensure!(arguments.in_flight > 0 && arguments.rate > 0, "--in-flight and --rate must be at least 1");
    let size = arguments.messages.size;
    ensure!(size >= HEAD, "--size must be at least {HEAD}: the time of sending is in the body");
    driver::prepare(common, Some(&arguments.messages)).await?;
    let receivers = receivers(common, receiving).await?;
    let producer = Arc::new(Producer::open(common, common.connections).await?);
    let meter = Meter::new(common, Some(load::interval(arguments.rate, 1)))?;
    let origin = Instant::now();
    let fill = produce::body(size - HEAD);
    let senders = (0..arguments.in_flight).map(|_| {
        let (meter, producer, fill) = (meter.clone(), producer.clone(), fill.clone());
        let messages = arguments.messages.clone();
        async move {
            while !meter.stopping() {
                let due = meter.turn().await.saturating_duration_since(origin);
                if let Err(error) = producer.send(&messages, stamped(due, &fill), 1).await {
                    meter.failed(&format!("{error:#}"));
                }
            }
        }
    });
    let receivers = receivers.into_iter().map(|receiver| {
        receive(receiver, meter.clone(), move |meter, message, _| {
            // Messages of other runs are acknowledged and not counted.
            if let Some(due) = due_time(&message.body) {
                meter.done(1, origin + due);
            }
        })
    });
    let senders = senders.map(|sender| Box::pin(sender) as load::Worker);
    let workers = senders.chain(receivers.map(|receiver| Box::pin(receiver) as load::Worker));
    load::measure("round trip", common, &meter, workers.collect::<Vec<_>>()).await?.print(common.target.json)
}

pub fn stamped(due: Duration, fill: &Bytes) -> Bytes {
    let mut body = BytesMut::with_capacity(HEAD + fill.len());
    body.put_u64(MARK ^ u64::from(std::process::id()));
    body.put_u64(due.as_nanos() as u64);
    body.put_slice(fill);
    body.freeze()
}

pub fn due_time(body: &[u8]) -> Option<Duration> {
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
