//! Names of the files in a log's directory. Numbers have twenty digits, so that names sort like numbers.

use crate::storage::TEMPORARY;

pub(crate) const LOCK: &str = "lock";
pub(crate) const MANIFEST: &str = "manifest";
/// The file that becomes the next segment.
pub(crate) const SPARE: &str = "spare";

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment(u64),
    Index(u64),
    Checkpoint(u64),
    Temporary,
    Lock,
    Manifest,
    Spare,
    /// Not one of ours: left alone.
    Foreign,
}

pub(crate) fn segment(base: u64) -> String {
    format!("{base:020}.log")
}

pub(crate) fn index(base: u64) -> String {
    format!("{base:020}.idx")
}

pub(crate) fn checkpoint(at: u64) -> String {
    format!("checkpoint-{at:020}")
}

impl Kind {
    pub(crate) fn of(name: &str) -> Self {
        match name {
            LOCK => return Self::Lock,
            MANIFEST => return Self::Manifest,
            SPARE => return Self::Spare,
            _ => {}
        }
        if let Some(target) = name.strip_suffix(TEMPORARY) {
            // Only leftovers of our own may be removed.
            return if Self::of(target) == Self::Foreign { Self::Foreign } else { Self::Temporary };
        }
        let found = |digits: Option<&str>, kind: fn(u64) -> Self| digits.and_then(number).map(kind);
        found(name.strip_suffix(".log"), Self::Segment)
            .or_else(|| found(name.strip_suffix(".idx"), Self::Index))
            .or_else(|| found(name.strip_prefix("checkpoint-"), Self::Checkpoint))
            .unwrap_or(Self::Foreign)
    }
}

fn number(digits: &str) -> Option<u64> {
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_were_made_for() {
        assert_eq!(Kind::of(&segment(0)), Kind::Segment(0));
        assert_eq!(Kind::of(&segment(u64::MAX)), Kind::Segment(u64::MAX));
        assert_eq!(Kind::of(&index(7)), Kind::Index(7));
        assert_eq!(Kind::of(&checkpoint(7)), Kind::Checkpoint(7));
        assert_eq!(Kind::of(&format!("{}.tmp", index(7))), Kind::Temporary);
        assert_eq!(Kind::of("lock"), Kind::Lock);
        assert_eq!(Kind::of("spare"), Kind::Spare);
    }

    #[test]
    fn files_of_others_are_left_alone() {
        for name in ["", "7.log", "notes.tmp", "99999999999999999999.log", "+0000000000000000007.log", "lost"]
        {
            assert_eq!(Kind::of(name), Kind::Foreign, "{name}");
        }
    }
}
