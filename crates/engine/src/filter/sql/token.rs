//! The words and signs of the language.

use super::number::Number;

/// A token and the bytes it covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexeme<'a> {
    pub token: Token<'a>,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    End,
    Keyword(Keyword),
    Name(&'a str),
    Number(Number),
    /// Between the outer quotes; a quote inside is still doubled.
    Text(&'a str),
    Symbol(Symbol),
}

/// Reserved words, in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    Contains,
    StartsWith,
    EndsWith,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Open,
    Close,
    Comma,
    Plus,
    Minus,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

pub(super) const KEYWORDS: [(&str, Keyword); 12] = [
    ("NOT", Keyword::Not),
    ("AND", Keyword::And),
    ("OR", Keyword::Or),
    ("BETWEEN", Keyword::Between),
    ("IN", Keyword::In),
    ("TRUE", Keyword::True),
    ("FALSE", Keyword::False),
    ("NULL", Keyword::Null),
    ("IS", Keyword::Is),
    ("CONTAINS", Keyword::Contains),
    ("STARTSWITH", Keyword::StartsWith),
    ("ENDSWITH", Keyword::EndsWith),
];

/// Longer symbols come before their prefixes.
pub(super) const SYMBOLS: [(&str, Symbol); 11] = [
    ("(", Symbol::Open),
    (")", Symbol::Close),
    (",", Symbol::Comma),
    ("+", Symbol::Plus),
    ("-", Symbol::Minus),
    ("=", Symbol::Equal),
    ("<>", Symbol::NotEqual),
    ("<=", Symbol::LessOrEqual),
    ("<", Symbol::Less),
    (">=", Symbol::GreaterOrEqual),
    (">", Symbol::Greater),
];

/// What a text literal stands for, given what is between its outer quotes.
pub(super) fn unquote(raw: &str) -> Box<str> {
    raw.replace("''", "'").into()
}
