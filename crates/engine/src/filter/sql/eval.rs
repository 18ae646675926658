//! Evaluation for one message: a walk over the tree that allocates nothing.
//!
//! Order matters. A failure ends the evaluation, but only if it is reached: `a = 'x' OR b > 1` is true for a
//! matching `a` whatever `b` holds, `b > 1 OR a = 'x'` is not when `b` is no number.

use super::super::Properties;
use super::ast::{Expr, Place, Presence, Relation, Search};
use super::value::{Failed, Truth, Value, equal, order};

pub(super) fn truth<P: Properties + ?Sized>(condition: &Expr, properties: &P) -> Result<Truth, Failed> {
    Ok(match eval(condition, properties)? {
        Value::Bool(value) => Some(value),
        Value::Null | Value::Number(_) | Value::Text(_) => None,
    })
}

fn eval<'a, P: Properties + ?Sized>(expr: &'a Expr, properties: &'a P) -> Result<Value<'a>, Failed> {
    let truth = match expr {
        Expr::Null => return Ok(Value::Null),
        Expr::Bool(value) => Some(*value),
        Expr::Number(number) => return Ok(Value::Number(*number)),
        Expr::Text(text) => return Ok(Value::Text(text)),
        Expr::Property(name) => return Ok(properties.get(name).map_or(Value::Null, Value::Text)),
        Expr::Flag(name) => flag(properties.get(name)),
        Expr::Negate(operand) => return eval(operand, properties).map(negate),
        Expr::Not(condition) => truth(condition, properties)?.map(|value| !value),
        Expr::And(conditions) => chain(conditions, false, properties)?,
        Expr::Or(conditions) => chain(conditions, true, properties)?,
        Expr::IsNull(operand) => Some(eval(operand, properties)? == Value::Null),
        Expr::Equal(operands) => {
            let [left, right] = &**operands;
            equal(eval(left, properties)?, eval(right, properties)?)?
        }
        Expr::Order(relation, operands) => {
            let [left, right] = &**operands;
            relate(eval(left, properties)?, *relation, right, properties)?
        }
        Expr::Between(presence, operands) => between(*presence, operands, properties)?,
        Expr::In(presence, name, items) => {
            properties.get(name).map(|text| presence.when(items.contains(text)))
        }
        Expr::Search(presence, search) => Some(found(*presence, search, properties)?),
    };
    Ok(truth.into())
}

/// A property alone is never true. It is text, and RocketMQ 5.3 `UnaryExpression.createBooleanCast` holds any
/// text, even `true`, to be false: `flag` selects nothing, `NOT flag` whatever has one. Write `flag = TRUE`.
fn flag(property: Option<&str>) -> Truth {
    property.map(|_| false)
}

/// The negative of text is null, even of text that reads as a number.
fn negate(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Number(number) => Value::Number(number.negated()),
        Value::Null | Value::Bool(_) | Value::Text(_) => Value::Null,
    }
}

/// `AND` ends at the first false, `OR` at the first true; otherwise one null makes the outcome null.
fn chain<P: Properties + ?Sized>(
    conditions: &[Expr],
    decisive: bool,
    properties: &P,
) -> Result<Truth, Failed> {
    let mut outcome = Some(!decisive);
    for condition in conditions {
        match truth(condition, properties)? {
            Some(value) if value == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => outcome = None,
        }
    }
    Ok(outcome)
}

/// The right side is not looked at when the left is null.
fn relate<P: Properties + ?Sized>(
    left: Value<'_>,
    relation: Relation,
    right: &Expr,
    properties: &P,
) -> Result<Truth, Failed> {
    if left == Value::Null {
        return Ok(None);
    }
    Ok(order(left, eval(right, properties)?)?.map(|ordering| relation.holds(ordering)))
}

/// `value >= low AND value <= high`, or its mirror image `value < low OR value > high`.
fn between<P: Properties + ?Sized>(
    presence: Presence,
    [value, low, high]: &[Expr; 3],
    properties: &P,
) -> Result<Truth, Failed> {
    let (at_low, at_high, decisive) = match presence {
        Presence::Wanted => (Relation::GreaterOrEqual, Relation::LessOrEqual, false),
        Presence::Unwanted => (Relation::Less, Relation::Greater, true),
    };
    let value = eval(value, properties)?;
    let first = relate(value, at_low, low, properties)?;
    if first == Some(decisive) {
        return Ok(first);
    }
    let second = relate(value, at_high, high, properties)?;
    Ok(if second == Some(decisive) { second } else { first.and(second) })
}

/// Both the plain and the `NOT` form are false, not null, for what is absent or no text, and for an empty
/// needle (RocketMQ 5.3 `ComparisonExpression.ContainsExpression` and its siblings).
fn found<P: Properties + ?Sized>(
    presence: Presence,
    search: &Search,
    properties: &P,
) -> Result<bool, Failed> {
    let needle = &*search.needle;
    if needle.is_empty() {
        return Ok(false);
    }
    let Value::Text(text) = eval(&search.subject, properties)? else { return Ok(false) };
    Ok(presence.when(match search.place {
        Place::Anywhere => text.contains(needle),
        Place::Start => text.starts_with(needle),
        Place::End => text.ends_with(needle),
    }))
}
