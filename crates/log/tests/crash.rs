//! What a crash may cost: whatever was not committed. And what it may not: anything else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use redstart_log::{
    DiskLog, Error, Frame, Index, Log, Options, Planted, Position, Recovery,
    check::check,
    sim::{Random, SimStorage},
};

const SEGMENT_BYTES: u64 = 4096;

fn options() -> Options {
    Options::with_segment_bytes(SEGMENT_BYTES)
}

fn open(disk: &SimStorage) -> Result<(DiskLog, Recovery), Error> {
    DiskLog::open(Arc::new(disk.clone()), options())
}

fn payload(n: u64, len: u64) -> Vec<u8> {
    let mut random = Random::new(n);
    (0..len).map(|_| random.next() as u8).collect()
}

fn frames(log: &DiskLog) -> Vec<Frame> {
    let reader = log.reader();
    let mut frames = Vec::new();
    for segment in log.segments() {
        let mut position = Position(segment.id.0);
        while let Some(frame) = reader.frame(position).unwrap() {
            position = frame.next;
            frames.push(frame);
        }
        assert_eq!(position.0.max(segment.id.0 + 64), segment.end.0, "segment {segment:?}");
    }
    frames
}

/// What the log has acknowledged, and must keep.
#[derive(Clone, Debug, Default)]
struct Acknowledged {
    /// Every payload that was ever handed to append, by index; the last one counts.
    given: BTreeMap<u64, Vec<Vec<u8>>>,
    committed: u64,
    /// Frames up to here may be gone, because a segment's removal was begun.
    removed: u64,
    /// Frames after this may be gone, because a truncation was begun.
    truncated: Option<u64>,
    /// The newest two.
    checkpoints: Vec<u64>,
    indexes: BTreeMap<u64, Vec<u8>>,
}

/// A life with everything in it. Ends early, with an error, where the disk dies.
struct Life {
    log: DiskLog,
    acknowledged: Acknowledged,
    random: Random,
    /// Segments are made ahead of need.
    spares: bool,
}

/// Makes the next segment, if it is wanted.
fn make_spare(log: &mut DiskLog) -> Result<(), Error> {
    log.spare_maker().map_or(Ok(()), |maker| log.put_spare(maker.make()))
}

