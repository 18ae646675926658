//! The header of a gRPC call:
//!
//! `authorization: MQv2-HMAC-SHA1 Credential=<user>[/<region>[/<service>]], SignedHeaders=x-mq-date-time, Signature=<hex>`
//!
//! The signature is that of the text of `x-mq-date-time` as it was sent.

use super::{Mismatch, SIGNATURE_LEN, SigningKey};

pub const AUTHORIZATION: &str = "authorization";
pub const DATE_TIME: &str = "x-mq-date-time";
const ALGORITHM: &str = "MQv2-HMAC-SHA1";
const HEADER_LEN_MAX: usize = 1024;

/// A credential that a call carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authorization<'a> {
    pub user: &'a str,
    signature: [u8; SIGNATURE_LEN],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHeader {
    #[error("the authorization header is over {HEADER_LEN_MAX} bytes")]
    TooLong,
    #[error("the authorization header does not begin with {ALGORITHM}")]
    Algorithm,
    #[error("the authorization header has two values of {0}")]
    Twice(&'static str),
    #[error("the authorization header has no Credential")]
    NoCredential,
    #[error("the authorization header does not sign {DATE_TIME} alone")]
    SignedHeaders,
    #[error("the authorization header has no signature of {SIGNATURE_LEN} bytes in hex")]
    Signature,
}

/// The value of a header that counts: clients that try again add a whole set of headers to those of the first try, so that
/// the last of each belong together.
pub fn last<T>(values: impl DoubleEndedIterator<Item = T>) -> Option<T> {
    values.into_iter().next_back()
}

impl<'a> Authorization<'a> {
    /// `None` for a credential without a user: Python sends one when it has none.
    pub fn read(header: &'a str) -> Result<Option<Authorization<'a>>, InvalidHeader> {
        if header.len() > HEADER_LEN_MAX {
            return Err(InvalidHeader::TooLong);
        }
        let (algorithm, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if !algorithm.eq_ignore_ascii_case(ALGORITHM) {
            return Err(InvalidHeader::Algorithm);
        }
        let mut values: [(&'static str, Option<&str>); 3] =
            [("Credential", None), ("SignedHeaders", None), ("Signature", None)];
        for part in rest.split(',') {
            let Some((name, value)) = part.trim().split_once('=') else { continue };
            let Some((known, place)) = values.iter_mut().find(|(known, _)| *known == name.trim()) else {
                continue;
            };
            if place.replace(value.trim()).is_some() {
                return Err(InvalidHeader::Twice(known));
            }
        }
        let [(_, credential), (_, signed), (_, signature)] = values;
        let user = credential.ok_or(InvalidHeader::NoCredential)?.split('/').next().unwrap_or_default();
        if user.is_empty() {
            return Ok(None);
        }
        if !signed.is_some_and(|signed| signed.eq_ignore_ascii_case(DATE_TIME)) {
            return Err(InvalidHeader::SignedHeaders);
        }
        let signature = signature.and_then(hex).ok_or(InvalidHeader::Signature)?;
        Ok(Some(Authorization { user, signature }))
    }

    pub fn verify(&self, key: &SigningKey, date_time: &str) -> Result<(), Mismatch> {
        let matches = key.is_signature([date_time.as_bytes()], &self.signature);
        if matches { Ok(()) } else { Err(Mismatch) }
    }
}

/// The header for a call of `user` at `date_time`.
pub fn header(user: &str, key: &SigningKey, date_time: &str) -> String {
    use std::fmt::Write;
    let mut text = format!("{ALGORITHM} Credential={user}, SignedHeaders={DATE_TIME}, Signature=");
    for byte in key.sign([date_time.as_bytes()]) {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn hex(text: &str) -> Option<[u8; SIGNATURE_LEN]> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8));
    bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty())?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::user::Secret;

    const DATE: &str = "20240102T030405Z";
    // Computed with OpenSSL: `printf 20240102T030405Z | openssl dgst -sha1 -hmac 12345678`.
    const HEX: &str = "0183ec6e9bf0753ca4402acb305f8e39d222458f";

    fn key() -> SigningKey {
        SigningKey::new(&Secret::new("12345678"))
    }

    #[test]
    fn headers_of_all_official_clients_are_read() {
        let upper = HEX.to_ascii_uppercase();
        let cases = [
            format!("MQv2-HMAC-SHA1 Credential=rocketmq2, SignedHeaders=x-mq-date-time, Signature={upper}"),
            format!(
                "MQv2-HMAC-SHA1 Credential=rocketmq2//Rocketmq, SignedHeaders=x-mq-date-time, Signature={HEX}"
            ),
            format!(
                "MQv2-HMAC-SHA1 Credential=rocketmq2/cn-hangzhou/RocketMQ, SignedHeaders=x-mq-date-time, Signature={upper}"
            ),
            format!("MQv2-HMAC-SHA1 Credential=rocketmq2,SignedHeaders=x-mq-date-time,Signature={HEX}"),
            header("rocketmq2", &key(), DATE),
        ];
        for text in cases {
            let read = Authorization::read(&text).unwrap().unwrap();
            assert_eq!(read.user, "rocketmq2", "{text}");
            assert_eq!(read.verify(&key(), DATE), Ok(()), "{text}");
            assert_eq!(read.verify(&key(), "20240102T030406Z"), Err(Mismatch));
            assert_eq!(read.verify(&SigningKey::new(&Secret::new("87654321")), DATE), Err(Mismatch));
        }
    }

    #[test]
    fn a_credential_without_a_user_is_anonymous() {
        let text = format!("MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature={HEX}");
        assert_eq!(Authorization::read(&text), Ok(None));
    }

    #[test]
    fn headers_that_could_be_read_in_two_ways_are_refused() {
        let good = header("u", &key(), DATE);
        let cases = [
            (String::new(), InvalidHeader::Algorithm),
            ("Basic dTpw".to_owned(), InvalidHeader::Algorithm),
            (good.replace("MQv2-HMAC-SHA1", "MQv2-HMAC-SHA256"), InvalidHeader::Algorithm),
            (format!("{good}, Credential=admin"), InvalidHeader::Twice("Credential")),
            (format!("{good}, Signature={HEX}"), InvalidHeader::Twice("Signature")),
            (good.replace("Credential=u", "Cred=u"), InvalidHeader::NoCredential),
            (good.replace("x-mq-date-time", ""), InvalidHeader::SignedHeaders),
            (good.replace("x-mq-date-time", "x-mq-client-id"), InvalidHeader::SignedHeaders),
            (good[..good.len() - 1].to_owned(), InvalidHeader::Signature),
            (format!("{good}00"), InvalidHeader::Signature),
            (good.replace("Signature=", "Signature=zz"), InvalidHeader::Signature),
            (format!("{good}{}", " ".repeat(1024)), InvalidHeader::TooLong),
        ];
        for (text, expected) in cases {
            assert_eq!(Authorization::read(&text), Err(expected), "{text:.80}");
        }
    }

    #[test]
    fn of_repeated_headers_the_last_of_each_counts() {
        assert_eq!(last(["first try", "second try"].into_iter()), Some("second try"));
        assert_eq!(last::<&str>([].into_iter()), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_fail_and_none_is_a_signature(text in "\\PC{0,200}") {
            if let Ok(Some(read)) = Authorization::read(&text) {
                prop_assert!(read.verify(&key(), DATE).is_err());
            }
        }

        #[test]
        fn what_is_signed_is_verified(user in "[a-z0-9_.-]{1,64}", secret in "\\PC{1,64}", date in "\\PC{0,40}") {
            let key = SigningKey::new(&Secret::new(secret));
            let text = header(&user, &key, &date);
            let read = Authorization::read(&text).unwrap().unwrap();
            prop_assert_eq!(read.user, user.as_str());
            prop_assert!(read.verify(&key, &date).is_ok());
        }
    }
}
