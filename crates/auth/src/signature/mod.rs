//! The signatures of both protocols: HMAC-SHA1 with the user's secret. SHA-1 is what the clients make; as the hash of an
//! HMAC it is not broken.
//!
//! Neither signature can tell a request from its repetition: Remoting signs no time and no number, and gRPC signs a date
//! of whole seconds and nothing else, so that honest clients send the same signature many times. Remembering signatures would
//! refuse honest requests. What is signed once can be sent again: for Remoting until the secret changes, for gRPC
//! as long as the window of [`crate::date`] is open. TLS keeps signatures from being seen.

pub mod grpc;
pub mod remoting;

use std::fmt;

use sha1::{Digest as _, Sha1};
use subtle::ConstantTimeEq;

use crate::user::Secret;

pub const SIGNATURE_LEN: usize = 20;

/// Bytes that SHA-1 takes in at once.
const BLOCK_LEN: usize = 64;

/// The fields of a send fit in.
const GATHERED_LEN: usize = 4 * BLOCK_LEN;

/// A secret made ready for signing: the hash states after the secret's own blocks, so that a signature costs none of them.
///
/// The hash is of a crate that uses the processor's instructions for SHA-1 where it has them. A request signs its whole body, so
/// the speed of the hash is what a signed send costs.
#[derive(Clone)]
pub struct SigningKey {
    inner: Sha1,
    outer: Sha1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not match")]
pub struct Mismatch;

impl SigningKey {
    pub fn new(secret: &Secret) -> SigningKey {
        let secret = secret.reveal().as_bytes();
        let mut block = [0; BLOCK_LEN];
        // A longer secret stands for its hash (RFC 2104).
        match block.get_mut(..secret.len()) {
            Some(start) => start.copy_from_slice(secret),
            None => block[..SIGNATURE_LEN].copy_from_slice(&Sha1::digest(secret)),
        }
        let state = |pad: u8| Sha1::new_with_prefix(block.map(|byte| byte ^ pad));
        SigningKey { inner: state(0x36), outer: state(0x5c) }
    }

    fn sign<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; SIGNATURE_LEN] {
        let mut inner = self.inner.clone();
        // A dozen small parts are hashed together: the hash has work of its own for each piece that it is given.
        let mut gathered = [0; GATHERED_LEN];
        let mut len = 0;
        for part in parts {
            if part.len() > GATHERED_LEN - len {
                inner.update(&gathered[..len]);
                len = 0;
            }
            match gathered.get_mut(len..len + part.len()) {
                Some(room) => {
                    room.copy_from_slice(part);
                    len += part.len();
                }
                None => inner.update(part),
            }
        }
        inner.update(&gathered[..len]);
        self.outer.clone().chain_update(inner.finalize()).finalize().into()
    }

    /// Takes as long for a signature that differs in its first byte as for one that differs in its last.
    fn is_signature<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a [u8]>,
        signature: &[u8; SIGNATURE_LEN],
    ) -> bool {
        self.sign(parts).ct_eq(signature).into()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ring::hmac;

    use super::*;

    #[test]
    fn a_key_does_not_show_its_secret() {
        let key = SigningKey::new(&Secret::new("12345678"));
        assert_eq!(format!("{key:?}"), "SigningKey(***)");
    }

    proptest! {
        #[test]
        fn signatures_are_hmacs(
            secret in "\\PC{0,100}",
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 0..8),
        ) {
            let whole = parts.concat();
            let expected = hmac::sign(
                &hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes()),
                &whole,
            );
            let key = SigningKey::new(&Secret::new(secret));
            prop_assert_eq!(&key.sign(parts.iter().map(Vec::as_slice))[..], expected.as_ref());
        }
    }
}
