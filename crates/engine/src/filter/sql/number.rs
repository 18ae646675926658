//! Numbers with Java's types, because the type of a literal decides how property text is read.

use super::super::tag;
use std::cmp::Ordering;

/// A literal's value. An integer that fits 32 bits is `Int`, whatever its suffix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i32),
    Long(i64),
    Double(f64),
}

impl Number {
    /// Reads digits with an optional `L`; nothing when 64 bits do not hold them.
    pub(super) fn from_integer(literal: &str) -> Option<Self> {
        let value: i64 = literal.trim_end_matches(['l', 'L']).parse().ok()?;
        Some(i32::try_from(value).map_or(Self::Long(value), Self::Int))
    }

    /// Reads a floating literal; nothing when it overflows, or vanishes without being written as zero.
    pub(super) fn from_float(literal: &str) -> Option<Self> {
        let value: f64 = literal.parse().ok()?;
        let mantissa = literal.split(['e', 'E']).next().unwrap_or(literal);
        let vanished = value == 0.0 && mantissa.contains(|c: char| matches!(c, '1'..='9'));
        (value.is_finite() && !vanished).then_some(Self::Double(value))
    }

    /// Reads property text as a number of this number's type; nothing when it is not one.
    ///
    /// This is where a fractional property met by an integer literal fails, and with it the whole evaluation:
    /// `a > 1` does not deliver a message whose `a` is `1.5`, and neither does `NOT (a > 1)`; `a > 1.0` does.
    /// By the same rule an `a` of `3000000000` fails against `1`, which is a 32-bit literal, but not against
    /// `1.0` or `2147483648`. Observed in RocketMQ 5.3 `ComparisonExpression.__compare`, which converts with
    /// `Integer.valueOf`, `Long.valueOf` or `Double.valueOf` after the literal's class.
    pub(super) fn read_alike(self, text: &str) -> Option<Self> {
        match self {
            Self::Int(_) => text.parse().ok().map(Self::Int),
            Self::Long(_) => text.parse().ok().map(Self::Long),
            Self::Double(_) => double(text).map(Self::Double),
        }
    }

    pub(super) fn negated(self) -> Self {
        match self {
            Self::Int(value) => Self::Int(value.wrapping_neg()),
            Self::Long(value) => Self::Long(value.wrapping_neg()),
            Self::Double(value) => Self::Double(-value),
        }
    }

    /// Integers compare exactly; as soon as one side is a double, both are compared as doubles.
    pub(super) fn order(self, other: Self) -> Ordering {
        match (self.integer(), other.integer()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => order_doubles(self.approximate(), other.approximate()),
        }
    }

    fn integer(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value.into()),
            Self::Long(value) => Some(value),
            Self::Double(_) => None,
        }
    }

    fn approximate(self) -> f64 {
        match self {
            Self::Int(value) => value.into(),
            Self::Long(value) => value as f64,
            Self::Double(value) => value,
        }
    }
}

/// Java's `Double.compare`: NaN equals itself and exceeds everything, -0.0 is below 0.0.
pub(super) fn order_doubles(left: f64, right: f64) -> Ordering {
    let canonical = |value: f64| if value.is_nan() { f64::NAN.abs() } else { value };
    canonical(left).total_cmp(&canonical(right))
}

/// Java's `Double.valueOf`, without hexadecimal forms: blanks around, a sign, then `NaN`, `Infinity` or a
/// decimal that may end in a type letter.
pub(super) fn double(text: &str) -> Option<f64> {
    let text = tag::trim(text);
    let (negative, magnitude) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let value = match magnitude {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        // Rust would also take `inf`, `nan` and a second sign.
        _ if magnitude.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            magnitude.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(magnitude).parse().ok()?
        }
        _ => return None,
    };
    Some(if negative { -value } else { value })
}
