//! Runs scenarios side by side, each within its time limit, and prints one result line per scenario.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocketmq::error::ClientError;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clients::Clients;

/// Why a scenario did not pass.
pub enum Failure {
    /// The released client cannot express it.
    Skipped(&'static str),
    Failed(String),
}

/// A note for the result line, possibly empty.
pub type Outcome = Result<String, Failure>;

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

pub async fn skip(reason: &'static str) -> Outcome {
    Err(Failure::Skipped(reason))
}

pub fn check(condition: bool, reason: impl Into<String>) -> Result<(), Failure> {
    condition.then_some(()).ok_or_else(|| Failure::Failed(reason.into()))
}

pub fn check_equal<T: PartialEq + Debug>(actual: T, expected: T, what: &str) -> Result<(), Failure> {
    check(actual == expected, format!("{what}: expected {expected:?}, got {actual:?}"))
}

type Run = Box<dyn Fn(Clients) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync>;

pub struct Scenario {
    name: &'static str,
    limit: Duration,
    run: Run,
    alone: bool,
}

impl Scenario {
    pub fn new<F, T>(name: &'static str, limit_s: u64, run: F) -> Self
    where
        F: Fn(Clients) -> T + Send + Sync + 'static,
        T: Future<Output = Outcome> + Send + 'static,
    {
        let run: Run = Box::new(move |clients| Box::pin(run(clients)));
        Scenario { name, limit: Duration::from_secs(limit_s), run, alone: false }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }
}

/// More than in the other languages: this client's empty receives take four times as long.
const PARALLEL: usize = 12;

/// Returns the exit code.
pub async fn run_scenarios(lang: &'static str, scenarios: Vec<Scenario>, names: &[String]) -> u8 {
    let unknown: Vec<_> = names.iter().filter(|name| !scenarios.iter().any(|s| s.name == **name)).collect();
    if !unknown.is_empty() {
        eprintln!("unknown scenario: {unknown:?}");
        return 2;
    }
    let chosen =
        scenarios.into_iter().filter(|s| names.is_empty() || names.iter().any(|name| s.name == name));
    let (alone, together): (Vec<_>, Vec<_>) = chosen.partition(|s| s.alone);

    Clients::new(lang, "plaintext").await_server().await;
    let mut code = run_together(lang, together).await;
    for scenario in alone {
        code |= u8::from(!report(lang, scenario).await);
    }
    code
}

/// Runs scenarios side by side; returns the exit code.
pub async fn run_together(lang: &'static str, scenarios: Vec<Scenario>) -> u8 {
    let parallel = std::env::var("INTEROP_PARALLEL").ok().and_then(|n| n.parse().ok()).unwrap_or(PARALLEL);
    let places = Arc::new(Semaphore::new(parallel));
    let mut running = JoinSet::new();
    for scenario in scenarios {
        let places = places.clone();
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            report(lang, scenario).await
        });
    }
    let mut passed = true;
    while let Some(result) = running.join_next().await {
        passed &= result.unwrap_or(false);
    }
    u8::from(!passed)
}

/// Prints the scenario's line; true unless it failed.
async fn report(lang: &'static str, scenario: Scenario) -> bool {
    let Scenario { name, limit, run, .. } = scenario;
    let started = Instant::now();
    // A task of its own: the client panics on answers it does not expect, and that must fail one scenario only.
    let mut task = tokio::spawn(run(Clients::new(lang, name)));
    let outcome = match tokio::time::timeout(limit, &mut task).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(Failure::Failed(panic.to_string())),
        Err(_) => {
            task.abort();
            Err(Failure::Failed(format!("not done within {} s", limit.as_secs())))
        }
    };
    eprintln!("{lang} {name} took {:.1} s", started.elapsed().as_secs_f32());
    match outcome {
        Ok(note) if note.is_empty() => println!("PASS {lang} {name}"),
        Ok(note) => println!("PASS {lang} {name} {note}"),
        Err(Failure::Skipped(reason)) => println!("SKIP {lang} {name}: {reason} (client lacks the feature)"),
        Err(Failure::Failed(reason)) => {
            let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
            println!("FAIL {lang} {name}: {}", reason.chars().take(400).collect::<String>());
            return false;
        }
    }
    true
}
