//! The signatures of both protocols: HMAC-SHA1 with the user's secret. SHA-1 is what the clients make; as the hash of an
//! HMAC it is not broken.
//!
//! Neither signature can tell a request from its repetition: Remoting signs no time and no number, and gRPC signs a date
//! of whole seconds and nothing else, so that honest clients send the same signature many times. Remembering signatures would
//! refuse honest requests. What is signed once can be sent again: for Remoting until the secret changes, for gRPC
//! as long as the window of [`crate::date`] is open. TLS keeps signatures from being seen.

pub mod grpc;
pub mod remoting;

use ring::hmac;
use subtle::ConstantTimeEq;

use crate::user::Secret;

pub const SIGNATURE_LEN: usize = 20;

/// A secret made ready for signing. `Debug` shows the algorithm only.
#[derive(Debug, Clone)]
pub struct SigningKey(hmac::Key);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not match")]
pub struct Mismatch;

impl SigningKey {
    pub fn new(secret: &Secret) -> SigningKey {
        SigningKey(hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.reveal().as_bytes()))
    }

    fn sign<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part);
        }
        context.sign()
    }

    /// Takes as long for a signature that differs in its first byte as for one that differs in its last.
    fn is_signature<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a [u8]>,
        signature: &[u8; SIGNATURE_LEN],
    ) -> bool {
        self.sign(parts).as_ref().ct_eq(signature).into()
    }
}
