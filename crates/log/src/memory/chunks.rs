/// Bytes that only grow at the end, kept in pieces so that growing never moves what is there.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    full: Vec<Vec<u8>>,
    len: u64,
}

const CHUNK_BYTES: usize = 1 << 20;

impl Chunks {
    pub(super) fn extend(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            let chunk = match self.full.last_mut() {
                Some(chunk) if chunk.len() < CHUNK_BYTES => chunk,
                _ => {
                    // The first one grows, so that a small log stays small.
                    let capacity = if self.full.is_empty() { 0 } else { CHUNK_BYTES };
                    self.full.push(Vec::with_capacity(capacity));
                    continue;
                }
            };
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - chunk.len()));
            chunk.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Bytes from `offset` on; `None` if there are not so many.
    pub(super) fn copy(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        if offset.checked_add(len as u64)? > self.len {
            return None;
        }
        let mut copy = Vec::with_capacity(len);
        let mut at = usize::try_from(offset).ok()?;
        while copy.len() < len {
            let chunk = self.full.get(at / CHUNK_BYTES)?.get(at % CHUNK_BYTES..)?;
            let piece = &chunk[..chunk.len().min(len - copy.len())];
            copy.extend_from_slice(piece);
            at += piece.len();
        }
        Some(copy)
    }

    pub(super) fn truncate(&mut self, len: u64) {
        self.len = self.len.min(len);
        let len = self.len as usize;
        self.full.truncate(len.div_ceil(CHUNK_BYTES));
        if let Some(last) = self.full.last_mut()
            && !len.is_multiple_of(CHUNK_BYTES)
        {
            last.truncate(len % CHUNK_BYTES);
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_wherever_the_chunks_meet() {
        let all: Vec<u8> = (0..3 * CHUNK_BYTES + 17).map(|n| (n % 251) as u8).collect();
        let mut chunks = Chunks::default();
        for piece in all.chunks(70_001) {
            chunks.extend(piece);
        }
        assert_eq!(chunks.len(), all.len() as u64);
        for (offset, len) in
            [(0, all.len()), (CHUNK_BYTES - 3, 7), (2 * CHUNK_BYTES, CHUNK_BYTES + 17), (5, 0)]
        {
            assert_eq!(chunks.copy(offset as u64, len).unwrap(), all[offset..offset + len]);
        }
        assert_eq!(chunks.copy(all.len() as u64, 1), None);
        for len in [2 * CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 5, 0] {
            chunks.truncate(len as u64);
            assert_eq!(chunks.copy(0, len).unwrap(), all[..len]);
            assert_eq!(chunks.copy(0, len + 1), None);
        }
    }
}
