//! A stored message as consumers get it.
//!
//! | field | size |
//! |---|---|
//! | total size | i32, itself included |
//! | magic | i32, tells v1 from v2 |
//! | body CRC | i32, CRC-32 of the body without its top bit |
//! | queue id, flag | i32, i32 |
//! | queue offset, physical offset | i64, i64 |
//! | system flag | i32 |
//! | born time, born host | i64, 4 or 16 address bytes + i32 port |
//! | store time, store host | i64, 4 or 16 address bytes + i32 port |
//! | reconsume times | i32 |
//! | prepared transaction offset | i64 |
//! | body | i32 length + bytes |
//! | topic | i8 (v1) or i16 (v2) length + UTF-8 |
//! | properties | i16 length + UTF-8 |
//!
//! v2 is for topics longer than 127 bytes: some clients know v1 only.

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
};

use bytes::{Buf, BufMut, Bytes};

use super::{flag, properties::PROPERTIES_BYTES_MAX};

const MAGIC_V1: u32 = 0xDAA3_20A7;
const MAGIC_V2: u32 = 0xDAA3_20AB;
const SYSTEM_FLAG_AT: usize = 36;
const TOPIC_V1_MAX: usize = i8::MAX as usize;

/// One message of an answer's body. Its own body may be borrowed as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage<'a, B = Bytes> {
    pub topic: Cow<'a, str>,
    pub queue_id: i32,
    pub flag: i32,
    pub queue_offset: i64,
    pub physical_offset: i64,
    /// Without the bits that tell address families: those follow from the hosts.
    pub system_flag: i32,
    pub born_at: i64,
    pub born_host: SocketAddr,
    pub stored_at: i64,
    pub store_host: SocketAddr,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
    pub properties: Cow<'a, str>,
    pub body: B,
}

/// A message that cannot be written: a text is longer than its length field can say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {len} bytes do not fit into a record, the limit is {limit}")]
pub struct TooLong {
    what: &'static str,
    len: usize,
    limit: usize,
}

impl<B: AsRef<[u8]>> StoredMessage<'_, B> {
    pub fn encode(&self, out: &mut impl BufMut) -> Result<(), TooLong> {
        let body = self.body.as_ref();
        let limited = |what, len, limit| if len > limit { Err(TooLong { what, len, limit }) } else { Ok(()) };
        limited("properties", self.properties.len(), PROPERTIES_BYTES_MAX)?;
        limited("topic", self.topic.len(), i16::MAX as usize)?;
        let v2 = self.topic.len() > TOPIC_V1_MAX;
        let host = |address: &SocketAddr| if address.is_ipv4() { 8 } else { 20 };
        let size = 75
            + host(&self.born_host)
            + host(&self.store_host)
            + usize::from(v2)
            + body.len()
            + self.topic.len()
            + self.properties.len();
        limited("body and properties", size, i32::MAX as usize)?;
        let mut system_flag = self.system_flag & !(flag::BORN_HOST_V6 | flag::STORE_HOST_V6);
        for (address, bit) in [(&self.born_host, flag::BORN_HOST_V6), (&self.store_host, flag::STORE_HOST_V6)]
        {
            system_flag |= if address.is_ipv6() { bit } else { 0 };
        }
        out.put_i32(size as i32);
        out.put_u32(if v2 { MAGIC_V2 } else { MAGIC_V1 });
        out.put_u32(crc32fast::hash(body) & 0x7fff_ffff);
        out.put_i32(self.queue_id);
        out.put_i32(self.flag);
        out.put_i64(self.queue_offset);
        out.put_i64(self.physical_offset);
        out.put_i32(system_flag);
        out.put_i64(self.born_at);
        put_host(out, &self.born_host);
        out.put_i64(self.stored_at);
        put_host(out, &self.store_host);
        out.put_i32(self.reconsume_times);
        out.put_i64(self.prepared_transaction_offset);
        out.put_i32(body.len() as i32);
        out.put_slice(body);
        if v2 {
            out.put_i16(self.topic.len() as i16);
        } else {
            out.put_i8(self.topic.len() as i8);
        }
        out.put_slice(self.topic.as_bytes());
        out.put_i16(self.properties.len() as i16);
        out.put_slice(self.properties.as_bytes());
        Ok(())
    }
}

