//! The body of a batch send: entries of total size i32, magic i32, CRC i32, flag i32, body (i32 length), properties
//! (i16 length).

use bytes::{Buf, BufMut, Bytes};

use super::message::take;

/// One message of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchEntry {
    pub flag: i32,
    pub properties: String,
    pub body: Bytes,
}

/// A batch that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("entry {index} of the batch is malformed")]
    Malformed { index: usize },
    #[error("the batch has more than {limit} messages")]
    TooMany { limit: usize },
}

/// Reads a batch of at most `limit` messages. Bodies share the batch's bytes.
pub fn decode_batch(mut input: Bytes, limit: usize) -> Result<Vec<BatchEntry>, BatchError> {
    let mut entries = Vec::new();
    while input.has_remaining() {
        if entries.len() >= limit {
            return Err(BatchError::TooMany { limit });
        }
        let index = entries.len();
        entries.push(decode_entry(&mut input).ok_or(BatchError::Malformed { index })?);
    }
    Ok(entries)
}

fn decode_entry(input: &mut Bytes) -> Option<BatchEntry> {
    let size = i64::from(i32::from_be_bytes(*input.first_chunk::<4>()?));
    let mut entry = take(input, size)?;
    // Sizes, magic and CRC; clients leave the last two empty.
    take(&mut entry, 12)?;
    let flag = entry.try_get_i32().ok()?;
    let body_len = entry.try_get_i32().ok()?;
    let body = take(&mut entry, body_len.into())?;
    let properties_len = entry.try_get_i16().ok()?;
    let properties = String::from_utf8(take(&mut entry, properties_len.into())?.to_vec()).ok()?;
    entry.is_empty().then_some(BatchEntry { flag, properties, body })
}

impl BatchEntry {
    pub fn encode(&self, out: &mut impl BufMut) {
        out.put_i32((22 + self.body.len() + self.properties.len()) as i32);
        out.put_i32(0);
        out.put_i32(0);
        out.put_i32(self.flag);
        out.put_i32(self.body.len() as i32);
        out.put_slice(&self.body);
        out.put_i16(self.properties.len() as i16);
        out.put_slice(self.properties.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(body: &'static [u8]) -> BatchEntry {
        BatchEntry { flag: 5, properties: "k\u{1}v\u{2}".to_owned(), body: Bytes::from_static(body) }
    }

    fn encoded(entries: &[BatchEntry]) -> Bytes {
        let mut out = Vec::new();
        for entry in entries {
            entry.encode(&mut out);
        }
        out.into()
    }

    #[test]
    fn an_entry_has_the_bytes_of_the_layout() {
        let expected =
            [0, 0, 0, 27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, b'x', 0, 4, b'k', 1, b'v', 2];
        assert_eq!(encoded(&[entry(b"x")]), expected.as_slice());
    }

    #[test]
    fn a_batch_comes_back_whole_or_not_at_all() {
        let entries = [entry(b"one"), entry(b""), entry(b"three")];
        assert_eq!(decode_batch(encoded(&entries), 3).unwrap(), entries);
        assert_eq!(decode_batch(encoded(&entries), 2), Err(BatchError::TooMany { limit: 2 }));
        let cut = encoded(&entries).slice(..encoded(&entries).len() - 1);
        assert_eq!(decode_batch(cut, 3), Err(BatchError::Malformed { index: 2 }));
        for forged in [[0xff; 4], [0x7f, 0xff, 0xff, 0xff], [0, 0, 0, 0], [0, 0, 0, 3]] {
            assert_eq!(
                decode_batch(Bytes::copy_from_slice(&forged), 9),
                Err(BatchError::Malformed { index: 0 })
            );
        }
    }

    proptest! {
        #[test]
        fn changed_batches_never_panic(at in 0..60_usize, byte: u8) {
            let mut bytes = encoded(&[entry(b"one"), entry(b"two")]).to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = decode_batch(bytes.into(), 10);
        }
    }
}
