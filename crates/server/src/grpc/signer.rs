//! Handles that clients send back: receipt handles, transaction ids, recall handles. They are signed, so that a client cannot
//! forge one.

use std::{fs, io, path::Path};

use redstart_engine::{GroupId, QueueId, QueueKey, QueueOffset, Receipt, TimerKey, Timestamp, TopicId};
use redstart_log::Position;
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};

use crate::durable_file::{self, Readable};

const KEY_FILE: &str = "handle.key";
const KEY_LEN: usize = 32;
const TAG_LEN: usize = 16;

const RECEIPT: u8 = 1;
const RECALL: u8 = 2;
const TRANSACTION: u8 = 3;

/// Signs and verifies handles. The key is stored with the data, so that handles stay valid after a restart, as deliveries do.
#[derive(Debug)]
pub(super) struct Signer {
    key: hmac::Key,
}

impl Signer {
    pub fn open(dir: &Path) -> io::Result<Signer> {
        let path = dir.join(KEY_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) if bytes.len() == KEY_LEN => bytes,
            // A new key replaces it. Handles signed with the old one are refused, and their messages are delivered again.
            Ok(bytes) => {
                let (file, length) = (path.display(), bytes.len());
                tracing::warn!(%file, length, expected = KEY_LEN, "the file with the key that signs handles is damaged; creating a new key");
                durable_file::set_aside(&path)?;
                make_key(&path)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(&path)?,
            Err(error) => return Err(error),
        };
        Ok(Signer::with_key(&bytes))
    }

    pub fn with_key(key: &[u8]) -> Signer {
        Signer { key: hmac::Key::new(hmac::HMAC_SHA256, key) }
    }

    /// Layout: kind u8, group u32, topic u32, queue u32, offset u64, seq u64, signature; as hexadecimal text.
    pub fn receipt(&self, receipt: Receipt) -> String {
        let mut bytes = Vec::with_capacity(29 + TAG_LEN);
        bytes.push(RECEIPT);
        bytes.extend(receipt.group.0.to_be_bytes());
        bytes.extend(receipt.queue.topic.0.to_be_bytes());
        bytes.extend(receipt.queue.queue.0.to_be_bytes());
        bytes.extend(receipt.offset.0.to_be_bytes());
        bytes.extend(receipt.seq.to_be_bytes());
        self.sign(bytes)
    }

    pub fn read_receipt(&self, text: &str) -> Option<Receipt> {
        let bytes = self.verify(text, RECEIPT, 28)?;
        Some(Receipt {
            group: GroupId(u32_at(&bytes, 0)?),
            queue: QueueKey { topic: TopicId(u32_at(&bytes, 4)?), queue: QueueId(u32_at(&bytes, 8)?) },
            offset: QueueOffset(u64_at(&bytes, 12)?),
            seq: u64_at(&bytes, 20)?,
        })
    }

    /// Layout: kind u8, topic u32, due u64, position u64, signature.
    pub fn recall(&self, topic: TopicId, key: TimerKey) -> String {
        let mut bytes = vec![RECALL];
        bytes.extend(topic.0.to_be_bytes());
        bytes.extend(key.due.0.to_be_bytes());
        bytes.extend(key.id.0.to_be_bytes());
        self.sign(bytes)
    }

    pub fn read_recall(&self, text: &str) -> Option<(TopicId, TimerKey)> {
        let bytes = self.verify(text, RECALL, 20)?;
        let key = TimerKey { due: Timestamp(u64_at(&bytes, 4)?), id: Position(u64_at(&bytes, 12)?) };
        Some((TopicId(u32_at(&bytes, 0)?), key))
    }

    /// Layout: kind u8, topic u32, position of the half message u64, signature.
    pub fn transaction(&self, topic: TopicId, id: Position) -> String {
        let mut bytes = vec![TRANSACTION];
        bytes.extend(topic.0.to_be_bytes());
        bytes.extend(id.0.to_be_bytes());
        self.sign(bytes)
    }

    pub fn read_transaction(&self, text: &str) -> Option<(TopicId, Position)> {
        let bytes = self.verify(text, TRANSACTION, 12)?;
        Some((TopicId(u32_at(&bytes, 0)?), Position(u64_at(&bytes, 4)?)))
    }

