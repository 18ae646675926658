//! A taxi dispatch: orders are served in the order of their area, cars wait in Redis, rides are booked in SQLite, and everything that
//! happens later or elsewhere is a message. README.md tells the story.

mod city;
mod dispatch;
mod garage;
mod letters;
mod messages;
mod notices;
mod positions;
mod rides;
mod service;
mod store;
mod timeouts;

use city::City;
use redstart_client::Worker;

const USAGE: &str = "usage: taxi service | dispatch | office | positions | drive <car> <area>";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_target(false).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let city = City::open().await?;
    match arguments[..] {
        ["service"] => service::run(city).await,
        ["dispatch"] => keep(vec![dispatch::start(&city).await?], city).await,
        ["office"] => {
            let workers = vec![
                rides::end_rides(&city).await?,
                rides::return_cars(&city).await?,
                timeouts::start(&city).await?,
                notices::start(&city).await?,
                letters::start(&city).await?,
            ];
            keep(workers, city).await
        }
        ["positions"] => positions::follow(&city).await,
        ["drive", car, area] => positions::drive(&city, car, area).await,
        _ => anyhow::bail!(USAGE),
    }
}

/// Lets workers run until the process is told to stop, and then finish what they have begun.
async fn keep(workers: Vec<Worker>, city: City) -> anyhow::Result<()> {
    tokio::signal::ctrl_c().await?;
    let report = city.client.shutdown(std::time::Duration::from_secs(10)).await;
    tracing::info!(
        finished = report.finished,
        returned = report.returned,
        abandoned = report.abandoned,
        "stopped"
    );
    drop(workers);
    Ok(())
}
