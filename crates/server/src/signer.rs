//! Handles that clients send back: receipt handles, transaction ids, recall handles. They name the shard, and are signed, so that a
//! client cannot forge one.

use std::{fs, io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use redstart_engine::{
    GroupId, QueueId, QueueKey, QueueOffset, Receipt, SettingError, TimerKey, Timestamp, TopicId,
};
use redstart_log::Position;
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};

use crate::{
    durable_file,
    shard::{ChangeError, ShardHandle, Unavailable},
    shards::ShardNumber,
};

/// Where the first shard stores the key: base64.
const NAMESPACE: &str = "handles";
const KEY: &str = "key";
/// Where earlier releases kept it.
const KEY_FILE: &str = "handle.key";
const KEY_LEN: usize = 32;
const TAG_LEN: usize = 16;

const RECEIPT: Kind = Kind { old: 1, new: 4, len: 28 };
const RECALL: Kind = Kind { old: 2, new: 5, len: 20 };
const TRANSACTION: Kind = Kind { old: 3, new: 6, len: 12 };

/// A kind of handle. Those of earlier releases name no shard: they were made by the first.
#[derive(Debug, Clone, Copy)]
struct Kind {
    old: u8,
    new: u8,
    /// Bytes of the content after kind and shard.
    len: usize,
}

/// The key cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read {KEY_FILE}: {0}")]
    File(#[from] io::Error),
    #[error("cannot store it: {0}")]
    Stored(#[from] ChangeError<SettingError>),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Signs and verifies handles. The key is in the log of the first shard, so that handles stay valid wherever that log is served.
#[derive(Debug)]
pub struct Signer {
    key: hmac::Key,
}

impl Signer {
    /// Reads the key from the log, or makes it. A key that an earlier release left in `dir` is stored in the log, and its file is removed.
    pub async fn open(first: &ShardHandle, dir: &Path) -> Result<Signer, KeyError> {
        let file = dir.join(KEY_FILE);
        let stored = first.ask(|engine, _| engine.setting(NAMESPACE, KEY).map(str::to_owned))?.await?;
        let key = match stored.as_deref().and_then(read_key) {
            Some(key) => key,
            None => {
                let key = match old_key(&file)? {
                    Some(key) => key,
                    None => make_key()?,
                };
                let text = STANDARD.encode(&key);
                first.change(move |engine, _| engine.put_setting(NAMESPACE, KEY, Some(&text)))?.await??;
                key
            }
        };
        durable_file::remove(&file)?;
        Ok(Signer::with_key(&key))
    }

    pub fn with_key(key: &[u8]) -> Signer {
        Signer { key: hmac::Key::new(hmac::HMAC_SHA256, key) }
    }

    /// Layout: kind u8, shard u16, group u32, topic u32, queue u32, offset u64, seq u64, signature; as hexadecimal text.
    pub fn receipt(&self, shard: ShardNumber, receipt: Receipt) -> String {
        let mut bytes = begin(RECEIPT, shard);
        bytes.extend(receipt.group.0.to_be_bytes());
        bytes.extend(receipt.queue.topic.0.to_be_bytes());
        bytes.extend(receipt.queue.queue.0.to_be_bytes());
        bytes.extend(receipt.offset.0.to_be_bytes());
        bytes.extend(receipt.seq.to_be_bytes());
        self.sign(bytes)
    }

    pub fn read_receipt(&self, text: &str) -> Option<(ShardNumber, Receipt)> {
        let (shard, bytes) = self.verify(text, RECEIPT)?;
        let receipt = Receipt {
            group: GroupId(u32_at(&bytes, 0)?),
            queue: QueueKey { topic: TopicId(u32_at(&bytes, 4)?), queue: QueueId(u32_at(&bytes, 8)?) },
            offset: QueueOffset(u64_at(&bytes, 12)?),
            seq: u64_at(&bytes, 20)?,
        };
        Some((shard, receipt))
    }

    /// Layout: kind u8, shard u16, topic u32, due u64, position u64, signature.
    pub fn recall(&self, shard: ShardNumber, topic: TopicId, key: TimerKey) -> String {
        let mut bytes = begin(RECALL, shard);
        bytes.extend(topic.0.to_be_bytes());
        bytes.extend(key.due.0.to_be_bytes());
        bytes.extend(key.id.0.to_be_bytes());
        self.sign(bytes)
    }

    pub fn read_recall(&self, text: &str) -> Option<(ShardNumber, TopicId, TimerKey)> {
        let (shard, bytes) = self.verify(text, RECALL)?;
        let key = TimerKey { due: Timestamp(u64_at(&bytes, 4)?), id: Position(u64_at(&bytes, 12)?) };
        Some((shard, TopicId(u32_at(&bytes, 0)?), key))
    }

    /// Layout: kind u8, shard u16, topic u32, position of the half message u64, signature.
    pub fn transaction(&self, shard: ShardNumber, topic: TopicId, id: Position) -> String {
        let mut bytes = begin(TRANSACTION, shard);
        bytes.extend(topic.0.to_be_bytes());
        bytes.extend(id.0.to_be_bytes());
        self.sign(bytes)
    }

    pub fn read_transaction(&self, text: &str) -> Option<(ShardNumber, TopicId, Position)> {
        let (shard, bytes) = self.verify(text, TRANSACTION)?;
        Some((shard, TopicId(u32_at(&bytes, 0)?), Position(u64_at(&bytes, 4)?)))
    }

    fn sign(&self, mut bytes: Vec<u8>) -> String {
        let tag = hmac::sign(&self.key, &bytes);
        bytes.extend(&tag.as_ref()[..TAG_LEN]);
        to_hex(&bytes)
    }

    /// The shard and the content after it, if the signature is valid.
    fn verify(&self, text: &str, kind: Kind) -> Option<(ShardNumber, Vec<u8>)> {
        let bytes = from_hex(text)?;
        let (content, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG_LEN)?)?;
        let expected = hmac::sign(&self.key, content);
        let differs = expected.as_ref()[..TAG_LEN].iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
        if differs != 0 {
            return None;
        }
        let (shard, content) = match content {
            [first, high, low, rest @ ..] if *first == kind.new => (u16::from_be_bytes([*high, *low]), rest),
            [first, rest @ ..] if *first == kind.old => (0, rest),
            _ => return None,
        };
        (content.len() == kind.len).then(|| (ShardNumber(shard), content.to_vec()))
    }
}

fn begin(kind: Kind, shard: ShardNumber) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 + kind.len + TAG_LEN);
    bytes.push(kind.new);
    bytes.extend(shard.0.to_be_bytes());
    bytes
}

