//! What every log promises, whatever holds its bytes. Each provider runs all of it: see `providers.rs`.

use bytes::Bytes;
use redstart_log::{Appended, Error, Frame, Index, Log, MemoryLog, Options, Position, ReadError, SegmentId};

/// The size of the segments that the suite expects: small, so that logs have several.
pub const SEGMENT_BYTES: u64 = 8192;

/// Declares tests, for one way to make a log.
macro_rules! promises {
    ($make:expr, $($name:ident)*) => {$(
        #[test]
        fn $name() {
            let made = $make;
            crate::suite::$name(made().log.as_mut());
        }
    )*};
}
pub(crate) use promises;

/// What every log promises.
macro_rules! suite {
    ($provider:ident, $make:expr) => {
        mod $provider {
            crate::suite::promises! { $make,
                appended_frame_reads_back
                payload_is_at_the_position_that_append_names
                indexes_are_consecutive
                flush_commits_what_was_appended
                full_segment_makes_place_for_the_next
                positions_follow_each_other_across_segments
                walk_over_a_segment_ends_at_its_end
                any_position_leads_to_the_next_frame
                roll_of_an_empty_segment_does_nothing
                payload_over_the_limit_is_refused_and_changes_nothing
                largest_payload_fits
                empty_payload_is_a_frame
                only_the_oldest_sealed_segment_can_be_removed
                removed_positions_say_so
                reads_beyond_the_end_are_refused
                what_is_read_along_is_what_is_there
                stored_index_is_served
                active_segment_takes_no_index
                index_of_a_removed_segment_is_not_kept
                newest_two_checkpoints_are_kept
                checkpoint_of_an_unknown_frame_is_refused
                checkpoint_makes_its_frames_durable
                usage_is_known
                readers_see_whole_frames_while_the_owner_appends
            }
        }
    };
}
pub(crate) use suite;

/// What a log promises whose tail its owner may cut, because no other node has a say in it.
macro_rules! local_suite {
    ($provider:ident, $make:expr) => {
        mod $provider {
            crate::suite::promises! { $make,
                new_log_is_empty
                truncate_drops_frames_and_their_indexes_are_used_again
                truncate_reaches_back_over_segments
                truncate_of_everything_leaves_an_empty_log
                truncate_refuses_what_it_does_not_hold
                truncate_drops_checkpoints
                what_is_read_along_after_a_cut_is_what_is_there
                frames_of_another_replica_keep_their_places
                frame_that_does_not_follow_is_refused
                term_before_the_oldest_frame_is_known
            }
        }
    };
}
#[allow(unused_imports, reason = "a replicated log makes none of these promises")]
pub(crate) use local_suite;

pub fn payload(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (seed.wrapping_mul(31).wrapping_add(at * 7) % 251) as u8).collect()
}

/// All frames of a log, in order.
pub fn frames(log: &dyn Log) -> Vec<Frame> {
    let reader = log.reader();
    let mut frames = Vec::new();
    for segment in log.segments() {
        let mut position = Position(segment.id.0);
        while let Some(frame) = reader.frame(position).unwrap() {
            position = frame.next;
            frames.push(frame);
        }
        assert_eq!(position.0.max(segment.id.0 + 64), segment.end.0);
    }
    frames
}

fn append_many(log: &mut dyn Log, count: u64) -> Vec<Appended> {
    (0..count).map(|n| log.append(1000 + n, &payload(n, 1000)).unwrap()).collect()
}

pub fn appended_frame_reads_back(log: &mut dyn Log) {
    let before = log.appended().0;
    let appended = log.append(1234, b"hello").unwrap();
    let frame = frames(log).pop().unwrap();
    assert_eq!(frame.index, Index(before + 1));
    assert_eq!(frame.index, appended.index);
    assert_eq!(frame.timestamp_ms, 1234);
    assert_eq!(&frame.payload[..], b"hello");
    assert_eq!(frame.position, appended.payload);
    assert_eq!(log.reader().frame(frame.next).unwrap(), None);
}

