//! One fixed run that does everything a log has to survive, crashed at every step it takes towards the disk.

use crate::{
    Bug, Failure, Profile, Settings, Violation,
    ops::Op,
    oracle::Checked,
    world::{Ending, World},
};

/// The seed whose choices fit the scenario: several segments are sealed and some of them removed.
const SEED: u64 = 7;
const ROUNDS: usize = 15;

/// One round: all kinds of messages, deliveries, then the owner's chores.
const ROUND: &[Op] = &[
    Op::Send,
    Op::SendBatch,
    Op::SendDelayed,
    Op::Settle,
    Op::Pop,
    Op::Ack,
    Op::SendHalf,
    Op::SendDedup,
    Op::SendDelayed,
    Op::Submit,
    Op::SendBatch,
    Op::Settle,
    Op::EndTransaction,
    Op::Nack,
    Op::Recall,
    Op::SendBack,
    Op::Submit,
    Op::FlushWithAppend,
    Op::Commit,
    Op::PassSeconds,
    Op::Tick,
    Op::Seal,
    Op::RunJob,
    Op::Checkpoint,
    Op::RunJob,
    Op::Retire,
    Op::Settle,
    Op::Retire,
    Op::PassLong,
    Op::Tick,
    Op::Settle,
    Op::Retire,
];

/// What the scenario does when nothing goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undisturbed {
    /// Operations that change the disk or make a change durable.
    pub operations: u64,
    pub segments_removed: u64,
}

fn world(bug: Option<Bug>) -> World {
    World::new(SEED, Settings { profile: Some(Profile::Retention), bug, ..Settings::default() })
}

/// Runs the scenario to its end.
pub fn undisturbed() -> Result<Undisturbed, Box<Failure>> {
    let mut world = world(None);
    let result = play(&mut world).and_then(|()| {
        let operations = world.storage.counters().operations;
        world.drain().map(|()| operations)
    });
    match result {
        Ok(operations) => Ok(Undisturbed { operations, segments_removed: world.segments_removed }),
        Err(violation) => Err(failure(&world, violation)),
    }
}

/// Lets the process and the power go at the `n`-th operation. `variant` decides what the disk keeps of what was not
/// synced, and at which of its own operations the first start after that is cut off, too.
pub fn crash_at(n: u64, variant: u64, bug: Option<Bug>) -> Result<(), Box<Failure>> {
    let mut world = world(bug);
    world.storage.crash_at(n);
    for _ in 0..variant {
        world.rng.draw();
    }
    let result = play(&mut world).and_then(|()| recover(&mut world, n + variant));
    result.map_err(|violation| failure(&world, violation))
}

/// Plays the scenario until it ends, or the process has died.
fn play(world: &mut World) -> Checked {
    step(world, World::open)?;
    if world.engine.is_some() {
        step(world, World::begin)?;
    }
    for _ in 0..ROUNDS {
        for op in ROUND {
            if world.restarts > 0 || world.storage.is_dead() {
                return Ok(());
            }
            step(world, |world| world.perform(*op))?;
        }
    }
    Ok(())
}

/// A process that has died cannot break a promise any more.
fn step(world: &mut World, step: impl FnOnce(&mut World) -> Checked) -> Checked {
    let result = step(world);
    if world.storage.is_dead() { Ok(()) } else { result }
}

/// Starts again, is cut off once more while doing so, and then must have everything.
fn recover(world: &mut World, n: u64) -> Checked {
    if world.restarts == 0 {
        world.stop(Ending::PowerCut)?;
    } else {
        world.stop(Ending::Kill)?;
    }
    world.storage.crash_at(1 + n % 9);
    step(world, World::open)?;
    world.stop(Ending::PowerCut)?;
    world.come_back()?;
    world.open_twice()?;
    world.drain()
}

fn failure(world: &World, violation: Violation) -> Box<Failure> {
    let settings = Settings { profile: Some(Profile::Retention), ..Settings::default() };
    Box::new(Failure { seed: SEED, settings, violation, tail: world.trace.tail() })
}
