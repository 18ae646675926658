//! Little-endian primitives for records, checkpoints and indexes. Reading never panics and never trusts a length.

use bytes::Bytes;

/// Bytes that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Too short, or a value that cannot be: damage, or a writer's bug.
    #[error("malformed {what}")]
    Damaged { what: &'static str },
    /// A kind or version that this build does not know. Says nothing about damage.
    #[error("{what} {found} is not known to this version: a newer one wrote it")]
    Newer { what: &'static str, found: u8 },
}

impl Malformed {
    /// Whether a newer version wrote the bytes, so that they say nothing about damage.
    pub fn is_newer(self) -> bool {
        matches!(self, Malformed::Newer { .. })
    }
}

pub(crate) trait Put {
    fn put_u8(&mut self, v: u8);
    fn put_u16(&mut self, v: u16);
    fn put_u32(&mut self, v: u32);
    fn put_u64(&mut self, v: u64);
    fn put_bytes(&mut self, v: &[u8]);
    fn put_str(&mut self, v: &str) {
        self.put_bytes(v.as_bytes());
    }
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }
    fn put_u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn put_u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn put_u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    /// A length of 32 bits, then the bytes.
    fn put_bytes(&mut self, v: &[u8]) {
        debug_assert!(u32::try_from(v.len()).is_ok(), "limits keep every field far below 4 GiB");
        self.put_u32(v.len() as u32);
        self.extend_from_slice(v);
    }
}

/// Reads what [`Put`] wrote.
#[derive(Debug, Clone)]
pub(crate) struct Take<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Take<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Take { rest: bytes, what }
    }

    pub fn malformed(&self) -> Malformed {
        Malformed::Damaged { what: self.what }
    }

    pub fn slice(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        if len > self.rest.len() {
            return Err(self.malformed());
        }
        let (head, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let malformed = self.malformed();
        self.slice(N)?.try_into().map_err(|_| malformed)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        self.slice(len)
    }
    pub fn str(&mut self) -> Result<&'a str, Malformed> {
        let malformed = self.malformed();
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed)
    }

    /// A count of items of at least `item_len` bytes each: refused when they cannot be there.
    pub fn count(&mut self, item_len: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count.saturating_mul(item_len.max(1)) > self.rest.len() {
            return Err(self.malformed());
        }
        Ok(count)
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }
}

/// The part of `whole` that `part`, a slice into it, covers: shares the memory instead of copying.
pub(crate) fn share(whole: &Bytes, part: &[u8]) -> Bytes {
    whole.slice_ref(part)
}
