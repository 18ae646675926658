//! A crash at every step towards the disk.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use redstart_sim::{Bug, Failure, scenario};

const VARIANTS: u64 = 3;

/// Crashes the scenario at each of its first `operations` steps; returns what was broken, and where.
fn crash_everywhere(operations: u64, bug: Option<Bug>) -> Vec<(u64, u64, Box<Failure>)> {
    let next = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (n, variant) = (at / VARIANTS + 1, at % VARIANTS);
                    if n > operations {
                        break;
                    }
                    if let Err(failure) = scenario::crash_at(n, variant, bug) {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push((n, variant, failure));
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_crash_at_any_step_loses_nothing_that_was_acknowledged_and_a_second_start_finds_the_same() {
    let undisturbed = scenario::undisturbed().unwrap_or_else(|failure| panic!("{failure}"));
    println!("{undisturbed:?}");
    assert!(undisturbed.operations > 200, "the scenario writes too little: {undisturbed:?}");
    assert!(undisturbed.segments_removed > 0, "the scenario removes no segment: {undisturbed:?}");
    let failures = crash_everywhere(undisturbed.operations, None);
    for (n, variant, failure) in &failures {
        println!("scenario::crash_at({n}, {variant}, None):\n{failure}");
    }
    let crashes = undisturbed.operations * VARIANTS;
    assert!(failures.is_empty(), "{} of {crashes} crashes broke a promise", failures.len());
}

#[test]
fn a_missing_sync_is_noticed_by_some_of_these_crashes() {
    for name in ["SkipFsync", "SkipDirSync"] {
        let bug = Bug::named(name).unwrap();
        assert!(!crash_everywhere(200, Some(bug)).is_empty(), "{name} is not noticed");
    }
}
