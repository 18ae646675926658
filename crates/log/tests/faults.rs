//! Full disks, failing devices, damaged files, and directories that belong to someone else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use redstart_log::{
    Cut, DiskLog, Error, FsStorage, Index, Log, Options, Position, ReadError, Recovery, SegmentInfo, Storage,
    check::{IndexState, accept_loss, check},
    sim::SimStorage,
};

const SEGMENT_BYTES: u64 = 4096;
const ACTIVE: usize = usize::MAX;
const MANIFEST_BYTES: u64 = 2048;

fn open(disk: &SimStorage) -> Result<(DiskLog, Recovery), Error> {
    DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(SEGMENT_BYTES))
}

fn payload(n: u64) -> Vec<u8> {
    (0..300 + n * 13 % 200).map(|at| (n * 17 + at) as u8).collect()
}

/// Appends frames, each one durable before the next.
fn fill(log: &mut DiskLog, count: u64) {
    for _ in 0..count {
        let index = log.appended().0 + 1;
        log.append(index, &payload(index)).unwrap();
        log.flusher().flush().unwrap();
    }
}

/// A disk with a closed log of several segments, and what the segments are.
fn filled(count: u64) -> (SimStorage, Vec<SegmentInfo>) {
    let disk = SimStorage::new(5);
    let (mut log, recovery) = open(&disk).unwrap();
    assert!(recovery.created);
    fill(&mut log, count);
    let segments = log.segments();
    (disk, segments)
}

fn file(segment: &SegmentInfo) -> String {
    format!("{:020}.log", segment.id.0)
}

fn assert_whole(log: &DiskLog) {
    let reader = log.reader();
    let mut expected = log.segments()[0].first.0;
    for segment in log.segments() {
        let mut position = Position(segment.id.0);
        while let Some(frame) = reader.frame(position).unwrap() {
            assert_eq!((frame.index.0, &frame.payload[..]), (expected, &payload(expected)[..]));
            expected += 1;
            position = frame.next;
        }
    }
    assert_eq!(expected, log.appended().0 + 1);
}

