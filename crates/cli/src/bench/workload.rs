use std::{
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, ensure};
use clap::Args;

use super::{
    Common, Target,
    consume::{self, From, HEAD, Receiving},
    driver::{self, Producer, Receiver},
    load::{self, Meter, Worker},
    produce::{self, Messages},
    workloads::{WORKLOADS, Workload},
};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Which one
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Name them all
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    target: Target,
    /// Calls under way at a time, over all producers
    #[arg(long, default_value_t = 256)]
    in_flight: usize,
    /// Messages a second, instead of the workload's own rate
    #[arg(long)]
    rate: Option<u64>,
}

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.list {
        list();
        return Ok(());
    }
    let name = arguments.name.as_deref().unwrap_or_default();
    let workload = Workload::named(name).with_context(|| format!("no workload {name:?}; see --list"))?;
    ensure!(arguments.in_flight > 0, "--in-flight must be at least 1");
    ensure!(arguments.rate != Some(0), "--rate must be at least 1");
    // Topics of its own: what is in them is this run's.
    let run = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let common = Common {
        target: arguments.target.clone(),
        topic: format!("{name}-{run}"),
        topics: workload.topics,
        create: true,
        queues: workload.queues,
        connections: workload.producers,
        until: None,
    };
    common.check()?;
    driver::prepare(&common, None).await?;
    let rate = arguments.rate.or(workload.rate).map(|rate| load::interval(rate, 1));
    let receivers = receivers(&common, workload).await?;
    let meter = Meter::new(&common, rate)?;
    let origin = Instant::now();
    let mut workers = senders(&common, workload, arguments.in_flight, &meter, origin).await?;
    workers.extend(receivers.into_iter().map(|receiver| {
        let received = consume::receive(receiver, meter.clone(), move |meter, message, _| {
            if let Some(due) = consume::due_time(&message.body) {
                meter.arrived(origin + due);
            }
        });
        Box::pin(received) as Worker
    }));
    let mut report = load::measure(workload.name, &common, &meter, workers).await?;
    let elapsed = std::time::Duration::from_secs_f64(report.seconds);
    report.end_to_end = Some(meter.end_to_end(elapsed, workload.groups as u64));
    report.print(common.target.json)
}

fn list() {
    for Workload { name, topics, queues, size, producers, groups, consumers, rate } in WORKLOADS {
        let rate = rate.map_or("as fast as it goes".to_owned(), |rate| format!("{rate} messages/s"));
        println!(
            "{name}\n    topics {topics}, queues {queues}, {size} bytes, producers {producers}, groups {groups}, \
             consumers {consumers}, {rate}"
        );
    }
}

/// All groups' receivers; every group is known to the server before anything is sent.
async fn receivers(common: &Common, workload: &Workload) -> anyhow::Result<Vec<Receiver>> {
    let common = Common { connections: workload.consumers, ..common.clone() };
    let mut all = Vec::new();
    for group in 0..workload.groups {
        let receiving = Receiving {
            group: format!("{}-{group}", common.topic),
            batch: 32,
            receivers: workload.consumers.max(workload.queues as usize),
            from: From::Stored,
        };
        all.extend(Receiver::open_all(&common, &receiving).await?);
    }
    for receiver in &mut all {
        receiver.join().await?;
    }
    Ok(all)
}

async fn senders(
    common: &Common,
    workload: &Workload,
    in_flight: usize,
    meter: &Arc<Meter>,
    origin: Instant,
) -> anyhow::Result<Vec<Worker>> {
    let mut producers = Vec::with_capacity(workload.producers);
    for n in 0..workload.producers {
        producers.push(Arc::new(Producer::open(common, n).await?));
    }
    let messages = Messages { size: workload.size, groups: 0, keys: 0, delay_ms: None };
    let fill = produce::body(workload.size - HEAD);
    let sender = |n: usize| {
        let (meter, producer) = (meter.clone(), producers[n % producers.len()].clone());
        let (messages, fill) = (messages.clone(), fill.clone());
        Box::pin(async move {
            while !meter.stopping() {
                let since = meter.turn().await;
                let body = consume::stamped(since.saturating_duration_since(origin), &fill);
                match producer.send(&messages, body, 1).await {
                    Ok(()) => meter.done(1, since),
                    Err(error) => meter.failed(&format!("{error:#}")),
                }
            }
        }) as Worker
    };
    Ok((0..in_flight).map(sender).collect())
}
