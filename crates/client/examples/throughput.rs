//! How many messages a producer sends per second, to compare with `redstart bench produce`.
//!
//!     cargo run --release -p redstart-client --example throughput -- 127.0.0.1:9876 bench 64 10 [connections]
//!
//! The topic must exist. Bodies have 1,024 bytes, as those of `redstart bench`. Prints messages per second.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redstart_client::{Client, Message};

const WARM_UP: Duration = Duration::from_secs(2);
const BODY_BYTES: usize = 1024;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |name: &'static str| arguments.next().ok_or(name);
    let (server, topic) = (next("an address")?, next("a topic")?);
    let in_flight: usize = next("messages in flight")?.parse()?;
    let seconds: u64 = next("seconds")?.parse()?;
    let connections: usize = next("connections").map_or(Ok(1), |text| text.parse())?;
    let body: bytes::Bytes = b"{\"order\":7361,\"sku\":\"redstart\",\"quantity\":2,\"price\":19.95}"
        .iter()
        .copied()
        .cycle()
        .take(BODY_BYTES)
        .collect();
    let (sent, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..connections {
        let producer = Client::connect(&server).await?.producer().build().await?;
        for _ in (number..in_flight).step_by(connections) {
            let (producer, sent, stop) = (producer.clone(), sent.clone(), stop.clone());
            let (topic, body) = (topic.clone(), body.clone());
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    match producer.send(Message::new(&topic, body.clone())).await {
                        Ok(_) => sent.fetch_add(1, Ordering::Relaxed),
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
    }
    tokio::time::sleep(WARM_UP).await;
    let (began, before) = (Instant::now(), sent.load(Ordering::Relaxed));
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (took, count) = (began.elapsed(), sent.load(Ordering::Relaxed) - before);
    stop.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    println!("{:.0}", count as f64 / took.as_secs_f64());
    Ok(())
}
