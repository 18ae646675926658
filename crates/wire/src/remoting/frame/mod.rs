//! Frames: `totalLen i32 | serialization u8, header length u24 | header | body`, big-endian. `totalLen` does not count
//! itself.

mod json;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use self::json::{decode_json, encode_json};
use super::{Fields, Language};

/// Largest frame, its length field included.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

const RESPONSE: i32 = 1;
const ONE_WAY: i32 = 2;
/// The version that is sent to peers: 5.3.1, whose protocol this is.
pub const VERSION: i32 = 475;

/// How a header is written. A response uses the request's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Serialization {
    #[default]
    Json,
    Binary,
}

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    pub code: i32,
    pub language: Language,
    pub version: i32,
    pub opaque: i32,
    pub flag: i32,
    pub remark: Option<String>,
    pub fields: Fields,
    pub body: Bytes,
    pub serialization: Serialization,
}

/// A frame that cannot be decoded. The connection is closed, because the frames after it cannot be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("a frame of {size} bytes is over the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("a header of {header} bytes in a frame of {frame}")]
    HeaderLength { header: usize, frame: usize },
    #[error("unknown header serialization {0}")]
    Serialization(u8),
    #[error("the header is malformed: {0}")]
    Header(String),
}

impl Command {
    pub fn is_response(&self) -> bool {
        self.flag & RESPONSE != 0
    }

    pub fn is_one_way(&self) -> bool {
        self.flag & ONE_WAY != 0
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// A client's request.
    pub fn request(code: i32) -> Command {
        Command { code, language: Language::RUST, version: VERSION, ..Command::default() }
    }

    /// A request of the broker to a client. Its language is Java, as that of answers.
    pub fn question(code: i32) -> Command {
        Command { language: Language::JAVA, ..Command::request(code) }
    }

    pub fn one_way(mut self) -> Command {
        self.flag |= ONE_WAY;
        self
    }

    /// The answer to this request. Its language is Java: clients up to 4.0 close the connection at a language that their
    /// release does not know.
    pub fn answer(&self, code: i32, remark: Option<String>) -> Command {
        Command {
            code,
            language: Language::JAVA,
            version: VERSION,
            opaque: self.opaque,
            flag: RESPONSE,
            remark,
            fields: Fields::default(),
            body: Bytes::new(),
            serialization: self.serialization,
        }
    }
}

/// Takes the first frame out of `input`; `None` while it is incomplete.
pub fn decode(input: &mut BytesMut) -> Result<Option<Command>, DecodeError> {
    let Some(length) = input.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > FRAME_BYTES_MAX - 4 {
        return Err(DecodeError::TooLarge { size: length.saturating_add(4), limit: FRAME_BYTES_MAX });
    }
    if length < 4 {
        return Err(DecodeError::HeaderLength { header: 0, frame: length });
    }
    if input.len() < 4 + length {
        return Ok(None);
    }
    input.advance(4);
    let mut frame = input.split_to(length).freeze();
    let word = frame.get_u32();
    let header_len = (word & 0x00ff_ffff) as usize;
    if header_len > frame.len() {
        return Err(DecodeError::HeaderLength { header: header_len, frame: length });
    }
    let header = frame.split_to(header_len);
    let mut command = match (word >> 24) as u8 {
        0 => decode_json(&header)?,
        1 => decode_binary(&header)?,
        other => return Err(DecodeError::Serialization(other)),
    };
    command.body = frame;
    Ok(Some(command))
}

/// Appends the frame of `command` to `output`.
pub fn encode(command: &Command, output: &mut BytesMut) {
    output.reserve(LENGTHS + HEADER_USUAL + command.body.len());
    encode_head(command, output);
    output.put_slice(&command.body);
}

const LENGTHS: usize = 8;
const HEADER_USUAL: usize = 512;

/// Appends everything before the body, for callers that write the body without copying it.
pub fn encode_head(command: &Command, output: &mut BytesMut) {
    let begin = output.len();
    output.reserve(LENGTHS + HEADER_USUAL);
    output.put_u64(0);
    let kind: u32 = match command.serialization {
        Serialization::Json => {
            encode_json(command, output);
            0
        }
        Serialization::Binary => {
            encode_binary(command, output);
            1
        }
    };
    let header_len = output.len() - begin - LENGTHS;
    let mut lengths = &mut output[begin..];
    lengths.put_u32((4 + header_len + command.body.len()) as u32);
    lengths.put_u32((kind << 24) | header_len as u32);
}

/// Layout: code i16, language u8, version i16, opaque i32, flag i32, remark (i32 length), fields (i32 length of all:
/// i16 name length, name, i32 value length, value).
fn decode_binary(mut header: &[u8]) -> Result<Command, DecodeError> {
    let short = || DecodeError::Header("it ends early".to_owned());
    if header.len() < 21 {
        return Err(short());
    }
    let code = i32::from(header.get_i16());
    let language = Language(header.get_u8());
    let version = i32::from(header.get_i16());
    let (opaque, flag) = (header.get_i32(), header.get_i32());
    let remark = take_text(&mut header, 4).ok_or_else(short)?;
    if header.remaining() < 4 {
        return Err(short());
    }
    let fields_len = header.get_u32() as usize;
    let mut rest = header.get(..fields_len).ok_or_else(short)?;
    let mut fields = Fields::with_capacity(16, fields_len);
    while rest.has_remaining() {
        let name = take_text(&mut rest, 2).ok_or_else(short)?;
        let value = take_text(&mut rest, 4).ok_or_else(short)?;
        if !name.is_empty() && !value.is_empty() {
            fields.push(name, value).map_err(|error| DecodeError::Header(error.to_string()))?;
        }
    }
    Ok(Command {
        code,
        language,
        version,
        opaque,
        flag,
        remark: Some(remark).filter(|remark| !remark.is_empty()).map(str::to_owned),
        fields,
        body: Bytes::new(),
        serialization: Serialization::Binary,
    })
}

/// Text behind a length of `width` bytes.
fn take_text<'a>(input: &mut &'a [u8], width: usize) -> Option<&'a str> {
    if input.remaining() < width {
        return None;
    }
    let len = input.get_uint(width) as usize;
    let (text, rest) = input.split_at_checked(len)?;
    *input = rest;
    std::str::from_utf8(text).ok()
}

