/// Makes standard JSON of what the Java library for it writes: keys that are numbers or objects become strings. `None`
/// for what is not even that. The result may be up to six times as long: a control character becomes an escape.
pub fn standard(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let mut out = String::with_capacity(text.len() + 16);
    // What is open: objects and whether a key comes next, arrays.
    let mut open: Vec<Open> = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at_key = matches!(open.last(), Some(Open::Object { key: true }));
        match c {
            '"' | '\'' => {
                let len = string_len(rest)?;
                out.push_str(&rest[..len]);
                rest = &rest[len..];
                continue;
            }
            '{' if at_key => {
                let len = object_len(rest)?;
                out.push_str(&serde_json::to_string(&rest[..len]).ok()?);
                rest = &rest[len..];
                continue;
            }
            '-' | '0'..='9' if at_key => {
                let len = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
                out.extend(["\"", &rest[..len], "\""]);
                rest = &rest[len..];
                continue;
            }
            '{' => open.push(Open::Object { key: true }),
            '[' => open.push(Open::Array),
            '}' | ']' => {
                open.pop()?;
            }
            ':' => set_key(&mut open, false),
            ',' => set_key(&mut open, true),
            _ => {}
        }
        if open.len() > DEPTH_MAX {
            return None;
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    open.is_empty().then_some(out)
}

const DEPTH_MAX: usize = 64;

enum Open {
    Object { key: bool },
    Array,
}

fn set_key(open: &mut [Open], next: bool) {
    if let Some(Open::Object { key }) = open.last_mut() {
        *key = next;
    }
}

/// Length of the string that `text` begins with, its quotes included.
fn string_len(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == text.as_bytes()[0] => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Length of the object that `text` begins with.
fn object_len(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                at += string_len(&text[at..])?;
                continue;
            }
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn odd_keys_become_strings_and_the_rest_stays() {
        let cases = [
            (r#"{"a":{0:"x",-1:"y"}}"#, r#"{"a":{"0":"x","-1":"y"}}"#),
            (r#"{"t":{{"q":1,"b":"}"}:5,{"q":2}:6}}"#, r#"{"t":{"{\"q\":1,\"b\":\"}\"}":5,"{\"q\":2}":6}}"#),
            (r#"{"a":[{"b":1},-2,"{0:1}"]}"#, r#"{"a":[{"b":1},-2,"{0:1}"]}"#),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(standard(text.as_bytes()).as_deref(), Some(expected));
        }
        for bad in ["}", "{", "\"", r#"{{"a""#, &"[".repeat(1000)] {
            assert_eq!(standard(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(text in r#"[{}\[\]":,0-9a\\-]{0,40}"#) {
            let _ = standard(text.as_bytes());
        }
    }
}
