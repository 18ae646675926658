//! The header of the PROXY protocol, versions 1 and 2, with which a balancer tells for whom it has opened a connection.
//!
//! Version 1 is one line of text of at most 107 bytes:
//!
//! ```text
//! PROXY TCP4 <source> <destination> <source port> <destination port>\r\n      or TCP6, or UNKNOWN and anything
//! ```
//!
//! Version 2, after a signature of 12 bytes:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 12 | 1 | version 2 in the upper half; the command in the lower: 0 LOCAL, 1 PROXY |
//! | 13 | 1 | address family in the upper half: 0 none, 1 IPv4, 2 IPv6, 3 Unix; transport in the lower: 0 none, 1 stream, 2 datagram |
//! | 14 | 2 | length of what follows, big-endian |
//! | 16 | 12 or 36 | source address, destination address, source port, destination port |
//! | | | extensions, which are not looked at |

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

const V1: &[u8] = b"PROXY ";
/// With the end of the line.
const V1_BYTES_MAX: usize = 107;
const V2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_HEAD: usize = 16;
/// The specification has balancers send at most 536 bytes in one piece; extensions with certificates may be longer.
pub const BYTES_MAX: usize = 4096;

/// What the bytes so far are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a header.
    Incomplete,
    Header(Header),
}

/// A complete header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its bytes.
    pub len: usize,
    /// The client; `None` if the connection is the balancer's own, or the client's address is not known or no IP address.
    pub source: Option<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("no PROXY header, which a balancer has to send first")]
    Absent,
    #[error("a PROXY header of {0} bytes, the limit is {BYTES_MAX}")]
    TooLong(usize),
    #[error("a PROXY header that cannot be read")]
    Malformed,
}

/// Reads a header at the beginning of the bytes. It never needs more than [`BYTES_MAX`] of them.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Invalid> {
    if is_begun(bytes, V2) {
        return if bytes.len() < V2_HEAD { Ok(Parsed::Incomplete) } else { v2(bytes) };
    }
    if !is_begun(bytes, V1) {
        return Err(Invalid::Absent);
    }
    let line = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    match line.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => Ok(Parsed::Header(Header { len: end + 2, source: v1(&line[..end])? })),
        None if bytes.len() < V1_BYTES_MAX => Ok(Parsed::Incomplete),
        None => Err(Invalid::Malformed),
    }
}

fn is_begun(bytes: &[u8], signature: &[u8]) -> bool {
    bytes.iter().zip(signature).all(|(byte, expected)| byte == expected)
}

fn v1(line: &[u8]) -> Result<Option<SocketAddr>, Invalid> {
    let line = std::str::from_utf8(line).map_err(|_| Invalid::Malformed)?;
    let mut words = line.split(' ').skip(1);
    let mut word = || words.next().ok_or(Invalid::Malformed);
    match word()? {
        "UNKNOWN" => Ok(None),
        "TCP4" => {
            let addresses = [address::<Ipv4Addr>(word()?)?, address::<Ipv4Addr>(word()?)?];
            v1_source(addresses[0].into(), [word()?, word()?], words.next())
        }
        "TCP6" => {
            let addresses = [address::<Ipv6Addr>(word()?)?, address::<Ipv6Addr>(word()?)?];
            v1_source(addresses[0].into(), [word()?, word()?], words.next())
        }
        _ => Err(Invalid::Malformed),
    }
}

fn address<A: FromStr>(word: &str) -> Result<A, Invalid> {
    word.parse().map_err(|_| Invalid::Malformed)
}

fn v1_source(address: IpAddr, ports: [&str; 2], more: Option<&str>) -> Result<Option<SocketAddr>, Invalid> {
    let port = |word: &str| {
        // `parse` alone would take `+1`.
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse::<u16>().ok().filter(|_| digits).ok_or(Invalid::Malformed)
    };
    let [source, _] = [port(ports[0])?, port(ports[1])?];
    if more.is_some() {
        return Err(Invalid::Malformed);
    }
    Ok(Some(SocketAddr::new(address, source)))
}

