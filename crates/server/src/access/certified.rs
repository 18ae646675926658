//! Callers whose TLS client certificate stands for a user.

use std::net::IpAddr;

use redstart_auth::Status;

use super::{Access, Guard, Identity, Unauthenticated};

impl Access {
    /// Finds out who makes a request over a connection whose client certificate, if it has one, stands for the user `certified`.
    /// A signed request is checked as it is without a certificate, and has to be of the same user.
    pub(crate) fn authenticate_with(
        &self,
        certified: Option<&str>,
        source: IpAddr,
        is_signed: bool,
        by_signature: impl FnOnce() -> Result<Identity, Unauthenticated>,
    ) -> Result<Identity, Unauthenticated> {
        let (Some(guard), Some(certified)) = (&self.guard, certified) else { return by_signature() };
        if !is_signed {
            return guard.certified(certified, source);
        }
        let identity = by_signature()?;
        if identity.user().is_some_and(|user| **user == *certified) {
            return Ok(identity);
        }
        Err(Unauthenticated("the request is signed by another user than the client certificate's".to_owned()))
    }
}

impl Guard {
    /// The authority that issued the certificate has proved who the caller is; what is left is whether that user may come in.
    fn certified(&self, name: &str, source: IpAddr) -> Result<Identity, Unauthenticated> {
        let rights = self.rights.read().clone();
        match rights.user(name).map(|user| user.status) {
            Some(Status::Enabled) => Ok(Identity { user: Some(name.into()), source }),
            Some(Status::Disabled) => Err(Unauthenticated(format!("the user {name} is disabled"))),
            None => {
                Err(Unauthenticated(format!("there is no user {name:?}, as the client certificate says")))
            }
        }
    }
}
