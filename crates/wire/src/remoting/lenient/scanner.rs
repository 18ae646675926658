//! A scanner for JSON as RocketMQ's clients write it, which is not always valid JSON.

use std::borrow::Cow;

use super::value::Scalar;

/// The kind of the next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    Scalar,
}

/// Walks over a text of JSON, mark by mark.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text: text.trim_start_matches('\u{feff}'), at: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Goes over whitespace and comments; the byte behind them.
    fn next_mark(&mut self) -> Option<u8> {
        loop {
            match self.byte()? {
                b' ' | b'\n' | b'\t' | b'\r' | 0x0c | 0x08 => self.at += 1,
                b'/' if self.rest().starts_with("/*") => {
                    self.at += self.rest().find("*/").map_or(self.rest().len(), |end| end + 2);
                }
                b'/' if self.rest().starts_with("//") => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                byte => return Some(byte),
            }
        }
    }

    /// What comes next; `None` where no value can begin.
    pub fn peek(&mut self) -> Option<Kind> {
        match self.next_mark()? {
            b'{' => Some(Kind::Object),
            b'[' => Some(Kind::Array),
            b'}' | b']' | b',' | b':' => None,
            _ => Some(Kind::Scalar),
        }
    }

    /// Goes over the mark that was seen last.
    pub fn skip_mark(&mut self) {
        self.at += 1;
    }

    /// Goes over commas, and over `mark` if it comes then.
    pub fn closes(&mut self, mark: u8) -> bool {
        loop {
            match self.next_mark() {
                Some(b',') => self.at += 1,
                Some(found) if found == mark => {
                    self.at += 1;
                    return true;
                }
                _ => return false,
            }
        }
    }

    pub fn colon(&mut self) -> bool {
        let colon = self.next_mark() == Some(b':');
        self.at += usize::from(colon);
        colon
    }

    /// Goes over `null`, if it comes next.
    pub fn skip_null(&mut self) -> bool {
        self.next_mark();
        let begin = self.at;
        let null = self.bare() == "null";
        if !null {
            self.at = begin;
        }
        null
    }

    /// A key: text in either kind of quotes, an object, or the text before the colon.
    pub fn key(&mut self, depth_max: usize) -> Option<Cow<'a, str>> {
        match self.next_mark()? {
            b'"' | b'\'' => self.quoted(),
            b'{' | b'[' => self.raw(depth_max).map(Cow::Borrowed),
            _ => Some(self.bare()).filter(|key| !key.is_empty()).map(Cow::Borrowed),
        }
    }

    /// A value that is neither a list nor an object.
    pub fn scalar(&mut self) -> Option<Scalar<'a>> {
        if let b'"' | b'\'' = self.next_mark()? {
            return self.quoted().map(Scalar::Text);
        }
        let word = self.bare();
        match word {
            "" => None,
            "null" | "undefined" => Some(Scalar::Null),
            "true" => Some(Scalar::Truth(true)),
            "false" => Some(Scalar::Truth(false)),
            number => read_number(number),
        }
    }

    /// A run of characters without a meaning of their own.
    fn bare(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || "{}[],:\"'/".contains(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// A text in quotes, of either kind.
    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        let quote = self.byte()?;
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let begin = self.at;
            while self.byte().is_some_and(|byte| byte != quote && byte != b'\\') {
                self.at += 1;
            }
            let run = self.text.get(begin..self.at)?;
            match &mut text {
                Cow::Borrowed("") => text = Cow::Borrowed(run),
                text => text.to_mut().push_str(run),
            }
            match self.byte()? {
                b'\\' => {
                    self.at += 1;
                    text.to_mut().push(self.escaped()?);
                }
                _ => {
                    self.at += 1;
                    return Some(text);
                }
            }
        }
    }

    /// The character behind a backslash. Half a surrogate pair is U+FFFD.
    fn escaped(&mut self) -> Option<char> {
        let letter = self.rest().chars().next()?;
        self.at += letter.len_utf8();
        Some(match letter {
            'b' => '\u{8}',
            'f' | 'F' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0'..='7' => char::from(letter as u8 - b'0'),
            'x' => char::from_u32(self.hexadecimal(2)?)?,
            'u' => self.unit()?,
            '"' | '\'' | '\\' | '/' => letter,
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<char> {
        let high = self.hexadecimal(4)?;
        if let Some(c) = char::from_u32(high) {
            return Some(c);
        }
        let begin = self.at;
        if self.rest().starts_with("\\u") {
            self.at += 2;
            let low = self.hexadecimal(4)?;
            if let [Ok(c)] = char::decode_utf16([high as u16, low as u16]).collect::<Vec<_>>()[..] {
                return Some(c);
            }
        }
        self.at = begin;
        Some(char::REPLACEMENT_CHARACTER)
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<u32> {
        let digits = self.rest().get(..digits)?;
        self.at += digits.len();
        digits.chars().try_fold(0, |number, digit| Some(number << 4 | digit.to_digit(16)?))
    }

    /// Goes over a list or an object, and over everything in it.
    pub fn raw(&mut self, depth_max: usize) -> Option<&'a str> {
        let begin = self.at;
        let mut depth = 0_usize;
        loop {
            match self.next_mark()? {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1)?,
                b'"' | b'\'' => {
                    self.quoted()?;
                    continue;
                }
                _ => {}
            }
            if depth > depth_max {
                return None;
            }
            self.at += self.rest().chars().next()?.len_utf8();
            if depth == 0 {
                return self.text.get(begin..self.at);
            }
        }
    }
}

/// A number, also one with Java's letter for its type.
fn read_number(word: &str) -> Option<Scalar<'static>> {
    let digits = word.strip_suffix(['L', 'S', 'B', 'l']).unwrap_or(word);
    if let Ok(number) = digits.parse() {
        return Some(Scalar::Integer(number));
    }
    if let Ok(number) = digits.parse() {
        return Some(Scalar::Long(number));
    }
    let digits = word.strip_suffix(['F', 'D', 'f', 'd']).unwrap_or(word);
    let written = digits.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    digits.parse().ok().filter(|number: &f64| written && number.is_finite()).map(Scalar::Fraction)
}
