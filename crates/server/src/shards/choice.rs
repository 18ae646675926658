//! Which of several shards a text belongs to. The answer depends on nothing but the text and the number of shards, and it must not change
//! from one release to the next: messages of a message group would come out of order.

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A number below `buckets`, which must be above 0. With one more bucket, only the share of the new one moves to it; nothing moves
/// between the others (jump consistent hash, Lamping and Veach 2014).
pub(super) fn bucket(text: &str, buckets: usize) -> usize {
    let buckets = i64::try_from(buckets).unwrap_or(i64::MAX);
    let (mut key, mut found, mut next) = (hash(text), 0, 0);
    while next < buckets {
        found = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let step = (1_u64 << 31) as f64 / ((key >> 33) + 1) as f64;
        next = ((found + 1) as f64 * step) as i64;
    }
    usize::try_from(found).unwrap_or(0)
}

/// FNV-1a, and a mixing step: the ids of one producer differ in their last digits only.
fn hash(text: &str) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    let mut hash = text.as_bytes().iter().fold(FNV_OFFSET, fold);
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_same_bucket_in_every_release() {
        for (text, found) in [
            ("", [0, 0, 0, 5, 46]),
            ("a", [0, 1, 1, 6, 59]),
            ("order-17", [0, 1, 2, 5, 16]),
            ("0198A2B3C4D5E6F7", [0, 1, 2, 2, 2]),
        ] {
            assert_eq!([1, 2, 3, 8, 64].map(|buckets| bucket(text, buckets)), found, "{text:?}");
        }
    }

    #[test]
    fn one_more_bucket_takes_its_share_and_moves_nothing_else() {
        const TEXTS: usize = 20_000;
        for buckets in [1, 2, 3, 7, 63] {
            let mut moved = 0;
            for n in 0..TEXTS {
                let text = format!("01AC4D00000000000000{n:08X}");
                let (before, after) = (bucket(&text, buckets), bucket(&text, buckets + 1));
                assert!(after == before || after == buckets, "{text} moved from {before} to {after}");
                moved += usize::from(after != before);
            }
            let share = TEXTS / (buckets + 1);
            assert!(moved.abs_diff(share) < share / 4, "{moved} of {TEXTS} moved to bucket {buckets}");
        }
    }
}
