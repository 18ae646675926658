use std::collections::BTreeMap;

use bytes::Bytes;
use redstart_wire::remoting::{StoredMessage, decode_properties, offset_message_id};

use super::property;
use crate::{BodyError, body::unpack};

/// A message as a broker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Name of the broker.
    pub broker: String,
    pub stored: StoredMessage<'static>,
    pub properties: BTreeMap<String, String>,
}

impl Message {
    pub fn new(broker: &str, stored: StoredMessage<'static>) -> Message {
        let properties = decode_properties(&stored.properties).into_iter().collect();
        Message { broker: broker.to_owned(), stored, properties }
    }

    /// The id that its producer gave it, else the address it is stored under.
    pub fn id(&self) -> String {
        self.property(property::UNIQUE_KEY).map_or_else(|| self.offset_id(), str::to_owned)
    }

    /// The id by which the broker finds it at once.
    pub fn offset_id(&self) -> String {
        offset_message_id(self.stored.store_host, self.stored.physical_offset)
    }

    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    pub fn tag(&self) -> Option<&str> {
        self.property(property::TAGS)
    }

    pub fn keys(&self) -> Vec<&str> {
        self.property(property::KEYS).into_iter().flat_map(str::split_whitespace).collect()
    }

    pub fn message_group(&self) -> Option<&str> {
        self.property(property::MESSAGE_GROUP)
    }

    /// The body as it was sent: producers may compress it.
    pub fn body(&self) -> Result<Bytes, BodyError> {
        unpack(&self.stored.body, self.stored.system_flag)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::ZlibEncoder};

    use super::*;

    fn message(body: Vec<u8>, system_flag: i32) -> Message {
        let stored = StoredMessage {
            topic: "t".into(),
            queue_id: 0,
            flag: 0,
            queue_offset: 0,
            physical_offset: 258,
            system_flag,
            born_at: 0,
            born_host: "127.0.0.1:1".parse().unwrap(),
            stored_at: 0,
            store_host: "127.0.0.1:10911".parse().unwrap(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties: "KEYS\u{1}a b\u{2}TAGS\u{1}x\u{2}".into(),
            body: body.into(),
        };
        Message::new("b", stored)
    }

    #[test]
    fn a_compressed_body_is_shown_as_it_was_sent() {
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
        packer.write_all(b"hello").unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(message(packed.clone(), 0x1).body(), Ok(Bytes::from_static(b"hello")));
        assert_eq!(message(packed.clone(), 0x301).body(), Ok(Bytes::from_static(b"hello")));
        assert_eq!(message(packed.clone(), 0x101).body(), Err(BodyError::Compression("LZ4")));
        assert_eq!(message(packed.clone(), 0).body(), Ok(packed.into()));
        assert!(matches!(message(b"no".to_vec(), 0x1).body(), Err(BodyError::Damaged(_))));
    }

    #[test]
    fn a_message_without_an_id_of_its_own_goes_by_its_address() {
        let message = message(Vec::new(), 0);
        assert_eq!(message.id(), "7F00000100002A9F0000000000000102");
        assert_eq!((message.keys(), message.tag()), (vec!["a", "b"], Some("x")));
    }
}