fn append_until_full(log: &mut DiskLog) {
    for _ in 0..1000 {
        let index = log.appended().0 + 1;
        let before = log.segments();
        match log.append(index, &payload(index)) {
            Ok(_) => {}
            Err(Error::NoSpace(_)) => {
                assert_eq!(log.segments(), before);
                return;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk does not run full");
}

#[test]
fn full_disk_refuses_appends_until_there_is_room() {
    let disk = SimStorage::new(1);
    disk.set_capacity(Some(3 * SEGMENT_BYTES));
    let (mut log, _) = open(&disk).unwrap();
    append_until_full(&mut log);
    let full_at = log.appended();
    // Small or large, at once or later: still no room, and nothing changes.
    append_until_full(&mut log);
    log.flusher().flush().unwrap();
    assert_eq!(log.committed(), full_at);
    let oldest = log.segments()[0].id;
    log.remove_oldest(oldest).unwrap();
    fill(&mut log, 3);
    append_until_full(&mut log);
    disk.set_capacity(None);
    fill(&mut log, 20);
    assert_whole(&log);
    drop(log);
    let (log, recovery) = open(&disk.crash(1)).unwrap();
    assert_eq!(recovery.cut, None);
    assert_whole(&log);
}

#[test]
fn part_of_a_frame_that_a_full_disk_left_does_not_matter() {
    for left in 0..600 {
        let disk = SimStorage::new(left);
        let (mut log, _) = open(&disk).unwrap();
        fill(&mut log, 2);
        disk.no_space_after(Some(left));
        let refused = (0..10).find_map(|_| {
            let index = log.appended().0 + 1;
            log.append(index, &payload(index)).err()
        });
        assert!(matches!(refused, Some(Error::NoSpace(_))), "{refused:?}");
        let last = log.appended();
        let (after, _) = open(&disk.crash(left)).unwrap();
        assert!(after.appended() <= last);
        assert_whole(&after);
        disk.no_space_after(None);
        fill(&mut log, 2);
        assert_whole(&log);
        let (after, _) = open(&disk.crash(left)).unwrap();
        assert_eq!(after.appended().0, last.0 + 2);
        assert_whole(&after);
    }
}

#[test]
fn segment_that_a_full_disk_refused_does_not_come_back() {
    for seed in 0..40 {
        let disk = SimStorage::new(seed);
        let (mut log, _) = open(&disk).unwrap();
        fill(&mut log, 2);
        // No room for another segment; what is smaller still fits into this one, so that the next begins elsewhere.
        disk.no_space_after(Some(0));
        let large = vec![1; 3000];
        let refused = (0..10).find_map(|_| log.append(1, &large).err());
        assert!(matches!(refused, Some(Error::NoSpace(_))), "{refused:?}");
        disk.no_space_after(None);
        log.append(1, b"small").unwrap();
        fill(&mut log, 8);
        let last = log.appended();
        let (after, _) = open(&disk.crash(seed)).unwrap();
        assert_eq!(after.appended(), last);
    }
}

/// A log with several segments and a spare, on a disk that has room for nothing else.
fn full_with_spare() -> (SimStorage, DiskLog) {
    let disk = SimStorage::new(1);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 20);
    make_spare(&mut log).unwrap();
    let used = disk.usage().map(|usage| usage.total - usage.free).unwrap();
    disk.set_capacity(Some(used + SEGMENT_BYTES / 2));
    (disk, log)
}

fn make_spare(log: &mut DiskLog) -> Result<(), Error> {
    log.spare_maker().map_or(Ok(()), |maker| log.put_spare(maker.make()))
}

fn append_until_rolled(log: &mut DiskLog) {
    let before = log.segments().len();
    while log.segments().len() == before {
        let index = log.appended().0 + 1;
        log.append(index, &payload(index)).unwrap();
    }
}

#[test]
fn spare_takes_frames_on_a_full_disk_and_the_rest_of_it_is_scarce() {
    let (disk, mut log) = full_with_spare();
    assert!(log.spare_maker().is_none(), "there is one");
    append_until_rolled(&mut log);
    assert!(matches!(make_spare(&mut log), Err(Error::NoSpace(_))));
    assert!(!disk.list().unwrap().contains(&"spare".to_owned()), "what was reserved is given back");
    assert_eq!(log.scarcity(), None, "the first half may be used");
    while log.scarcity().is_none() {
        fill(&mut log, 1);
    }
    let (left, whole) = (log.segments().last().copied().unwrap(), SEGMENT_BYTES);
    assert!(left.end.0 - left.id.0 > whole / 2 && left.end.0 - left.id.0 < whole / 2 + 1000, "{left:?}");
    fill(&mut log, 1);
    // Retention makes room, and then there is a spare again.
    let oldest = log.segments()[0].id;
    log.remove_oldest(oldest).unwrap();
    make_spare(&mut log).unwrap();
    assert_eq!(log.scarcity(), None);
    append_until_rolled(&mut log);
    log.flusher().flush().unwrap();
    let last = log.appended();
    let (after, _) = open(&disk.crash(1)).unwrap();
    assert_eq!(after.appended(), last);
    assert_whole(&after);
}

#[test]
fn spare_is_used_early_where_the_active_segment_has_lost_its_room() {
    let (disk, mut log) = full_with_spare();
    disk.no_space_after(Some(100));
    assert!(matches!(log.append(1, &payload(1)), Err(Error::NoSpace(_))), "a part of it was written");
    disk.no_space_after(None);
    // Enough to seal the segment, but not for a frame.
    let used = disk.usage().map(|usage| usage.total - usage.free).unwrap();
    disk.set_capacity(Some(used + 64));
    let before = log.segments().len();
    fill(&mut log, 3);
    assert_eq!(log.segments().len(), before + 1);
    let (after, _) = open(&disk.crash(1)).unwrap();
    assert_whole(&after);
}

#[test]
fn spare_counts_as_free_room() {
    let (disk, log) = full_with_spare();
    assert_eq!(disk.usage().unwrap().free, SEGMENT_BYTES / 2);
    assert_eq!(log.usage().unwrap().free, SEGMENT_BYTES / 2 + SEGMENT_BYTES);
}

#[test]
fn spare_is_used_without_waiting_for_the_disk_and_without_a_descriptor() {
    let (disk, mut log) = full_with_spare();
    log.flusher().flush().unwrap();
    let before = disk.counters();
    disk.no_descriptors(true);
    append_until_rolled(&mut log);
    let after = disk.counters();
    assert_eq!((after.log.syncs, after.dir_syncs), (before.log.syncs, before.dir_syncs));
    log.flusher().flush().unwrap();
    assert_eq!(disk.counters().dir_syncs, before.dir_syncs + 1, "its name is durable before its frames are");
}

#[test]
fn flipped_bit_in_the_header_of_a_segment_made_of_a_spare_is_damage_after_a_power_cut() {
    let (disk, mut log) = full_with_spare();
    append_until_rolled(&mut log);
    log.flusher().flush().unwrap();
    // Not synced in the manifest; the power cut loses what it says of this frame.
    fill(&mut log, 1);
    let newest = log.segments().last().copied().unwrap();
    for seed in 0..20 {
        let after = disk.crash(seed);
        assert!(after.flip_bit(&file(&newest), 20, 3));
        assert!(matches!(open(&after).map(|_| ()), Err(Error::Corrupt { .. })), "seed {seed}");
    }
}

#[test]
fn spare_with_frames_in_it_is_emptied_before_it_is_used() {
    let mut lost_names = 0;
    for seed in 0..40 {
        let (disk, mut log) = full_with_spare();
        log.flusher().flush().unwrap();
        let durable = log.appended();
        append_until_rolled(&mut log);
        // The power is cut before a flush: the new segment may still be called a spare.
        let after = disk.crash(seed);
        after.set_capacity(None);
        lost_names += usize::from(after.list().unwrap().contains(&"spare".to_owned()));
        let (mut log, _) = open(&after).unwrap();
        assert!(log.appended() >= durable);
        make_spare(&mut log).unwrap();
        append_until_rolled(&mut log);
        fill(&mut log, 1);
        let last = log.appended();
        let (log, recovery) = open(&after.crash(seed)).unwrap();
        assert_eq!((log.appended(), recovery.cut), (last, None), "seed {seed}");
        assert_whole(&log);
    }
    assert!(lost_names > 5, "{lost_names}");
}

#[test]
fn log_on_a_full_disk_opens_and_can_be_cleaned() {
    let (disk, segments) = filled(30);
    let used: u64 = segments.iter().map(|segment| segment.end.0 - segment.id.0 + 64).sum();
    let disk = disk.crash(1);
    disk.set_capacity(Some(used + MANIFEST_BYTES));
    let (mut log, _) = open(&disk).unwrap();
    assert_whole(&log);
    append_until_full(&mut log);
    for segment in &segments[..2] {
        log.remove_oldest(segment.id).unwrap();
    }
    fill(&mut log, 2);
    assert_whole(&log);
}

#[test]
fn failed_sync_poisons_the_log_until_it_is_opened_again() {
    let disk = SimStorage::new(1);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 2);
    log.append(3, &payload(3)).unwrap();
    disk.fail_sync(1);
    assert!(matches!(log.flusher().flush(), Err(Error::Io { .. })));
    assert_eq!(log.committed(), Index(2));
    assert!(matches!(log.flusher().flush(), Err(Error::Poisoned { .. })));
    assert!(matches!(log.append(4, &payload(4)), Err(Error::Poisoned { .. })));
    assert!(matches!(log.roll(), Err(Error::Poisoned { .. })));
    assert!(matches!(log.truncate(Index(1)), Err(Error::Poisoned { .. })));
    assert_eq!(log.committed(), Index(2));
    assert_whole(&log);
    drop(log);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 2);
    assert_whole(&log);
}

