//! The one step between reading a request and its handler.
//!
//! Handlers take a [`Request`](super::request::Request), which holds an [`Admitted`], and only [`admit`] makes one: a request
//! that was not admitted cannot reach a handler.

use redstart_auth::signature::remoting::{ACCESS_KEY, SIGNATURE};

use super::{audit, dispatch, refusal::Refusal, request::Received};
use crate::access::{Identity, Unauthenticated};

/// Proof that a request has passed [`admit`], and who made it.
#[derive(Debug)]
pub(super) struct Admitted {
    identity: Identity,
    /// What an administrator's change is about; `None` for every other request.
    changes: Option<Vec<String>>,
}

impl Admitted {
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn changes(&self) -> Option<&[String]> {
        self.changes.as_deref()
    }
}

/// Decides whether a request may be served: the caller must be who it says to be, and have the rights that the request
/// needs.
pub(super) fn admit(received: &Received) -> Result<Admitted, Refusal> {
    let access = received.access();
    let identity =
        identify(received).inspect_err(|why| audit::unauthenticated(received, &why.to_string()))?;
    if !access.is_on() {
        return Ok(Admitted { identity, changes: None });
    }
    let bound = received.peer.bind(&identity, access);
    bound.inspect_err(|refusal| audit::denied(received, &identity, None, &refusal.remark))?;
    let needs = dispatch::needs(received)?;
    let allowed = access.authorize(&identity, &needs);
    allowed.inspect_err(|why| audit::denied(received, &identity, Some(&needs), &why.to_string()))?;
    let changes = needs.is_change().then(|| audit::objects(received, &needs));
    Ok(Admitted { identity, changes })
}

fn identify(Received { command, peer, context }: &Received) -> Result<Identity, Unauthenticated> {
    let (access, source) = (&context.config.resources.access, peer.remote.ip());
    let Some(certified) = &peer.certified_user else { return access.authenticate(command, source) };
    let is_signed = [ACCESS_KEY, SIGNATURE].iter().any(|name| command.field(name).is_some());
    access.authenticate_with(Some(certified), source, is_signed, || access.authenticate(command, source))
}
