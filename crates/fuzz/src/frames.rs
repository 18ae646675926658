use bytes::{BufMut, BytesMut};
use redstart_engine::{Limits, Timestamp};
use redstart_wire::remoting::{Command, decode, encode};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// Frames as they come from a socket, one after the other.
pub fn frame(data: &[u8]) {
    let mut input = BytesMut::from(data);
    while let Ok(Some(command)) = decode(&mut input) {
        assert!(command.body.len() <= data.len());
        comes_back(&command);
    }
}

/// One header in a frame whose lengths are right: the first byte says how it is written.
pub fn header(data: &[u8]) {
    if let Some(command) = framed(data) {
        comes_back(&command);
    }
}

/// One header with the fields of a send, and its messages.
pub fn send(data: &[u8]) {
    let Some((head, body)) = data.split_first_chunk::<2>() else { return };
    let header_len = usize::from(u16::from_be_bytes(*head)).min(body.len());
    let (header, body) = body.split_at(header_len);
    let Some(mut command) = framed(header) else { return };
    command.body = bytes::Bytes::copy_from_slice(body);
    let Some(messages) = redstart_server::remoting::fuzz::accept(&command, NOW) else { return };
    for message in messages {
        assert!(message.body.len() <= data.len());
        let _ = (message.validate(&Limits::default(), NOW), message.tag_hash(), message.group_hash());
    }
}

fn framed(data: &[u8]) -> Option<Command> {
    let (kind, header) = data.split_first()?;
    let mut input = BytesMut::new();
    input.put_u32(4 + header.len() as u32);
    input.put_u32(u32::from(kind & 1) << 24 | (header.len() as u32 & 0x00ff_ffff));
    input.put_slice(header);
    decode(&mut input).ok().flatten()
}

/// What was read can be written, and is then read as the same.
fn comes_back(command: &Command) {
    let mut output = BytesMut::new();
    encode(command, &mut output);
    assert_eq!(decode(&mut output).as_ref(), Ok(&Some(command.clone())));
    assert!(output.is_empty());
}
