use bytes::Bytes;
use redstart_wire::remoting::{
    StoredMessage, body::Registration, decode_batch, decode_properties, encode_properties,
};

pub fn properties(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut read = decode_properties(text);
    // A value may hold the separator of names, which cannot be written again.
    read.retain(|(_, value)| !value.contains('\u{1}'));
    let written = encode_properties(read.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    assert!(written.len() <= text.len() + 1, "at most the last separator is new");
    assert_eq!(decode_properties(&written), read);
}

pub fn batch(data: &[u8]) {
    const LIMIT: usize = 100;
    let Ok(entries) = decode_batch(Bytes::copy_from_slice(data), LIMIT) else { return };
    assert!(entries.len() <= LIMIT);
    let mut written = Vec::new();
    for entry in &entries {
        entry.encode(&mut written);
    }
    assert_eq!(written.len(), data.len(), "nothing is left out");
    assert_eq!(decode_batch(written.into(), LIMIT).as_ref(), Ok(&entries));
}

pub fn stored_message(data: &[u8]) {
    let mut input = Bytes::copy_from_slice(data);
    while let Some(message) = StoredMessage::decode(&mut input) {
        let mut written = Vec::new();
        message.encode(&mut written).expect("what came out of a record fits into one");
        assert_eq!(StoredMessage::decode(&mut written.into()), Some(message));
    }
}

pub fn registration(data: &[u8]) {
    let _ = Registration::unpack(data);
}
