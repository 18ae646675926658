//! `redstart bench produce`.

use anyhow::ensure;
use bytes::Bytes;
use clap::Args;

use super::{
    Common,
    driver::{self, Sending},
    load,
    load::Meter,
};

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    messages: Messages,
    /// Calls in flight over all connections
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Messages per second; without it, as fast as the server answers
    #[arg(long)]
    rate: Option<u64>,
    /// Messages in one call
    #[arg(long, default_value_t = 1)]
    batch: u64,
}

/// The messages of a load.
#[derive(Debug, Clone, Args)]
pub struct Messages {
    /// Size of each body in bytes
    #[arg(long, default_value_t = 1024)]
    pub size: usize,
    /// Spread the messages over this many message groups (the topic must have type FIFO)
    #[arg(long, default_value_t = 0)]
    pub groups: u64,
    /// Number of keys of every message
    #[arg(long, default_value_t = 0)]
    pub keys: u64,
    /// Delay of every message in milliseconds (the topic must have type DELAY)
    #[arg(long)]
    pub delay_ms: Option<u64>,
}

impl Messages {
    /// The topic type that accepts these messages.
    pub fn topic_type(&self) -> &'static str {
        match (self.groups, self.delay_ms) {
            (0, None) => "NORMAL",
            (0, Some(_)) => "DELAY",
            _ => "FIFO",
        }
    }

    /// The keys of the n-th message.
    pub fn keys(&self, n: u64) -> impl Iterator<Item = String> {
        (0..self.keys).map(move |key| format!("{n}-{key}"))
    }

    /// The message group of the n-th message, if it has one.
    pub fn group(&self, n: u64) -> Option<u64> {
        n.checked_rem(self.groups)
    }
}

/// Repeating text, which compresses about as well as business messages.
pub fn body(size: usize) -> Bytes {
    b"{\"order\":7361,\"sku\":\"redstart\",\"quantity\":2,\"price\":19.95}"
        .iter()
        .copied()
        .cycle()
        .take(size)
        .collect()
}

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (common, batch) = (&arguments.common, arguments.batch);
    common.check()?;
    ensure!(arguments.in_flight > 0, "--in-flight must be at least 1");
    ensure!((1..=1000).contains(&batch), "--batch must be from 1 to 1000");
    ensure!(arguments.messages.size > 0, "--size must be at least 1: empty messages are refused");
    driver::prepare(common, Some(&arguments.messages)).await?;
    let meter = Meter::new(common, arguments.rate.map(|rate| load::interval(rate, batch)))?;
    let body = body(arguments.messages.size);
    let sending = Sending {
        messages: arguments.messages.clone(),
        batch,
        in_flight: arguments.in_flight,
        clients: 0..common.connections,
    };
    let workers = driver::senders(common, &sending, &meter, move |_| body.clone(), Meter::done).await?;
    load::measure("produce", common, &meter, workers).await?.print(common.target.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_belong_to_groups_only_if_there_are_some() {
        let mut messages = Messages { size: 1, groups: 0, keys: 2, delay_ms: None };
        assert_eq!((messages.group(7), messages.topic_type()), (None, "NORMAL"));
        assert_eq!(messages.keys(7).collect::<Vec<_>>(), ["7-0", "7-1"]);
        messages.delay_ms = Some(1);
        assert_eq!(messages.topic_type(), "DELAY");
        messages.groups = 4;
        assert_eq!((messages.group(7), messages.topic_type()), (Some(3), "FIFO"));
    }
}
