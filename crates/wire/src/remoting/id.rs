//! Message ids of the broker: where a message is stored, as text.

use std::net::{IpAddr, SocketAddr};

/// An IPv6 address, a port and an offset, two digits for each byte.
const ID_BYTES_MAX: usize = 2 * (16 + 4 + 8);

/// The id by which a message can be looked up at the broker that stored it: address (4 or 16 bytes), port i32, physical
/// offset i64, in hexadecimal.
pub fn offset_message_id(host: SocketAddr, physical_offset: i64) -> String {
    let mut id = Vec::with_capacity(ID_BYTES_MAX);
    match host.ip() {
        IpAddr::V4(ip) => put_hexadecimal(&ip.octets(), &mut id),
        IpAddr::V6(ip) => put_hexadecimal(&ip.octets(), &mut id),
    }
    put_hexadecimal(&u32::from(host.port()).to_be_bytes(), &mut id);
    put_hexadecimal(&physical_offset.to_be_bytes(), &mut id);
    // Digits are valid text.
    String::from_utf8(id).unwrap_or_default()
}

/// Not through the formatter: every send is answered with an id.
fn put_hexadecimal(bytes: &[u8], text: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Reads such an id back.
pub fn read_offset_message_id(text: &str) -> Option<(SocketAddr, i64)> {
    // Only digits: the number parser would take a sign.
    if !matches!(text.len(), 32 | 56) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let bytes: Vec<u8> = (0..text.len() / 2)
        .map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok())
        .collect::<Option<_>>()?;
    let (ip, rest) = bytes.split_at(bytes.len() - 12);
    let ip: IpAddr = match <[u8; 4]>::try_from(ip) {
        Ok(v4) => v4.into(),
        Err(_) => <[u8; 16]>::try_from(ip).ok()?.into(),
    };
    let port = u16::try_from(i32::from_be_bytes(*rest.first_chunk()?)).ok()?;
    Some((SocketAddr::new(ip, port), i64::from_be_bytes(*rest.last_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_no_digit() {
        for at in [0, 8, 30] {
            let mut text = offset_message_id("127.0.0.1:10911".parse().unwrap(), 258);
            text.replace_range(at..at + 2, "+1");
            assert_eq!(read_offset_message_id(&text), None, "{text}");
        }
    }

    #[test]
    fn ids_come_back_for_both_address_families() {
        let v4 = offset_message_id("127.0.0.1:10911".parse().unwrap(), 258);
        assert_eq!(v4, "7F00000100002A9F0000000000000102");
        for (host, offset) in [("127.0.0.1:10911", 0), ("[fe80::1]:65535", i64::MAX)] {
            let host = host.parse().unwrap();
            assert_eq!(read_offset_message_id(&offset_message_id(host, offset)), Some((host, offset)));
        }
        for bad in ["", "zz", "é", &v4[1..], &format!("{v4}00"), &"7F000001FFFFFFFF".repeat(2)] {
            assert_eq!(read_offset_message_id(bad), None, "{bad:?}");
        }
    }
}