pub fn payload_is_at_the_position_that_append_names(log: &mut dyn Log) {
    let appended = append_many(log, 30);
    for (n, appended) in appended.iter().enumerate() {
        let bytes = log.reader().read(appended.payload, 1000).unwrap();
        assert_eq!(bytes, payload(n as u64, 1000));
        let part = log.reader().read(Position(appended.payload.0 + 10), 20).unwrap();
        assert_eq!(part, payload(n as u64, 1000)[10..30]);
    }
}

pub fn new_log_is_empty(log: &mut dyn Log) {
    assert_eq!((log.appended(), log.committed()), (Index(0), Index(0)));
    assert_eq!(frames(log), vec![]);
}

pub fn indexes_are_consecutive(log: &mut dyn Log) {
    let before = log.appended().0;
    append_many(log, 20);
    let indexes: Vec<u64> = frames(log).iter().map(|frame| frame.index.0).collect();
    assert_eq!(indexes, (1..=before + 20).collect::<Vec<_>>());
    assert_eq!(log.appended(), Index(before + 20));
}

pub fn flush_commits_what_was_appended(log: &mut dyn Log) {
    let before = log.committed().0;
    append_many(log, 12);
    assert_eq!(log.committed(), Index(before));
    assert_eq!(log.flusher().flush().unwrap(), Index(before + 12));
    assert_eq!(log.committed(), Index(before + 12));
    append_many(log, 1);
    assert_eq!(log.committed(), Index(before + 12));
}

pub fn full_segment_makes_place_for_the_next(log: &mut dyn Log) {
    let before = log.appended().0;
    append_many(log, 20);
    let segments = log.segments();
    assert!(segments.len() >= 3, "{segments:?}");
    for pair in segments.windows(2) {
        assert_eq!(pair[0].last.0 + 1, pair[1].first.0);
        assert!(!pair[0].active);
        assert_eq!(pair[0].last_timestamp_ms, 1000 + pair[0].last.0 - before - 1);
    }
    let last = segments.last().unwrap();
    assert!(last.active);
    assert_eq!(last.last, Index(before + 20));
}

pub fn positions_follow_each_other_across_segments(log: &mut dyn Log) {
    append_many(log, 20);
    let segments = log.segments();
    assert_eq!(segments[0].id, SegmentId(0));
    for pair in segments.windows(2) {
        // The end of one is not the beginning of the next, so that a reader can stand at either.
        assert_eq!(pair[0].end.0 + 64, pair[1].id.0);
        assert!(pair[1].id.0 - pair[0].id.0 <= SEGMENT_BYTES);
    }
}

pub fn walk_over_a_segment_ends_at_its_end(log: &mut dyn Log) {
    let before = log.appended().0 as usize;
    append_many(log, 20);
    for segment in log.segments() {
        assert_eq!(log.reader().frame(segment.end).unwrap(), None);
    }
    assert_eq!(frames(log).len(), before + 20);
}

pub fn any_position_leads_to_the_next_frame(log: &mut dyn Log) {
    append_many(log, 9);
    let frames = frames(log);
    let reader = log.reader();
    let first_segment: Vec<_> = frames.iter().filter(|frame| frame.next <= log.segments()[0].end).collect();
    for pair in first_segment.windows(2) {
        assert_eq!(reader.frame(pair[0].position).unwrap().as_ref(), Some(pair[1]));
        let inside = Position(pair[0].position.0 + (pair[0].payload.len() as u64).min(333));
        assert_eq!(reader.frame(inside).unwrap().as_ref(), Some(pair[1]));
    }
    let last = first_segment.last().unwrap();
    assert_eq!(reader.frame(last.position).unwrap(), None);
}