/// At least [`V2_HEAD`] bytes, which begin with the signature.
fn v2(bytes: &[u8]) -> Result<Parsed, Invalid> {
    let (Some(&[command, family, high, low]), Some(rest)) =
        (bytes.get(V2.len()..V2_HEAD).and_then(four), bytes.get(V2_HEAD..))
    else {
        return Ok(Parsed::Incomplete);
    };
    let announced = usize::from(u16::from_be_bytes([high, low]));
    let len = V2_HEAD + announced;
    if command >> 4 != 2 || command & 0xf > 1 {
        return Err(Invalid::Malformed);
    }
    if len > BYTES_MAX {
        return Err(Invalid::TooLong(len));
    }
    let Some(content) = rest.get(..announced) else { return Ok(Parsed::Incomplete) };
    let is_local = command & 0xf == 0;
    let source = if is_local { None } else { v2_source(family, content)? };
    Ok(Parsed::Header(Header { len, source }))
}

fn four(bytes: &[u8]) -> Option<&[u8; 4]> {
    bytes.try_into().ok()
}

fn v2_source(family: u8, content: &[u8]) -> Result<Option<SocketAddr>, Invalid> {
    let part = |at: usize, len: usize| content.get(at..at + len).ok_or(Invalid::Malformed);
    let port = |at: usize| Ok(u16::from_be_bytes(part(at, 2)?.try_into().map_err(|_| Invalid::Malformed)?));
    match family {
        0x11 => {
            part(0, 12)?;
            let address: [u8; 4] = part(0, 4)?.try_into().map_err(|_| Invalid::Malformed)?;
            Ok(Some(SocketAddr::new(IpAddr::from(address), port(8)?)))
        }
        0x21 => {
            part(0, 36)?;
            let address: [u8; 16] = part(0, 16)?.try_into().map_err(|_| Invalid::Malformed)?;
            Ok(Some(SocketAddr::new(IpAddr::from(address), port(32)?)))
        }
        // No address, or one that is no client of TCP. The specification has receivers go on with the socket's.
        family if family >> 4 <= 3 && family & 0xf <= 2 => Ok(None),
        _ => Err(Invalid::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(len: usize, source: Option<&str>) -> Result<Parsed, Invalid> {
        let source = source.map(|source| source.parse().unwrap());
        Ok(Parsed::Header(Header { len, source }))
    }

    fn v2_bytes(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u16).to_be_bytes();
        [&V2[..], &[command, family], &length, content].concat()
    }

    const V4: [u8; 12] = [10, 0, 0, 7, 10, 0, 0, 1, 0x1f, 0x90, 0x2a, 0x9f];

    fn v6() -> Vec<u8> {
        let (source, destination): (Ipv6Addr, Ipv6Addr) =
            ("2001:db8::7".parse().unwrap(), "::1".parse().unwrap());
        [&source.octets()[..], &destination.octets(), &[0x1f, 0x90, 0x2a, 0x9f]].concat()
    }

    #[test]
    fn headers_of_version_1() {
        let longest = format!("PROXY UNKNOWN {}\r\n", "f".repeat(V1_BYTES_MAX - 16));
        assert_eq!(longest.len(), V1_BYTES_MAX);
        for (text, source) in [
            ("PROXY TCP4 10.0.0.7 10.0.0.1 8080 10911\r\n", Some("10.0.0.7:8080")),
            ("PROXY TCP6 2001:db8::7 ::1 65535 0\r\n", Some("[2001:db8::7]:65535")),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN ffff:f:f 10.0.0.1 x\r\n", None),
            (&longest, None),
        ] {
            assert_eq!(parse(text.as_bytes()), header(text.len(), source), "{text}");
            let followed = format!("{text}\x16\x03\x01\r\n");
            assert_eq!(parse(followed.as_bytes()), header(text.len(), source), "{text} and more");
        }
    }

    #[test]
    fn what_is_no_header_of_version_1_is_refused() {
        for text in [
            "PROXY TCP4 10.0.0.7 10.0.0.1 8080\r\n",
            "PROXY TCP4 10.0.0.7 10.0.0.1 8080 10911 1\r\n",
            "PROXY TCP4 10.0.0.7 10.0.0.1 8080 65536\r\n",
            "PROXY TCP4 10.0.0.7 10.0.0.1 +80 10911\r\n",
            "PROXY TCP4 10.0.0.7  10.0.0.1 8080 10911\r\n",
            "PROXY TCP4 10.0.0.07 10.0.0.1 8080 10911\r\n",
            "PROXY TCP4 ::1 10.0.0.1 8080 10911\r\n",
            "PROXY TCP6 10.0.0.7 10.0.0.1 8080 10911\r\n",
            "PROXY UDP4 10.0.0.7 10.0.0.1 8080 10911\r\n",
            "PROXY tcp4 10.0.0.7 10.0.0.1 8080 10911\r\n",
            "PROXY \r\n",
            "PROXY TCP4 10.0.0.7 10.0.0.1 8080 10911\n\r\n",
            &format!("PROXY UNKNOWN {}\r\n", "f".repeat(V1_BYTES_MAX - 15)),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Invalid::Malformed), "{text}");
        }
        assert_eq!(parse(b"PROXY TCP4 \xff\r\n"), Err(Invalid::Malformed));
        for text in
            ["GET / HTTP/1.1\r\n", "proxy TCP4", "PRI * HTTP/2.0", "\x16\x03\x01", "\0\0\0\x10", "\r\n\r\r"]
        {
            assert_eq!(parse(text.as_bytes()), Err(Invalid::Absent), "{text}");
        }
    }

    #[test]
    fn headers_of_version_2() {
        let extended = [&V4[..], &[4, 0, 2, 1, 2]].concat();
        for (bytes, source) in [
            (v2_bytes(0x21, 0x11, &V4), Some("10.0.0.7:8080")),
            (v2_bytes(0x21, 0x11, &extended), Some("10.0.0.7:8080")),
            (v2_bytes(0x21, 0x21, &v6()), Some("[2001:db8::7]:8080")),
            (v2_bytes(0x20, 0x00, &[]), None),
            (v2_bytes(0x20, 0x11, &V4), None),
            (v2_bytes(0x21, 0x00, &[]), None),
            (v2_bytes(0x21, 0x12, &V4), None),
            (v2_bytes(0x21, 0x31, &[0; 216]), None),
            (v2_bytes(0x20, 0x00, &[0; BYTES_MAX - V2_HEAD]), None),
        ] {
            assert_eq!(parse(&bytes), header(bytes.len(), source), "{bytes:?}");
            assert_eq!(parse(&[&bytes[..], b"\x16\x03"].concat()), header(bytes.len(), source));
        }
    }

    #[test]
    fn what_is_no_header_of_version_2_is_refused() {
        for bytes in [
            v2_bytes(0x11, 0x11, &V4),
            v2_bytes(0x22, 0x11, &V4),
            v2_bytes(0x21, 0x11, &V4[..11]),
            v2_bytes(0x21, 0x21, &V4),
            v2_bytes(0x21, 0x41, &V4),
            v2_bytes(0x21, 0x13, &V4),
        ] {
            assert_eq!(parse(&bytes), Err(Invalid::Malformed), "{bytes:?}");
        }
        let long = v2_bytes(0x21, 0x11, &[0; BYTES_MAX - V2_HEAD + 1]);
        assert_eq!(
            parse(&long[..V2_HEAD]),
            Err(Invalid::TooLong(BYTES_MAX + 1)),
            "before its content has come"
        );
    }

    #[test]
    fn a_header_that_has_not_come_whole_is_waited_for() {
        for whole in [
            b"PROXY TCP4 10.0.0.7 10.0.0.1 8080 10911\r\n".to_vec(),
            v2_bytes(0x21, 0x11, &V4),
            v2_bytes(0x21, 0x21, &v6()),
        ] {
            for cut in 0..whole.len() {
                assert_eq!(parse(&whole[..cut]), Ok(Parsed::Incomplete), "{cut} of {whole:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_client_is_read_as_it_was_written(source: IpAddr, port: u16) {
            let (kind, destination) = match source { IpAddr::V4(_) => ("TCP4", "10.0.0.1"), IpAddr::V6(_) => ("TCP6", "::1") };
            let text = format!("PROXY {kind} {source} {destination} {port} 1\r\n");
            let expected = Header { len: text.len(), source: Some(SocketAddr::new(source, port)) };
            prop_assert_eq!(parse(text.as_bytes()), Ok(Parsed::Header(expected)));
        }
    }
}
