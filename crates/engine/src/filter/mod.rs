//! What a subscription lets through: everything, some tags, or an SQL92 condition over message properties.
//!
//! A filter is built once, when a subscription arrives, and refused there if it is malformed or too large.
//! Deciding about a message afterwards costs at most one visit per term of the expression and never fails:
//! an evaluation that goes wrong means that the message is not delivered.

mod error;
pub mod limits;
pub mod sql;
pub mod tag;

#[cfg(test)]
mod tests;

pub use error::Error;
pub use sql::Sql;
pub use tag::{TagSet, tag_hash};

/// The property that carries a message's tag.
pub const TAGS: &str = "TAGS";

/// The expression that selects every message.
pub const EVERYTHING: &str = "*";

/// What a subscription lets through. Clones share the compiled expression.
#[derive(Clone, Debug, Default)]
pub enum Filter {
    #[default]
    All,
    Tags(TagSet),
    Sql(Sql),
}

/// What the tag hash kept in a consume queue says about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Match,
    No,
    /// The hash does not settle it: read the message and ask [`Filter::matches`].
    NeedsProperties,
}

/// A message's properties, system ones such as `TAGS` and `KEYS` included.
///
/// An SQL condition asks once per mention of a name, so a lookup should be cheap.
pub trait Properties {
    fn get(&self, name: &str) -> Option<&str>;
}

impl Filter {
    /// Reads a tag expression: `*` or nothing for every message, else tags separated by `||`.
    pub fn tags(expression: &str) -> Result<Self, Error> {
        match tag::trim(expression) {
            "" | EVERYTHING => Ok(Self::All),
            _ => TagSet::parse(expression).map(Self::Tags),
        }
    }

    /// Reads an SQL92 condition. Nothing is not a condition, so empty text is refused.
    pub fn sql(expression: &str) -> Result<Self, Error> {
        Sql::parse(expression).map(Self::Sql)
    }

    /// Decides from the tag hash alone, or says that the properties are needed.
    ///
    /// Distinct tags can share a hash, so a hash that is wanted proves nothing yet.
    pub fn by_tag_hash(&self, tag_hash: i32) -> Verdict {
        match self {
            Self::All => Verdict::Match,
            Self::Tags(tags) if !tags.contains_hash(tag_hash) => Verdict::No,
            Self::Tags(_) | Self::Sql(_) => Verdict::NeedsProperties,
        }
    }

    /// Decides exactly, with the message's properties at hand.
    pub fn matches(&self, properties: &(impl Properties + ?Sized)) -> bool {
        match self {
            Self::All => true,
            Self::Tags(tags) => properties.get(TAGS).is_some_and(|tag| tags.contains(tag)),
            Self::Sql(sql) => sql.matches(properties),
        }
    }

    /// The text as given, for display; `*` for every message.
    pub fn expression(&self) -> &str {
        match self {
            Self::All => EVERYTHING,
            Self::Tags(tags) => tags.expression(),
            Self::Sql(sql) => sql.expression(),
        }
    }
}
