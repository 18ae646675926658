//! A restart changes nothing: opened twice, a log gives the same state.

use super::{Checked, ensure};

pub const SAME: &str = "a restart twice gives the same state";

/// Two descriptions of everything that can be observed, line by line.
pub fn check(first: &[String], second: &[String]) -> Checked {
    let differing = first.iter().zip(second).find(|(a, b)| a != b);
    ensure(differing.is_none(), SAME, || format!("{differing:?}"))?;
    ensure(first.len() == second.len(), SAME, || format!("{} lines, then {}", first.len(), second.len()))
}
