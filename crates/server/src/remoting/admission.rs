//! The one step between reading a request and its handler.
//!
//! Handlers take a [`Request`](super::request::Request), which holds an [`Admitted`], and only [`admit`] makes one: a request
//! that was not admitted cannot reach a handler.

use redstart_auth::signature::remoting::{ACCESS_KEY, SIGNATURE};

use super::{
    audit, dispatch,
    refusal::Refusal,
    request::{Received, Request},
};
use crate::access::{Identity, Unauthenticated};

/// Proof that a request has passed [`admit`], and who made it.
#[derive(Debug)]
pub(super) struct Admitted {
    identity: Identity,
    /// The snapshot of rights that decided, or one before it.
    version: u64,
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
    // Before the decision: a snapshot that comes later must not go unnoticed.
    let version = access.version();
    let identity =
        identify(received).inspect_err(|why| audit::unauthenticated(received, &why.to_string()))?;
    if !access.is_on() {
        return Ok(Admitted { identity, version, changes: None });
    }
    let bound = received.peer.bind(&identity, access);
    bound.inspect_err(|refusal| audit::denied(received, &identity, None, &refusal.remark))?;
    let needs = dispatch::needs(received)?;
    let allowed = access.authorize(&identity, &needs);
    allowed.inspect_err(|why| audit::denied(received, &identity, Some(&needs), &why.to_string()))?;
    let changes = needs.is_change().then(|| audit::objects(received, &needs));
    Ok(Admitted { identity, version, changes })
}

/// Decides again about a request that has waited, if rights have changed meanwhile.
pub(super) fn admit_again(request: &Request) -> Result<(), Refusal> {
    if request.access().version() == request.admitted().version {
        return Ok(());
    }
    request.check(&dispatch::needs(request)?)
}

fn identify(Received { command, peer, context }: &Received) -> Result<Identity, Unauthenticated> {
    let (access, source) = (&context.node.config.resources.access, peer.remote.ip());
    let by_signature = || access.authenticate(command, source, peer.identity());
    let Some(certified) = &peer.certified_user else { return by_signature() };
    let is_signed = [ACCESS_KEY, SIGNATURE].iter().any(|name| command.field(name).is_some());
    access.authenticate_with(Some(certified), source, is_signed, by_signature)
}
