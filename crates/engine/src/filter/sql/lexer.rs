//! Splits an expression into tokens, one at a time.

use super::super::Error;
use super::number::Number;
use super::token::{KEYWORDS, Lexeme, SYMBOLS, Token};

#[derive(Debug)]
pub(super) struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { source, at: 0 }
    }

    /// The next token; `End` again and again at the end.
    pub(super) fn next(&mut self) -> Result<Lexeme<'a>, Error> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = self.rest();
        let token = match rest.bytes().next() {
            None => Token::End,
            Some(b'\'') => self.text()?,
            Some(b'0'..=b'9') => self.number()?,
            Some(b'.') if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number()?,
            Some(byte) if is_name_start(byte) => self.word(),
            Some(_) => self.symbol()?,
        };
        Ok(Lexeme { token, start, end: self.at })
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Passes over the bytes that satisfy `wanted`, which must be ASCII, and returns them.
    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.bytes().take_while(|&byte| byte.is_ascii() && wanted(byte)).count();
        self.at += len;
        &rest[..len]
    }

    fn skip_blanks(&mut self) -> Result<(), Error> {
        loop {
            self.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c'));
            let rest = self.rest();
            if rest.starts_with("--") {
                self.at += rest.find(['\n', '\r']).unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let len = comment.find("*/").ok_or(Error::Unclosed { at: self.at, what: "comment" })?;
                self.at += len + "/**/".len();
            } else {
                return Ok(());
            }
        }
    }

    fn text(&mut self) -> Result<Token<'a>, Error> {
        let start = self.at;
        let inner = &self.rest()[1..];
        let mut len = 0;
        while let Some(quote) = inner[len..].find('\'') {
            len += quote;
            if !inner[len + 1..].starts_with('\'') {
                self.at += len + 2;
                return Ok(Token::Text(&inner[..len]));
            }
            len += 2;
        }
        Err(Error::Unclosed { at: start, what: "text" })
    }

    fn number(&mut self) -> Result<Token<'a>, Error> {
        let start = self.at;
        self.take_digits();
        let mut float = false;
        if self.rest().starts_with('.') {
            self.at += 1;
            self.take_digits();
            float = true;
        }
        float |= self.take_exponent();
        if !float && self.rest().starts_with(['l', 'L']) {
            self.at += 1;
        }
        let literal = &self.source[start..self.at];
        if !float && literal.starts_with('0') && literal[1..].starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Error::syntax(start, "a number without leading zeros", literal));
        }
        let number = if float { Number::from_float(literal) } else { Number::from_integer(literal) };
        number.map(Token::Number).ok_or(Error::NumberOutOfRange { at: start })
    }

    fn take_digits(&mut self) -> &'a str {
        self.take_while(|byte| byte.is_ascii_digit())
    }

    /// An `E` without digits is not an exponent but the start of a name.
    fn take_exponent(&mut self) -> bool {
        let start = self.at;
        if self.rest().starts_with(['e', 'E']) {
            self.at += 1;
            if self.rest().starts_with(['+', '-']) {
                self.at += 1;
            }
            if !self.take_digits().is_empty() {
                return true;
            }
        }
        self.at = start;
        false
    }

    fn word(&mut self) -> Token<'a> {
        let word = self.take_while(|byte| is_name_start(byte) || byte.is_ascii_digit());
        match KEYWORDS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)) {
            Some(&(_, keyword)) => Token::Keyword(keyword),
            None => Token::Name(word),
        }
    }

    fn symbol(&mut self) -> Result<Token<'a>, Error> {
        let rest = self.rest();
        if let Some(&(text, symbol)) = SYMBOLS.iter().find(|(text, _)| rest.starts_with(text)) {
            self.at += text.len();
            return Ok(Token::Symbol(symbol));
        }
        let len = rest.chars().next().map_or(0, char::len_utf8);
        Err(Error::syntax(self.at, "a name, a literal or an operator", &rest[..len]))
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$'
}
