//! The one step between reading a request and its handler.
//!
//! Handlers take a [`Request`](super::request::Request), which holds an [`Admitted`], and only [`admit`] makes one: a request
//! that was not admitted cannot reach a handler.

use super::{dispatch, refusal::Refusal, request::Received};
use crate::access::Identity;

/// Proof that a request has passed [`admit`], and who made it.
#[derive(Debug)]
pub(super) struct Admitted(Identity);

impl Admitted {
    pub fn identity(&self) -> &Identity {
        &self.0
    }
}

/// Decides whether a request may be served: the caller must be who it says to be, and have the rights that the request
/// needs.
pub(super) fn admit(received: &Received) -> Result<Admitted, Refusal> {
    let access = received.access();
    let identity = access.authenticate(&received.command, received.peer.remote.ip())?;
    if access.is_on() {
        received.peer.bind(&identity, access)?;
        access.authorize(&identity, &dispatch::needs(received)?)?;
    }
    Ok(Admitted(identity))
}
