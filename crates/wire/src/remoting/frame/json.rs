//! Headers as JSON.

use bytes::{BufMut, BytesMut};
use serde::Deserialize;

use super::{Command, DecodeError};
use crate::remoting::{
    Fields, Language, from_slice,
    json::{Cursor, put_text},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JsonHeader {
    code: i32,
    flag: i32,
    language: String,
    opaque: i32,
    version: i32,
    remark: String,
    #[serde(rename = "extFields")]
    fields: Fields,
}

/// Reads the usual shape with a parser made for it, anything else with a general one: every command has a header, and the
/// general parser takes several times as long.
pub(super) fn decode_json(header: &[u8]) -> Result<Command, DecodeError> {
    match decode_usual(header) {
        Some(command) => Ok(command),
        None => decode_any(header),
    }
}

fn decode_any(header: &[u8]) -> Result<Command, DecodeError> {
    let header: JsonHeader = from_slice(header).map_err(|error| DecodeError::Header(error.to_string()))?;
    Ok(Command {
        code: header.code,
        language: Language::named(&header.language),
        version: header.version,
        opaque: header.opaque,
        flag: header.flag,
        remark: Some(header.remark).filter(|remark| !remark.is_empty()),
        fields: header.fields,
        ..Command::default()
    })
}

/// A header's parts as they are found, each at most once.
#[derive(Default)]
struct Parts<'a> {
    code: Option<i32>,
    flag: Option<i32>,
    language: Option<&'a str>,
    opaque: Option<i32>,
    version: Option<i32>,
    remark: Option<String>,
    fields: Option<Fields>,
}

/// Reads a header of the shape that clients write; `None` for any other, be it valid or not.
fn decode_usual(header: &[u8]) -> Option<Command> {
    let mut cursor = Cursor::new(std::str::from_utf8(header).ok()?);
    let mut parts = Parts::default();
    let mut more = cursor.open()?;
    while more {
        parts.read(&mut cursor)?;
        more = cursor.goes_on()?;
    }
    cursor.peek().is_none().then(|| parts.command())
}

impl<'a> Parts<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Option<()> {
        let name = cursor.plain()?;
        cursor.expect(b':')?;
        match name {
            "code" => once(&mut self.code, cursor.integer()?.parse().ok()?),
            "flag" => once(&mut self.flag, cursor.integer()?.parse().ok()?),
            "opaque" => once(&mut self.opaque, cursor.integer()?.parse().ok()?),
            "version" => once(&mut self.version, cursor.integer()?.parse().ok()?),
            "language" => once(&mut self.language, cursor.plain()?),
            "remark" => once(&mut self.remark, remark(cursor)?),
            "extFields" => once(&mut self.fields, Fields::read(cursor)?),
            _ => cursor.plain().map(|_| ()),
        }
    }

    fn command(self) -> Command {
        Command {
            code: self.code.unwrap_or_default(),
            language: Language::named(self.language.unwrap_or_default()),
            version: self.version.unwrap_or_default(),
            opaque: self.opaque.unwrap_or_default(),
            flag: self.flag.unwrap_or_default(),
            remark: self.remark.filter(|remark| !remark.is_empty()),
            fields: self.fields.unwrap_or_default(),
            ..Command::default()
        }
    }
}

/// A remark, empty for null.
fn remark(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut remark = String::new();
    match cursor.peek()? {
        b'"' => cursor.string(&mut remark)?,
        _ => cursor.word("null").map(|_| ())?,
    }
    Some(remark)
}

/// Sets what was not set before.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// Written without a serializer, which takes several times as long: every answer has a header.
pub(super) fn encode_json(command: &Command, output: &mut BytesMut) {
    put_number(b"{\"code\":", command.code, output);
    put_number(b",\"flag\":", command.flag, output);
    output.put_slice(b",\"language\":\"");
    put_text(command.language.name(), output);
    put_number(b"\",\"opaque\":", command.opaque, output);
    put_number(b",\"version\":", command.version, output);
    if let Some(remark) = &command.remark {
        output.put_slice(b",\"remark\":\"");
        put_text(remark, output);
        output.put_u8(b'"');
    }
    output.put_slice(b",\"extFields\":{");
    for (n, (name, value)) in command.fields.iter().enumerate() {
        output.put_slice(if n == 0 { b"\"" } else { b",\"" });
        put_text(name, output);
        output.put_slice(b"\":\"");
        put_text(value, output);
        output.put_u8(b'"');
    }
    output.put_slice(b"},\"serializeTypeCurrentRPC\":\"JSON\"}");
}

