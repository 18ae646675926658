//! What clients know (`model.rs`, `turn.rs`), and the promises that are checked against it, a file for each subject.

pub mod acks;
pub mod attempts;
pub mod configs;
pub mod content;
pub mod dead_letters;
pub mod dedup;
pub mod loss;
pub mod model;
pub mod order;
pub mod places;
pub mod receipts;
pub mod restart;
pub mod retention;
pub mod turn;
pub mod visibility;

use std::fmt;

pub use model::Model;

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub promise: &'static str,
    pub detail: String,
}

impl Violation {
    pub fn new(promise: &'static str, detail: String) -> Violation {
        Violation { promise, detail }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken promise \"{}\": {}", self.promise, self.detail)
    }
}

pub type Checked = Result<(), Violation>;

/// Checks one condition of a promise.
pub fn ensure(holds: bool, promise: &'static str, detail: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Violation::new(promise, detail())) }
}