#[test]
fn failed_write_poisons_the_log() {
    let disk = SimStorage::new(1);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 2);
    disk.fail_write(1);
    assert!(matches!(log.append(3, &payload(3)), Err(Error::Io { .. })));
    assert!(matches!(log.append(3, &payload(3)), Err(Error::Poisoned { .. })));
    assert_eq!((log.appended(), log.committed()), (Index(2), Index(2)));
    drop(log);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 2);
    assert_whole(&log);
}

#[test]
fn failed_sync_of_the_directory_poisons_the_log() {
    let disk = SimStorage::new(1);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 2);
    disk.fail_dir_sync(1);
    assert!(log.roll().is_err());
    assert!(matches!(log.append(3, &payload(3)), Err(Error::Poisoned { .. })));
    drop(log);
    let (log, _) = open(&disk.crash(3)).unwrap();
    assert_eq!(log.appended(), Index(2));
    assert_whole(&log);
}

#[test]
fn failed_read_is_an_error_and_not_damage() {
    let disk = SimStorage::new(1);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 2);
    disk.fail_read(1);
    assert!(matches!(log.reader().frame(Position(0)), Err(ReadError::Io { .. })));
    assert_whole(&log);
}

#[test]
fn directory_in_use_is_refused_with_the_name_of_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let storage = || Arc::new(FsStorage::open(dir.path().join("deep/log")).unwrap());
    let (mut log, _) = DiskLog::open(storage(), Options::with_segment_bytes(SEGMENT_BYTES)).unwrap();
    let reader = log.reader();
    log.append(1, b"a").unwrap();
    let Err(Error::Locked { dir: named, holder }) = DiskLog::open(storage(), Options::default()) else {
        panic!("opened twice");
    };
    assert!(named.ends_with("deep/log"), "{named}");
    assert_eq!(holder, format!("process {}", std::process::id()));
    assert!(matches!(check(storage().as_ref()), Err(Error::Locked { .. })));
    let flusher = log.flusher();
    drop(log);
    // A reader left behind reads on; a writer left behind cannot disturb the next owner.
    assert!(reader.frame(Position(0)).unwrap().is_some());
    assert!(matches!(flusher.flush(), Err(Error::Poisoned { .. })));
    let (log, _) = DiskLog::open(storage(), Options::default()).unwrap();
    assert_eq!(log.appended(), Index(1));
}

