//! Conversion of messages between the protocol and the engine.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    time::Duration,
};

use redstart_engine::{
    DLQ_ATTEMPTS, DLQ_ORIGIN_TOPIC, FetchError, Fetched, HalfOptions, Message, MessageType, Opened, Timestamp,
};
use redstart_log::Position;
use redstart_wire::remoting::{
    PROPERTIES_BYTES_MAX, StoredMessage, encode_properties, flag, offset_message_id, put_properties,
    read_properties,
};

use super::{delay_levels::delay_of_level, property as p, refusal::Refusal};

/// Bits of a physical offset that hold the log position. The bits above hold the number of earlier deliveries, which a client
/// that sends a message back has no other way to report.
const POSITION_BITS: u32 = 48;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
const ATTEMPT_MAX: u16 = i16::MAX as u16;

/// The physical offset of a message, as clients see it.
pub(super) fn physical_offset(position: Position, attempt: u16) -> i64 {
    (position.0 & POSITION_MASK) as i64 | (i64::from(attempt.min(ATTEMPT_MAX)) << POSITION_BITS)
}

/// Splits a physical offset into position and number of earlier deliveries.
pub(super) fn read_physical_offset(offset: i64) -> Option<(Position, u16)> {
    let offset = u64::try_from(offset).ok()?;
    Some((Position(offset & POSITION_MASK), (offset >> POSITION_BITS) as u16))
}

/// A message as a producer sends it.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub properties: Vec<(&'a str, &'a str)>,
    pub flag: i32,
    pub system_flag: i32,
    pub born_at: i64,
    pub born_host: &'a str,
    pub body: bytes::Bytes,
    pub delay_levels: &'a [Duration],
    pub now: Timestamp,
}

/// A message as the engine stores it, and how to store it.
#[derive(Debug)]
pub(super) struct Accepted {
    pub message: Message,
    pub half: Option<HalfOptions>,
    /// Its time of delivery comes from a timer property, not a delay level. Only such messages can be recalled.
    pub timed: bool,
}

impl Incoming<'_> {
    pub fn accept(self) -> Result<Accepted, Refusal> {
        let find =
            |name: &str| self.properties.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let half = find(p::TRANSACTION_PREPARED).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let check_after = find(p::CHECK_IMMUNITY).and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let level = number(p::DELAY_LEVEL, find(p::DELAY_LEVEL))?.unwrap_or(0);
        let deliver_at = match level {
            // A delayed message that is sent again after its delivery is not delayed again.
            0 if find(p::TIMER_OUT_MS).is_none() => self.timer(find)?,
            0 => None,
            level => delay_of_level(self.delay_levels, level).map(|delay| self.now.after(delay)),
        };
        // A priority beyond the highest counts as the highest.
        let priority =
            number(p::PRIORITY, find(p::PRIORITY))?.map(|priority| priority.min(u8::MAX.into()) as u8);
        let keys = find(p::KEYS).into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect();
        let message = Message {
            id: find(p::UNIQUE_KEY).map_or_else(make_id, str::to_owned),
            tag: find(p::TAGS).map(str::to_owned),
            keys,
            group: find(p::SHARDING_KEY).map(str::to_owned),
            deliver_at,
            priority,
            born_at: Timestamp(u64::try_from(self.born_at).unwrap_or(0)),
            born_host: self.born_host.to_owned(),
            flag: self.flag,
            system_flag: self.system_flag & flag::OF_PRODUCER,
            properties: Vec::new(),
            body: self.body,
        };
        let own = [
            p::UNIQUE_KEY,
            p::TAGS,
            p::KEYS,
            p::SHARDING_KEY,
            p::MSG_REGION,
            p::TRACE_ON,
            p::CLUSTER,
            p::POP_HANDLE,
            p::PRIORITY,
        ];
        let others = self.properties.iter().filter(|(name, _)| !own.contains(name));
        let others = others.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Ok(Accepted {
            message: Message { properties: others.collect(), ..message },
            half: half.then_some(HalfOptions { check_after }),
            timed: level == 0 && deliver_at.is_some(),
        })
    }

    /// The time of delivery by the timer properties; the first that is there counts.
    fn timer<'f>(&self, find: impl Fn(&str) -> Option<&'f str>) -> Result<Option<Timestamp>, Refusal> {
        if let Some(seconds) = number(p::TIMER_DELAY_SEC, find(p::TIMER_DELAY_SEC))? {
            return Ok(Some(self.now.after(Duration::from_secs(seconds))));
        }
        if let Some(millis) = number(p::TIMER_DELAY_MS, find(p::TIMER_DELAY_MS))? {
            return Ok(Some(self.now.after(Duration::from_millis(millis))));
        }
        if let Some(at) = number(p::TIMER_DELIVER_MS, find(p::TIMER_DELIVER_MS))? {
            return Ok(Some(Timestamp(at)));
        }
        // Apache's broker knows no such property and takes any text.
        Ok(find(p::START_DELIVER_TIME).and_then(|text| text.trim().parse().ok()).map(Timestamp))
    }
}

