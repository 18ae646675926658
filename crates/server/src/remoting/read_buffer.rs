use bytes::BytesMut;

/// An idle connection has the smallest buffer, as there may be thousands of them. The largest is that of a small frame: larger
/// frames get their bytes granted before they are read.
pub(super) const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = super::connection::SMALL_FRAME;

/// Chooses how many bytes a connection reads at a time: more while its reads are full, fewer while they are not.
#[derive(Debug)]
pub(super) struct ReadBufferSizer(usize);

impl Default for ReadBufferSizer {
    fn default() -> Self {
        ReadBufferSizer(READ_BYTES_MIN)
    }
}

impl ReadBufferSizer {
    /// Bytes of the next read.
    pub fn bytes(&self) -> usize {
        self.0
    }

    /// Grows the buffer for the next read.
    pub fn reserve(&self, input: &mut BytesMut) {
        if input.capacity() - input.len() < self.0 / 2 {
            input.reserve(self.0);
        }
    }

    /// Adjusts to the size of a read.
    pub fn observed(&mut self, bytes: usize) {
        if bytes >= self.0 / 2 {
            self.0 = (self.0 * 2).min(READ_BYTES_MAX);
        } else if bytes < self.0 / 8 {
            self.0 = (self.0 / 2).max(READ_BYTES_MIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_what_comes_and_shrinks_again() {
        let (mut sizer, mut input) = (ReadBufferSizer::default(), BytesMut::new());
        sizer.reserve(&mut input);
        assert!((READ_BYTES_MIN..2 * READ_BYTES_MIN).contains(&input.capacity()), "{}", input.capacity());
        for _ in 0..20 {
            sizer.observed(READ_BYTES_MAX);
        }
        assert_eq!(sizer.0, READ_BYTES_MAX);
        sizer.observed(READ_BYTES_MAX / 4);
        assert_eq!(sizer.0, READ_BYTES_MAX, "neither full nor nearly empty");
        for _ in 0..20 {
            sizer.observed(1);
        }
        assert_eq!(sizer.0, READ_BYTES_MIN);
    }
}
