//! Where a group begins in a topic that it consumes for the first time, if the client does not decide.

use std::{fmt, str::FromStr};

/// Name of the group attribute that holds a [`ConsumeFrom`]. It is an attribute, not a field of the group's record, so
/// that the layout of the record is the same with and without it.
pub const CONSUME_FROM: &str = "consume.from";

/// The first message that a new group gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConsumeFrom {
    /// The first one stored after the group began.
    #[default]
    Latest,
    /// The oldest one that is kept.
    Earliest,
}

/// Text that names no [`ConsumeFrom`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is neither \"latest\" nor \"earliest\"")]
pub struct UnknownConsumeFrom {
    pub value: String,
}

impl ConsumeFrom {
    pub fn as_str(self) -> &'static str {
        match self {
            ConsumeFrom::Latest => "latest",
            ConsumeFrom::Earliest => "earliest",
        }
    }
}

impl fmt::Display for ConsumeFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ConsumeFrom {
    type Err = UnknownConsumeFrom;

    fn from_str(value: &str) -> Result<Self, UnknownConsumeFrom> {
        match value {
            "latest" => Ok(ConsumeFrom::Latest),
            "earliest" => Ok(ConsumeFrom::Earliest),
            _ => Err(UnknownConsumeFrom { value: value.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_two_words_are_read_as_they_are_written() {
        for from in [ConsumeFrom::Latest, ConsumeFrom::Earliest] {
            assert_eq!(from.to_string().parse(), Ok(from));
        }
        for other in ["", "Latest", "newest", "0"] {
            assert!(other.parse::<ConsumeFrom>().is_err(), "{other}");
        }
    }
}
