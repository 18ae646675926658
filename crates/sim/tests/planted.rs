//! Known bugs, switched on one by one: each must be caught, or the runs that pass prove nothing.

use redstart_sim::{Bug, Settings, run};

const SEEDS: u64 = 50;

struct Caught {
    bug: Bug,
    /// Seed and promise of the first run that noticed.
    by: Option<(u64, &'static str)>,
    replay: String,
}

fn first_catch(bug: Bug) -> Caught {
    for seed in 0..SEEDS {
        if let Err(failure) = run(seed, Settings::planted(bug)) {
            return Caught { bug, by: Some((seed, failure.violation.promise)), replay: failure.replay() };
        }
    }
    Caught { bug, by: None, replay: String::new() }
}

#[test]
fn every_planted_bug_is_caught_and_without_it_the_same_seeds_pass() {
    let bugs = Bug::all();
    assert!(bugs.len() >= 10, "only {} bugs can be planted", bugs.len());
    let (left, right) = bugs.split_at(bugs.len() / 2);
    let caught: Vec<Caught> = std::thread::scope(|scope| {
        let halves = [left, right]
            .map(|half| scope.spawn(|| half.iter().map(|bug| first_catch(*bug)).collect::<Vec<_>>()));
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });

    println!("{:<22} {:>4}  caught by", "planted bug", "seed");
    for Caught { bug, by, .. } in &caught {
        let (seed, promise) =
            by.map_or(("-".to_owned(), "NOT CAUGHT"), |(seed, promise)| (seed.to_string(), promise));
        println!("{:<22} {seed:>4}  {promise}", bug.name());
    }
    for Caught { bug, by, replay } in caught {
        let Some((seed, _)) = by else { panic!("{} is not caught within {SEEDS} seeds", bug.name()) };
        let control = Settings { bug: None, ..Settings::planted(bug) };
        if let Err(failure) = run(seed, control) {
            panic!("seed {seed} fails without {} as well ({replay}):\n{failure}", bug.name());
        }
    }
}
