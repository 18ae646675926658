//! Every target for a moment: its seeds, its seeds with some bytes changed, and bytes without sense.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, path::PathBuf};

use proptest::{collection::vec, prelude::*, sample::Index, test_runner::TestRunner};
use redstart_fuzz::{TARGETS, Target};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let folder = folder().join("seeds").join(target.name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

/// A change of some bytes.
#[derive(Debug, Clone)]
enum Change {
    Set(Index, u8),
    Insert(Index, u8),
    Cut(Index),
    Remove(Index),
    /// Large numbers are what lengths are forged with.
    Fill(Index, u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        any::<Index>().prop_map(Change::Cut),
        any::<Index>().prop_map(Change::Remove),
        (any::<Index>(), prop_oneof![Just(0), Just(0x7f), Just(0xff)])
            .prop_map(|(at, byte)| Change::Fill(at, byte)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        match change {
            Change::Set(at, byte) => *at.get_mut(&mut bytes) = *byte,
            Change::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Change::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
            Change::Fill(at, byte) => {
                let at = at.index(bytes.len());
                let end = (at + 4).min(bytes.len());
                bytes[at..end].fill(*byte);
            }
        }
    }
    bytes
}

#[test]
fn no_target_fails_on_its_seeds_nor_on_what_is_near_them() {
    for target in TARGETS {
        let seeds = seeds(target);
        for seed in &seeds {
            (target.run)(seed);
        }
        let near = (any::<Index>(), vec(change(), 1..8));
        let run = |(seed, changes): (Index, Vec<Change>)| {
            (target.run)(&changed(seed.get(&seeds).clone(), &changes));
            Ok(())
        };
        TestRunner::default().run(&near, run).unwrap_or_else(|error| panic!("{}: {error}", target.name));
    }
}

#[test]
fn no_target_fails_on_bytes_without_sense() {
    for target in TARGETS {
        let run = |bytes: Vec<u8>| {
            (target.run)(&bytes);
            Ok(())
        };
        let any = vec(any::<u8>(), 0..300);
        TestRunner::default().run(&any, run).unwrap_or_else(|error| panic!("{}: {error}", target.name));
    }
}

#[test]
fn every_target_has_its_program() {
    for target in TARGETS {
        let program = folder().join(format!("fuzz_targets/{}.rs", target.name));
        assert!(program.exists(), "{}", program.display());
    }
    let programs = fs::read_dir(folder().join("fuzz_targets")).unwrap().count();
    assert_eq!(programs, TARGETS.len());
}
