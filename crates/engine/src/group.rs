//! Consumer groups: what an operator sets, and when a failed message comes again.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    CONSUME_FROM, ConsumeFrom, GroupId, GroupName, UnknownConsumeFrom,
    codec::{Malformed, Put, Take},
    topic::{ATTRIBUTES_BYTES_MAX, put_attributes, take_attributes, validate_attributes},
};

/// What an operator sets for a consumer group.
///
/// Layout:
///
/// | field | size | |
/// |---|---|---|
/// | enabled | u8 | 0 or 1 |
/// | ordered | u8 | 0 or 1 |
/// | retries | u32 | deliveries after the first |
/// | retry policy | | see [`RetryPolicy`] |
/// | attributes | u32, then pairs of strings | sorted by name |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    pub enabled: bool,
    /// One message of a message group at a time, in order.
    pub ordered: bool,
    /// Deliveries after the first; past them a message goes to the dead-letter topic.
    pub retries_max: u32,
    pub retry: RetryPolicy,
    pub attributes: BTreeMap<String, String>,
}

/// How long after a failed delivery the next one comes.
///
/// Layout, by the first byte:
///
/// | policy | fields |
/// |---|---|
/// | ladder | u8 0, u32 count, then that many delays u64 in ms |
/// | exponential | u8 1, initial u64 in ms, max u64 in ms, multiplier u32 |
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryPolicy {
    /// The n-th retry comes after the n-th delay; past the list, after its last.
    Ladder(Vec<Duration>),
    Exponential {
        initial: Duration,
        max: Duration,
        multiplier: u32,
    },
}

/// A group configuration that breaks a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConfig {
    #[error("{value} retries are over the limit of {limit}")]
    Retries { value: u32, limit: u32 },
    #[error("a retry ladder of {value} steps; it must have 1 to {limit}")]
    Steps { value: usize, limit: usize },
    #[error("the attributes have {size} bytes, the limit is {limit}")]
    AttributesTooLarge { size: usize, limit: usize },
    #[error("the attribute {CONSUME_FROM} is wrong: {0}")]
    ConsumeFrom(#[from] UnknownConsumeFrom),
}

const RETRIES_LIMIT: u32 = 1000;
const STEPS_LIMIT: usize = 64;

/// 10 s, 30 s, 1 min to 10 min, 20 min, 30 min, 1 h, 2 h: the unordered ladder every RocketMQ user knows.
fn default_ladder() -> Vec<Duration> {
    [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
        .map(Duration::from_secs)
        .to_vec()
}

const ORDERED_RETRY: Duration = Duration::from_secs(3);

impl Default for GroupConfig {
    fn default() -> Self {
        GroupConfig {
            enabled: true,
            ordered: false,
            retries_max: 16,
            retry: RetryPolicy::Ladder(default_ladder()),
            attributes: BTreeMap::new(),
        }
    }
}

impl GroupConfig {
    /// An ordered group with its fixed retry interval.
    pub fn ordered() -> GroupConfig {
        GroupConfig {
            ordered: true,
            retry: RetryPolicy::Ladder(vec![ORDERED_RETRY]),
            ..GroupConfig::default()
        }
    }

    /// How often a message may be delivered in all.
    pub fn attempts_max(&self) -> u32 {
        self.retries_max.saturating_add(1)
    }

    /// Where the group begins in a topic that it consumes for the first time, if that was set for it. A value that a
    /// broker stored before the attribute had a meaning counts as none.
    pub fn consume_from(&self) -> Option<ConsumeFrom> {
        self.attributes.get(CONSUME_FROM)?.parse().ok()
    }

    pub fn validate(&self) -> Result<(), InvalidConfig> {
        if self.retries_max > RETRIES_LIMIT {
            return Err(InvalidConfig::Retries { value: self.retries_max, limit: RETRIES_LIMIT });
        }
        if let RetryPolicy::Ladder(steps) = &self.retry
            && (steps.is_empty() || steps.len() > STEPS_LIMIT)
        {
            return Err(InvalidConfig::Steps { value: steps.len(), limit: STEPS_LIMIT });
        }
        if let Some(value) = self.attributes.get(CONSUME_FROM) {
            value.parse::<ConsumeFrom>()?;
        }
        validate_attributes(&self.attributes)
            .map_err(|size| InvalidConfig::AttributesTooLarge { size, limit: ATTRIBUTES_BYTES_MAX })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(self.enabled));
        out.put_u8(u8::from(self.ordered));
        out.put_u32(self.retries_max);
        self.retry.encode(out);
        put_attributes(&self.attributes, out);
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<GroupConfig, Malformed> {
        Ok(GroupConfig {
            enabled: take.u8()? != 0,
            ordered: take.u8()? != 0,
            retries_max: take.u32()?,
            retry: RetryPolicy::decode(take)?,
            attributes: take_attributes(take)?,
        })
    }
}

impl RetryPolicy {
    /// The wait after the `attempt`-th delivery failed; attempts count from 1.
    pub fn delay(&self, attempt: u32) -> Duration {
        let retry = attempt.max(1) - 1;
        match self {
            RetryPolicy::Ladder(steps) => {
                let last = steps.len().saturating_sub(1);
                steps.get((retry as usize).min(last)).copied().unwrap_or(ORDERED_RETRY)
            }
            RetryPolicy::Exponential { initial, max, multiplier } => {
                let factor = multiplier.saturating_pow(retry);
                initial.saturating_mul(factor).min(*max)
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            RetryPolicy::Ladder(steps) => {
                out.put_u8(0);
                out.put_u32(steps.len() as u32);
                for step in steps {
                    out.put_u64(step.as_millis() as u64);
                }
            }
            RetryPolicy::Exponential { initial, max, multiplier } => {
                out.put_u8(1);
                out.put_u64(initial.as_millis() as u64);
                out.put_u64(max.as_millis() as u64);
                out.put_u32(*multiplier);
            }
        }
    }

    fn decode(take: &mut Take<'_>) -> Result<RetryPolicy, Malformed> {
        match take.u8()? {
            0 => (0..take.count(8)?)
                .map(|_| Ok(Duration::from_millis(take.u64()?)))
                .collect::<Result<_, _>>()
                .map(RetryPolicy::Ladder),
            1 => Ok(RetryPolicy::Exponential {
                initial: Duration::from_millis(take.u64()?),
                max: Duration::from_millis(take.u64()?),
                multiplier: take.u32()?,
            }),
            found => Err(Malformed::Newer { what: "retry policy", found }),
        }
    }
}

/// A consumer group as the engine knows it.
#[derive(Debug)]
pub(crate) struct Group {
    pub id: GroupId,
    pub name: GroupName,
    pub config: GroupConfig,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_repeats_its_last_step() {
        let policy = GroupConfig::default().retry;
        let seconds: Vec<u64> = [1, 2, 3, 16, 17, 500].iter().map(|&n| policy.delay(n).as_secs()).collect();
        assert_eq!(seconds, [10, 30, 60, 7200, 7200, 7200]);
    }

    #[test]
    fn an_exponential_policy_grows_to_its_maximum_without_overflow() {
        let policy = RetryPolicy::Exponential {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            multiplier: 2,
        };
        let seconds: Vec<u64> =
            [1, 2, 3, 7, 4_000_000_000].iter().map(|&n| policy.delay(n).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 60, 60]);
    }
}
