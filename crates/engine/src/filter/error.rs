use super::limits::EXCERPT_CHARS_MAX;

/// Why a filter expression was refused. `at` counts bytes from the start of the expression; messages show it
/// as a column that starts at one.
#[derive(thiserror::Error, Debug, Clone, PartialEq, Eq)]
pub enum Error {
    #[error("syntax error at column {}: expected {expected}, found {found}", .at + 1)]
    Syntax { at: usize, expected: &'static str, found: String },

    #[error("{what} opened at column {} is not closed", .at + 1)]
    Unclosed { at: usize, what: &'static str },

    #[error("number at column {} is out of range", .at + 1)]
    NumberOutOfRange { at: usize },

    #[error("lower bound of BETWEEN at column {} exceeds its upper bound", .at + 1)]
    ReversedRange { at: usize },

    #[error("nesting at column {} is deeper than {limit}", .at + 1)]
    TooDeep { at: usize, limit: usize },

    #[error("more than {limit} terms at column {}", .at + 1)]
    TooManyTerms { at: usize, limit: usize },

    #[error("more than {limit} items in the IN list at column {}", .at + 1)]
    TooManyItems { at: usize, limit: usize },

    #[error("expression of {len} bytes is longer than {limit}")]
    TooLong { len: usize, limit: usize },

    #[error("expression names {count} tags, more than {limit}")]
    TooManyTags { count: usize, limit: usize },

    #[error("expression names no tag")]
    NoTags,
}

impl Error {
    /// Byte position in the expression, where the fault has one.
    pub fn position(&self) -> Option<usize> {
        match *self {
            Self::Syntax { at, .. }
            | Self::Unclosed { at, .. }
            | Self::NumberOutOfRange { at }
            | Self::ReversedRange { at }
            | Self::TooDeep { at, .. }
            | Self::TooManyTerms { at, .. }
            | Self::TooManyItems { at, .. } => Some(at),
            Self::TooLong { .. } | Self::TooManyTags { .. } | Self::NoTags => None,
        }
    }

    /// `found` is the text at fault; empty at the end of the expression.
    pub(super) fn syntax(at: usize, expected: &'static str, found: &str) -> Self {
        Self::Syntax { at, expected, found: excerpt(found) }
    }
}

fn excerpt(found: &str) -> String {
    if found.is_empty() {
        return "end of expression".to_owned();
    }
    match found.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("`{}…`", &found[..end]),
        None => format!("`{found}`"),
    }
}
