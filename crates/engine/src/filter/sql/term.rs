//! A parsed part of the expression, and what kinds of part may stand where.
//!
//! The checks look at what is written, not at what it would come to: `-'x'` passes for a number, since it is
//! not a literal, and comes to null.

use super::super::Error;
use super::ast::Expr;

#[derive(Debug)]
pub(super) struct Term<'a> {
    pub expr: Expr,
    /// Levels of operators in `expr`.
    pub depth: usize,
    /// Where `source` starts in the expression.
    pub start: usize,
    pub source: &'a str,
}

impl Term<'_> {
    /// An operand of `AND`, `OR` or `NOT`, or the whole: a condition or a property.
    pub(super) fn condition(self) -> Result<Expr, Error> {
        match self.expr {
            Expr::Property(name) => Ok(Expr::Flag(name)),
            expr if expr.is_condition() => Ok(expr),
            _ => Err(Error::syntax(self.start, "a condition", self.source)),
        }
    }

    /// An operand of `<` and its kin, or of `BETWEEN`: no text, no condition.
    pub(super) fn orderable(self) -> Result<Expr, Error> {
        match self.expr {
            Expr::Text(_) => Err(self.no_number()),
            _ if self.expr.is_condition() => Err(self.no_number()),
            expr => Ok(expr),
        }
    }

    fn no_number(&self) -> Error {
        Error::syntax(self.start, "a number or a property", self.source)
    }

    /// The left side of `IN`.
    pub(super) fn property(self) -> Result<Box<str>, Error> {
        match self.expr {
            Expr::Property(name) => Ok(name),
            _ => Err(Error::syntax(self.start, "a property", self.source)),
        }
    }

    /// Both sides of `=` or `<>`: anything but the literal `NULL`, and no number or text right of `TRUE` or
    /// `FALSE`.
    pub(super) fn comparable(left: Self, right: Self) -> Result<[Expr; 2], Error> {
        for side in [&left, &right] {
            if matches!(side.expr, Expr::Null) {
                return Err(Error::syntax(side.start, "a value, as only IS tests for null", side.source));
            }
        }
        if matches!((&left.expr, &right.expr), (Expr::Bool(_), Expr::Number(_) | Expr::Text(_))) {
            return Err(Error::syntax(right.start, "TRUE, FALSE or a property", right.source));
        }
        Ok([left.expr, right.expr])
    }
}