impl Life {
    fn append(&mut self, count: u64) -> Result<(), Error> {
        for _ in 0..count {
            let index = self.log.appended().0 + 1;
            let len = self.random.below(900);
            let bytes = payload(self.random.next(), len);
            self.acknowledged.given.entry(index).or_default().push(bytes.clone());
            self.log.append(index * 10, &bytes)?;
            if self.spares && self.random.one_in(2) {
                make_spare(&mut self.log)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.acknowledged.committed = self.log.flusher().flush()?.0;
        Ok(())
    }

    fn store_index(&mut self) -> Result<(), Error> {
        let sealed = self.log.segments().into_iter().find(|segment| !segment.active && !segment.has_index);
        if let Some(sealed) = sealed {
            let index = payload(sealed.id.0, 700);
            self.acknowledged.indexes.insert(sealed.id.0, index.clone());
            self.log.index_writer().write(sealed.id, &index)?;
        }
        Ok(())
    }

    fn save_checkpoint(&mut self, at: u64) -> Result<(), Error> {
        self.log.checkpoints().save(Index(at), &payload(at, 1500))?;
        self.acknowledged.checkpoints.push(at);
        let old = self.acknowledged.checkpoints.len().saturating_sub(2);
        self.acknowledged.checkpoints.drain(..old);
        Ok(())
    }

    fn remove_oldest(&mut self) -> Result<(), Error> {
        let oldest = self.log.segments()[0];
        if !oldest.active {
            self.acknowledged.removed = oldest.last.0;
            self.log.remove_oldest(oldest.id)?;
        }
        Ok(())
    }

    fn truncate(&mut self, last: u64) -> Result<(), Error> {
        self.acknowledged.truncated = Some(last);
        self.acknowledged.checkpoints.retain(|at| *at <= last);
        self.log.truncate(Index(last))?;
        self.acknowledged.committed = self.acknowledged.committed.min(last);
        self.acknowledged.truncated = None;
        for given in self.acknowledged.given.range_mut(last + 1..) {
            given.1.clear();
        }
        Ok(())
    }

    fn live(&mut self) -> Result<(), Error> {
        self.append(3)?;
        self.flush()?;
        self.append(8)?;
        self.flush()?;
        self.store_index()?;
        self.save_checkpoint(9)?;
        self.append(4)?;
        self.log.roll()?;
        self.append(2)?;
        self.flush()?;
        self.store_index()?;
        self.remove_oldest()?;
        self.append(5)?;
        self.save_checkpoint(self.acknowledged.committed)?;
        self.flush()?;
        self.truncate(self.acknowledged.committed - 2)?;
        self.append(3)?;
        self.flush()?;
        self.store_index()?;
        let back = self.log.segments()[1].first.0;
        self.truncate(back)?;
        self.append(7)?;
        self.flush()?;
        self.remove_oldest()?;
        self.append(2)
    }
}

/// Lives until the end, or until the disk dies.
fn live(disk: &SimStorage, seed: u64) -> Option<Acknowledged> {
    let (log, _) = open(disk).ok()?;
    let mut life =
        Life { log, acknowledged: Acknowledged::default(), random: Random::new(seed), spares: seed % 2 == 1 };
    let lived = life.live();
    assert!(lived.is_ok() || disk.is_dead(), "seed {seed}: {lived:?}");
    Some(life.acknowledged)
}

/// Opens what a crash left, and compares it with what was acknowledged.
fn assert_kept(disk: &SimStorage, acknowledged: &Acknowledged, what: &str) {
    let report = check(disk).unwrap_or_else(|err| panic!("{what}: check: {err}"));
    assert!(report.is_sound(), "{what}: {report:?}");
    let (log, _) = open(disk).unwrap_or_else(|err| panic!("{what}: {err}"));
    let found = frames(&log);
    let first = log.segments()[0].first.0;
    assert!(first <= acknowledged.removed + 1, "{what}: frames before {first} are gone");
    let must_have =
        acknowledged.truncated.map_or(acknowledged.committed, |last| last.min(acknowledged.committed));
    assert!(log.appended().0 >= must_have, "{what}: {must_have} was committed, {} is there", log.appended());
    assert_eq!(log.committed(), log.appended(), "{what}: what is found on open is durable");
    for (frame, index) in found.iter().zip(first..) {
        assert_eq!(frame.index.0, index, "{what}");
        let given = acknowledged.given.get(&index).map(Vec::as_slice).unwrap_or_default();
        assert!(given.iter().any(|given| *given == frame.payload), "{what}: frame {index} was never given");
        assert_eq!(frame.timestamp_ms, index * 10, "{what}");
    }
    assert_eq!(found.len() as u64, log.appended().0 + 1 - first, "{what}");
    let (checkpoints, damaged) = log.checkpoints().load().unwrap();
    assert_eq!(damaged, Vec::<String>::new(), "{what}");
    let newest = checkpoints.first().map_or(0, |(at, _)| at.0);
    assert!(
        Some(&newest) >= acknowledged.checkpoints.last(),
        "{what}: {newest} is left of {:?}",
        acknowledged.checkpoints
    );
    for (at, state) in checkpoints {
        assert_eq!(state, payload(at.0, 1500), "{what}");
    }
    for segment in log.segments().iter().filter(|segment| segment.has_index) {
        let reader = log.reader();
        let len = reader.index_len(segment.id).unwrap().unwrap() as usize;
        assert_eq!(
            reader.index_read(segment.id, 0, len).unwrap(),
            acknowledged.indexes[&segment.id.0],
            "{what}"
        );
    }
}

fn operations_of_a_life(seed: u64) -> u64 {
    let disk = SimStorage::new(seed);
    live(&disk, seed).unwrap();
    disk.counters().operations
}

#[test]
fn committed_frames_survive_a_crash_at_every_step() {
    for life in 0..8 {
        let operations = operations_of_a_life(life);
        assert!(operations > 100, "{operations}");
        for at in 1..=operations {
            let disk = SimStorage::new(life);
            disk.crash_at(at);
            let acknowledged = live(&disk, life).unwrap_or_default();
            for seed in 0..12 {
                let after = disk.crash(at * 1000 + seed);
                assert_kept(&after, &acknowledged, &format!("life {life}, crash at step {at}, seed {seed}"));
            }
            // A process that was killed, on a machine that goes on.
            assert_kept(&disk.snapshot(), &acknowledged, &format!("life {life}, kill at step {at}"));
        }
    }
}

#[test]
fn recovery_is_idempotent_when_it_crashes_itself() {
    let operations = operations_of_a_life(3);
    for at in (1..=operations).step_by(3) {
        let disk = SimStorage::new(3);
        disk.crash_at(at);
        let acknowledged = live(&disk, 3).unwrap_or_default();
        let after = disk.crash(at);
        let whole = after.snapshot();
        let expected = open(&whole).map(|(log, _)| frames(&log)).unwrap();
        for step in 1.. {
            let again = after.snapshot();
            again.crash_at(step);
            let finished = open(&again).is_ok();
            let what = format!("crash at step {at}, and at step {step} of its recovery");
            for seed in 0..2 {
                let twice = again.crash(step * 100 + seed);
                assert_kept(&twice, &acknowledged, &what);
                let (log, _) = open(&twice).unwrap();
                assert_eq!(frames(&log), expected, "{what}");
            }
            if finished && !again.is_dead() {
                break;
            }
        }
    }
}

#[test]
fn opening_again_finds_the_same() {
    for seed in 0..40 {
        let disk = SimStorage::new(seed);
        disk.crash_at(40 + seed * 3);
        live(&disk, seed);
        let after = disk.crash(seed);
        let first = open(&after).map(|(log, _)| (frames(&log), log.segments())).unwrap();
        let (log, recovery) = open(&after).unwrap();
        assert_eq!((frames(&log), log.segments()), first, "seed {seed}");
        assert_eq!(recovery.cut, None, "seed {seed}");
        assert_eq!(recovery.removed, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn frames_that_reached_the_disk_out_of_order_are_a_torn_tail() {
    let (mut cut, mut kept_all) = (0, 0);
    for seed in 0..60 {
        let disk = SimStorage::new(seed);
        let (mut log, _) = open(&disk).unwrap();
        for n in 0..2 {
            log.append(n, &payload(n, 100)).unwrap();
        }
        log.flusher().flush().unwrap();
        for n in 2..7 {
            log.append(n, &payload(n, 500)).unwrap();
        }
        let (after, recovery) = open(&disk.crash(seed)).unwrap();
        assert!(after.appended() >= Index(2));
        cut += usize::from(recovery.cut.is_some());
        kept_all += usize::from(after.appended() == Index(7));
    }
    assert!(cut > 10 && kept_all > 5, "{cut} {kept_all}");
}

#[test]
fn frames_found_after_a_failed_sync_are_written_again() {
    for seed in 0..40 {
        let disk = SimStorage::new(seed);
        let (mut log, _) = open(&disk).unwrap();
        log.append(1, &payload(1, 700)).unwrap();
        log.flusher().flush().unwrap();
        for n in 2..6 {
            log.append(n, &payload(n, 700)).unwrap();
        }
        disk.fail_sync(1);
        assert!(log.flusher().flush().is_err());
        drop(log);
        // The kernel shows the bytes and would call a sync of them a success; the disk does not have them.
        let (log, _) = open(&disk).unwrap();
        let seen = frames(&log);
        let committed = log.committed();
        assert_eq!(committed, log.appended());
        drop(log);
        let (log, _) = open(&disk.crash(seed)).unwrap();
        assert_eq!(frames(&log), seen, "seed {seed}");
    }
}

/// Random work, random flushes, a crash at a random place; true if the log kept what it acknowledged.
fn keeps_its_word(seed: u64, planted: Option<Planted>) -> bool {
    let run = || {
        let mut random = Random::new(seed);
        let mut disk = SimStorage::new(seed);
        let mut acknowledged = Acknowledged::default();
        let mut options = options();
        options.planted = planted;
        options.ahead_bytes = [0, 256, 4096][seed as usize % 3];
        for life in 0..4 {
            let Ok((log, _)) = DiskLog::open(Arc::new(disk.clone()), options.clone()) else {
                panic!("does not open");
            };
            assert!(log.appended().0 >= acknowledged.committed, "committed frames are gone");
            for frame in frames(&log) {
                assert_eq!(
                    acknowledged.given[&frame.index.0].last(),
                    Some(&frame.payload.to_vec()),
                    "wrong frame"
                );
            }
            let last = log.appended().0;
            acknowledged.given.split_off(&(last + 1));
            acknowledged.committed = last;
            let flusher = log.flusher();
            let log = Arc::new(Mutex::new(log));
            let given = Arc::new(Mutex::new(std::mem::take(&mut acknowledged.given)));
            let append = {
                let (log, given) = (Arc::clone(&log), Arc::clone(&given));
                move |bytes: Vec<u8>| {
                    // A sync that the owner itself waits for, for a new segment, has nobody to append meanwhile.
                    let Ok(mut log) = log.try_lock() else {
                        return;
                    };
                    let appended = log.append(0, &bytes).ok();
                    if seed % 4 > 1 {
                        let _ = make_spare(&mut log);
                    }
                    if let Some(appended) = appended {
                        given.lock().unwrap().insert(appended.index.0, vec![bytes]);
                    }
                }
            };
            // While a sync runs, the owner goes on appending.
            let while_syncing = append.clone();
            let salt = AtomicU64::new(random.next());
            disk.on_sync(Some(Arc::new(move || {
                while_syncing(payload(salt.fetch_add(1, Ordering::Relaxed), 200));
            })));
            if random.one_in(3) {
                disk.fail_sync(1 + random.below(6));
            }
            for _ in 0..random.below(12) {
                if random.one_in(3) {
                    if let Ok(index) = flusher.flush() {
                        acknowledged.committed = index.0;
                    }
                } else {
                    // Often of one size, so that old frames stand where new ones could.
                    let len =
                        if seed.is_multiple_of(2) || random.one_in(2) { 200 } else { random.below(1500) };
                    append(payload(random.next(), len));
                }
            }
            disk.on_sync(None);
            drop(append);
            drop(log);
            acknowledged.given = std::mem::take(&mut given.lock().unwrap());
            disk = disk.crash(seed * 10 + life);
        }
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok()
}

#[test]
fn log_keeps_its_word_over_many_crashes() {
    for seed in 0..150 {
        assert!(keeps_its_word(seed, None), "seed {seed}");
    }
}

#[test]
fn every_planted_bug_is_noticed() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<Planted> = Planted::ALL
        .into_iter()
        .filter(|planted| (0..400).all(|seed| keeps_its_word(seed, Some(*planted))))
        .collect();
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "{missed:?}");
}