fn put_number(before: &[u8], number: i32, output: &mut BytesMut) {
    output.put_slice(before);
    output.put_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bytes::{Buf, Bytes};
    use proptest::prelude::*;

    use super::*;

    /// Both readers say the same of a header, or the quick one leaves it to the other.
    fn check_agreement(header: &[u8]) -> Result<(), TestCaseError> {
        let Some(usual) = decode_usual(header) else { return Ok(()) };
        let text = String::from_utf8_lossy(header);
        match decode_any(header) {
            Ok(any) => {
                prop_assert_eq!(&usual, &any, "{}", text);
                prop_assert!(usual.fields.iter().eq(any.fields.iter()), "{}", text);
            }
            Err(error) => prop_assert!(false, "{text} is taken: {error}"),
        }
        Ok(())
    }

    fn is_usual(header: &str) -> bool {
        check_agreement(header.as_bytes()).unwrap();
        decode_usual(header.as_bytes()).is_some()
    }

    #[test]
    fn what_clients_write_is_read_by_hand() {
        for usual in [
            "{}",
            " {\t} \r\n",
            r#"{"code":310,"extFields":{"a":"pg","i":"K\u0001v\u0002","e":3,"k":false,"n":-7,"":""},"flag":0,"language":"JAVA","opaque":-1,"serializeTypeCurrentRPC":"JSON","version":475}"#,
            r#"{"code":0,"remark":null}"#,
            r#"{"remark":""}"#,
            r#"{ "remark" : "one\ntwo" , "extFields" : { } , "more" : "x" , "more" : "y" }"#,
            r#"{"extFields":{"a":"1","a":"2"}}"#,
            r#"{"code":-2147483648,"flag":2147483647}"#,
        ] {
            assert!(is_usual(usual), "{usual}");
        }
    }

    /// The headers of frames that official clients, and the server they were made for, have written.
    fn recorded(client: &str) -> Vec<Bytes> {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{client}.frames"));
        let mut frames = Bytes::from(std::fs::read(path).unwrap());
        let mut headers = Vec::new();
        while frames.has_remaining() {
            let len = frames.get_u32() as usize;
            let mut frame = frames.split_to(len);
            let word = frame.get_u32();
            if word >> 24 == 0 {
                headers.push(frame.split_to(word as usize));
            }
        }
        headers
    }

    #[test]
    fn recorded_headers_are_read_by_hand() {
        for client in ["java49", "java5r", "go4", "mqadmin"] {
            let headers = recorded(client);
            assert!(!headers.is_empty(), "{client}");
            for header in headers {
                let header = std::str::from_utf8(&header).unwrap();
                assert!(is_usual(header), "{client}: {header}");
            }
        }
    }

    #[test]
    fn what_is_unusual_is_left_to_the_parser() {
        let many: Vec<String> = (0..5000).map(|n| format!("\"{n}\":\"\"")).collect();
        for unusual in [
            "",
            "[]",
            "{",
            "{}x",
            "{,}",
            r#"{"code":1,}"#,
            r#"{"code":1 "flag":1}"#,
            r#"{"code":1,"code":1}"#,
            r#"{"code":2147483648}"#,
            r#"{"code":01}"#,
            r#"{"code":-0}"#,
            r#"{"code":1.0}"#,
            r#"{"code":1e3}"#,
            r#"{"code":"1"}"#,
            r#"{"code":null}"#,
            r#"{"c\u006fde":1}"#,
            r#"{"language":null}"#,
            r#"{"remark":nulls}"#,
            r#"{"remark":null,"remark":null}"#,
            r#"{"more":1}"#,
            r#"{"extFields":null}"#,
            r#"{"extFields":{"a":null}}"#,
            r#"{"extFields":{"a":-0}}"#,
            r#"{"extFields":{"a":1.5}}"#,
            r#"{"extFields":{"a":truer}}"#,
            r#"{"extFields":{"a":"\ud83d\ude00"}}"#,
            r#"{"extFields":{"a":{}}}"#,
            r#"{"extFields":{"a":"1",}}"#,
            &format!("{{\"extFields\":{{{}}}}}", many.join(",")),
        ] {
            assert!(!is_usual(unusual), "{unusual}");
        }
    }

    const TEXT: &str = "(\\PC|[\\x00-\\x7f]|[\"\\\\/\\x01\\x02]|.){0,12}";

    fn any_command() -> impl Strategy<Value = Command> {
        let numbers = (any::<i32>(), any::<i32>(), any::<i32>(), any::<i32>(), 0..16_u8);
        let fields = proptest::collection::vec((TEXT, TEXT), 0..8);
        (numbers, proptest::option::of(TEXT), fields).prop_map(|(numbers, remark, pairs)| {
            let mut fields = Fields::default();
            for (name, value) in &pairs {
                fields.push(name, value).unwrap();
            }
            let (code, flag, opaque, version, language) = numbers;
            Command {
                code,
                flag,
                opaque,
                version,
                language: Language(language),
                remark,
                fields,
                ..Command::default()
            }
        })
    }

    fn encoded(command: &Command) -> BytesMut {
        let mut header = BytesMut::new();
        encode_json(command, &mut header);
        header
    }

    proptest! {
        #[test]
        fn what_we_write_is_usual_and_read_the_same_by_both(command in any_command()) {
            let header = encoded(&command);
            prop_assert!(decode_usual(&header).is_some());
            check_agreement(&header)?;
        }

        /// Another writer may escape more than has to be, and put whitespace between.
        #[test]
        fn what_others_write_is_read_the_same_by_both(command in any_command()) {
            let value: serde_json::Value = serde_json::from_slice(&encoded(&command)).unwrap();
            check_agreement(&serde_json::to_vec_pretty(&value).unwrap())?;
            let escape = |c: char| {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units);
                units.iter().map(|unit| format!("\\u{unit:04X}")).collect::<String>()
            };
            let text = String::from_utf8(encoded(&command).to_vec()).unwrap();
            let ascii: String =
                text.chars().map(|c| if c.is_ascii() { c.to_string() } else { escape(c) }).collect();
            check_agreement(ascii.as_bytes())?;
        }

        #[test]
        fn damaged_headers_are_read_the_same_by_both(
            command in any_command(),
            damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut header = encoded(&command);
            for (at, byte) in damage {
                let at = at.index(header.len());
                header[at] = byte;
                check_agreement(&header)?;
            }
            check_agreement(&header[..cut.index(header.len())])?;
        }

        /// Damage that leaves more of it JSON: marks in place of marks.
        #[test]
        fn marks_in_wrong_places_are_read_the_same_by_both(
            header in "\\{(\"(code|flag|remark|extFields|x)\"|[:,{}\\[\\]\" ]|-?[0-9]{1,3}|\\\\u00[0-9a-f]{2}|true|null){0,12}\\}?",
        ) {
            check_agreement(header.as_bytes())?;
        }
    }
}
