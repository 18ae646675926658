//! What the audit log is told of gRPC calls: denials. Nothing that administrators change goes over this port.

use std::net::SocketAddr;

use redstart_auth::signature::grpc::{AUTHORIZATION, Authorization};
use redstart_wire::v2::Code;

use super::{call::Head, metadata, refusal::Refusal, service::Service};
use crate::{
    access::{Identity, Needs},
    audit::{Entry, Outcome},
};

const PORT: &str = "grpc";
pub(super) const TELEMETRY: &str = "Telemetry";

/// The name of a request, such as `SendMessageRequest`.
pub(super) fn name_of<R>() -> &'static str {
    let path = std::any::type_name::<R>();
    path.rsplit("::").next().unwrap_or(path)
}

/// The caller has not proved who it is; the name is what it says.
pub(super) fn unauthenticated(service: &Service, head: &Head, request: &str, refusal: &Refusal) {
    let header = metadata::last(&head.headers, AUTHORIZATION);
    let said = header.and_then(|header| Authorization::read(header).ok().flatten());
    let (user, from) = (said.map(|said| said.user), head.peer.remote);
    let (outcome, why) = (Outcome::Unauthenticated, refusal.message.as_str());
    let entry = Entry { user, from, port: PORT, request, objects: &[], outcome, why };
    service.config.resources.access.record(entry);
}

/// The caller may not do what the request needs. Other refusals are no denials.
pub(super) fn denied<'n>(
    service: &Service,
    (remote, identity): (SocketAddr, &Identity),
    request: &str,
    needs: impl FnOnce() -> Needs<'n>,
    refusal: &Refusal,
) {
    if refusal.code != Code::Forbidden {
        return;
    }
    let (objects, user) = (needs().resources(), identity.user().map(|user| &**user));
    let (from, why) = (remote, refusal.message.as_str());
    let entry = Entry { user, from, port: PORT, request, objects: &objects, outcome: Outcome::Denied, why };
    service.config.resources.access.record(entry);
}
