//! A condition as a tree. The parser bounds its depth and size, and admits only conditions as operands of
//! logic.

use super::number::Number;

#[derive(Debug)]
pub(super) enum Expr {
    Null,
    Bool(bool),
    Number(Number),
    Text(Box<str>),
    Property(Box<str>),
    /// A property standing where a condition belongs.
    Flag(Box<str>),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    /// Operands of a chain of `AND`, in order. A chain is one level deep however long it is.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    IsNull(Box<Expr>),
    Equal(Box<[Expr; 2]>),
    Order(Relation, Box<[Expr; 2]>),
    /// Value, lower bound, upper bound.
    Between(Presence, Box<[Expr; 3]>),
    In(Presence, Box<str>, TextSet),
    Search(Presence, Box<Search>),
}

/// Whether the predicate stood with `NOT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Wanted,
    Unwanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug)]
pub(super) struct Search {
    pub subject: Expr,
    pub place: Place,
    pub needle: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    Start,
    End,
}

/// The texts of an `IN` list, sorted.
#[derive(Debug)]
pub(super) struct TextSet(Box<[Box<str>]>);

impl TextSet {
    pub(super) fn new(mut items: Vec<Box<str>>) -> Self {
        items.sort_unstable();
        items.dedup();
        Self(items.into())
    }

    pub(super) fn contains(&self, text: &str) -> bool {
        self.0.binary_search_by(|item| (**item).cmp(text)).is_ok()
    }
}

impl Expr {
    /// Whether it can only be true, false or null.
    pub(super) fn is_condition(&self) -> bool {
        match self {
            Self::Number(_) | Self::Text(_) | Self::Property(_) | Self::Negate(_) => false,
            Self::Null
            | Self::Bool(_)
            | Self::Flag(_)
            | Self::Not(_)
            | Self::And(_)
            | Self::Or(_)
            | Self::IsNull(_)
            | Self::Equal(_)
            | Self::Order(..)
            | Self::Between(..)
            | Self::In(..)
            | Self::Search(..) => true,
        }
    }
}

impl Relation {
    pub(super) fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Presence {
    /// The outcome of a predicate, given whether its positive form holds.
    pub(super) fn when(self, holds: bool) -> bool {
        holds == (self == Self::Wanted)
    }
}
