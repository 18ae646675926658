//! RocketMQ's delay levels: a 4.x client names a delay by its number in a list that the broker has.

use std::time::Duration;

/// RocketMQ's own delays, from level 1 on.
pub fn default_delay_levels() -> Vec<Duration> {
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
        .map(Duration::from_secs)
        .to_vec()
}

/// The delay of a level. Levels count from 1; larger ones than the last count as the last, as in RocketMQ. Level 0 names
/// none.
pub(super) fn delay_of_level(levels: &[Duration], level: u64) -> Option<Duration> {
    let last = levels.len();
    let index = usize::try_from(level).unwrap_or(last).min(last).checked_sub(1)?;
    levels.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_count_from_one_and_end_with_the_last() {
        let levels = default_delay_levels();
        let delay = |level| delay_of_level(&levels, level).map(|delay| delay.as_secs());
        for (level, expected) in
            [(0, None), (1, Some(1)), (3, Some(10)), (18, Some(7200)), (u64::MAX, Some(7200))]
        {
            assert_eq!(delay(level), expected, "{level}");
        }
        assert_eq!(delay_of_level(&[], 1), None);
    }
}
