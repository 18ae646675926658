use bytes::BytesMut;

/// Idle connections hold the least; there may be thousands of them. The most is a small frame: for larger ones bytes are
/// taken before they are read.
pub(super) const LEAST: usize = 4 << 10;
const MOST: usize = super::connection::SMALL_FRAME;

/// How much a connection reads at a time: more while it is fed well, less when little comes.
#[derive(Debug)]
pub(super) struct Appetite(usize);

impl Default for Appetite {
    fn default() -> Self {
        Appetite(LEAST)
    }
}

impl Appetite {
    /// Bytes of the next read.
    pub fn bytes(&self) -> usize {
        self.0
    }

    /// Makes room for the next read.
    pub fn reserve(&self, input: &mut BytesMut) {
        if input.capacity() - input.len() < self.0 / 2 {
            input.reserve(self.0);
        }
    }

    /// A read has brought so many bytes.
    pub fn fed(&mut self, bytes: usize) {
        if bytes >= self.0 / 2 {
            self.0 = (self.0 * 2).min(MOST);
        } else if bytes < self.0 / 8 {
            self.0 = (self.0 / 2).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_what_comes_and_shrinks_again() {
        let (mut appetite, mut input) = (Appetite::default(), BytesMut::new());
        appetite.reserve(&mut input);
        assert!((LEAST..2 * LEAST).contains(&input.capacity()), "{}", input.capacity());
        for _ in 0..20 {
            appetite.fed(MOST);
        }
        assert_eq!(appetite.0, MOST);
        appetite.fed(MOST / 4);
        assert_eq!(appetite.0, MOST, "neither hungry nor full");
        for _ in 0..20 {
            appetite.fed(1);
        }
        assert_eq!(appetite.0, LEAST);
    }
}