pub fn roll_of_an_empty_segment_does_nothing(log: &mut dyn Log) {
    let before = log.appended().0;
    log.roll().unwrap();
    let segments = log.segments().len();
    log.roll().unwrap();
    assert_eq!(log.segments().len(), segments);
    log.append(1, b"a").unwrap();
    log.roll().unwrap();
    log.roll().unwrap();
    assert_eq!(log.segments().len(), segments + 1);
    let empty = *log.segments().last().unwrap();
    assert!(empty.first > empty.last, "{empty:?}");
    assert_eq!(empty.last_timestamp_ms, 0);
    assert_eq!(log.append(2, b"b").unwrap().segment, empty.id);
    assert_eq!(log.flusher().flush().unwrap(), Index(before + 2));
}

pub fn payload_over_the_limit_is_refused_and_changes_nothing(log: &mut dyn Log) {
    let first = log.append(1, b"a").unwrap().index.0;
    let before = log.segments();
    let refused = log.append(2, &vec![0; SEGMENT_BYTES as usize]).unwrap_err();
    assert!(matches!(refused, Error::FrameTooLarge { .. }), "{refused}");
    assert_eq!(log.segments(), before);
    assert_eq!(log.append(2, b"b").unwrap().index, Index(first + 1));
}

pub fn largest_payload_fits(log: &mut dyn Log) {
    let first = log.append(1, b"a").unwrap().index.0;
    let Err(Error::FrameTooLarge { limit, .. }) = log.append(2, &vec![0; SEGMENT_BYTES as usize]) else {
        panic!("a payload as large as a segment is accepted");
    };
    let largest = payload(5, limit);
    let appended = log.append(2, &largest).unwrap();
    assert_eq!(log.reader().read(appended.payload, limit).unwrap(), largest);
    assert_eq!(log.append(3, &largest).unwrap().index, Index(first + 2));
    assert_eq!(log.flusher().flush().unwrap(), Index(first + 2));
    assert_eq!(log.segments().len(), 3);
}

pub fn empty_payload_is_a_frame(log: &mut dyn Log) {
    let empty = log.append(1, b"").unwrap();
    log.append(2, b"x").unwrap();
    let frames = frames(log);
    assert_eq!(frames.len() as u64, empty.index.0 + 1);
    assert!(frames[frames.len() - 2].payload.is_empty());
}

pub fn truncate_drops_frames_and_their_indexes_are_used_again(log: &mut dyn Log) {
    append_many(log, 5);
    log.flusher().flush().unwrap();
    log.truncate(Index(3)).unwrap();
    assert_eq!((log.appended(), log.committed()), (Index(3), Index(3)));
    assert_eq!(frames(log).len(), 3);
    assert_eq!(log.segments()[0].last_timestamp_ms, 1002);
    assert_eq!(log.append(9, b"other").unwrap().index, Index(4));
    assert_eq!(&frames(log)[3].payload[..], b"other");
    assert_eq!(log.flusher().flush().unwrap(), Index(4));
    log.truncate(Index(4)).unwrap();
    assert_eq!(log.appended(), Index(4));
}

/// Also where the other replica has begun segments that this one would not have begun.
pub fn frames_of_another_replica_keep_their_places(log: &mut dyn Log) {
    let mut other = MemoryLog::with_options(Options::with_segment_bytes(4 * SEGMENT_BYTES));
    for n in 0..40 {
        other.set_term(1 + n / 7);
        other.append(1000 + n, &payload(n, 1000)).unwrap();
        if n % 9 == 0 {
            other.roll().unwrap();
        }
    }
    let theirs = frames(&other);
    for frame in &theirs {
        log.copy(frame).unwrap();
    }
    assert_eq!(frames(log), theirs);
    assert_eq!(log.flusher().flush().unwrap(), Index(40));
    let layout =
        |log: &dyn Log| log.segments().iter().map(|at| (at.id, at.end, at.first)).collect::<Vec<_>>();
    assert_eq!(layout(log), layout(&other)[..log.segments().len()]);
    // A tail that was cut is written again by another leader, in a segment of its own.
    for cut in [33, 28, 27] {
        for log in [&mut *log, &mut other] {
            log.truncate(Index(cut)).unwrap();
        }
        other.roll().unwrap();
        other.set_term(100 - cut);
        for n in 0..5 {
            other.append(2000, &payload(n, 700)).unwrap();
        }
        for frame in frames(&other).iter().filter(|frame| frame.index.0 > cut) {
            log.copy(frame).unwrap();
        }
        assert_eq!(frames(log), frames(&other));
    }
}

