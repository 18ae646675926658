//! Message ids of the broker: where a message is stored, as text.

use std::net::{IpAddr, SocketAddr};

/// The id by which a message can be looked up at the broker that stored it: address (4 or 16 bytes), port i32, physical
/// offset i64, in hexadecimal.
pub fn offset_message_id(host: SocketAddr, physical_offset: i64) -> String {
    let (port, offset) = (host.port(), physical_offset as u64);
    match host.ip() {
        IpAddr::V4(ip) => format!("{:08X}{port:08X}{offset:016X}", ip.to_bits()),
        IpAddr::V6(ip) => format!("{:032X}{port:08X}{offset:016X}", ip.to_bits()),
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