impl StoredMessage<'_> {
    /// Takes the first message out of `input`; `None` when it is not a message as above, to the last byte.
    pub fn decode(input: &mut Bytes) -> Option<StoredMessage<'static>> {
        let size = usize::try_from(i32::from_be_bytes(*input.first_chunk::<4>()?)).ok()?;
        if size < 4 || size > input.len() {
            return None;
        }
        let mut record = input.split_to(size);
        record.advance(4);
        let magic = record.try_get_u32().ok()?;
        let v2 = match magic {
            MAGIC_V1 => false,
            MAGIC_V2 => true,
            _ => return None,
        };
        let crc = record.try_get_u32().ok()?;
        let (queue_id, flag_) = (record.try_get_i32().ok()?, record.try_get_i32().ok()?);
        let (queue_offset, physical_offset) = (record.try_get_i64().ok()?, record.try_get_i64().ok()?);
        let system_flag = record.try_get_i32().ok()?;
        let born_at = record.try_get_i64().ok()?;
        let born_host = take_host(&mut record, system_flag & flag::BORN_HOST_V6 != 0)?;
        let stored_at = record.try_get_i64().ok()?;
        let store_host = take_host(&mut record, system_flag & flag::STORE_HOST_V6 != 0)?;
        let reconsume_times = record.try_get_i32().ok()?;
        let prepared_transaction_offset = record.try_get_i64().ok()?;
        let body_len = record.try_get_i32().ok()?;
        let body = take(&mut record, body_len.into())?;
        let topic_len =
            if v2 { record.try_get_i16().ok()?.into() } else { i64::from(record.try_get_i8().ok()?) };
        let topic = String::from_utf8(take(&mut record, topic_len)?.to_vec()).ok()?;
        let properties_len = record.try_get_i16().ok()?;
        let properties = String::from_utf8(take(&mut record, properties_len.into())?.to_vec()).ok()?;
        if !record.is_empty() || crc32fast::hash(&body) & 0x7fff_ffff != crc {
            return None;
        }
        Some(StoredMessage {
            topic: topic.into(),
            queue_id,
            flag: flag_,
            queue_offset,
            physical_offset,
            system_flag: system_flag & !(flag::BORN_HOST_V6 | flag::STORE_HOST_V6),
            born_at,
            born_host,
            stored_at,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            properties: properties.into(),
            body,
        })
    }
}

/// Takes the first message out of `input` and reads nothing but its body: for callers that only count.
pub fn take_body(input: &mut Bytes) -> Option<Bytes> {
    let number = |at: usize| Some(i32::from_be_bytes(*input.get(at..)?.first_chunk::<4>()?));
    let size = usize::try_from(number(0)?).ok().filter(|size| *size <= input.len())?;
    let system_flag = number(SYSTEM_FLAG_AT)?;
    let host = |v6| if system_flag & v6 != 0 { 20 } else { 8 };
    // Up to the hosts, the times and hosts, reconsume times and the transaction's offset.
    let at = SYSTEM_FLAG_AT + 4 + 16 + host(flag::BORN_HOST_V6) + host(flag::STORE_HOST_V6) + 12;
    let end = usize::try_from(number(at)?).ok()?.checked_add(at + 4).filter(|end| *end <= size)?;
    let body = input.slice(at + 4..end);
    input.advance(size);
    Some(body)
}

/// The next `len` bytes, if there are as many.
pub(super) fn take(input: &mut Bytes, len: i64) -> Option<Bytes> {
    let len = usize::try_from(len).ok().filter(|len| *len <= input.len())?;
    Some(input.split_to(len))
}

fn put_host(out: &mut impl BufMut, address: &SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => out.put_slice(&ip.octets()),
        IpAddr::V6(ip) => out.put_slice(&ip.octets()),
    }
    out.put_i32(address.port().into());
}