#[test]
fn directory_in_use_is_refused_on_a_simulated_disk() {
    let disk = SimStorage::new(1);
    let held = open(&disk).unwrap();
    assert!(matches!(open(&disk), Err(Error::Locked { .. })));
    drop(held);
    open(&disk).unwrap();
}

#[test]
fn unknown_versions_are_refused_by_name() {
    let (disk, segments) = filled(30);
    let (mut log, _) = open(&disk).unwrap();
    log.index_writer().write(segments[0].id, b"index").unwrap();
    log.checkpoints().save(Index(5), b"state").unwrap();
    log.roll().unwrap();
    drop(log);
    let index = format!("{:020}.idx", segments[0].id.0);
    for name in
        [&file(&segments[1]), &file(segments.last().unwrap()), &index, "checkpoint-00000000000000000005"]
    {
        let disk = disk.snapshot();
        // Version 1 becomes version 3.
        assert!(disk.flip_bit(name, 7, 1));
        let refused = open(&disk).map(|_| ()).unwrap_err();
        let Error::UnknownVersion { file, found: 3, known: 1 } = &refused else {
            panic!("{name}: {refused}");
        };
        assert_eq!(file, name);
        assert!(!check(&disk).unwrap().is_sound());
    }
}

/// The frames of one segment, as (offset of the frame in its file, stored length).
fn frames_of(disk: &SimStorage, segment: &SegmentInfo) -> Vec<(u64, u64)> {
    let (log, _) = open(&disk.snapshot()).unwrap();
    let reader = log.reader();
    let (mut position, mut frames) = (Position(segment.id.0), Vec::new());
    while let Some(frame) = reader.frame(position).unwrap() {
        let start = frame.position.0 - 48;
        frames.push((start - segment.id.0, frame.next.0 - start));
        position = frame.next;
    }
    frames
}

/// A disk with one bit flipped in each byte of a frame in turn, with that frame's offset.
fn flipped(disk: &SimStorage, segment: &SegmentInfo, frame: (u64, u64)) -> impl Iterator<Item = SimStorage> {
    let (disk, name) = (disk.clone(), file(segment));
    (frame.0..frame.0 + frame.1).map(move |offset| {
        let disk = disk.snapshot();
        assert!(disk.flip_bit(&name, offset, (offset % 8) as u8));
        disk
    })
}

#[test]
fn flipped_bit_before_the_tail_stops_the_open_with_file_and_position() {
    let (disk, segments) = filled(30);
    let active = segments.last().unwrap();
    let frames = frames_of(&disk, active);
    assert!(frames.len() >= 3);
    for frame in &frames[..frames.len() - 1] {
        for disk in flipped(&disk, active, *frame) {
            let Err(Error::Corrupt { file: named, offset, position, .. }) = open(&disk) else {
                panic!("a flipped bit in frame {frame:?} goes unnoticed");
            };
            assert_eq!((named, offset, position.0), (file(active), frame.0, active.id.0 + frame.0));
            let report = check(&disk).unwrap();
            assert_eq!((report.problems.len(), report.problems[0].offset), (1, frame.0));
        }
    }
}

#[test]
fn flipped_bit_in_a_sealed_segment_is_found_by_its_readers() {
    let (disk, segments) = filled(30);
    let sealed = &segments[1];
    for frame in frames_of(&disk, sealed) {
        for disk in flipped(&disk, sealed, frame).step_by(7) {
            let (log, _) = open(&disk).unwrap();
            let refused = log.reader().frame(Position(sealed.id.0 + frame.0)).unwrap_err();
            let ReadError::Corrupt { file: named, offset, position, .. } = refused else {
                panic!("{refused}");
            };
            assert_eq!((named, offset, position.0), (file(sealed), frame.0, sealed.id.0 + frame.0));
            drop(log);
            let report = check(&disk).unwrap();
            assert_eq!((report.problems.len(), report.problems[0].offset), (1, frame.0));
        }
    }
}

/// Checks a segment as a background check does.
fn scrub(log: &DiskLog, segment: &SegmentInfo) -> Result<u64, ReadError> {
    let Some(mut scrub) = log.scrubber().unwrap().segment(segment.id)? else { return Ok(0) };
    let mut bytes = 0;
    loop {
        let piece = scrub.step()?;
        bytes += piece.bytes;
        if piece.last {
            return Ok(bytes);
        }
    }
}

