use std::sync::Arc;

use anyhow::ensure;
use bytes::Bytes;
use clap::Args;

use super::{Common, grpc::Client, load, load::Meter};

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    messages: Messages,
    /// Calls under way at a time, over all connections
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Messages a second; without it, as fast as the server answers
    #[arg(long)]
    rate: Option<u64>,
}

/// What is sent.
#[derive(Debug, Clone, Args)]
pub struct Messages {
    /// Bytes of each body
    #[arg(long, default_value_t = 1024)]
    pub size: usize,
    /// Spread over this many message groups (the topic must be FIFO)
    #[arg(long, default_value_t = 0)]
    pub groups: u64,
    /// Give every message this many keys
    #[arg(long, default_value_t = 0)]
    pub keys: u64,
    /// Deliver after this many milliseconds (the topic must be DELAY)
    #[arg(long)]
    pub delay_ms: Option<u64>,
}

/// Repeating text: it compresses as business messages do.
pub fn body(size: usize) -> Bytes {
    b"{\"order\":7361,\"sku\":\"redstart\",\"quantity\":2,\"price\":19.95}"
        .iter()
        .copied()
        .cycle()
        .take(size)
        .collect()
}

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let common = &arguments.common;
    common.check()?;
    ensure!(arguments.in_flight > 0, "--in-flight must be at least 1");
    ensure!(arguments.messages.size > 0, "--size must be at least 1: empty messages are refused");
    let meter = Meter::new(arguments.rate)?;
    let mut clients = Vec::with_capacity(common.connections);
    for n in 0..common.connections {
        clients.push(Arc::new(Client::producer(&common.server, &common.topic, n).await?));
    }
    let body = body(arguments.messages.size);
    let workers = (0..arguments.in_flight).map(|n| {
        let (meter, client) = (meter.clone(), clients[n % clients.len()].clone());
        let (messages, body) = (arguments.messages.clone(), body.clone());
        async move {
            while !meter.stopping() {
                let since = meter.turn().await;
                match client.send(&messages, body.clone()).await {
                    Ok(()) => meter.done(1, since),
                    Err(error) => meter.failed(&format!("{error:#}")),
                }
            }
        }
    });
    load::measure("produce", common, &meter, workers.collect::<Vec<_>>()).await?.print(common.json)
}
