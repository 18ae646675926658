//! A request's fields and body, signed:
//!
//! | part | rule |
//! |---|---|
//! | content | the values of all fields but `Signature`, ordered by name, without separators; then the body |
//! | order | of UTF-16 code units, as Java sorts text |
//! | signature | HMAC-SHA1 of the content, in standard base64 |
//!
//! Without separators a signature also fits fields whose values have exchanged characters at their ends. The protocol has it
//! so.

use std::cmp::Ordering;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Mismatch, SIGNATURE_LEN, SigningKey};

pub const ACCESS_KEY: &str = "AccessKey";
pub const SIGNATURE: &str = "Signature";
pub const SECURITY_TOKEN: &str = "SecurityToken";
/// Added to a request after it was signed by clients up to version [`UNSIGNED_QUERY_MAX`].
const UNIQUE_KEY_QUERY: &str = "_UNIQUE_KEY_QUERY";
const UNSIGNED_QUERY_MAX: i32 = 399;
/// A send has no more.
const FIELDS_USUAL: usize = 20;

/// What was signed, or is to be. The fields may be in any order.
#[derive(Debug)]
pub struct Content<'a> {
    fields: Vec<Field<'a>>,
    body: &'a [u8],
}

#[derive(Debug)]
struct Field<'a> {
    /// The first bytes of the name as a number, which orders most names without a look at their text.
    start: u64,
    name: &'a str,
    value: &'a str,
    /// Its place among the fields as they came.
    place: usize,
}

impl<'a> Field<'a> {
    #[inline]
    fn new(place: usize, (name, value): (&'a str, &'a str)) -> Field<'a> {
        let mut start = 0;
        // Most names are a letter or two.
        for (byte, shift) in name.bytes().zip([56, 48, 40, 32, 24, 16, 8, 0]) {
            start |= u64::from(byte) << shift;
        }
        Field { start, name, value, place }
    }

    fn by_bytes(&self, other: &Field<'_>) -> Ordering {
        self.start.cmp(&other.start).then_with(|| self.name.cmp(other.name))
    }

    fn by_utf16(&self, other: &Field<'_>) -> Ordering {
        self.name.encode_utf16().cmp(other.name.encode_utf16())
    }
}

impl<'a> Content<'a> {
    pub fn new(given: impl IntoIterator<Item = (&'a str, &'a str)>, body: &'a [u8]) -> Content<'a> {
        let mut fields = Vec::with_capacity(FIELDS_USUAL);
        for (place, (name, value)) in given.into_iter().enumerate() {
            if name != SIGNATURE {
                fields.push(Field::new(place, (name, value)));
            }
        }
        // A Java client with binary headers sends the fields of a send twice. Its own map of them has the last of each name.
        let last_first = |a: &Field<'_>, b: &Field<'_>| b.place.cmp(&a.place);
        // For ASCII, the order of bytes is that of UTF-16, and cheap.
        if fields.iter().all(|field| field.name.is_ascii()) {
            fields.sort_unstable_by(|a, b| a.by_bytes(b).then_with(|| last_first(a, b)));
        } else {
            fields.sort_unstable_by(|a, b| a.by_utf16(b).then_with(|| last_first(a, b)));
        }
        fields.dedup_by_key(|field| field.name);
        Content { fields, body }
    }

    pub fn sign(&self, key: &SigningKey) -> String {
        STANDARD.encode(key.sign(self.parts(|_| true)))
    }

    /// `version` is the one that the client's request carries. Java adds the zone of the client after signing, Go the
    /// security token, so each is tried as unsigned, too: nothing may depend on the values of these fields.
    pub fn verify(&self, key: &SigningKey, signature: &str, version: i32) -> Result<(), Mismatch> {
        // One byte more than needed tells a signature that is too long; of a longer text no more is decoded.
        let mut bytes = [0; SIGNATURE_LEN + 1];
        let length = STANDARD.decode_slice(signature, &mut bytes).map_err(|_| Mismatch)?;
        let signature = bytes[..length].try_into().map_err(|_| Mismatch)?;
        let signs_query = version > UNSIGNED_QUERY_MAX;
        for (zone, token) in [(true, true), (false, true), (true, false), (false, false)] {
            let repeats = !zone && !self.has(is_zone) || !token && !self.has(is_token);
            let is_signed = |name: &str| {
                (zone || !is_zone(name))
                    && (token || !is_token(name))
                    && (signs_query || name != UNIQUE_KEY_QUERY)
            };
            if !repeats && key.is_signature(self.parts(is_signed), signature) {
                return Ok(());
            }
        }
        Err(Mismatch)
    }

    fn has(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        self.fields.iter().any(|field| is_wanted(field.name))
    }

    fn parts(&self, is_signed: impl Fn(&str) -> bool) -> impl Iterator<Item = &'a [u8]> {
        let signed = self.fields.iter().filter(move |field| is_signed(field.name));
        signed.map(|field| field.value.as_bytes()).chain([self.body])
    }
}

fn is_zone(name: &str) -> bool {
    name == "__ZONE_NAME" || name == "__ZONE_MODE"
}

