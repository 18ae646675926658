//! `redstart bench consume` and `round-trip`.

use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::{BufMut, Bytes, BytesMut};
use clap::{Args, ValueEnum};

use super::{
    Common,
    driver::{self, Received, Receivers, Sending},
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
    /// Consumer group
    #[arg(long, default_value = "bench-group")]
    pub group: String,
    /// Largest number of messages in one receive call
    #[arg(long, default_value_t = 32)]
    pub batch: i32,
    /// Receive calls in flight over all connections (gRPC; over Remoting every queue has one)
    #[arg(long, default_value_t = 8)]
    pub receivers: usize,
    /// Where to start in each queue (Remoting; over gRPC the server decides)
    #[arg(long, value_enum, default_value_t = From::Stored)]
    pub from: From,
}

/// The offset at which a consumer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// The stored offset of the group, as clients do
    Stored,
    /// The first stored message
    Earliest,
    /// The next message that arrives
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
    /// Messages per second
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// Send calls in flight
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
}

/// The body of a round-trip message starts with this mark and the time at which the message was due to be sent.
const MARK: u64 = 0x7265_6473_7461_7274;
pub const HEAD: usize = 16;

async fn receivers(common: &Common, receiving: &Receiving) -> anyhow::Result<Receivers> {
    ensure!(receiving.receivers > 0, "--receivers must be at least 1");
    ensure!((1..=1024).contains(&receiving.batch), "--batch must be from 1 to 1024");
    Receivers::open(common, receiving).await
}

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (common, receiving) = (&arguments.common, &arguments.receiving);
    common.check()?;
    driver::prepare(common, None).await?;
    let meter = Meter::new(common, None)?;
    let receivers = receivers(common, receiving).await?;
    let count = |meter: &Meter, received: &[Received], began| meter.done(received.len() as u64, began);
    let workers = receivers.workers(&meter, count);
    load::measure("consume", common, &meter, workers).await?.print(common.target.json)
}

pub async fn round_trip(arguments: &RoundTrip) -> anyhow::Result<()> {
    let (common, receiving) = (&arguments.common, &arguments.receiving);
    common.check()?;
    ensure!(arguments.in_flight > 0 && arguments.rate > 0, "--in-flight and --rate must be at least 1");
    let size = arguments.messages.size;
    ensure!(size >= HEAD, "--size must be at least {HEAD}: the time of sending is in the body");
    driver::prepare(common, Some(&arguments.messages)).await?;
    let receivers = receivers(common, receiving).await?;
    let meter = Meter::new(common, Some(load::interval(arguments.rate, 1)))?;
    let origin = Instant::now();
    let fill = produce::body(size - HEAD);
    let sending = Sending {
        messages: arguments.messages.clone(),
        batch: 1,
        in_flight: arguments.in_flight,
        clients: common.connections..common.connections + 1,
    };
    let stamp = move |due: Instant| stamped(due.saturating_duration_since(origin), &fill);
    let mut workers = driver::senders(common, &sending, &meter, stamp, |_, _, _| {}).await?;
    workers.extend(receivers.workers(&meter, move |meter: &Meter, received: &[Received], _| {
        // Messages of earlier runs are acknowledged and not counted.
        for due in received.iter().filter_map(|message| due_time(&message.body)) {
            meter.done(1, origin + due);
        }
    }));
    load::measure("round trip", common, &meter, workers).await?.print(common.target.json)
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