fn number(name: &str, value: Option<&str>) -> Result<Option<u64>, Refusal> {
    let illegal = |text: &str| {
        let why = format!("the property {name} is not a valid number: {text:?}");
        Refusal::new(redstart_wire::remoting::code::MESSAGE_ILLEGAL, why)
    };
    value.map(|text| text.trim().parse().map_err(|_| illegal(text))).transpose()
}

/// An id for a message whose producer made none.
fn make_id() -> String {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 16];
    // If the system has no randomness, two messages may share an id; nothing depends on it.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The delivery of a message: its queue, times and attempt.
#[derive(Debug, Clone)]
pub(super) struct Envelope<'a> {
    pub topic: &'a str,
    pub queue_id: u32,
    pub queue_offset: u64,
    pub stored_at: Timestamp,
    /// Deliveries before this one, as far as the queue knows.
    pub attempt: u16,
    /// The topic that the message was sent to, if it is delivered from another one.
    pub origin: Option<&'a str>,
    pub store_host: SocketAddr,
}

/// Buffers that are reused from one message to the next.
#[derive(Debug)]
pub(super) struct Scratch {
    /// The properties that the broker adds to every message. Producers cannot set these names.
    added: String,
    properties: String,
    born_host: (String, SocketAddr),
}

impl Scratch {
    pub fn new(cluster: &str) -> Scratch {
        let added = [(p::MSG_REGION, p::REGION), (p::TRACE_ON, "true"), (p::CLUSTER, cluster)];
        Scratch {
            added: encode_properties(added),
            properties: String::new(),
            born_host: (String::new(), UNKNOWN_HOST),
        }
    }

    /// Caches the last address: consecutive messages mostly have the same.
    fn born_host(&mut self, text: &str) -> SocketAddr {
        if self.born_host.0 != text {
            self.born_host = (text.to_owned(), text.parse().unwrap_or(UNKNOWN_HOST));
        }
        self.born_host.1
    }
}