fn is_token(name: &str) -> bool {
    name == SECURITY_TOKEN
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::user::Secret;

    const VERSION: i32 = 475;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    fn key() -> SigningKey {
        SigningKey::new(&Secret::new("12345678"))
    }

    /// Computed with OpenSSL: `printf %s … | openssl dgst -sha1 -hmac 12345678 -binary | base64`.
    #[test]
    fn signatures_are_those_that_clients_make() {
        let send =
            [("b", "orders"), ("AccessKey", "rocketmq2"), ("a", "group"), ("e", "0"), ("Signature", "x")];
        let cases: [(Fields<'_>, &[u8], &str); 3] = [
            (&send, b"hello", VECTOR_SEND),
            (&[("AccessKey", "rocketmq2")], b"", VECTOR_KEY),
            (&[("AccessKey", "k"), ("\u{ffee}", "1"), ("\u{1f600}", "2")], b"", VECTOR_ORDER),
        ];
        for (fields, body, expected) in cases {
            let content = Content::new(fields.iter().copied(), body);
            assert_eq!(content.sign(&key()), expected);
            assert_eq!(content.verify(&key(), expected, VERSION), Ok(()));
        }
    }

    // "rocketmq2" + "group" + "orders" + "0" + "hello"
    const VECTOR_SEND: &str = "llu8TW6ygq6qc04UN637Tm0SMZs=";
    // "rocketmq2"
    const VECTOR_KEY: &str = "Ou1T58RIcyZWaTIwzkhJZWn/Zvs=";
    // "k" + "2" + "1": a surrogate comes before U+FFEE.
    const VECTOR_ORDER: &str = "wYhB9voSrl9d2NqpyXIb4TuUa/4=";

    #[test]
    fn of_fields_that_come_twice_the_last_is_signed() {
        let once = [("AccessKey", "k"), ("b", "orders"), ("e", "0")];
        let signature = Content::new(once, b"body").sign(&key());
        let twice = [("b", "first"), ("e", "0"), ("AccessKey", "k"), ("b", "orders"), ("e", "0")];
        assert!(Content::new(twice, b"body").verify(&key(), &signature, VERSION).is_ok());
        let other = [("b", "orders"), ("e", "0"), ("AccessKey", "k"), ("b", "first"), ("e", "0")];
        assert!(Content::new(other, b"body").verify(&key(), &signature, VERSION).is_err());
    }

    #[test]
    fn fields_added_after_signing_are_tolerated() {
        let signed = [("AccessKey", "k"), ("topic", "t")];
        let signature = Content::new(signed, b"body").sign(&key());
        let cases: [(Fields<'_>, i32, bool); 8] = [
            (&[], VERSION, true),
            (&[("__ZONE_NAME", "z"), ("__ZONE_MODE", "true")], VERSION, true),
            (&[("__ZONE_MODE", "true")], VERSION, true),
            (&[("SecurityToken", "s")], VERSION, true),
            (&[("SecurityToken", "s"), ("__ZONE_NAME", "z")], VERSION, true),
            (&[("_UNIQUE_KEY_QUERY", "true")], 399, true),
            (&[("_UNIQUE_KEY_QUERY", "true")], 400, false),
            (&[("queueId", "0")], VERSION, false),
        ];
        for (added, version, expected) in cases {
            let fields = signed.iter().chain(added).copied();
            let verdict = Content::new(fields, b"body").verify(&key(), &signature, version);
            assert_eq!(verdict.is_ok(), expected, "{added:?} {version}");
        }
        // A token that was signed is checked like every field.
        let with_token = [("AccessKey", "k"), ("SecurityToken", "s")];
        let signature = Content::new(with_token, b"").sign(&key());
        assert!(Content::new(with_token, b"").verify(&key(), &signature, VERSION).is_ok());
        let other = [("AccessKey", "k"), ("SecurityToken", "other")];
        assert!(Content::new(other, b"").verify(&key(), &signature, VERSION).is_err());
    }

    #[test]
    fn forged_signatures_are_refused() {
        let content = Content::new([("AccessKey", "k")], b"body");
        let good = content.sign(&key());
        let long = "A".repeat(1 << 16);
        for bad in ["", "=", "AAAA", &good[..27], &format!("{good}="), &format!(" {good}"), &long, "签名"] {
            assert!(content.verify(&key(), bad, VERSION).is_err(), "{bad:.40}");
        }
        let other = SigningKey::new(&Secret::new("12345679"));
        assert!(content.verify(&other, &good, VERSION).is_err());
        assert!(Content::new([("AccessKey", "k")], b"bodY").verify(&key(), &good, VERSION).is_err());
    }

    proptest! {
        #[test]
        fn values_are_in_the_order_of_a_java_map(
            given in proptest::collection::vec(("[a-c]{1,10}|\\PC{1,10}", "[0-9]{1,3}"), 0..12),
        ) {
            let mut map: Vec<(Vec<u16>, &str)> = Vec::new();
            for (name, value) in &given {
                let name: Vec<u16> = name.encode_utf16().collect();
                map.retain(|(other, _)| *other != name);
                map.push((name, value));
            }
            map.sort();
            let expected: String = map.into_iter().map(|(_, value)| value).collect();
            let content = Content::new(given.iter().map(|(name, value)| (name.as_str(), value.as_str())), b"");
            let parts: Vec<_> = content.parts(|_| true).collect();
            prop_assert_eq!(parts.concat(), expected.into_bytes());
        }

        #[test]
        fn a_change_of_any_field_or_byte_is_noticed(
            fields in proptest::collection::btree_map("[a-zA-Z_]{1,6}", "\\PC{0,12}", 1..6),
            body in proptest::collection::vec(any::<u8>(), 0..64),
            at: proptest::sample::Index,
        ) {
            let pairs: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let content = Content::new(pairs.iter().copied(), &body);
            let signature = content.sign(&key());
            prop_assert!(content.verify(&key(), &signature, VERSION).is_ok());
            let mut changed = pairs.clone();
            let index = at.index(changed.len());
            let longer = format!("{}x", changed[index].1);
            changed[index].1 = &longer;
            prop_assert!(Content::new(changed, &body).verify(&key(), &signature, VERSION).is_err());
        }
    }
}
