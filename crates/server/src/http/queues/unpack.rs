//! Bodies that producers have compressed, as programs without a client library want them: as they were.

use bytes::Bytes;
use miniz_oxide::inflate::{decompress_to_vec_with_limit, decompress_to_vec_zlib_with_limit};

const COMPRESSED: i32 = 1;
/// Bits of the system flag that name the compression.
const KIND: i32 = 0x700;
const LZ4: i32 = 0x100;
const ZSTD: i32 = 0x200;

/// What was done with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    Plain(Bytes),
    /// It is handed on as it is: this compression is not read here, the bytes are damaged, or they unpack to too many.
    Packed {
        body: Bytes,
        compression: &'static str,
    },
}

/// Whether the producer has compressed the body.
pub(super) fn is_packed(system_flag: i32) -> bool {
    system_flag & COMPRESSED != 0
}

/// Unpacks a body to at most `bytes_max`.
pub(super) fn unpack(body: Bytes, system_flag: i32, bytes_max: usize) -> Unpacked {
    if !is_packed(system_flag) {
        return Unpacked::Plain(body);
    }
    // What gRPC clients compress has no kind in the flag, and is gzip or zlib.
    let (unpacked, compression) = match (system_flag & KIND, gzip_content(&body)) {
        (LZ4, _) => (None, "lz4"),
        (ZSTD, _) => (None, "zstd"),
        (_, Some(content)) => (decompress_to_vec_with_limit(content, bytes_max).ok(), "gzip"),
        (_, None) => (decompress_to_vec_zlib_with_limit(&body, bytes_max).ok(), "zlib"),
    };
    match unpacked {
        Some(unpacked) => Unpacked::Plain(unpacked.into()),
        None => Unpacked::Packed { body, compression },
    }
}

/// The compressed bytes in a gzip member (RFC 1952), with its trailer behind them; `None` if it is none.
fn gzip_content(body: &[u8]) -> Option<&[u8]> {
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let [0x1f, 0x8b, 8, flags, _, _, _, _, _, _, rest @ ..] = body else { return None };
    let mut rest = rest;
    if flags & 4 != 0 {
        let [low, high, tail @ ..] = rest else { return None };
        rest = tail.get(usize::from(u16::from_le_bytes([*low, *high]))..)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & 2 != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    use super::*;

    fn gzip(flags: u8, extra: &[u8], body: &[u8]) -> Bytes {
        let mut packed = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255];
        packed.extend(extra);
        packed.extend(compress_to_vec(body, 5));
        packed.extend([0; 8]);
        packed.into()
    }

    #[test]
    fn what_clients_pack_comes_back() {
        let body = b"0123456789".repeat(1000);
        let plain = Unpacked::Plain(body.clone().into());
        let zlib = Bytes::from(compress_to_vec_zlib(&body, 5));
        for flag in [0x1, 0x301] {
            assert_eq!(unpack(zlib.clone(), flag, body.len()), plain);
            assert_eq!(unpack(gzip(0, b"", &body), flag, body.len()), plain);
            assert_eq!(
                unpack(gzip(2 | 4 | 8 | 16, b"\x02\0xxname\0comment\0cc", &body), flag, body.len()),
                plain
            );
        }
        assert_eq!(unpack(zlib.clone(), 0, 1), Unpacked::Plain(zlib), "the flag decides");
    }

    #[test]
    fn what_cannot_be_unpacked_is_handed_on_with_its_name() {
        let bomb = Bytes::from(compress_to_vec_zlib(&vec![0; 10 << 20], 9));
        let lying_gzip = Bytes::from_static(&[0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0, 255, 255, 1]);
        for (body, flag, compression) in [
            (bomb, 0x1, "zlib"),
            (gzip(0, b"", &vec![7; 2 << 20]), 0x1, "gzip"),
            (lying_gzip, 0x1, "zlib"),
            (Bytes::from_static(b"no"), 0x1, "zlib"),
            (Bytes::from_static(b"x"), 0x101, "lz4"),
            (Bytes::from_static(b"x"), 0x201, "zstd"),
        ] {
            assert_eq!(unpack(body.clone(), flag, 1 << 20), Unpacked::Packed { body, compression });
        }
    }
}
