//! `redstart-sim --seeds 1000`, `redstart-sim --seed 42`, `redstart-sim --planted ForgetAcks --seeds 50`.

use std::process::ExitCode;

use redstart_sim::{Bug, Layer, Profile, Settings, run, run_many};

const USAGE: &str = "usage: redstart-sim [--seeds N] [--from N] [--seed N] [--planted NAME] [--profile NAME] \
                     [--steps N] [--threads N] [--world engine|shard|cluster]";

struct Arguments {
    settings: Settings,
    /// All, unless one is chosen.
    layer: Option<Layer>,
    seed: Option<u64>,
    from: u64,
    seeds: u64,
    threads: usize,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments =
        Arguments { settings: Settings::default(), layer: None, seed: None, from: 0, seeds: 100, threads: 2 };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word}: {value:?} is no number"));
        match word.as_str() {
            "--seed" => arguments.seed = Some(number()?),
            "--seeds" => arguments.seeds = number()?,
            "--from" => arguments.from = number()?,
            "--steps" => arguments.settings.steps = number()? as usize,
            "--threads" => arguments.threads = number()? as usize,
            "--planted" => {
                let bug = Bug::named(&value).ok_or_else(|| {
                    let all: Vec<String> = Bug::all().into_iter().map(Bug::name).collect();
                    format!("{value:?} is no planted bug; there are {}", all.join(", "))
                })?;
                arguments.settings.bug = Some(bug);
                arguments.layer = arguments.layer.or(Some(bug.layer()));
                arguments.settings.profile = arguments.settings.profile.or(Some(bug.profile()));
            }
            "--profile" => {
                let profile = Profile::named(&value).ok_or_else(|| format!("{value:?} is no profile"))?;
                arguments.settings.profile = Some(profile);
            }
            "--world" => {
                let layer = Layer::named(&value).ok_or_else(|| format!("{value:?} is no world"))?;
                arguments.layer = Some(layer);
            }
            _ => return Err(format!("{word:?} is not known\n{USAGE}")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    if let Some(seed) = arguments.seed {
        let layer = arguments.layer.unwrap_or(Layer::Engine);
        return match run(seed, Settings { print: true, layer, ..arguments.settings }) {
            Ok(summary) => {
                println!("seed {seed} passed: {summary:?}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("{failure}");
                ExitCode::FAILURE
            }
        };
    }
    let mut passed = true;
    for layer in Layer::ALL.into_iter().filter(|layer| arguments.layer.is_none_or(|only| only == *layer)) {
        let started = std::time::Instant::now();
        let seeds = arguments.from..arguments.from + arguments.seeds;
        let failures = run_many(seeds, Settings { layer, ..arguments.settings }, arguments.threads);
        for failure in &failures {
            println!("{failure}");
        }
        let (seeds, failed, time) = (arguments.seeds, failures.len(), started.elapsed());
        println!("{layer:?}: {seeds} seeds, {failed} failed, {time:.1?}");
        passed &= failures.is_empty();
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