pub fn frame_that_does_not_follow_is_refused(log: &mut dyn Log) {
    let mut other = MemoryLog::with_options(Options::with_segment_bytes(SEGMENT_BYTES));
    append_many(&mut other, 20);
    let theirs = frames(&other);
    for frame in &theirs[..10] {
        log.copy(frame).unwrap();
    }
    let before = frames(log);
    let moved = Frame { position: Position(theirs[10].position.0 + 8), ..theirs[10].clone() };
    let low = Frame { position: Position(3), ..theirs[10].clone() };
    for wrong in [&theirs[9], &theirs[11], &theirs[0], &moved, &low] {
        assert!(matches!(log.copy(wrong), Err(Error::Misplaced { .. })), "{wrong:?}");
        assert_eq!(frames(log), before);
    }
    log.copy(&theirs[10]).unwrap();
}

pub fn term_before_the_oldest_frame_is_known(log: &mut dyn Log) {
    assert_eq!(log.previous_term(), 0);
    for term in 1..=20 {
        log.set_term(term);
        log.append(term, &payload(term, 1000)).unwrap();
    }
    let oldest = log.segments()[0];
    assert_eq!(log.previous_term(), 0);
    log.remove_oldest(oldest.id).unwrap();
    assert_eq!(log.previous_term(), oldest.last.0);
}

/// Also when the log has grown since.
pub fn what_is_read_along_is_what_is_there(log: &mut dyn Log) {
    append_many(log, 2);
    check_read_along(log, &mut frames(log).into_iter());
    append_many(log, 30);
    check_read_along(log, &mut frames(log).into_iter());
}

/// Also when the log was cut and holds something else.
pub fn what_is_read_along_after_a_cut_is_what_is_there(log: &mut dyn Log) {
    append_many(log, 32);
    check_read_along(log, &mut frames(log).into_iter());
    log.flusher().flush().unwrap();
    log.truncate(Index(31)).unwrap();
    for number in 0..12 {
        log.append(9, &payload(1000 + number, 50)).unwrap();
        // The last one first: it was read last before the cut.
        check_read_along(log, &mut frames(log).into_iter().rev());
    }
}

