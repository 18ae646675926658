//! Bounds on what a client may ask a filter to do. What exceeds them is refused when the filter is read.

/// Bytes of an expression, tags or SQL. Room for a full `IN` list of ordinary identifiers.
pub const EXPRESSION_BYTES_MAX: usize = 32 * 1024;

/// Distinct tags in one subscription.
pub const TAGS_MAX: usize = 1024;

/// Nesting of an SQL condition: parentheses, signs and `NOT`, and operators applied to one another's result.
/// It bounds the stack that parsing and evaluation use.
pub const SQL_DEPTH_MAX: usize = 64;

/// Terms in an SQL condition: operators, names, literals and `IN` list items. It bounds the work per message.
pub const SQL_TERMS_MAX: usize = 4096;

/// Items in one `IN` list.
pub const SQL_IN_ITEMS_MAX: usize = 1024;

/// Characters of the offending text that an error repeats.
pub(super) const EXCERPT_CHARS_MAX: usize = 32;
