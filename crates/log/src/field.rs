//! Checked little-endian fields. Bytes from a disk can be anything, so every getter can say "not there".

pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let field = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

/// Writes fields one after the other into a header of a fixed size.
pub(crate) struct Fields<const N: usize> {
    bytes: [u8; N],
    used: usize,
}

impl<const N: usize> Fields<N> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], used: 0 }
    }

    pub(crate) fn put(mut self, field: &[u8]) -> Self {
        self.bytes[self.used..self.used + field.len()].copy_from_slice(field);
        self.used += field.len();
        self
    }

    pub(crate) fn u8(self, value: u8) -> Self {
        self.put(&[value])
    }

    pub(crate) fn u32(self, value: u32) -> Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Self {
        self.put(&value.to_le_bytes())
    }

    /// Ends the header with the CRC-32C of everything before it, in its last four bytes.
    pub(crate) fn sealed(mut self) -> [u8; N] {
        let crc = crc32c::crc32c(&self.bytes[..N - 4]);
        self.bytes[N - 4..].copy_from_slice(&crc.to_le_bytes());
        self.bytes
    }
}

/// Whether a header of exactly `N` bytes ends with the CRC-32C of what precedes it.
pub(crate) fn is_sealed<const N: usize>(bytes: &[u8]) -> bool {
    match (bytes.get(..N - 4), u32_at(bytes, N - 4)) {
        (Some(covered), Some(crc)) => crc32c::crc32c(covered) == crc,
        _ => false,
    }
}