fn check_read_along(log: &dyn Log, frames: &mut dyn Iterator<Item = Frame>) {
    let reader = log.reader();
    for frame in frames {
        for len in [1, 9, (frame.next.0 - frame.position.0) as usize] {
            if frame.position.0 + len as u64 > frame.next.0 {
                continue;
            }
            let there = reader.read(frame.position, len).unwrap();
            let block = reader.read_near(frame.position, len).unwrap();
            assert_eq!(block.get(frame.position, len), Some(&there[..]));
        }
    }
    let end = log.segments().last().unwrap().end;
    assert!(matches!(reader.read_near(end, 1), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(reader.read_near(end, usize::MAX), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(reader.read_near(Position(u64::MAX), 1), Err(ReadError::OutOfRange { .. })));
}

pub fn truncate_reaches_back_over_segments(log: &mut dyn Log) {
    append_many(log, 30);
    log.flusher().flush().unwrap();
    let sealed = log.segments()[0];
    log.index_writer().write(sealed.id, b"index").unwrap();
    let cut_off = frames(log).last().unwrap().position;
    log.truncate(Index(2)).unwrap();
    let segments = log.segments();
    assert_eq!(segments.len(), 1);
    assert!(segments[0].active && !segments[0].has_index);
    assert!(matches!(log.reader().read(cut_off, 1), Err(ReadError::OutOfRange { .. })));
    append_many(log, 30);
    assert_eq!(log.flusher().flush().unwrap(), Index(32));
    assert_eq!(frames(log).len(), 32);
}

pub fn truncate_of_everything_leaves_an_empty_log(log: &mut dyn Log) {
    append_many(log, 12);
    log.truncate(Index(0)).unwrap();
    assert_eq!(frames(log), vec![]);
    assert_eq!(log.append(1, b"again").unwrap().index, Index(1));
    assert_eq!(log.flusher().flush().unwrap(), Index(1));
}

pub fn truncate_refuses_what_it_does_not_hold(log: &mut dyn Log) {
    append_many(log, 20);
    let refused = log.truncate(Index(21)).unwrap_err();
    assert!(matches!(refused, Error::TruncateOutOfRange { end: Index(20), .. }), "{refused}");
    let oldest = log.segments()[0];
    log.remove_oldest(oldest.id).unwrap();
    assert!(matches!(log.truncate(Index(oldest.last.0 - 1)), Err(Error::TruncateOutOfRange { .. })));
    log.truncate(oldest.last).unwrap();
    assert_eq!(log.append(1, b"x").unwrap().index.0, oldest.last.0 + 1);
}

pub fn only_the_oldest_sealed_segment_can_be_removed(log: &mut dyn Log) {
    let before = log.appended().0;
    append_many(log, 20);
    log.flusher().flush().unwrap();
    let segments = log.segments();
    assert!(matches!(log.remove_oldest(segments[1].id), Err(Error::NotOldest(_))));
    for segment in &segments[..segments.len() - 1] {
        log.remove_oldest(segment.id).unwrap();
    }
    let active = segments.last().unwrap();
    assert!(matches!(log.remove_oldest(active.id), Err(Error::SegmentActive(_))));
    assert_eq!(log.segments().len(), 1);
    assert_eq!(log.append(1, b"x").unwrap().index, Index(before + 21));
    assert_eq!(log.flusher().flush().unwrap(), Index(before + 21));
}

pub fn removed_positions_say_so(log: &mut dyn Log) {
    let first = append_many(log, 20)[0];
    let reader = log.reader();
    reader.read(first.payload, 10).unwrap();
    log.remove_oldest(first.segment).unwrap();
    assert!(matches!(reader.read(first.payload, 10), Err(ReadError::Removed(_))));
    assert!(matches!(reader.frame(Position(0)), Err(ReadError::Removed(_))));
    assert!(matches!(reader.index_len(first.segment), Err(ReadError::Removed(_))));
}

pub fn reads_beyond_the_end_are_refused(log: &mut dyn Log) {
    let appended = append_many(log, 20);
    let reader = log.reader();
    let last = appended.last().unwrap();
    assert!(matches!(reader.read(last.payload, 1001), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(reader.read(appended[0].payload, 8192), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(reader.read(Position(u64::MAX), 1), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(reader.read(Position(u64::MAX - 1), usize::MAX), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(reader.frame(Position(u64::MAX)), Err(ReadError::OutOfRange { .. })));
}

pub fn stored_index_is_served(log: &mut dyn Log) {
    append_many(log, 20);
    let segment = log.segments()[0].id;
    let reader = log.reader();
    assert_eq!(reader.index_len(segment).unwrap(), None);
    log.index_writer().write(segment, b"0123456789").unwrap();
    assert_eq!(reader.index_len(segment).unwrap(), Some(10));
    assert_eq!(&reader.index_read(segment, 3, 4).unwrap()[..], b"3456");
    assert!(matches!(reader.index_read(segment, 8, 3), Err(ReadError::OutOfRange { .. })));
    assert!(matches!(reader.index_read(segment, u64::MAX, 3), Err(ReadError::OutOfRange { .. })));
    assert!(log.segments()[0].has_index);
    log.index_writer().write(segment, b"better").unwrap();
    assert_eq!(&reader.index_read(segment, 0, 6).unwrap()[..], b"better");
}

pub fn active_segment_takes_no_index(log: &mut dyn Log) {
    append_many(log, 2);
    let active = log.segments()[0].id;
    assert!(matches!(log.index_writer().write(active, b"x"), Err(Error::SegmentActive(_))));
}

pub fn index_of_a_removed_segment_is_not_kept(log: &mut dyn Log) {
    append_many(log, 20);
    let segment = log.segments()[0].id;
    let writer = log.index_writer();
    log.remove_oldest(segment).unwrap();
    writer.write(segment, b"late").unwrap();
    assert!(matches!(log.reader().index_len(segment), Err(ReadError::Removed(_))));
}

pub fn newest_two_checkpoints_are_kept(log: &mut dyn Log) {
    append_many(log, 9);
    let checkpoints = log.checkpoints();
    assert_eq!(checkpoints.load().unwrap(), (vec![], vec![]));
    for at in [2, 5, 9] {
        checkpoints.save(Index(at), &payload(at, 300)).unwrap();
    }
    let (good, damaged) = checkpoints.load().unwrap();
    assert_eq!(good.iter().map(|(at, _)| at.0).collect::<Vec<_>>(), [9, 5]);
    assert_eq!(good[0].1, payload(9, 300));
    assert!(damaged.is_empty());
    checkpoints.save(Index(9), b"again").unwrap();
    assert_eq!(&checkpoints.load().unwrap().0[0].1[..], b"again");
}

pub fn truncate_drops_checkpoints(log: &mut dyn Log) {
    append_many(log, 9);
    let checkpoints = log.checkpoints();
    for at in [5, 9] {
        checkpoints.save(Index(at), b"state").unwrap();
    }
    log.truncate(Index(6)).unwrap();
    assert_eq!(checkpoints.load().unwrap().0, [(Index(5), Bytes::from_static(b"state"))]);
}

pub fn checkpoint_of_an_unknown_frame_is_refused(log: &mut dyn Log) {
    let last = append_many(log, 1)[0].index;
    assert!(log.checkpoints().save(Index(last.0 + 1), b"x").is_err());
    assert_eq!(log.checkpoints().load().unwrap().0, vec![]);
}

pub fn checkpoint_makes_its_frames_durable(log: &mut dyn Log) {
    append_many(log, 3);
    log.checkpoints().save(Index(2), b"x").unwrap();
    assert!(log.committed() >= Index(2));
}

pub fn usage_is_known(log: &mut dyn Log) {
    let usage = log.usage().unwrap();
    assert!(usage.total > 0 && usage.free <= usage.total);
}

pub fn readers_see_whole_frames_while_the_owner_appends(log: &mut dyn Log) {
    let before = log.appended().0;
    let mut position = frames(log).last().map_or(Position(0), |frame| frame.next);
    let reader = log.reader();
    let flusher = log.flusher();
    let done = std::sync::atomic::AtomicBool::new(false);
    let done = &done;
    std::thread::scope(|scope| {
        let tail = scope.spawn(move || {
            let mut seen = before;
            while seen < before + 200 {
                match reader.frame(position) {
                    Ok(Some(frame)) => {
                        seen += 1;
                        assert_eq!(frame.index, Index(seen));
                        assert_eq!(frame.payload, payload(seen - before - 1, 1000));
                        position = frame.next;
                    }
                    Ok(None) => {
                        // The next segment begins after the trailer: it is there once it shows the frame that
                        // follows. That there is nothing yet says nothing, while the owner is about to append.
                        let next = Position(position.0 + 64);
                        if let Ok(Some(frame)) = reader.frame(next)
                            && frame.index == Index(seen + 1)
                        {
                            position = next;
                        }
                        std::thread::yield_now();
                    }
                    Err(err) => panic!("{err}"),
                }
            }
        });
        let flush = scope.spawn(move || {
            let mut last = Index(0);
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let now = flusher.flush().unwrap();
                assert!(now >= last);
                last = now;
            }
        });
        append_many(log, 200);
        let tail = tail.join();
        done.store(true, std::sync::atomic::Ordering::Release);
        tail.unwrap();
        flush.join().unwrap();
    });
    assert_eq!(log.flusher().flush().unwrap(), Index(before + 200));
}