#[test]
fn background_check_finds_a_flipped_bit_anywhere_in_a_sealed_segment() {
    let (disk, segments) = filled(30);
    let (log, _) = open(&disk).unwrap();
    for segment in &segments {
        let frames = if segment.active { 0 } else { segment.end.0 - segment.id.0 - 64 };
        assert_eq!(scrub(&log, segment).unwrap(), frames, "the active one is left alone");
    }
    let whole = segments[0].end.0 - segments[0].id.0 + 64;
    for offset in (0..whole).step_by(11) {
        disk.flip_bit(&file(&segments[0]), offset, 3);
        match scrub(&log, &segments[0]) {
            Err(ReadError::Corrupt { file: name, offset: at, .. }) => {
                assert!(name == file(&segments[0]) && at <= offset, "{name} {at} {offset}");
            }
            other => panic!("byte {offset}: {other:?}"),
        }
        disk.flip_bit(&file(&segments[0]), offset, 3);
    }
    log.flusher().flush().unwrap();
}

#[test]
fn after_a_rest_a_power_cut_does_not_hide_that_the_last_frame_is_gone() {
    for seed in 0..20 {
        let disk = SimStorage::new(seed);
        let (mut log, _) = open(&disk).unwrap();
        fill(&mut log, 5);
        log.flusher().sync_manifest().unwrap();
        let newest = log.segments().last().copied().unwrap();
        let after = disk.crash(seed);
        assert!(after.truncate_file(&file(&newest), newest.end.0 - newest.id.0 - 8));
        assert!(open(&after).is_err(), "seed {seed}");
    }
}

#[test]
fn flipped_bit_in_a_segment_header_is_noticed() {
    let (disk, segments) = filled(30);
    for segment in [&segments[0], &segments[1], segments.last().unwrap()] {
        for offset in 0..64 {
            let disk = disk.snapshot();
            assert!(disk.flip_bit(&file(segment), offset, 3));
            let refused = open(&disk).map(|_| ()).unwrap_err();
            assert!(matches!(refused, Error::Corrupt { .. } | Error::UnknownVersion { .. }), "{refused}");
        }
    }
}

#[test]
fn damaged_trailer_costs_a_scan_and_nothing_else() {
    let (disk, segments) = filled(30);
    let sealed = &segments[0];
    for offset in [4, 20, 50, 63] {
        let disk = disk.snapshot();
        assert!(disk.flip_bit(&file(sealed), sealed.end.0 - sealed.id.0 + offset, 0));
        let (log, recovery) = open(&disk).unwrap();
        assert_eq!((recovery.scanned_segments, recovery.cut), (2, None));
        assert_eq!(log.segments(), segments);
        drop(log);
        let (log, recovery) = open(&disk).unwrap();
        assert_eq!(recovery.scanned_segments, 1);
        assert_whole(&log);
    }
}

#[test]
fn flipped_bit_in_the_last_durable_frame_is_damage_and_not_a_torn_tail() {
    let (disk, segments) = filled(30);
    let active = segments.last().unwrap();
    let last = *frames_of(&disk, active).last().unwrap();
    for disk in flipped(&disk, active, last) {
        let Err(Error::Corrupt { file: named, offset, .. }) = open(&disk) else {
            panic!("the last frame was cut");
        };
        assert_eq!((named, offset), (file(active), last.0));
        let report = check(&disk).unwrap();
        assert_eq!((report.problems.len(), report.problems[0].offset), (1, last.0));
    }
}

#[test]
fn last_frame_of_a_log_without_a_manifest_is_cut_as_a_torn_tail() {
    let (disk, segments) = filled(30);
    let active = segments.last().unwrap();
    let last = *frames_of(&disk, active).last().unwrap();
    disk.remove("manifest").unwrap();
    assert!(disk.flip_bit(&file(active), last.0 + 60, 0));
    let (log, recovery) = open(&disk).unwrap();
    let Some(Cut { file: named, position, bytes, .. }) = recovery.cut else {
        panic!("not cut");
    };
    assert_eq!((named, position.0), (file(active), active.id.0 + last.0));
    assert!(bytes > 0 && bytes <= last.1);
    assert_eq!(log.appended(), Index(29));
    assert_whole(&log);
}

/// What was done to a file, and what must be said about it.
struct Loss {
    what: &'static str,
    segment: usize,
    /// `None` when the file was removed.
    len: Option<u64>,
}

