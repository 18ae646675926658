//! `redstart bench workload`.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use clap::Args;

use redstart_commands::stdout;

use super::{
    Common, Target,
    consume::{self, From, HEAD, Receiving},
    driver::{self, Received, Receivers, Sending},
    load::{self, Meter},
    produce::{self, Messages},
    workloads::{WORKLOADS, Workload},
};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Name of the workload
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// List all workloads
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    target: Target,
    /// Calls in flight over all producers
    #[arg(long, default_value_t = 256)]
    in_flight: usize,
    /// Messages per second, instead of the workload's own rate
    #[arg(long)]
    rate: Option<u64>,
}

pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.list {
        return stdout::print(&list());
    }
    let name = arguments.name.as_deref().unwrap_or_default();
    let workload =
        Workload::named(name).with_context(|| format!("there is no workload {name:?}; see --list"))?;
    ensure!(arguments.in_flight > 0, "--in-flight must be at least 1");
    ensure!(arguments.rate != Some(0), "--rate must be at least 1");
    // Every run has its own topics, so that it receives only its own messages, also when another run starts in the same second.
    let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let run = format!("{second}-{}", std::process::id());
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
    let sending = Sending {
        messages: Messages { size: workload.size, groups: 0, keys: 0, delay_ms: None },
        batch: 1,
        in_flight: arguments.in_flight,
        clients: 0..workload.producers,
    };
    let fill = produce::body(workload.size - HEAD);
    let stamp = move |due: Instant| consume::stamped(due.saturating_duration_since(origin), &fill);
    let mut workers = driver::senders(&common, &sending, &meter, stamp, Meter::done).await?;
    for receivers in receivers {
        workers.extend(receivers.workers(&meter, move |meter: &Meter, received: &[Received], _| {
            for due in received.iter().filter_map(|message| consume::due_time(&message.body)) {
                meter.arrived(origin + due);
            }
        }));
    }
    let mut report = load::measure(workload.name, &common, &meter, workers).await?;
    let elapsed = std::time::Duration::from_secs_f64(report.seconds);
    report.end_to_end = Some(meter.end_to_end(elapsed, workload.groups as u64));
    report.print(common.target.json)
}

fn list() -> String {
    let described = |workload: &Workload| {
        let Workload { name, topics, queues, size, producers, groups, consumers, rate } = workload;
        let rate = rate.map_or("as fast as possible".to_owned(), |rate| format!("{rate} messages/s"));
        format!(
            "{name}\n    topics {topics}, queues {queues}, {size} bytes, producers {producers}, groups {groups}, \
             consumers {consumers}, {rate}\n"
        )
    };
    WORKLOADS.iter().map(described).collect()
}

/// The receivers of all groups. Every group exists on the server before the first message is sent.
async fn receivers(common: &Common, workload: &Workload) -> anyhow::Result<Vec<Receivers>> {
    let common = Common { connections: workload.consumers, ..common.clone() };
    let mut all = Vec::new();
    for group in 0..workload.groups {
        let receiving = Receiving {
            group: format!("{}-{group}", common.topic),
            batch: 32,
            receivers: workload.consumers.max(workload.queues as usize),
            from: From::Stored,
        };
        let mut receivers = Receivers::open(&common, &receiving).await?;
        receivers.join().await?;
        all.push(receivers);
    }
    Ok(all)
}