fn encode_binary(command: &Command, output: &mut BytesMut) {
    let remark = command.remark.as_deref().unwrap_or("");
    let field_len = |(name, value): (&str, &str)| 6 + name.len() + value.len();
    output.put_i16(command.code as i16);
    output.put_u8(command.language.0);
    output.put_i16(command.version as i16);
    output.put_i32(command.opaque);
    output.put_i32(command.flag);
    output.put_u32(remark.len() as u32);
    output.put_slice(remark.as_bytes());
    output.put_u32(command.fields.iter().map(field_len).sum::<usize>() as u32);
    for (name, value) in command.fields.iter() {
        output.put_u16(name.len() as u16);
        output.put_slice(name.as_bytes());
        output.put_u32(value.len() as u32);
        output.put_slice(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command(serialization: Serialization) -> Command {
        Command {
            code: 17,
            language: Language::RUST,
            version: 475,
            opaque: -3,
            flag: 1,
            remark: Some("café".to_owned()),
            fields: Command::default().with_field("topic", "t").fields,
            body: Bytes::from_static(b"{}"),
            serialization,
        }
    }

    #[test]
    fn both_serializations_come_back_as_they_were() {
        for serialization in [Serialization::Json, Serialization::Binary] {
            let mut bytes = BytesMut::new();
            encode(&command(serialization), &mut bytes);
            encode(&command(serialization), &mut bytes);
            assert_eq!(decode(&mut bytes), Ok(Some(command(serialization))));
            let rest = bytes.split_off(bytes.len() - 1);
            assert_eq!(decode(&mut bytes), Ok(None), "the last byte is missing");
            bytes.unsplit(rest);
            assert_eq!(decode(&mut bytes), Ok(Some(command(serialization))));
            assert!(bytes.is_empty());
        }
    }

    /// Java clients up to 4.0 know the languages JAVA to HTTP, and read no header that names another one.
    #[test]
    fn answers_and_questions_name_a_language_that_every_client_knows() {
        for serialization in [Serialization::Json, Serialization::Binary] {
            let mut bytes = BytesMut::new();
            encode(&command(serialization).answer(0, None), &mut bytes);
            assert_eq!(decode(&mut bytes).unwrap().unwrap().language.name(), "JAVA");
        }
        assert_eq!(Command::question(40).language, Language::JAVA);
    }

    #[test]
    fn a_header_is_read_in_every_way_in_which_clients_write_it() {
        let header = br#"{'code':"10","flag":0.0,language:1,"opaque":"7","version":null,"remark":null,
            "extFields":{"queueId":3.0,"order":"true",'a':'b',},"more":{}} "#;
        let mut bytes = BytesMut::new();
        bytes.put_u32(4 + header.len() as u32);
        bytes.put_u32(header.len() as u32);
        bytes.put_slice(header);
        let command = decode(&mut bytes).unwrap().unwrap();
        assert_eq!((command.code, command.flag, command.opaque, command.version), (10, 0, 7, 0));
        assert_eq!((command.language, command.remark.as_deref()), (Language::CPP, None));
        assert_eq!(command.number::<u32>("queueId"), Ok(3));
        assert_eq!((command.truth("order"), command.field("a")), (Some(true), Some("b")));
    }

    #[test]
    fn numbers_and_booleans_in_fields_are_read_as_text() {
        let header = br#"{"code":10,"language":"CPP","extFields":{"queueId":3,"order":true,"none":null}}"#;
        let mut bytes = BytesMut::new();
        bytes.put_u32(4 + header.len() as u32);
        bytes.put_u32(header.len() as u32);
        bytes.put_slice(header);
        let command = decode(&mut bytes).unwrap().unwrap();
        assert_eq!(command.field("queueId"), Some("3"));
        assert_eq!(command.field("order"), Some("true"));
        assert_eq!(command.field("none"), None);
    }

    #[test]
    fn forged_lengths_are_refused_before_anything_is_allocated() {
        for (first, second) in [(u32::MAX, 0), (3, 0), (8, 0x00ff_ffff), (100_000_000, 0), (8, 0x0700_0000)] {
            let mut bytes = BytesMut::new();
            bytes.put_u32(first);
            bytes.put_u32(second);
            bytes.put_u32(0);
            assert!(decode(&mut bytes).is_err(), "{first} {second}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..2_u8) {
            let mut framed = BytesMut::new();
            framed.put_u32(4 + bytes.len() as u32);
            framed.put_u32(u32::from(kind) << 24 | bytes.len() as u32);
            framed.put_slice(&bytes);
            let _ = decode(&mut framed);
            let _ = decode(&mut BytesMut::from(&bytes[..]));
        }

        #[test]
        fn any_text_comes_back_as_it_was(binary: bool, value in "\\PC{0,20}|[\\x00-\\x7f]{1,20}", remark in "[\\x00-\\xff]{1,20}") {
            let serialization = if binary { Serialization::Binary } else { Serialization::Json };
            let mut command = Command { remark: Some(remark), ..command(serialization) };
            if !value.is_empty() {
                command = command.with_field("value", &value);
            }
            let mut bytes = BytesMut::new();
            encode(&command, &mut bytes);
            prop_assert_eq!(decode(&mut bytes), Ok(Some(command)));
        }

        /// Whatever is accepted of a damaged frame is a command that can be sent on.
        #[test]
        fn damaged_frames_never_panic_and_what_is_read_can_be_written(
            binary: bool,
            damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<proptest::sample::Index>(),
        ) {
            let serialization = if binary { Serialization::Binary } else { Serialization::Json };
            let mut bytes = BytesMut::new();
            encode(&command(serialization), &mut bytes);
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = decode(&mut BytesMut::from(&bytes[..cut.index(bytes.len())]));
            if let Ok(Some(found)) = decode(&mut bytes) {
                let mut again = BytesMut::new();
                encode(&found, &mut again);
                prop_assert_eq!(decode(&mut again), Ok(Some(found)));
            }
        }
    }
}