#[test]
fn files_that_are_missing_or_shorter_are_named_at_the_start_and_by_a_check() {
    let (disk, segments) = filled(30);
    let active = segments.len() - 1;
    let last = *frames_of(&disk, &segments[active]).last().unwrap();
    let losses = [
        Loss { what: "the active segment is gone", segment: active, len: None },
        Loss { what: "the active segment is empty", segment: active, len: Some(0) },
        Loss { what: "the active segment has a header only", segment: active, len: Some(64) },
        Loss { what: "the last frame is cut off", segment: active, len: Some(last.0) },
        Loss { what: "the last frame is cut", segment: active, len: Some(last.0 + last.1 - 8) },
        Loss { what: "the oldest segment is gone", segment: 0, len: None },
        Loss { what: "a segment in the middle is gone", segment: 1, len: None },
    ];
    for Loss { what, segment, len } in losses {
        // As after a kill, and as after a power cut once the manifest was synced.
        for disk in [disk.snapshot(), disk.crash(1)] {
            let name = file(&segments[segment]);
            match len {
                None => disk.remove(&name).unwrap(),
                Some(len) => assert!(disk.truncate_file(&name, len)),
            }
            let refused = open(&disk).map(|_| ()).unwrap_err();
            let Error::Missing { file: named, offset, position, .. } = &refused else {
                panic!("{what}: {refused}");
            };
            assert_eq!((named, position.0), (&name, segments[segment].id.0 + offset), "{what}: {refused}");
            let report = check(&disk).unwrap();
            assert!(!report.is_sound(), "{what}");
            assert_eq!(report.problems[0].file, name, "{what}: {report:?}");
            let again = open(&disk).map(|_| ()).unwrap_err();
            assert_eq!(again.to_string(), refused.to_string(), "{what}: nothing was repaired");

            let aside = accept_loss(&disk).unwrap();
            assert_eq!(aside[0], "manifest", "{what}");
            let (mut log, _) = open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_whole(&log);
            fill(&mut log, 3);
            drop(log);
            assert!(check(&disk).unwrap().is_sound(), "{what}");
        }
    }
}

#[test]
fn an_accepted_loss_puts_checkpoints_of_lost_frames_aside() {
    let (disk, segments) = filled(30);
    let (log, _) = open(&disk).unwrap();
    log.checkpoints().save(Index(12), b"old").unwrap();
    log.checkpoints().save(Index(30), b"new").unwrap();
    drop(log);
    let active = segments.last().unwrap();
    disk.remove(&file(active)).unwrap();
    assert!(matches!(open(&disk), Err(Error::Missing { .. })));
    let aside = accept_loss(&disk).unwrap();
    assert_eq!(aside, ["manifest".to_owned(), format!("checkpoint-{:020}", 30)]);
    let (log, _) = open(&disk).unwrap();
    assert_eq!(log.checkpoints().load().unwrap().0[0].0, Index(12));
    assert_eq!(log.appended().0 + 1, active.first.0);
}

#[test]
fn directory_without_a_manifest_opens_as_before_and_gets_one() {
    let (disk, segments) = filled(30);
    disk.remove("manifest").unwrap();
    assert!(check(&disk).unwrap().is_sound());
    let (log, recovery) = open(&disk).unwrap();
    assert!(!recovery.damaged_manifest);
    assert_whole(&log);
    drop(log);
    disk.remove(&file(&segments[0])).unwrap();
    assert!(matches!(open(&disk), Err(Error::Missing { .. })));
}

#[test]
fn damaged_manifest_is_told_and_made_again() {
    let (disk, segments) = filled(30);
    disk.put("manifest", b"nothing of a manifest");
    let report = check(&disk).unwrap();
    assert_eq!(report.problems[0].file, "manifest");
    let (log, recovery) = open(&disk).unwrap();
    assert!(recovery.damaged_manifest);
    assert_whole(&log);
    drop(log);
    assert!(check(&disk).unwrap().is_sound());
    disk.remove(&file(&segments[0])).unwrap();
    assert!(matches!(open(&disk), Err(Error::Missing { .. })));
}

#[test]
fn lost_tail_below_a_checkpoint_stops_the_open() {
    let (disk, segments) = filled(30);
    let (log, _) = open(&disk).unwrap();
    log.checkpoints().save(Index(30), b"state").unwrap();
    drop(log);
    let active = segments.last().unwrap();
    let last = *frames_of(&disk, active).last().unwrap();
    assert!(disk.truncate_file(&file(active), last.0));
    disk.remove("manifest").unwrap();
    let before = disk.content(&file(active));
    let refused = open(&disk).map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert_eq!(disk.content(&file(active)), before, "the evidence is still there");
    assert!(!check(&disk).unwrap().is_sound());
}

