//! Speed and memory of the core, measured against a baseline in the same run.
//!
//! `cargo bench -p redstart-server --bench core` runs everything; names after `--` pick scenarios. Each scenario runs
//! in a process of its own, so that memory is its own too. Data goes to a temporary directory under `TMPDIR`.

mod append;
mod delayed;
mod engine;
mod idle;
mod restart;
mod support;

use std::process::Command;

/// Tells a child process which scenario to run.
const SCENARIO: &str = "REDSTART_BENCH_SCENARIO";

type Scenario = (&'static str, fn());

const SCENARIOS: &[Scenario] = &[
    ("append-1", append::one_caller),
    ("append-64", append::many_callers),
    ("engine-append", engine::append),
    ("engine-pop-ack", engine::pop_ack),
    ("idle", idle::idle),
    ("topics-100k", restart::many_topics),
    ("delayed-1m", delayed::due_at_once),
    ("delayed-10m", delayed::pending),
    ("restart-10gb", restart::ten_gigabytes),
];

fn main() {
    if let Ok(name) = std::env::var(SCENARIO) {
        let (_, run) =
            SCENARIOS.iter().find(|(found, _)| *found == name).expect("the parent names a scenario");
        return run();
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, _) in
        SCENARIOS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name))
    {
        println!("== {name}");
        let this = std::env::current_exe().expect("the path of this program");
        // The allocator keeps what is freed, so that a second round meets memory that has been touched.
        let keep = (64_u64 << 30).to_string();
        let keep = [("MALLOC_TRIM_THRESHOLD_", &keep), ("MALLOC_MMAP_THRESHOLD_", &keep)];
        let keep = keep.into_iter().filter(|_| name.starts_with("engine"));
        let status =
            Command::new(this).env(SCENARIO, name).envs(keep).status().expect("this program runs again");
        assert!(status.success(), "{name} failed");
    }
}