fn take_host(input: &mut Bytes, v6: bool) -> Option<SocketAddr> {
    let ip: IpAddr = if v6 {
        <[u8; 16]>::try_from(&*take(input, 16)?).ok()?.into()
    } else {
        <[u8; 4]>::try_from(&*take(input, 4)?).ok()?.into()
    };
    let port = u16::try_from(input.try_get_i32().ok()?).ok()?;
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> StoredMessage<'static> {
        StoredMessage {
            topic: "T".into(),
            queue_id: 3,
            flag: 1,
            queue_offset: 7,
            physical_offset: 0x0102,
            system_flag: 0,
            born_at: 0x11,
            born_host: "10.0.0.1:80".parse().unwrap(),
            stored_at: 0x22,
            store_host: "127.0.0.1:10911".parse().unwrap(),
            reconsume_times: 2,
            prepared_transaction_offset: 0,
            properties: "TAGS\u{1}a\u{2}".into(),
            body: Bytes::from_static(b"123456789"),
        }
    }

    fn encoded(message: &StoredMessage<'_>) -> Bytes {
        let mut out = Vec::new();
        message.encode(&mut out).unwrap();
        out.into()
    }

    /// Put together by hand from the table above; the CRC is the check value of CRC-32 ("123456789" gives cbf43926).
    #[test]
    fn a_v1_record_has_the_bytes_that_clients_expect() {
        let hex = "0000006C DAA320A7 4BF43926 00000003 00000001 0000000000000007 0000000000000102 00000000 \
                   0000000000000011 0A000001 00000050 0000000000000022 7F000001 00002A9F 00000002 0000000000000000 \
                   00000009 313233343536373839 01 54 0007 54414753016102";
        let hex: String = hex.split_whitespace().collect();
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect();
        assert_eq!(encoded(&message()), bytes);
    }

    #[test]
    fn records_follow_each_other_and_come_back() {
        let long = StoredMessage {
            topic: "t".repeat(200).into(),
            born_host: "[::1]:9".parse().unwrap(),
            store_host: "[fe80::2]:10911".parse().unwrap(),
            system_flag: flag::COMPRESSED,
            ..message()
        };
        let mut bytes: Bytes = [encoded(&message()), encoded(&long)].concat().into();
        let mut same = bytes.clone();
        assert_eq!(take_body(&mut same), Some(message().body));
        assert_eq!(take_body(&mut same), Some(long.body.clone()), "wherever it begins");
        assert!(same.is_empty());
        assert_eq!(StoredMessage::decode(&mut bytes), Some(message()));
        assert_eq!(StoredMessage::decode(&mut bytes), Some(long));
        assert!(bytes.is_empty());
    }

    #[test]
    fn properties_that_their_length_cannot_say_are_refused() {
        let message = StoredMessage { properties: "p".repeat(32768).into(), ..message() };
        assert_eq!(
            message.encode(&mut Vec::new()),
            Err(TooLong { what: "properties", len: 32768, limit: 32767 })
        );
    }

    proptest! {
        #[test]
        fn a_changed_record_is_refused_or_read_but_never_panics(at in 0..108_usize, byte: u8, cut in 0..108_usize) {
            let mut bytes = encoded(&message()).to_vec();
            bytes[at] = byte;
            let _ = StoredMessage::decode(&mut Bytes::from(bytes.clone()));
            let _ = take_body(&mut Bytes::from(bytes.clone()));
            bytes.truncate(cut);
            prop_assert_eq!(StoredMessage::decode(&mut Bytes::from(bytes)), None);
        }

        #[test]
        fn random_bytes_are_no_message(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(StoredMessage::decode(&mut Bytes::from(bytes)), None);
        }

        #[test]
        fn messages_come_back(
            topic in "[a-z%]{1,200}", properties in "[ -~]{0,50}", body in proptest::collection::vec(any::<u8>(), 0..50),
            numbers: (i32, i32, i64, i64, i64, i64, i32, i64), v6: bool,
        ) {
            let born_host = if v6 { "[::1]:9" } else { "1.2.3.4:5" }.parse().unwrap();
            let (queue_id, flag, queue_offset, physical_offset, born_at, stored_at, reconsume_times, prepared) = numbers;
            let message = StoredMessage {
                topic: topic.into(), queue_id, flag, queue_offset, physical_offset, born_at, born_host, stored_at, reconsume_times,
                prepared_transaction_offset: prepared, properties: properties.into(), body: body.into(), ..message()
            };
            prop_assert_eq!(StoredMessage::decode(&mut encoded(&message)), Some(message));
        }
    }
}