#[test]
fn truncated_or_missing_segment_stops_the_open() {
    let (disk, segments) = filled(30);
    let frames = frames_of(&disk, &segments[1]);
    for len in [0, 30, 64, frames[1].0, frames[2].0 + 10] {
        let disk = disk.snapshot();
        assert!(disk.truncate_file(&file(&segments[1]), len));
        let refused = open(&disk).map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. } | Error::Missing { .. }), "{refused}");
        assert!(!check(&disk).unwrap().is_sound());
    }
    disk.remove(&file(&segments[1])).unwrap();
    let refused = open(&disk).map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. } | Error::Missing { .. }), "{refused}");
    assert!(!check(&disk).unwrap().is_sound());
}

#[test]
fn misdirected_write_is_noticed() {
    let disk = SimStorage::new(1);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 1);
    disk.misdirect_write(1, 512);
    fill(&mut log, 4);
    let first = log.reader().frame(Position(0)).unwrap().unwrap();
    assert!(matches!(log.reader().frame(first.next), Err(ReadError::Corrupt { .. })));
    drop(log);
    assert!(matches!(open(&disk), Err(Error::Corrupt { .. } | Error::Missing { .. })));
}

#[test]
fn damaged_checkpoint_is_named_and_the_older_one_serves() {
    let (disk, _) = filled(9);
    let (log, _) = open(&disk).unwrap();
    log.checkpoints().save(Index(4), b"old").unwrap();
    log.checkpoints().save(Index(8), b"new").unwrap();
    drop(log);
    let newest = "checkpoint-00000000000000000008";
    for offset in [0, 10, 33] {
        let disk = disk.snapshot();
        assert!(disk.flip_bit(newest, offset, 0));
        assert!(!check(&disk).unwrap().is_sound());
        let (log, _) = open(&disk).unwrap();
        let (good, damaged) = log.checkpoints().load().unwrap();
        assert_eq!(good, vec![(Index(4), b"old"[..].into())]);
        assert_eq!(damaged, [newest]);
    }
}

#[test]
fn damaged_and_orphaned_indexes_are_removed() {
    let (disk, segments) = filled(30);
    let (log, _) = open(&disk).unwrap();
    for segment in &segments[..2] {
        log.index_writer().write(segment.id, b"index").unwrap();
    }
    drop(log);
    let index = |segment: &SegmentInfo| format!("{:020}.idx", segment.id.0);
    assert!(disk.flip_bit(&index(&segments[0]), 9, 0));
    disk.put(&index(segments.last().unwrap()), b"of the active segment");
    disk.put("00000000000000000007.idx", b"of no segment");
    disk.put("00000000000000000007.idx.tmp", b"unfinished");
    disk.put("notes.txt", b"not ours");
    let report = check(&disk).unwrap();
    assert_eq!(report.segments[0].index, IndexState::Damaged);
    assert_eq!(report.segments[1].index, IndexState::Present);
    let (log, recovery) = open(&disk).unwrap();
    assert_eq!(recovery.damaged_indexes, [index(&segments[0])]);
    assert_eq!(recovery.removed.len(), 4);
    let has_index: Vec<bool> = log.segments().iter().map(|segment| segment.has_index).collect();
    assert_eq!(has_index[..3], [false, true, false]);
    drop(log);
    assert!(disk.content("notes.txt").is_some());
    assert!(check(&disk).unwrap().is_sound());
}

#[test]
fn open_scans_only_the_active_segment() {
    let (disk, segments) = filled(200);
    assert!(segments.len() > 20);
    let (log, recovery) = open(&disk).unwrap();
    assert_eq!((recovery.segments, recovery.scanned_segments), (segments.len(), 1));
    assert_eq!(recovery.last, Index(200));
    assert!(recovery.scanned_bytes < SEGMENT_BYTES);
    assert_eq!(log.segments(), segments);
    assert_whole(&log);
}

#[test]
fn empty_active_segment_knows_its_first_index_after_retention() {
    let disk = SimStorage::new(1);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 5);
    log.roll().unwrap();
    let oldest = log.segments()[0].id;
    log.remove_oldest(oldest).unwrap();
    drop(log);
    let (mut log, _) = open(&disk.crash(1)).unwrap();
    assert_eq!(log.appended(), Index(5));
    fill(&mut log, 1);
    assert_eq!(log.appended(), Index(6));
}