const UNKNOWN_HOST: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// A stored message as a client gets it.
pub(super) fn to_wire<'a>(
    fetched: &'a Fetched<impl AsRef<[u8]>>,
    envelope: &Envelope<'a>,
    scratch: &'a mut Scratch,
) -> Result<StoredMessage<'a, &'a [u8]>, FetchError> {
    let Opened { message: view, message_type, .. } = fetched.open()?;
    let born_host = scratch.born_host(view.born_host);
    let Scratch { added, properties: text, .. } = scratch;
    let transaction = message_type == MessageType::Transaction;
    let counted = |name| view.property(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    // A consumer that sends its message to the retry topic itself says how often it came.
    let attempt = envelope.attempt.max(counted(p::RECONSUME_TIME)).max(counted(DLQ_ATTEMPTS));
    let keys = view.keys.join(" ");
    let priority = view.priority.map(|priority| priority.to_string()).unwrap_or_default();
    let due = view.deliver_at.map(|at| at.0.to_string()).unwrap_or_default();
    let origin_id =
        envelope.origin.map(|_| offset_message_id(envelope.store_host, fetched.position().0 as i64));
    text.clear();
    text.push_str(added);
    put_properties(view.properties.iter().copied(), text);
    let mut add = |name, value| {
        if view.property(name).is_none() {
            put_properties([(name, value)], text);
        }
    };
    add(p::UNIQUE_KEY, view.id);
    add(p::TAGS, view.tag.unwrap_or(""));
    add(p::KEYS, &keys);
    add(p::SHARDING_KEY, view.group.unwrap_or(""));
    add(p::PRIORITY, &priority);
    if view.deliver_at.is_some() && view.property(p::DELAY_LEVEL).is_none() {
        add(p::TIMER_OUT_MS, &due);
        if [p::TIMER_DELAY_SEC, p::TIMER_DELAY_MS].iter().all(|name| view.property(name).is_none()) {
            add(p::TIMER_DELIVER_MS, &due);
        }
    }
    if transaction {
        add(p::TRANSACTION_PREPARED, "true");
        add(p::TRANSACTION_ID, view.id);
    }
    if let Some(origin) = envelope.origin.or_else(|| view.property(DLQ_ORIGIN_TOPIC)) {
        add(p::RETRY_TOPIC, origin);
    }
    if let Some(id) = &origin_id {
        add(p::ORIGIN_MESSAGE_ID, id);
    }
    if text.len() > PROPERTIES_BYTES_MAX {
        *text = shortened(text);
    }
    Ok(StoredMessage {
        topic: envelope.topic.into(),
        queue_id: envelope.queue_id as i32,
        flag: view.flag,
        queue_offset: envelope.queue_offset as i64,
        physical_offset: physical_offset(fetched.position(), attempt),
        system_flag: view.system_flag | if transaction { flag::TRANSACTION_COMMIT } else { 0 },
        born_at: view.born_at.0 as i64,
        born_host,
        stored_at: envelope.stored_at.0 as i64,
        store_host: envelope.store_host,
        reconsume_times: attempt.into(),
        prepared_transaction_offset: if transaction { fetched.position().0 as i64 } else { 0 },
        properties: text.as_str().into(),
        body: view.body,
    })
}

/// As many of a message's properties as fit into a record. A producer may fill the record; what the broker adds then is
/// left out, and first of all what clients can do without.
fn shortened(text: &str) -> String {
    const FIRST: &[&str] = &[
        p::UNIQUE_KEY,
        p::TAGS,
        p::KEYS,
        p::SHARDING_KEY,
        p::TRANSACTION_PREPARED,
        p::TRANSACTION_ID,
        p::PRODUCER_GROUP,
        p::RETRY_TOPIC,
    ];
    const LAST: &[&str] = &[p::MSG_REGION, p::TRACE_ON, p::CLUSTER, p::ORIGIN_MESSAGE_ID, DLQ_ATTEMPTS];
    let mut all = read_properties(text);
    all.sort_by_key(|(name, _)| match (FIRST.contains(name), LAST.contains(name)) {
        (true, _) => 0,
        (_, false) => 1,
        (_, true) => 2,
    });
    let mut fitting = String::with_capacity(PROPERTIES_BYTES_MAX);
    for (name, value) in all {
        if fitting.len() + name.len() + value.len() + 2 <= PROPERTIES_BYTES_MAX {
            put_properties([(name, value)], &mut fitting);
        }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming<'a>(properties: &[(&'a str, &'a str)]) -> Incoming<'a> {
        const LEVELS: &[Duration] = &[Duration::from_secs(1), Duration::from_secs(5)];
        Incoming {
            properties: properties.to_vec(),
            flag: 0,
            system_flag: flag::COMPRESSED | flag::TRANSACTION_PREPARED | 0x300,
            born_at: -1,
            born_host: "10.0.0.1:5",
            body: bytes::Bytes::new(),
            delay_levels: LEVELS,
            now: Timestamp(1_000_000),
        }
    }

    fn deliver_at(properties: &[(&str, &str)]) -> Option<u64> {
        incoming(properties).accept().unwrap().message.deliver_at.map(|at| at.0)
    }

    #[test]
    fn a_message_keeps_what_is_its_own_and_loses_what_the_broker_says() {
        let accepted = incoming(&[
            ("UNIQ_KEY", "ID"),
            ("TAGS", "a"),
            ("KEYS", "k1  k2"),
            ("__SHARDINGKEY", "g"),
            ("CLUSTER", "forged"),
            ("POP_CK", "forged"),
            ("CORRELATION_ID", "c"),
            ("mine", "v"),
        ]);
        let accepted = accepted.accept().unwrap();
        let message = accepted.message;
        assert_eq!(
            (message.id.as_str(), message.tag.as_deref(), message.group.as_deref()),
            ("ID", Some("a"), Some("g"))
        );
        assert_eq!(message.keys, ["k1", "k2"]);
        let names: Vec<&str> = message.properties.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["CORRELATION_ID", "mine"]);
        assert_eq!(
            message.system_flag,
            flag::COMPRESSED | 0x300,
            "how it is compressed is the producer's word"
        );
        assert_eq!(message.born_at, Timestamp(0));
        assert!(accepted.half.is_none());
    }

    #[test]
    fn delays_are_read_in_every_way_and_the_level_wins() {
        assert_eq!(deliver_at(&[]), None);
        assert_eq!(deliver_at(&[("DELAY", "2"), ("TIMER_DELAY_MS", "7")]), Some(1_005_000));
        assert_eq!(deliver_at(&[("DELAY", "99")]), Some(1_005_000), "past the last level: the last");
        assert_eq!(deliver_at(&[("DELAY", "0"), ("TIMER_DELAY_MS", "7")]), Some(1_000_007));
        assert_eq!(deliver_at(&[("TIMER_DELAY_SEC", "2"), ("TIMER_DELAY_MS", "7")]), Some(1_002_000));
        assert_eq!(deliver_at(&[("TIMER_DELIVER_MS", "5")]), Some(5));
        assert_eq!(deliver_at(&[("TIMER_DELIVER_MS", "9999999"), ("TIMER_OUT_MS", "1")]), None);
        for bad in ["-1", "x", "99999999999999999999"] {
            assert!(incoming(&[("TIMER_DELIVER_MS", bad)]).accept().is_err(), "{bad}");
            assert_eq!(deliver_at(&[("__STARTDELIVERTIME", bad)]), None, "{bad}");
        }
        assert_eq!(deliver_at(&[("__STARTDELIVERTIME", "1000009")]), Some(1_000_009));
        assert_eq!(deliver_at(&[("TIMER_DELIVER_MS", "5"), ("__STARTDELIVERTIME", "7")]), Some(5));
        assert_eq!(deliver_at(&[("DELAY", "1"), ("__STARTDELIVERTIME", "7")]), Some(1_001_000));
    }

    #[test]
    fn an_id_is_made_when_there_is_none() {
        let id = || incoming(&[]).accept().unwrap().message.id;
        assert_eq!(id().len(), 32);
        assert_ne!(id(), id());
    }

    #[test]
    fn a_half_message_says_so() {
        let half =
            incoming(&[("TRAN_MSG", "true"), ("CHECK_IMMUNITY_TIME_IN_SECONDS", "9")]).accept().unwrap().half;
        assert_eq!(half.unwrap().check_after, Some(Duration::from_secs(9)));
    }

    #[test]
    fn a_physical_offset_holds_position_and_attempt() {
        for (position, attempt) in [(0, 0), (1 << 40, 3), (7, ATTEMPT_MAX)] {
            let offset = physical_offset(Position(position), attempt);
            assert!(offset >= 0);
            assert_eq!(read_physical_offset(offset), Some((Position(position), attempt)));
        }
        assert_eq!(read_physical_offset(-1), None);
    }
}
