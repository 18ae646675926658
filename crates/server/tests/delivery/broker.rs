//! One shard on a disk that can fail, with both front ends.

use std::{sync::Arc, time::Duration};

use redstart_engine::{Engine, GroupName, Message, SendOptions, Start, TopicConfig, TopicName};
use redstart_log::{FsStorage, Options};
use redstart_server::shard::{self, Shard};
use redstart_wire::remoting::{Command, code};
use tempfile::TempDir;

use crate::{
    flaky::{Faults, FlakyStorage},
    remoting_support::{self, request},
    support::{self, front_ends::FrontEnds},
};

pub const TOPIC: &str = "t";
pub const GROUP: &str = "g";
/// Longer than any test waits: a message that comes earlier was given back.
pub const INVISIBLE_SECONDS: i64 = 600;
/// Within this what was given back comes again.
pub const SOON: Duration = Duration::from_secs(20);

pub struct Broker {
    pub front_ends: FrontEnds,
    pub shard: Shard,
    pub faults: Faults,
    _dir: TempDir,
}

impl Broker {
    pub async fn start() -> Broker {
        let dir = TempDir::new().unwrap();
        let faults = Faults::default();
        let inner = FsStorage::open(dir.path().join("shard-0")).unwrap();
        let storage = Arc::new(FlakyStorage { inner, faults: faults.clone() });
        let options = Options::with_segment_bytes(64 << 20);
        let shard = Shard::open(storage, options, support::engine(), shard::Config::default()).unwrap().shard;
        let front_ends =
            FrontEnds::start(shard.handle(), dir.path(), support::config(), remoting_support::config()).await;
        let broker = Broker { front_ends, shard, faults, _dir: dir };
        let config = TopicConfig { read_queues: 1, write_queues: 1, ..TopicConfig::default() };
        let put = |engine: &mut Engine, _| engine.put_topic(&TopicName::new(TOPIC).unwrap(), config);
        broker.shard.handle().change(put).unwrap().await.unwrap().unwrap();
        broker
    }

    /// Stores messages of so many bytes; their ids are their numbers.
    pub async fn store(&self, count: usize, bytes: usize) {
        for n in 0..count {
            let message = Message { id: n.to_string(), body: vec![b'x'; bytes].into(), ..Message::default() };
            let topic = TopicName::new(TOPIC).unwrap();
            let options = SendOptions::default();
            self.shard.handle().send(topic, vec![message], options).unwrap().await.unwrap().unwrap();
        }
    }

    /// The group begins at the first message.
    pub async fn join(&self) {
        let group = GroupName::new(GROUP).unwrap();
        self.shard.handle().ensure_group(group.clone()).unwrap().await.unwrap().unwrap();
        let join = move |engine: &mut Engine, _| {
            engine.join(&group, &TopicName::new(TOPIC).unwrap(), Start::Earliest).unwrap();
        };
        self.shard.handle().ask(join).unwrap().await.unwrap();
    }

    /// Messages that the group has been given.
    pub async fn in_flight(&self) -> usize {
        let ask = |engine: &mut Engine, _| {
            let (group, topic) = (GroupName::new(GROUP).unwrap(), TopicName::new(TOPIC).unwrap());
            engine.progress(&group, &topic).map_or(0, |all| all.iter().map(|one| one.in_flight).sum())
        };
        self.shard.handle().ask(ask).unwrap().await.unwrap()
    }

    pub fn given_back(&self) -> u64 {
        self.shard.handle().counters().deliveries_given_back()
    }

    pub fn read_errors(&self) -> u64 {
        self.shard.handle().counters().read_errors()
    }
}

/// Waits for a condition.
pub async fn until(what: &str, mut met: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + SOON;
    while !met().await {
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A pop of the group by way of Remoting, which waits for so many milliseconds.
pub fn pop(max: usize, wait: u64) -> Command {
    let (max, invisible, wait) = (max.to_string(), (INVISIBLE_SECONDS * 1000).to_string(), wait.to_string());
    let fields = [
        ("consumerGroup", GROUP),
        ("topic", TOPIC),
        ("queueId", "-1"),
        ("maxMsgNums", &max),
        ("invisibleTime", &invisible),
        ("pollTime", &wait),
        ("bornTime", "0"),
        ("initMode", "0"),
        ("exp", "*"),
        ("expType", "TAG"),
    ];
    request(code::POP_MESSAGE, &fields)
}