#[test]
fn terms_survive_a_restart() {
    let disk = SimStorage::new(1);
    let (mut log, _) = open(&disk).unwrap();
    log.set_term(7);
    fill(&mut log, 2);
    log.roll().unwrap();
    drop(log);
    let (log, _) = open(&disk).unwrap();
    assert_eq!(log.term(), 7);
    assert_eq!(log.reader().frame(Position(0)).unwrap().unwrap().term, 7);
}

#[test]
fn log_opened_with_smaller_segments_goes_on() {
    let disk = SimStorage::new(1);
    let (mut log, _) = DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(1 << 16)).unwrap();
    fill(&mut log, 30);
    drop(log);
    let (mut log, _) = open(&disk).unwrap();
    fill(&mut log, 30);
    assert!(log.segments().len() > 2);
    assert_whole(&log);
    drop(log);
    let (log, _) = open(&disk).unwrap();
    assert_whole(&log);
}

mod mutations {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Mutation {
        Flip { segment: usize, offset: u64, bit: u8 },
        Overwrite { segment: usize, offset: u64, bytes: Vec<u8> },
        Truncate { segment: usize, len: u64 },
        Replace { segment: usize, bytes: Vec<u8> },
        Copy { from: usize, to: usize },
    }

    fn mutation() -> impl Strategy<Value = Mutation> {
        let segment = prop_oneof![Just(0), Just(1), Just(2), Just(ACTIVE)];
        let bytes = || proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..600);
        prop_oneof![
            (segment.clone(), 0..4200u64, 0..8u8).prop_map(|(segment, offset, bit)| Mutation::Flip {
                segment,
                offset,
                bit
            }),
            (segment.clone(), 0..4200u64, bytes()).prop_map(|(segment, offset, bytes)| Mutation::Overwrite {
                segment,
                offset,
                bytes
            }),
            (segment.clone(), 0..4200u64).prop_map(|(segment, len)| Mutation::Truncate { segment, len }),
            (segment.clone(), bytes()).prop_map(|(segment, bytes)| Mutation::Replace { segment, bytes }),
            (segment.clone(), segment).prop_map(|(from, to)| Mutation::Copy { from, to }),
        ]
    }

    fn mutate(disk: &SimStorage, segments: &[SegmentInfo], mutation: &Mutation) {
        let name = |at: usize| file(&segments[at.min(segments.len() - 1)]);
        match mutation {
            Mutation::Flip { segment, offset, bit } => drop(disk.flip_bit(&name(*segment), *offset, *bit)),
            Mutation::Overwrite { segment, offset, bytes } => {
                let mut content = disk.content(&name(*segment)).unwrap();
                let end = (*offset as usize + bytes.len()).max(content.len());
                content.resize(end, 0);
                content[*offset as usize..*offset as usize + bytes.len()].copy_from_slice(bytes);
                disk.put(&name(*segment), &content);
            }
            Mutation::Truncate { segment, len } => drop(disk.truncate_file(&name(*segment), *len)),
            Mutation::Replace { segment, bytes } => disk.put(&name(*segment), bytes),
            Mutation::Copy { from, to } => disk.put(&name(*to), &disk.content(&name(*from)).unwrap()),
        }
    }

    /// Reads all that can be read. Errors are fine; a frame with other bytes than were written is not.
    fn assert_no_wrong_frame(log: &DiskLog) {
        for segment in log.segments() {
            let mut position = Position(segment.id.0);
            while let Ok(Some(frame)) = log.reader().frame(position) {
                assert_eq!(frame.payload, payload(frame.index.0));
                position = frame.next;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn damaged_log_never_panics_and_never_shows_a_wrong_frame(
            mutations in proptest::collection::vec(mutation(), 1..4),
        ) {
            let (disk, segments) = filled(30);
            for mutation in &mutations {
                mutate(&disk, &segments, mutation);
            }
            check(&disk).unwrap();
            if let Ok((mut log, _)) = open(&disk) {
                assert_no_wrong_frame(&log);
                fill(&mut log, 2);
                assert_no_wrong_frame(&log);
                let _ = log.truncate(Index(log.appended().0 - 3));
                assert_no_wrong_frame(&log);
            }
        }

        #[test]
        fn directory_of_garbage_never_panics(
            files in proptest::collection::vec(
                ("(0000000000000000[0-9]{4}\\.(log|idx))|(checkpoint-0000000000000000000[0-9])|[a-z.]{1,6}",
                 proptest::collection::vec(any::<u8>(), 0..300)),
                0..6,
            ),
        ) {
            let disk = SimStorage::new(1);
            for (name, content) in &files {
                disk.put(name, content);
            }
            let _ = check(&disk).unwrap();
            if let Ok((mut log, _)) = open(&disk) {
                fill(&mut log, 1);
                let _ = log.checkpoints().load();
            }
        }
    }
}
