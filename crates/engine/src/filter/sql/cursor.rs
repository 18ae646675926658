//! The parser's place in the expression: the token ahead, and what has been taken.

use super::super::Error;
use super::lexer::Lexer;
use super::token::{Lexeme, Token, unquote};

#[derive(Debug)]
pub(super) struct Cursor<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    ahead: Lexeme<'a>,
    /// Where the last token taken ends.
    consumed: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(source: &'a str) -> Result<Self, Error> {
        let mut lexer = Lexer::new(source);
        let ahead = lexer.next()?;
        Ok(Self { source, lexer, ahead, consumed: 0 })
    }

    pub(super) fn peek(&self) -> Token<'a> {
        self.ahead.token
    }

    /// Where the token ahead starts.
    pub(super) fn position(&self) -> usize {
        self.ahead.start
    }

    /// The expression from `start` to the last token taken.
    pub(super) fn taken_since(&self, start: usize) -> &'a str {
        &self.source[start..self.consumed]
    }

    /// Takes the token ahead and returns where it started.
    pub(super) fn advance(&mut self) -> Result<usize, Error> {
        let next = self.lexer.next()?;
        let taken = std::mem::replace(&mut self.ahead, next);
        self.consumed = taken.end;
        Ok(taken.start)
    }

    pub(super) fn accept(&mut self, token: Token<'a>) -> Result<bool, Error> {
        let accepted = self.peek() == token;
        if accepted {
            self.advance()?;
        }
        Ok(accepted)
    }

    pub(super) fn expect(&mut self, token: Token<'a>, name: &'static str) -> Result<(), Error> {
        if self.accept(token)? { Ok(()) } else { Err(self.unexpected(name)) }
    }

    /// Takes a text literal.
    pub(super) fn text(&mut self) -> Result<Box<str>, Error> {
        let Token::Text(raw) = self.peek() else { return Err(self.unexpected("text in quotes")) };
        self.advance()?;
        Ok(unquote(raw))
    }

    pub(super) fn unexpected(&self, expected: &'static str) -> Error {
        Error::syntax(self.ahead.start, expected, &self.source[self.ahead.start..self.ahead.end])
    }
}
