//! Hashes as Java computes them: queues that a Java program chooses must be the queues that a Rust program chooses.

/// `String.hashCode`: 31 · h + each UTF-16 unit, in 32 bits with wrap.
pub(crate) fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// `Long.hashCode`: the low half and the high half, exclusive or.
#[cfg(feature = "messaging")]
pub(crate) fn long_hash(number: i64) -> i32 {
    (number ^ ((number as u64) >> 32) as i64) as i32
}

/// `Math.abs(hash % queues)`, and 0 where Java's result would stay negative, as `SelectMessageQueueByHash` has it.
#[cfg(feature = "messaging")]
pub(crate) fn index_of(hash: i32, queues: usize) -> usize {
    let Ok(queues) = i32::try_from(queues) else { return 0 };
    if queues == 0 { 0 } else { hash.wrapping_rem(queues).unsigned_abs() as usize }
}

#[cfg(all(test, feature = "messaging"))]
mod tests {
    use super::*;

    #[test]
    fn texts_have_javas_hashes_and_queues() {
        for (text, hash, of_four, of_eight) in [
            ("order-1042", 708_180_988, 0, 4),
            ("customer-6", -1_581_185_529, 1, 1),
            ("订单", 1_129_459, 3, 3),
            ("polygenelubricants", i32::MIN, 0, 0),
            ("hello", 99_162_322, 2, 2),
            ("", 0, 0, 0),
        ] {
            assert_eq!(string_hash(text), hash, "{text}");
            assert_eq!((index_of(hash, 4), index_of(hash, 8)), (of_four, of_eight), "{text}");
        }
        assert_eq!(index_of(7, 0), 0);
        assert_eq!(index_of(i32::MIN, 3), 2, "-2147483648 % 3 is -2");
    }

    #[test]
    fn numbers_have_javas_hashes() {
        for (number, hash) in
            [(0, 0), (1, 1), (-1, 0), (1 << 32, 1), (i64::MAX, i32::MIN), (i64::MIN, i32::MIN)]
        {
            assert_eq!(long_hash(number), hash, "{number}");
        }
    }
}
