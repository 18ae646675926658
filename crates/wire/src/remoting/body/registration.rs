//! A broker's registration, as a broker with `compressedRegister` sends it: a zlib stream of
//!
//! | field | size |
//! |---|---|
//! | data version | i32 length + JSON |
//! | number of topics | i32 |
//! | each topic | i32 length + `name readQueues writeQueues perm filterType attributes`, with one blank between |
//! | filter servers, queue mappings | of no use here |

use bytes::{Buf, Bytes};
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use super::{DataVersion, Registration, TopicConfigs, TopicEntry};
use crate::remoting::from_slice;

/// Longest registration when it is unpacked.
const BYTES_MAX: usize = 64 << 20;

/// A compressed registration that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    #[error("the registration is no zlib stream of at most {limit} bytes: {why}")]
    Stream { limit: usize, why: String },
    #[error("the registration's {what} cannot be read")]
    Malformed { what: &'static str },
}

impl Registration {
    /// Unpacks and reads a registration.
    pub fn unpack(packed: &[u8]) -> Result<Registration, RegistrationError> {
        let bytes = decompress_to_vec_zlib_with_limit(packed, BYTES_MAX)
            .map_err(|error| RegistrationError::Stream { limit: BYTES_MAX, why: error.to_string() })?;
        read(bytes.into())
    }
}

fn read(mut bytes: Bytes) -> Result<Registration, RegistrationError> {
    let malformed = |what| RegistrationError::Malformed { what };
    let version = take(&mut bytes).ok_or(malformed("data version"))?;
    let data_version: DataVersion = from_slice(&version).map_err(|_| malformed("data version"))?;
    let count = bytes.try_get_i32().map_err(|_| malformed("number of topics"))?;
    let mut configs = TopicConfigs { data_version, ..TopicConfigs::default() };
    for _ in 0..count {
        let entry = take(&mut bytes).ok_or(malformed("topic"))?;
        let entry = std::str::from_utf8(&entry).ok().and_then(topic).ok_or(malformed("topic"))?;
        configs.topic_config_table.insert(entry.topic_name.clone(), entry);
    }
    Ok(Registration { topic_config_serialize_wrapper: configs })
}

/// Bytes behind their length.
fn take(bytes: &mut Bytes) -> Option<Bytes> {
    let len = usize::try_from(bytes.try_get_i32().ok()?).ok().filter(|len| *len <= bytes.len())?;
    Some(bytes.split_to(len))
}

fn topic(text: &str) -> Option<TopicEntry> {
    let mut fields = text.splitn(6, ' ');
    let mut next = || fields.next();
    Some(TopicEntry {
        topic_name: next().filter(|name| !name.is_empty())?.to_owned(),
        read_queue_nums: next()?.parse().ok()?,
        write_queue_nums: next()?.parse().ok()?,
        perm: next()?.parse().ok()?,
        topic_filter_type: next()?.to_owned(),
        // What cannot be read of them is left out, as RocketMQ does.
        attributes: next().and_then(|json| from_slice(json.as_bytes()).ok()).unwrap_or_default(),
        ..TopicEntry::default()
    })
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    fn packed(topics: &[&str], count: i32) -> Vec<u8> {
        let text = |text: &str| [&(text.len() as i32).to_be_bytes(), text.as_bytes()].concat();
        let mut bytes = text(r#"{"counter":3,"stateVersion":0,"timestamp":7}"#);
        bytes.extend(count.to_be_bytes());
        bytes.extend(topics.iter().chain(&["[]"]).flat_map(|topic| text(topic)));
        compress_to_vec_zlib(&bytes, 9)
    }

    #[test]
    fn topics_are_read_with_and_without_attributes() {
        let topics =
            [r#"a 4 8 6 SINGLE_TAG {"message.type":"FIFO"}"#, "b 1 1 2 MULTI_TAG ", "c 1 1 4 SINGLE_TAG"];
        let read = Registration::unpack(&packed(&topics, 3)).unwrap().topic_config_serialize_wrapper;
        assert_eq!((read.data_version.counter, read.data_version.timestamp), (3, 7));
        let shown: Vec<_> = read
            .topic_config_table
            .values()
            .map(|topic| {
                (topic.topic_name.as_str(), topic.read_queue_nums, topic.write_queue_nums, topic.perm)
            })
            .collect();
        assert_eq!(shown, [("a", 4, 8, 6), ("b", 1, 1, 2), ("c", 1, 1, 4)]);
        assert_eq!(read.topic_config_table["a"].attributes["message.type"], "FIFO");
    }

    #[test]
    fn what_is_cut_short_or_swells_is_refused() {
        let whole = packed(&["a 4 8 6 SINGLE_TAG"], 1);
        assert!(Registration::unpack(&whole).is_ok());
        assert!(matches!(Registration::unpack(&whole[..9]), Err(RegistrationError::Stream { .. })));
        let malformed = |what| Err(RegistrationError::Malformed { what });
        assert_eq!(Registration::unpack(&packed(&["a 4 8 6 SINGLE_TAG"], i32::MAX)), malformed("topic"));
        assert_eq!(Registration::unpack(&packed(&["a 4 8"], 1)), malformed("topic"));
        assert_eq!(Registration::unpack(&compress_to_vec_zlib(&[0xff; 8], 9)), malformed("data version"));
        let bomb = compress_to_vec_zlib(&vec![0; BYTES_MAX + 1], 9);
        assert!(bomb.len() < 100_000);
        assert!(matches!(Registration::unpack(&bomb), Err(RegistrationError::Stream { .. })));
    }
}
