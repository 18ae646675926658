//! Randomness for jitter, selection and ids: cheap, different in every process, and of no use for secrets.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8) | 1);
}

/// 64 bits by Marsaglia's xorshift, from a seed of the system for each thread.
pub(crate) fn random_u64() -> u64 {
    STATE.with(|state| {
        let mut bits = state.get();
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        state.set(bits);
        bits.wrapping_mul(0x2545_F491_4F6C_DD1D)
    })
}

/// Uniform in `0..bound`; 0 if there is nothing to choose from.
pub(crate) fn random_below(bound: usize) -> usize {
    ((u128::from(random_u64()) * bound as u128) >> 64) as usize
}

/// Uniform from 0 up to, and without, 1.
pub(crate) fn random_fraction() -> f64 {
    (random_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_below_the_bound_occurs_and_none_above() {
        let mut seen = [false; 5];
        (0..1000).for_each(|_| seen[random_below(5)] = true);
        assert_eq!(seen, [true; 5]);
        assert_eq!(random_below(0), 0);
        assert!((0..1000).map(|_| random_fraction()).all(|part| (0.0..1.0).contains(&part)));
    }
}
