//! SQL92 conditions over message properties, as RocketMQ's `filter` module (5.3) reads and evaluates them.
//!
//! ```text
//! condition  = and { OR and }                 and   = equality { AND equality }
//! equality   = comparison { ( "=" | "<>" ) comparison | IS [NOT] NULL }
//! comparison = unary { ( ">" | ">=" | "<" | "<=" ) unary | [NOT] BETWEEN unary AND unary
//!                    | [NOT] IN "(" text { "," text } ")" | [NOT] ( CONTAINS | STARTSWITH | ENDSWITH ) text }
//! unary      = ( "+" | "-" | NOT ) unary | literal | name | "(" condition ")"
//! literal    = integer [L] | float | text | TRUE | FALSE | NULL
//! ```
//!
//! `NOT` binds tighter than every comparison: `NOT a = 'x'` asks whether the condition `NOT a` equals `'x'`.
//! Write `NOT (a = 'x')`. `--` starts a comment that ends with the line; `/*` and `*/` enclose one.
//!
//! Stricter than RocketMQ: text after a complete condition is refused; there it is silently ignored, so that
//! `a LIKE 'x'` parses as `a`. And `--` is always a comment; there it needs an end of line, or is two signs.
//! Looser: `0.0` and `0L` are numbers, and `TRUE = a` means `a = TRUE`; there the first is refused, the second
//! cut short, the third fails on every message that has `a`.

mod ast;
mod cursor;
mod eval;
mod lexer;
mod number;
mod parser;
mod term;
mod token;
mod value;

#[cfg(test)]
mod tests;

use super::limits::EXPRESSION_BYTES_MAX;
use super::{Error, Properties};
use ast::Expr;
use std::fmt;
use std::sync::Arc;

/// A compiled SQL92 condition.
#[derive(Clone)]
pub struct Sql(Arc<Compiled>);

struct Compiled {
    expression: Box<str>,
    condition: Expr,
}

impl Sql {
    pub(super) fn parse(expression: &str) -> Result<Self, Error> {
        let len = expression.len();
        if len > EXPRESSION_BYTES_MAX {
            return Err(Error::TooLong { len, limit: EXPRESSION_BYTES_MAX });
        }
        let condition = parser::parse(expression)?;
        Ok(Self(Arc::new(Compiled { expression: expression.into(), condition })))
    }

    /// Whether the condition is true. Null, false and an evaluation that fails are all "no".
    pub fn matches(&self, properties: &(impl Properties + ?Sized)) -> bool {
        matches!(eval::truth(&self.0.condition, properties), Ok(Some(true)))
    }

    pub fn expression(&self) -> &str {
        &self.0.expression
    }
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sql").field(&self.expression()).finish()
    }
}