    fn sign(&self, mut bytes: Vec<u8>) -> String {
        let tag = hmac::sign(&self.key, &bytes);
        bytes.extend(&tag.as_ref()[..TAG_LEN]);
        to_hex(&bytes)
    }

    /// The content after the kind, if the signature is valid.
    fn verify(&self, text: &str, kind: u8, len: usize) -> Option<Vec<u8>> {
        let bytes = from_hex(text, 1 + len + TAG_LEN)?;
        let (content, tag) = bytes.split_at(1 + len);
        let expected = hmac::sign(&self.key, content);
        let differs = expected.as_ref()[..TAG_LEN].iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
        (differs == 0 && content[0] == kind).then(|| content[1..].to_vec())
    }
}

fn make_key(path: &Path) -> io::Result<Vec<u8>> {
    let mut key = vec![0; KEY_LEN];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("no random numbers"))?;
    durable_file::replace(path, &key, Readable::ByOwner)?;
    Ok(key)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Reads hexadecimal text of exactly `len` bytes.
fn from_hex(text: &str, len: usize) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != len {
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

    #[test]
    fn a_handle_comes_back_and_any_change_to_it_is_noticed() {
        let dir = tempfile::TempDir::new().unwrap();
        let signer = Signer::open(dir.path()).unwrap();
        let text = signer.receipt(receipt());
        assert_eq!(Signer::open(dir.path()).unwrap().read_receipt(&text), Some(receipt()), "the key is kept");
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
    fn a_key_that_a_power_cut_left_unusable_is_made_again() {
        for left in [None, Some(&b""[..]), Some(b"half"), Some(&[7; KEY_LEN + 1])] {
            let dir = tempfile::TempDir::new().unwrap();
            if let Some(left) = left {
                fs::write(dir.path().join(KEY_FILE), left).unwrap();
            }
            let text = Signer::open(dir.path()).unwrap().receipt(receipt());
            let again = Signer::open(dir.path()).unwrap();
            assert_eq!(again.read_receipt(&text), Some(receipt()), "{left:?}");
        }
    }

    #[test]
    fn a_sign_is_no_digit_of_a_handle() {
        let signer = Signer::with_key(&[7; KEY_LEN]);
        let text = signer.receipt(receipt());
        assert!(text.starts_with("01"), "\"+1\" would be the same number");
        assert_eq!(signer.read_receipt(&text.replacen("01", "+1", 1)), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_handle_that_was_not_made_here(text in ".{0,120}", at: usize, byte: u8) {
            let signer = Signer::with_key(&[7; KEY_LEN]);
            proptest::prop_assert_eq!(signer.read_receipt(&text), None);
            proptest::prop_assert_eq!(signer.read_recall(&text), None);
            proptest::prop_assert_eq!(signer.read_transaction(&text), None);
            let mut bytes = signer.receipt(receipt()).into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            // Digits may be of either case.
            if let Some(read) = std::str::from_utf8(&bytes).ok().and_then(|text| signer.read_receipt(text)) {
                proptest::prop_assert_eq!(read, receipt());
            }
        }

        #[test]
        fn every_receipt_comes_back(group: u32, topic: u32, queue: u32, offset: u64, seq: u64) {
            let signer = Signer::with_key(&[7; KEY_LEN]);
            let queue = QueueKey { topic: TopicId(topic), queue: QueueId(queue) };
            let receipt = Receipt { group: GroupId(group), queue, offset: QueueOffset(offset), seq };
            proptest::prop_assert_eq!(signer.read_receipt(&signer.receipt(receipt)), Some(receipt));
        }
    }

    #[test]
    fn a_handle_of_one_kind_is_none_of_another() {
        let dir = tempfile::TempDir::new().unwrap();
        let signer = Signer::open(dir.path()).unwrap();
        let key = TimerKey { due: Timestamp(7), id: Position(8) };
        let recall = signer.recall(TopicId(1), key);
        assert_eq!(signer.read_recall(&recall), Some((TopicId(1), key)));
        assert_eq!(signer.read_receipt(&recall), None);
        assert_eq!(signer.read_transaction(&recall), None);
        let transaction = signer.transaction(TopicId(1), Position(9));
        assert_eq!(signer.read_transaction(&transaction), Some((TopicId(1), Position(9))));
    }
}
