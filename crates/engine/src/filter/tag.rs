//! Filtering by tag: a message has at most one, a subscription names some.

use super::Error;
use super::limits::{EXPRESSION_BYTES_MAX, TAGS_MAX};
use std::fmt;
use std::sync::Arc;

const SEPARATOR: &str = "||";

/// The tags that a subscription wants; never empty.
#[derive(Clone)]
pub struct TagSet(Arc<Tags>);

struct Tags {
    expression: Box<str>,
    /// Sorted, as are the names.
    hashes: Box<[i32]>,
    names: Box<[Box<str>]>,
}

impl TagSet {
    /// Reads tags separated by `||`. Blanks around a tag and empty tags do not count.
    ///
    /// `*` among other tags is a literal tag, as in RocketMQ's `FilterAPI` (5.3). Text that names no tag at
    /// all, which there is refused or silently selects nothing, is refused.
    pub(super) fn parse(expression: &str) -> Result<Self, Error> {
        let len = expression.len();
        if len > EXPRESSION_BYTES_MAX {
            return Err(Error::TooLong { len, limit: EXPRESSION_BYTES_MAX });
        }
        let mut names: Vec<&str> =
            expression.split(SEPARATOR).map(trim).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        match names.len() {
            0 => return Err(Error::NoTags),
            count if count > TAGS_MAX => return Err(Error::TooManyTags { count, limit: TAGS_MAX }),
            _ => {}
        }
        let mut hashes: Vec<i32> = names.iter().map(|name| tag_hash(name)).collect();
        hashes.sort_unstable();
        Ok(Self(Arc::new(Tags {
            expression: expression.into(),
            hashes: hashes.into(),
            names: names.into_iter().map(Box::from).collect(),
        })))
    }

    pub fn contains(&self, tag: &str) -> bool {
        self.0.names.binary_search_by(|name| (**name).cmp(tag)).is_ok()
    }

    /// Whether some wanted tag has this hash.
    pub fn contains_hash(&self, tag_hash: i32) -> bool {
        self.0.hashes.binary_search(&tag_hash).is_ok()
    }

    /// The wanted tags in byte order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.names.iter().map(|name| &**name)
    }

    pub fn expression(&self) -> &str {
        &self.0.expression
    }
}

impl fmt::Debug for TagSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Java's `String.hashCode`: `h = 31 * h + unit` over UTF-16 units, wrapping; 0 for no tag.
pub fn tag_hash(tag: &str) -> i32 {
    tag.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// Java's `String.trim`: drops U+0020 and everything below it, and no other kind of space. Both sides of the
/// wire must agree on where a tag ends, or their hashes differ.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}
