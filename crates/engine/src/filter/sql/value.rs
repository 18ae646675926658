//! What a part of a condition comes to for one message, and how two such values compare.

use super::number::{Number, double, order_doubles};
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Also an absent property.
    Null,
    Bool(bool),
    Number(Number),
    /// Every property that is present is text until something compares it.
    Text(&'a str),
}

/// True, false or null.
pub(super) type Truth = Option<bool>;

/// The evaluation cannot go on. Unlike null it is not absorbed by `OR`: the message is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed;

impl From<Truth> for Value<'_> {
    fn from(truth: Truth) -> Self {
        truth.map_or(Self::Null, Self::Bool)
    }
}

/// `left = right`.
///
/// Null is lopsided, as in RocketMQ 5.3 `ComparisonExpression.doCreateEqual`: on the left alone it gives
/// null, on the right alone false, and two nulls are equal. With `a` absent `'x' <> a` holds, `a <> 'x'` does
/// not.
pub(super) fn equal(left: Value<'_>, right: Value<'_>) -> Result<Truth, Failed> {
    use Value::{Bool, Null, Number, Text};
    let equal = match (left, right) {
        (Null, Null) => true,
        (Null, _) => return Ok(None),
        (_, Null) => false,
        (Text(left), Text(right)) => left == right,
        (Bool(left), Bool(right)) => left == right,
        (Number(left), Number(right)) => left.order(right).is_eq(),
        (Text(text), Bool(value)) | (Bool(value), Text(text)) => text.eq_ignore_ascii_case("true") == value,
        (Text(text), Number(number)) | (Number(number), Text(text)) => {
            number.read_alike(text).ok_or(Failed)?.order(number).is_eq()
        }
        (Bool(_), Number(_)) | (Number(_), Bool(_)) => false,
    };
    Ok(Some(equal))
}

/// How `left` and `right` are ordered as numbers; nothing when the left, or else the right, is null.
///
/// Text against a number is read with the number's type, text against text as doubles.
pub(super) fn order(left: Value<'_>, right: Value<'_>) -> Result<Option<Ordering>, Failed> {
    use Value::{Bool, Null, Number, Text};
    let ordering = match (left, right) {
        (Null, _) | (_, Null) => return Ok(None),
        (Number(left), Number(right)) => left.order(right),
        (Text(left), Number(right)) => right.read_alike(left).ok_or(Failed)?.order(right),
        (Number(left), Text(right)) => left.order(left.read_alike(right).ok_or(Failed)?),
        (Text(left), Text(right)) => order_doubles(double(left).ok_or(Failed)?, double(right).ok_or(Failed)?),
        (Bool(_), _) | (_, Bool(_)) => return Err(Failed),
    };
    Ok(Some(ordering))
}
