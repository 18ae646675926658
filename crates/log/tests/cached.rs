//! Reads that do not wait for the disk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use redstart_log::{DiskLog, FsStorage, Log, MemoryLog, Options, ReadError, Storage, sim::SimStorage};

const PAYLOAD: [u8; 1000] = [7; 1000];

fn open(disk: &SimStorage) -> DiskLog {
    DiskLog::open(Arc::new(disk.clone()), Options::with_segment_bytes(64 << 10)).unwrap().0
}

#[test]
fn what_is_not_in_memory_is_told_and_not_read() {
    let disk = SimStorage::new(1);
    let mut log = open(&disk);
    let at = log.append(1, &PAYLOAD).unwrap().payload;
    let reader = log.reader();
    assert_eq!(reader.read_if_cached(at, 1000).unwrap().as_deref(), Some(&PAYLOAD[..]), "just written");

    disk.evict();
    // The read that would fail is the next one: none is made.
    disk.fail_read(1);
    assert_eq!(reader.read_if_cached(at, 1000).unwrap(), None);
    assert!(reader.read_near_if_cached(at, 1000).unwrap().is_none());
    assert!(matches!(reader.read(at, 1000), Err(ReadError::Io { .. })));

    assert_eq!(&reader.read(at, 1000).unwrap()[..], &PAYLOAD[..]);
    assert_eq!(reader.read_if_cached(at, 1000).unwrap().as_deref(), Some(&PAYLOAD[..]));
    let block = reader.read_near_if_cached(at, 1000).unwrap().unwrap();
    assert_eq!(block.get(at, 1000), Some(&PAYLOAD[..]));

    disk.evict();
    assert!(reader.read_near_if_cached(at, 1000).unwrap().is_some(), "the block was kept");
    assert!(matches!(reader.read_if_cached(at, 100_000), Err(ReadError::OutOfRange { .. })));
}

#[test]
fn a_file_that_has_to_be_opened_first_counts_as_cold() {
    let disk = SimStorage::new(1);
    let mut log = open(&disk);
    let at = log.append(1, &PAYLOAD).unwrap().payload;
    let segment = log.segments()[0].id;
    log.roll().unwrap();
    log.append(2, &PAYLOAD).unwrap();
    log.flusher().flush().unwrap();
    log.index_writer().write(segment, b"an index").unwrap();
    drop(log);

    let log = open(&disk.snapshot());
    let reader = log.reader();
    assert_eq!(reader.read_if_cached(at, 1000).unwrap(), None);
    assert_eq!(reader.index_read_if_cached(segment, 3, 5).unwrap(), None);
    reader.read(at, 1000).unwrap();
    reader.index_read(segment, 3, 5).unwrap();
    assert_eq!(reader.read_if_cached(at, 1000).unwrap().as_deref(), Some(&PAYLOAD[..]));
    assert_eq!(reader.index_read_if_cached(segment, 3, 5).unwrap().as_deref(), Some(&b"index"[..]));
    assert_eq!(reader.index_read_if_cached(segment, 3, 50).unwrap(), None, "behind the end");
}

#[test]
fn the_log_in_memory_and_fresh_files_are_hot() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(FsStorage::open(dir.path()).unwrap());
    let (disk, _) = DiskLog::open(storage, Options::with_segment_bytes(64 << 10)).unwrap();
    let logs: [Box<dyn Log>; 2] = [Box::new(MemoryLog::new()), Box::new(disk)];
    for mut log in logs {
        let at = log.append(1, &PAYLOAD).unwrap().payload;
        let reader = log.reader();
        assert_eq!(reader.read_if_cached(at, 1000).unwrap().as_deref(), Some(&PAYLOAD[..]));
        let block = reader.read_near_if_cached(at, 1000).unwrap().unwrap();
        assert_eq!(block.get(at, 1000), Some(&PAYLOAD[..]));
    }
}

#[test]
fn a_start_does_not_read_the_room_for_frames_to_come() {
    const SEGMENT_BYTES: u64 = 64 << 20;
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(FsStorage::open(dir.path()).unwrap());
    let open = || DiskLog::open(storage.clone(), Options::with_segment_bytes(SEGMENT_BYTES)).unwrap();
    let mut log = open().0;
    log.append(1, &PAYLOAD).unwrap();
    log.flusher().flush().unwrap();
    drop(log);

    // What is in memory counts as written.
    let room = || {
        let file = storage.open("00000000000000000000.log").unwrap();
        file.next_written(4 << 20).unwrap()
    };
    if room().start < SEGMENT_BYTES {
        // A file system that cannot tell.
        return;
    }
    let file = std::fs::File::open(dir.path().join("00000000000000000000.log")).unwrap();
    for _ in 0..2 {
        // As after a restart of the machine: the frame has to be read.
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let (log, recovery) = open();
        assert_eq!(recovery.scanned_segments, 1);
        drop(log);
        // Whether the file ends with a trailer is looked at.
        assert!(room().start >= SEGMENT_BYTES - (1 << 20), "{:?} is in memory", room());
    }
}
