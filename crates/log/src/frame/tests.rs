use proptest::prelude::*;

use super::*;

fn parse(bytes: &[u8], place: Place) -> Result<Header, Fault> {
    let header = Header::parse(bytes, place)?;
    header.verify(bytes)?;
    Ok(header)
}

proptest! {
    #[test]
    fn frame_reads_back_as_written(
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        term: u64, index: u64, timestamp_ms: u64, durable: u64, salt: u64, position: u64,
    ) {
        let place = Place { salt, position };
        let mut bytes = Vec::new();
        encode(&mut bytes, Stamp { term, index, timestamp_ms, durable }, &payload, place);
        let header = parse(&bytes, place).unwrap();
        prop_assert_eq!(bytes.len() as u64, header.stored_bytes());
        prop_assert_eq!(&bytes[HEADER_BYTES..header.length as usize], &payload[..]);
        prop_assert_eq!((header.term, header.index), (term, index));
        prop_assert_eq!((header.timestamp_ms, header.durable), (timestamp_ms, durable));
    }

    #[test]
    fn any_flipped_bit_is_noticed(
        payload in proptest::collection::vec(any::<u8>(), 0..100), at in 0usize..10_000, bit in 0u8..8,
    ) {
        let place = Place { salt: 7, position: 64 };
        let mut bytes = Vec::new();
        encode(&mut bytes, Stamp { term: 1, index: 2, timestamp_ms: 3, durable: 4 }, &payload, place);
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(parse(&bytes, place).is_err());
    }

    #[test]
    fn garbage_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let place = Place { salt: 1, position: 8 };
        prop_assert!(parse(&bytes, place).is_err());
    }
}

#[test]
fn frame_is_valid_only_in_its_own_place() {
    let place = Place { salt: 7, position: 64 };
    let mut bytes = Vec::new();
    encode(&mut bytes, Stamp { term: 1, index: 2, timestamp_ms: 3, durable: 4 }, b"body", place);
    assert!(parse(&bytes, place).is_ok());
    assert!(parse(&bytes, Place { position: 72, ..place }).is_err());
    assert!(parse(&bytes, Place { salt: 8, ..place }).is_err());
}

#[test]
fn unknown_frame_version_is_told_from_damage() {
    let place = Place { salt: 7, position: 64 };
    let mut bytes = Vec::new();
    encode(&mut bytes, Stamp { term: 1, index: 2, timestamp_ms: 3, durable: 4 }, b"body", place);
    bytes[12] = 9;
    let raw: [u8; HEADER_BYTES] = bytes[..HEADER_BYTES].try_into().unwrap();
    bytes[8..12].copy_from_slice(&header_crc(&raw, place).to_le_bytes());
    assert_eq!(Header::parse(&bytes, place), Err(Fault::Version(9)));
}

#[test]
fn zeros_are_the_end_and_not_damage() {
    assert_eq!(Header::parse(&[0; 64], Place { salt: 0, position: 0 }), Err(Fault::Empty));
}
