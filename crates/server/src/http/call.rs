//! A request that was admitted, and the step that admits it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{StatusCode, header, request::Parts};
use hyper::body::Incoming;
use redstart_auth::Action;

use super::{Limits, refusal::Refusal};
use crate::{
    access::{Access, Needs},
    audit::{Entry, Outcome},
    byte_budget::Account,
};

/// What a caller of a part needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Right {
    /// Nothing: it tells nothing that a stranger must not know.
    Open,
    /// To be allowed `Get` on the cluster, where callers are asked who they are.
    Observe,
    /// To be allowed `Update` on the cluster.
    Manage,
    /// To send to a topic.
    Send { topic: String },
    /// To consume a topic as a group.
    Consume { topic: String, group: String },
}

/// What is known of the caller before it makes a request.
#[derive(Debug)]
pub(super) struct Caller {
    pub remote: SocketAddr,
    /// The user that its certificate stands for.
    pub certified_user: Option<Arc<str>>,
    /// It has no certificate, and needs one for what is not open to everybody.
    pub lacks_certificate: bool,
    /// The bytes of its requests and answers.
    pub account: Arc<Account>,
}

/// A request that may be served. Only [`admit`] makes one.
#[derive(Debug)]
pub struct Call {
    pub(super) head: Parts,
    pub(super) limits: Limits,
    pub(super) caller: Arc<Caller>,
    right: Right,
    access: Access,
    /// The snapshot of rights that decided, or one before it.
    version: u64,
}

impl Call {
    /// Decides again about a request that has waited, if rights have changed meanwhile.
    pub(super) fn admit_again(&self) -> Result<(), Refusal> {
        if self.access.version() == self.version {
            return Ok(());
        }
        check(&self.head, &self.access, &self.caller, &self.right)
    }
}

/// Admits a request whose caller may do what it needs. Its body has not been read.
pub(super) fn admit(
    request: http::Request<Incoming>,
    right: Right,
    access: &Access,
    caller: &Arc<Caller>,
    limits: &Limits,
) -> Result<(Call, Incoming), Refusal> {
    let (head, body) = request.into_parts();
    // Before the decision: a snapshot that comes later must not go unnoticed.
    let version = access.version();
    check(&head, access, caller, &right)?;
    let (access, caller, limits) = (access.clone(), caller.clone(), limits.clone());
    Ok((Call { head, limits, caller, right, access, version }, body))
}

/// A caller sends a user and its password, as HTTP clients do, or has a certificate.
fn check(head: &Parts, access: &Access, caller: &Caller, right: &Right) -> Result<(), Refusal> {
    let needs = match right {
        Right::Open => return Ok(()),
        Right::Observe | Right::Manage => None,
        Right::Send { topic } => Some(Needs::nothing().topic(topic.as_str(), Action::Pub)),
        Right::Consume { topic, group } => {
            Some(Needs::nothing().consume(topic.as_str(), group.as_str(), Action::Sub))
        }
    };
    let forbidden = |why: &str| Refusal::new(StatusCode::FORBIDDEN, "forbidden", why);
    if caller.lacks_certificate {
        return Err(forbidden("a client certificate is needed"));
    }
    let decoded = head.headers.get(header::AUTHORIZATION).and_then(|value| basic(value.to_str().ok()?));
    let credentials = decoded.as_ref().and_then(|text| text.split_once(':'));
    let (certified, source): (_, IpAddr) = (caller.certified_user.as_deref(), caller.remote.ip());
    let record = |outcome, user: Option<&str>, objects: &[String], why: &str| {
        let (from, request) = (caller.remote, head.uri.path());
        access.record(Entry { user, from, port: "http", request, objects, outcome, why });
    };
    let identified = access.authenticate_with(certified, source, credentials.is_some(), || {
        access.authenticate_secret(credentials, source)
    });
    let identity = identified.map_err(|why| {
        let (user, why) = (credentials.map(|(user, _)| user).or(certified), why.to_string());
        record(Outcome::Unauthenticated, user, &[], &why);
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthenticated", why)
    })?;
    let allowed = match &needs {
        None if *right == Right::Manage => access.may_manage(&identity),
        None => access.may_observe(&identity),
        Some(needs) => access.authorize(&identity, needs),
    };
    allowed.map_err(|why| {
        let (user, why) = (identity.user().map(|user| &**user), why.to_string());
        record(Outcome::Denied, user, &needs.map(|needs| needs.resources()).unwrap_or_default(), &why);
        forbidden(&why)
    })
}

/// The user and its password in a header.
fn basic(header: &str) -> Option<String> {
    let (scheme, encoded) = header.split_once(' ')?;
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(encoded.trim()).ok())??;
    String::from_utf8(decoded).ok()
}
