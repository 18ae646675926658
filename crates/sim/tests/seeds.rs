//! Many runs, each from its seed.

use redstart_sim::{Profile, Settings, run, run_many};

const SEEDS: u64 = 500;
const SHARD_SEEDS: u64 = 500;
const CLUSTER_SEEDS: u64 = 200;

#[test]
fn every_promise_holds_over_many_seeds() {
    let failures = run_many(0..SEEDS, Settings::default(), 2);
    for failure in &failures {
        println!("{failure}\n");
    }
    let replays: Vec<String> = failures.iter().map(|failure| failure.replay()).collect();
    assert!(
        failures.is_empty(),
        "{} of {SEEDS} seeds failed; replay with:\n{}",
        failures.len(),
        replays.join("\n")
    );
}

#[test]
fn every_promise_of_the_shard_holds_over_many_seeds() {
    let failures = run_many(0..SHARD_SEEDS, Settings::shard(), 2);
    for failure in &failures {
        println!("{failure}\n");
    }
    let replays: Vec<String> = failures.iter().map(|failure| failure.replay()).collect();
    assert!(
        failures.is_empty(),
        "{} of {SHARD_SEEDS} seeds failed; replay with:\n{}",
        failures.len(),
        replays.join("\n")
    );
}

#[test]
fn every_promise_of_the_cluster_holds_over_many_seeds() {
    let failures = run_many(0..CLUSTER_SEEDS, Settings::cluster(), 2);
    for failure in &failures {
        println!("{failure}\n");
    }
    let replays: Vec<String> = failures.iter().map(|failure| failure.replay()).collect();
    assert!(
        failures.is_empty(),
        "{} of {CLUSTER_SEEDS} seeds failed; replay with:\n{}",
        failures.len(),
        replays.join("\n")
    );
}

#[test]
fn a_seed_gives_the_same_run_to_the_byte() {
    let worlds = |seed| [(seed, Settings::default()), (seed, Settings::shard())];
    let clusters = (0..10).map(|seed| (seed, Settings::cluster()));
    for (seed, settings) in (0..20).flat_map(worlds).chain(clusters) {
        let [first, second] = [run(seed, settings), run(seed, settings)];
        let [first, second] =
            [first, second].map(|summary| summary.unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn the_runs_reach_restarts_redeliveries_and_removed_segments() {
    let runs: Vec<_> = (0..120).filter_map(|seed| run(seed, Settings::default()).ok()).collect();
    let total = |of: fn(&redstart_sim::Summary) -> u64| runs.iter().map(of).sum::<u64>();
    assert!(total(|summary| summary.messages as u64) > 10_000);
    assert!(total(|summary| summary.deliveries) > 10_000);
    assert!(total(|summary| summary.restarts) > 1_200);
    assert!(total(|summary| summary.segments_removed) > 30);
}

#[test]
fn the_runs_of_a_cluster_reach_elections_crashes_and_comparisons() {
    let runs: Vec<_> = (0..20).filter_map(|seed| run(seed, Settings::cluster()).ok()).collect();
    let total = |of: fn(&redstart_sim::Summary) -> u64| runs.iter().map(of).sum::<u64>();
    assert!(total(|summary| summary.messages as u64) > 1_500);
    assert!(total(|summary| summary.deliveries) > 1_500);
    assert!(total(|summary| summary.cluster.elections) > 200);
    assert!(total(|summary| summary.cluster.crashes) > 200);
    assert!(total(|summary| summary.cluster.compared) > 2_000);
    let retention = Settings { profile: Some(Profile::Retention), ..Settings::cluster() };
    let runs = (0..20).filter_map(|seed| run(seed, retention).ok());
    assert!(runs.map(|summary| summary.cluster.catch_ups).sum::<u64>() > 5);
}