fn read_key(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok().filter(|key| key.len() == KEY_LEN)
}

/// The key that an earlier release has left.
fn old_key(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file) {
        Ok(bytes) if bytes.len() == KEY_LEN => Ok(Some(bytes)),
        // A new key replaces it. Handles signed with the old one are refused, and their messages are delivered again.
        Ok(bytes) => {
            let (shown, length) = (file.display(), bytes.len());
            tracing::warn!(file = %shown, length, expected = KEY_LEN, "the file with the key that signs handles is damaged; creating a new key");
            durable_file::set_aside(file)?;
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn make_key() -> io::Result<Vec<u8>> {
    let mut key = vec![0; KEY_LEN];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(key)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Reads hexadecimal text that is not longer than a handle.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    const BYTES_MAX: usize = 3 + RECEIPT.len + TAG_LEN;
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() > BYTES_MAX {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        Receipt {
            group: GroupId(1),
            queue: QueueKey { topic: TopicId(2), queue: QueueId(3) },
            offset: QueueOffset(4),
            seq: 5,
        }
    }

    const SHARD: ShardNumber = ShardNumber(7);

    fn signer() -> Signer {
        Signer::with_key(&[7; KEY_LEN])
    }

    #[test]
    fn a_handle_comes_back_and_any_change_to_it_is_noticed() {
        let signer = signer();
        let text = signer.receipt(SHARD, receipt());
        assert_eq!(signer.read_receipt(&text), Some((SHARD, receipt())));
        assert_eq!(Signer::with_key(&[8; KEY_LEN]).read_receipt(&text), None, "another key");
        for at in 0..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(signer.read_receipt(std::str::from_utf8(&forged).unwrap()), None, "byte {at}");
        }
        for bad in ["", "00", "é", &text[1..], &format!("{text}00")] {
            assert_eq!(signer.read_receipt(bad), None);
        }
    }

    #[test]
    fn a_handle_of_an_earlier_release_is_one_of_the_first_shard() {
        let signer = signer();
        let old = |kind: Kind, new: &str| {
            let bytes = from_hex(new).unwrap();
            let mut content = vec![kind.old];
            content.extend(&bytes[3..bytes.len() - TAG_LEN]);
            signer.sign(content)
        };
        let text = old(RECEIPT, &signer.receipt(SHARD, receipt()));
        assert_eq!(signer.read_receipt(&text), Some((ShardNumber::FIRST, receipt())));
        let key = TimerKey { due: Timestamp(7), id: Position(8) };
        let text = old(RECALL, &signer.recall(SHARD, TopicId(1), key));
        assert_eq!(signer.read_recall(&text), Some((ShardNumber::FIRST, TopicId(1), key)));
        let text = old(TRANSACTION, &signer.transaction(SHARD, TopicId(1), Position(9)));
        assert_eq!(signer.read_transaction(&text), Some((ShardNumber::FIRST, TopicId(1), Position(9))));
    }

    #[test]
    fn a_key_file_that_a_power_cut_left_unusable_is_no_key() {
        for left in [None, Some(&b""[..]), Some(b"half"), Some(&[7; KEY_LEN + 1])] {
            let dir = tempfile::TempDir::new().unwrap();
            let file = dir.path().join(KEY_FILE);
            if let Some(left) = left {
                fs::write(&file, left).unwrap();
            }
            assert_eq!(old_key(&file).unwrap(), None, "{left:?}");
            fs::write(&file, [7; KEY_LEN]).unwrap();
            assert_eq!(old_key(&file).unwrap(), Some(vec![7; KEY_LEN]));
        }
    }

    #[test]
    fn a_sign_is_no_digit_of_a_handle() {
        let signer = signer();
        let text = signer.receipt(SHARD, receipt());
        assert!(text.starts_with("04"), "\"+4\" would be the same number");
        assert_eq!(signer.read_receipt(&text.replacen("04", "+4", 1)), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_handle_that_was_not_made_here(text in ".{0,120}", at: usize, byte: u8) {
            let signer = signer();
            proptest::prop_assert_eq!(signer.read_receipt(&text), None);
            proptest::prop_assert_eq!(signer.read_recall(&text), None);
            proptest::prop_assert_eq!(signer.read_transaction(&text), None);
            let mut bytes = signer.receipt(SHARD, receipt()).into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            // Digits may be of either case.
            if let Some(read) = std::str::from_utf8(&bytes).ok().and_then(|text| signer.read_receipt(text)) {
                proptest::prop_assert_eq!(read, (SHARD, receipt()));
            }
        }

        #[test]
        fn every_receipt_comes_back(shard: u16, group: u32, topic: u32, queue: u32, offset: u64, seq: u64) {
            let (signer, shard) = (signer(), ShardNumber(shard));
            let queue = QueueKey { topic: TopicId(topic), queue: QueueId(queue) };
            let receipt = Receipt { group: GroupId(group), queue, offset: QueueOffset(offset), seq };
            let read = signer.read_receipt(&signer.receipt(shard, receipt));
            proptest::prop_assert_eq!(read, Some((shard, receipt)));
        }
    }

    #[test]
    fn a_handle_of_one_kind_is_none_of_another() {
        let signer = signer();
        let key = TimerKey { due: Timestamp(7), id: Position(8) };
        let recall = signer.recall(SHARD, TopicId(1), key);
        assert_eq!(signer.read_recall(&recall), Some((SHARD, TopicId(1), key)));
        assert_eq!(signer.read_receipt(&recall), None);
        assert_eq!(signer.read_transaction(&recall), None);
        let transaction = signer.transaction(SHARD, TopicId(1), Position(9));
        assert_eq!(signer.read_transaction(&transaction), Some((SHARD, TopicId(1), Position(9))));
    }
}
