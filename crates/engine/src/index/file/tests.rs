//! An index file says what the index in memory said, and no bytes can make reading panic.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    QueueId, TopicId,
    record::{
        KeyHashes,
        tests::{entry, message_ref, timer_key},
    },
};

fn live() -> impl Strategy<Value = LiveIndex> {
    let run = (0..1u64 << 40, vec(entry(), 1..300));
    let key = (0..20u64, any::<u64>());
    (
        proptest::collection::btree_map(any::<(u32, u32)>(), run, 0..4),
        vec(key, 0..700),
        vec((timer_key(), message_ref()), 0..20),
    )
        .prop_map(|(runs, keys, timers)| {
            let mut live = LiveIndex::default();
            live.timers = timers;
            for ((topic, queue), (first, entries)) in runs {
                let queue = QueueKey { topic: TopicId(topic), queue: QueueId(queue) };
                for (offset, entry) in (first..).zip(entries) {
                    live.push(queue, QueueOffset(offset), entry);
                }
            }
            for (id, position) in keys {
                live.add_keys(&KeyHashes { id, keys: vec![id + 1] }, Position(position));
            }
            live
        })
}

fn part(file: &[u8], part: Part) -> &[u8] {
    &file[part.at as usize..part.at as usize + part.len]
}

fn header(file: &[u8], segment: SegmentId) -> Result<Header, Malformed> {
    Header::decode(&file[..HEADER_LEN], segment)
}

/// Checks the whole file; returns how many bytes were looked at.
fn check(file: &[u8]) -> Result<usize, IndexFault> {
    let mut check = IndexCheck::new(SegmentId(4096), file.len() as u64);
    let mut seen = 0;
    while let Some((at, len)) = check.next() {
        let (at, end) = ((at as usize).min(file.len()), (at as usize + len).min(file.len()));
        check.feed(&file[at..end])?;
        seen += len;
    }
    Ok(seen)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_check_covers_every_byte(
        live in live(), at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<prop::sample::Index>(),
    ) {
        let file = build(SegmentId(4096), &live);
        prop_assert_eq!(check(&file), Ok(file.len()));
        let at = at.index(file.len());
        let mut damaged = file.clone();
        damaged[at] ^= 1u8 << bit;
        let fault = check(&damaged).unwrap_err();
        prop_assert!(fault.at <= at as u64, "{:?} for byte {}", fault, at);
        prop_assert!(check(&file[..cut.index(file.len())]).is_err());
    }

    #[test]
    fn every_part_of_the_file_comes_back(live in live()) {
        let file = build(SegmentId(4096), &live);
        let header = header(&file, SegmentId(4096)).unwrap();
        let items = decode_directory(part(&file, header.directory())).unwrap();
        prop_assert_eq!(&items, &runs(&live));
        for (item, (queue, run)) in items.iter().zip(live.runs()) {
            prop_assert_eq!((item.queue, item.first, item.count as usize), (queue, run.first, run.entries.len()));
            let mut found = Vec::new();
            while found.len() < run.entries.len() {
                let (_, block) = entry_block(item.at, found.len() as u64, item.count.into());
                found.extend(decode_entries(part(&file, block)).unwrap());
            }
            prop_assert_eq!(&found, &run.entries);
        }
        let mut keys: Vec<_> = live.keys.clone();
        keys.sort_unstable();
        let blocks = (0..header.key_blocks()).map(|n| decode_keys(part(&file, header.key_block(n))).unwrap());
        prop_assert_eq!(blocks.flatten().collect::<Vec<_>>(), keys);
        let mut timers = live.timers;
        timers.sort_unstable_by_key(|(key, _)| *key);
        let mut found = decode_timers(part(&file, header.timers())).unwrap();
        found.sort_by_key(|(key, _)| *key);
        prop_assert_eq!(found.len(), timers.len());
        prop_assert!(timers.iter().all(|timer| found.contains(timer)));
    }

    #[test]
    fn a_changed_byte_is_noticed_in_its_part(live in live(), at in any::<prop::sample::Index>(), xor in 1..=255u8) {
        let mut file = build(SegmentId(4096), &live);
        let whole = header(&file, SegmentId(4096)).unwrap();
        let at = at.index(file.len());
        file[at] ^= xor;
        let hit = |part: Part| (part.at..part.at + part.len as u64).contains(&(at as u64));
        prop_assert_eq!(header(&file, SegmentId(4096)).is_err(), at < HEADER_LEN);
        prop_assert_eq!(decode_directory(part(&file, whole.directory())).is_err(), hit(whole.directory()));
        prop_assert_eq!(decode_timers(part(&file, whole.timers())).is_err(), hit(whole.timers()));
        for block in (0..whole.key_blocks()).map(|n| whole.key_block(n)) {
            prop_assert_eq!(decode_keys(part(&file, block)).is_err(), hit(block));
        }
    }

    #[test]
    fn another_segments_index_is_refused(live in live()) {
        let file = build(SegmentId(4096), &live);
        prop_assert!(header(&file, SegmentId(8192)).is_err());
    }

    /// Also with a right checksum: a writer's bug must not take the reader down.
    #[test]
    fn random_bytes_never_panic(mut bytes in vec(any::<u8>(), 0..200), sealed: bool) {
        if sealed {
            put_crc(0, &mut bytes);
        }
        let _ = Header::decode(&bytes, SegmentId(0));
        let _ = decode_directory(&bytes);
        let _ = decode_entries(&bytes);
        let _ = decode_keys(&bytes);
        let _ = decode_timers(&bytes);
    }
}
