//! Bodies that producers have compressed.

use std::io::Read;
#[cfg(feature = "messaging")]
use std::io::Write;

use bytes::Bytes;
use flate2::read::{GzDecoder, ZlibDecoder};
#[cfg(feature = "messaging")]
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use redstart_wire::remoting::flag;

/// A body may unpack to this much and no more.
const BODY_BYTES_MAX: u64 = 64 << 20;
const COMPRESSION: i32 = 0x700;
const LZ4: i32 = 0x100;
const ZSTD: i32 = 0x200;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// As the Java client has it.
#[cfg(feature = "messaging")]
const LEVEL: u32 = 5;

/// A body that cannot be shown as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// This compression is not read here.
    #[error("the body is compressed with {0}, which is not read here")]
    Compression(&'static str),
    /// The compressed bytes are not what they should be.
    #[error("the body cannot be unpacked: {0}")]
    Damaged(String),
    /// It would take too much memory.
    #[error("the body unpacks to more than {BODY_BYTES_MAX} bytes")]
    TooLarge,
}

/// The body as it was sent. Producers say in the system flag whether and how they have compressed it.
pub(crate) fn unpack(body: &Bytes, system_flag: i32) -> Result<Bytes, BodyError> {
    if system_flag & flag::COMPRESSED == 0 {
        return Ok(body.clone());
    }
    match system_flag & COMPRESSION {
        LZ4 => Err(BodyError::Compression("LZ4")),
        ZSTD => Err(BodyError::Compression("ZSTD")),
        // What gRPC clients compress has no type in the flag, and is gzip or zlib.
        _ if body.starts_with(&GZIP_MAGIC) => read(GzDecoder::new(&body[..])),
        _ => read(ZlibDecoder::new(&body[..])),
    }
}

fn read(unpacking: impl Read) -> Result<Bytes, BodyError> {
    let mut body = Vec::new();
    let unpacked = unpacking.take(BODY_BYTES_MAX + 1).read_to_end(&mut body);
    unpacked.map_err(|error| BodyError::Damaged(error.to_string()))?;
    if body.len() as u64 > BODY_BYTES_MAX {
        return Err(BodyError::TooLarge);
    }
    Ok(body.into())
}

/// How a producer packs bodies.
#[cfg(feature = "messaging")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// What Remoting clients read.
    Zlib,
    /// What gRPC clients read.
    #[cfg_attr(not(feature = "grpc"), allow(dead_code, reason = "only gRPC producers pack so"))]
    Gzip,
}

/// The body packed; `None` if that saves nothing.
#[cfg(feature = "messaging")]
pub(crate) fn pack(body: &[u8], packing: Packing) -> Option<Bytes> {
    let level = Compression::new(LEVEL);
    let room = Vec::with_capacity(body.len() / 2);
    let packed = match packing {
        Packing::Zlib => {
            let mut packer = ZlibEncoder::new(room, level);
            packer.write_all(body).and_then(|()| packer.finish())
        }
        Packing::Gzip => {
            let mut packer = GzEncoder::new(room, level);
            packer.write_all(body).and_then(|()| packer.finish())
        }
    };
    packed.ok().filter(|packed| packed.len() < body.len()).map(Bytes::from)
}

#[cfg(all(test, feature = "messaging"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_what_does_not_shrink_is_left() {
        let body = b"0123456789".repeat(1000);
        for packing in [Packing::Zlib, Packing::Gzip] {
            let packed = pack(&body, packing).expect("it shrinks");
            assert!(packed.len() < body.len() / 10);
            assert_eq!(unpack(&packed, 0x1), Ok(body.clone().into()), "{packing:?}");
            assert_eq!(unpack(&packed, 0x301), Ok(body.clone().into()), "{packing:?}");
            assert_eq!(unpack(&packed, 0), Ok(packed.clone()), "the flag decides");
            assert_eq!(pack(b"x", packing), None);
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let body = Bytes::from_static(b"no");
        assert_eq!(unpack(&body, 0x101), Err(BodyError::Compression("LZ4")));
        assert_eq!(unpack(&body, 0x201), Err(BodyError::Compression("ZSTD")));
        assert!(matches!(unpack(&body, 0x1), Err(BodyError::Damaged(_))));
    }
}
