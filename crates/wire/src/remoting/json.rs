//! JSON by hand, for the header that every command has: a reader of what is usual, and a writer of texts.

use bytes::{BufMut, BytesMut};

/// Walks over JSON once. At anything unusual it gives up with `None`, wherever it is then: whether that is an error, and
/// which, a whole parser must say.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.text.len() - self.at
    }

    /// The byte behind the whitespace here.
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte()? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    pub fn expect(&mut self, mark: u8) -> Option<()> {
        (self.peek()? == mark).then(|| self.at += 1)
    }

    /// Goes into an object; says whether something is in it.
    pub fn open(&mut self) -> Option<bool> {
        self.expect(b'{')?;
        let empty = self.peek()? == b'}';
        self.at += usize::from(empty);
        Some(!empty)
    }

    /// Goes behind what follows a value in an object; says whether that was a comma.
    pub fn goes_on(&mut self) -> Option<bool> {
        let mark = self.peek()?;
        self.at += 1;
        matches!(mark, b',' | b'}').then_some(mark == b',')
    }

    /// A word, such as `true`.
    pub fn word(&mut self, word: &'static str) -> Option<&'static str> {
        self.peek()?;
        self.rest().starts_with(word.as_bytes()).then(|| self.at += word.len())?;
        Some(word)
    }

    /// An integer as it is written, which is as it would be written again. A parser takes the longest, and minus zero,
    /// for no integers.
    pub fn integer(&mut self) -> Option<&'a str> {
        const DIGITS_MAX: usize = 18;
        let negative = self.peek()? == b'-';
        let begin = self.at;
        self.at += usize::from(negative);
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let zero = self.byte()? == b'0';
        self.at += digits;
        let usual = (1..=DIGITS_MAX).contains(&digits) && !(zero && (negative || digits > 1));
        usual.then(|| self.text.get(begin..self.at))?
    }

    /// A string without escapes.
    pub fn plain(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let text = self.run()?;
        (self.next()? == b'"').then_some(text)
    }

    /// Appends a string to `text`.
    pub fn string(&mut self, text: &mut String) -> Option<()> {
        self.expect(b'"')?;
        loop {
            text.push_str(self.run()?);
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => text.push(self.escaped()?),
                _ => return None,
            }
        }
    }

    /// The text before the next byte that is special in a string.
    fn run(&mut self) -> Option<&'a str> {
        let begin = self.at;
        self.at += plain_len(self.rest());
        self.text.get(begin..self.at)
    }

    /// The character behind a backslash. Half a surrogate pair is none.
    fn escaped(&mut self) -> Option<char> {
        Some(match self.next()? {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.hexadecimal(),
            byte @ (b'"' | b'\\' | b'/') => char::from(byte),
            _ => return None,
        })
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let digits = self.rest().first_chunk::<4>()?;
        self.at += digits.len();
        let mut number = 0;
        for digit in digits {
            number = number << 4 | char::from(*digit).to_digit(16)?;
        }
        char::from_u32(number)
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.byte()?;
        self.at += 1;
        Some(byte)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}

/// Appends `text` as the content of a JSON string, escaped as serde_json does it.
pub(super) fn put_text(text: &str, output: &mut BytesMut) {
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain_len(rest));
        output.put_slice(plain);
        let Some((byte, behind)) = special.split_first() else { return };
        put_escaped(*byte, output);
        rest = behind;
    }
}

fn put_escaped(byte: u8, output: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            return output.put_slice(&[b'\\', b'u', b'0', b'0', DIGITS[high], DIGITS[low]]);
        }
    };
    output.put_slice(&[b'\\', letter]);
}

/// How far `text` goes before a quote, a backslash or a control character. Eight bytes at a time: each step finds the
/// bytes below a bound by what they borrow, which is exact for the first of them.
fn plain_len(text: &[u8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let below = |bytes: u64, bound: u8| bytes.wrapping_sub(EACH * u64::from(bound)) & !bytes & (EACH << 7);
    let equal = |bytes: u64, to: u8| below(bytes ^ (EACH * u64::from(to)), 1);
    let (eights, last) = text.as_chunks::<8>();
    for (n, eight) in eights.iter().enumerate() {
        let bytes = u64::from_le_bytes(*eight);
        let special = below(bytes, b' ') | equal(bytes, b'"') | equal(bytes, b'\\');
        if special != 0 {
            return 8 * n + special.trailing_zeros() as usize / 8;
        }
    }
    let plain = |byte: &&u8| **byte >= b' ' && !matches!(**byte, b'"' | b'\\');
    8 * eights.len() + last.iter().take_while(plain).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut output = BytesMut::from("\"");
        put_text(text, &mut output);
        output.put_u8(b'"');
        String::from_utf8(output.to_vec()).unwrap()
    }

    #[test]
    fn every_character_of_one_byte_is_escaped_as_serde_does_it() {
        let all: String = (0..=127_u8).map(char::from).collect();
        assert_eq!(written(&all), serde_json::to_string(&all).unwrap());
    }

    #[test]
    fn integers_are_taken_only_as_they_would_be_written_again() {
        for usual in ["0", "7", "-1", "-2147483648", "999999999999999999"] {
            assert_eq!(Cursor::new(usual).integer(), Some(usual));
        }
        for unusual in ["", "-", "-0", "00", "07", "-07", "+1", "x", "9999999999999999999"] {
            assert_eq!(Cursor::new(unusual).integer(), None, "{unusual}");
        }
    }

    #[test]
    fn a_string_with_surrogates_is_left_to_others() {
        let read = |json: &str| {
            let mut text = String::new();
            Cursor::new(json).string(&mut text).map(|()| text)
        };
        assert_eq!(read(r#" "\u00e9\uFFfd\/\"" "#).as_deref(), Some("é\u{fffd}/\""));
        for unusual in
            [r#""\ud83d\ude00""#, r#""\udc00""#, r#""\u12""#, r#""\x""#, r#""\"#, "\"a", "\"\u{1}\"", "a"]
        {
            assert_eq!(read(unusual), None, "{unusual}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_writes_it_and_read_again(text in "(\\PC|[\\x00-\\x7f]|.){0,40}") {
            let json = written(&text);
            prop_assert_eq!(&json, &serde_json::to_string(&text).unwrap());
            let mut read = String::new();
            let mut cursor = Cursor::new(&json);
            prop_assert_eq!(cursor.string(&mut read), Some(()));
            prop_assert_eq!((read, cursor.remaining()), (text, 0));
        }

        #[test]
        fn a_run_ends_at_the_first_special_byte(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let special = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
            prop_assert_eq!(plain_len(&bytes), bytes.iter().position(special).unwrap_or(bytes.len()));
        }
    }
}
