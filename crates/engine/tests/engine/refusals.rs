//! A log that refuses frames: what has happened is kept, and written when the log takes frames again.

use std::sync::Arc;

use redstart_engine::{
    Config, Engine, GroupConfig, GroupName, Message, QueueId, QueueOffset, SendOptions, Timestamp,
    TopicConfig, TopicName,
};
use redstart_log::{DiskLog, Options, sim::SimStorage};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn open(disk: &SimStorage) -> Engine {
    let options = Options::with_segment_bytes(16 << 10);
    let (log, _) = DiskLog::open(Arc::new(disk.clone()), options).unwrap();
    let mut config = Config::default();
    config.limits.batch_bytes_max = 2 << 10;
    Engine::open(Box::new(log), config).unwrap().0
}

fn commit(engine: &mut Engine) {
    engine.submit(NOW).unwrap();
    let durable = engine.log().flusher().flush().unwrap();
    engine.committed(durable).unwrap();
}

#[test]
fn facts_that_waited_for_a_log_without_room_are_split_over_frames() {
    let disk = SimStorage::new(1);
    let (topic, group) = (TopicName::new("t").unwrap(), GroupName::new("g").unwrap());
    let mut engine = open(&disk);
    engine.put_topic(&topic, TopicConfig::default()).unwrap();
    engine.put_group(&group, GroupConfig::default()).unwrap();
    commit(&mut engine);
    let message = Message { id: "a".to_owned(), ..Message::default() };
    let to = SendOptions { queue: Some(QueueId(0)), ..SendOptions::default() };
    engine.send(&topic, &[message], to, NOW).unwrap();
    commit(&mut engine);

    disk.no_space_after(Some(0));
    // Together they are larger than any frame of this log may be.
    let mut facts = 0;
    while engine.batch_bytes() < 64 << 10 {
        facts += 1;
        engine.commit_offset(&group, &topic, QueueId(0), QueueOffset(facts % 2)).unwrap();
        if facts % 50 == 0 {
            let (_, refused) = engine.submit(NOW).unwrap_err();
            assert!(refused.is_empty(), "there are no decisions");
        }
    }
    engine.commit_offset(&group, &topic, QueueId(0), QueueOffset(1)).unwrap();
    let topics = TopicConfig::default();
    let ticket = engine.put_topic(&TopicName::new("refused").unwrap(), topics).unwrap();
    let (_, refused) = engine.submit(NOW).unwrap_err();
    assert_eq!(refused.into_iter().map(|(ticket, _)| ticket).collect::<Vec<_>>(), [ticket]);

    disk.no_space_after(None);
    commit(&mut engine);
    assert!(!engine.has_batch());
    drop(engine);
    let engine = open(&disk.crash(7));
    assert_eq!(engine.consumer_offset(&group, &topic, QueueId(0)).unwrap(), Some(QueueOffset(1)));
}
