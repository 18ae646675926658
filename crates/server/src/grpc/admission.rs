//! The one step between reading a request and its handler.
//!
//! Handlers take an [`Admitted`] request, or for streams a [`Caller`], and only this module makes them: a request that was
//! not admitted cannot reach a handler.

use std::{sync::Arc, time::Duration};

use http::HeaderMap;
use redstart_auth::signature::grpc::{AUTHORIZATION, DATE_TIME};
use redstart_wire::v2;

use super::{
    audit, call::Head, connection::Peer, metadata, refusal::Refusal, rights::Needing, service::Service,
};
use crate::{
    access::{Identity, Needs},
    dead_letter_reason::dead_letter_reason,
};

/// A request that its handler may serve, and the client that sent it.
#[derive(Debug)]
pub(super) struct Admitted<'a, R> {
    pub caller: Caller<'a>,
    pub identity: Identity,
    pub request: R,
}

/// The client that makes a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller<'a> {
    /// The client's name for itself.
    pub client: &'a str,
    /// Whether the server has the client's settings.
    pub has_settings: bool,
    /// The connection that the call came over.
    pub peer: &'a Arc<Peer>,
    /// The snapshot of rights that decided about the call, or one before it.
    pub version: u64,
    headers: &'a HeaderMap,
}

impl Caller<'_> {
    /// Why the client gives a message up, which the protocol has no field for. Of Redstart's own client; others do not send it.
    pub fn dead_letter_reason(&self) -> Option<String> {
        let text = self.headers.get_all("x-mq-dead-letter-reason").iter().next_back()?;
        dead_letter_reason(&String::from_utf8_lossy(text.as_bytes()))
    }

    /// How long the client waits for the answer.
    pub fn deadline(&self) -> Option<Duration> {
        metadata::deadline(self.headers)
    }

    pub fn is_go(&self) -> bool {
        metadata::language(self.headers).is_some_and(|language| language == "GO")
    }
}

/// A request: what it needs, and the answer it gets when it is not admitted.
pub(super) trait Refusable: Needing {
    type Answer;

    fn refused(self, refusal: &Refusal) -> Self::Answer;
}

/// Requests that are refused with a status alone.
macro_rules! refused_by_status {
    ($($request:ident => $response:ident,)*) => {
        $(impl Refusable for v2::$request {
            type Answer = v2::$response;

            fn refused(self, refusal: &Refusal) -> v2::$response {
                #[allow(clippy::needless_update, reason = "some answers are a status and nothing else")]
                v2::$response { status: Some(refusal.status()), ..Default::default() }
            }
        })*
    };
}

refused_by_status! {
    QueryRouteRequest => QueryRouteResponse,
    QueryAssignmentRequest => QueryAssignmentResponse,
    HeartbeatRequest => HeartbeatResponse,
    SendMessageRequest => SendMessageResponse,
    ForwardMessageToDeadLetterQueueRequest => ForwardMessageToDeadLetterQueueResponse,
    EndTransactionRequest => EndTransactionResponse,
    RecallMessageRequest => RecallMessageResponse,
    NotifyClientTerminationRequest => NotifyClientTerminationResponse,
    UpdateOffsetRequest => UpdateOffsetResponse,
    GetOffsetRequest => GetOffsetResponse,
    QueryOffsetRequest => QueryOffsetResponse,
    SyncLiteSubscriptionRequest => SyncLiteSubscriptionResponse,
}

impl Service {
    /// Admits a call with one request. The error is the answer to it.
    pub(super) fn admit<'a, R: Refusable>(
        &self,
        head: &'a Head,
        request: R,
    ) -> Result<Admitted<'a, R>, R::Answer> {
        // Before the decision: a snapshot that comes later must not go unnoticed.
        let version = self.config.resources.access.version();
        let identity = match self.identify(&head.headers, &head.peer) {
            Ok(identity) => identity,
            Err(refusal) => {
                audit::unauthenticated(self, head, audit::name_of::<R>(), &refusal);
                return Err(request.refused(&refusal));
            }
        };
        let bounded = self.bounded(request.names());
        let allowed = bounded.and_then(|()| self.authorize(&identity, || request.needs()));
        match allowed.and_then(|()| self.caller(head, &identity, version)) {
            Ok(caller) => Ok(Admitted { caller, identity, request }),
            Err(refusal) => {
                let by = (head.peer.remote, &identity);
                audit::denied(self, by, audit::name_of::<R>(), || request.needs(), &refusal);
                Err(request.refused(&refusal))
            }
        }
    }

    /// Admits a stream, before the first of its requests has come. What its requests need is asked for with each of them.
    pub(super) fn admit_stream<'a>(&self, head: &'a Head) -> Result<(Caller<'a>, Identity), Refusal> {
        let version = self.config.resources.access.version();
        let identity = self
            .identify(&head.headers, &head.peer)
            .inspect_err(|refusal| audit::unauthenticated(self, head, audit::TELEMETRY, refusal))?;
        let caller = self.caller(head, &identity, version).inspect_err(|refusal| {
            audit::denied(self, (head.peer.remote, &identity), audit::TELEMETRY, Needs::nothing, refusal);
        })?;
        Ok((caller, identity))
    }

    /// Refuses a request that names too many topics and groups to ask for rights on each.
    fn bounded(&self, names: usize) -> Result<(), Refusal> {
        if self.config.resources.access.is_on() {
            Needs::bounded(names)?;
        }
        Ok(())
    }

    /// Whether a caller may do what a request needs.
    pub(super) fn authorize<'n>(
        &self,
        identity: &Identity,
        needs: impl FnOnce() -> Needs<'n>,
    ) -> Result<(), Refusal> {
        let access = &self.config.resources.access;
        if access.is_on() {
            access.authorize(identity, &needs())?;
        }
        Ok(())
    }

    fn identify(&self, headers: &HeaderMap, peer: &Peer) -> Result<Identity, Refusal> {
        let source = peer.remote.ip();
        let access = &self.config.resources.access;
        if !access.is_on() {
            return Ok(access.authenticate_call(None, None, source, &peer.proofs)?);
        }
        let header = |name| metadata::last(headers, name);
        let (signature, date) = (header(AUTHORIZATION), header(DATE_TIME));
        let certified = peer.certified_user.as_deref();
        let identity = access.authenticate_with(certified, source, signature.is_some(), || {
            access.authenticate_call(signature, date, source, &peer.proofs)
        })?;
        peer.proofs.first.get_or_init(|| {
            access.remember(&identity);
            identity.clone()
        });
        Ok(identity)
    }

    /// Decides again about a call that has waited, if rights have changed meanwhile.
    pub(super) fn admit_again<'n>(
        &self,
        caller: Caller<'_>,
        request: &str,
        needs: impl Fn() -> Needs<'n>,
    ) -> Result<(), Refusal> {
        if self.config.resources.access.version() == caller.version {
            return Ok(());
        }
        let identity = self.identify(caller.headers, caller.peer)?;
        self.authorize(&identity, &needs).inspect_err(|refusal| {
            audit::denied(self, (caller.peer.remote, &identity), request, &needs, refusal);
        })
    }

    fn caller<'a>(&self, head: &'a Head, identity: &Identity, version: u64) -> Result<Caller<'a>, Refusal> {
        let Head { headers, peer } = head;
        let client = metadata::client_id(headers).ok_or_else(Refusal::client_id)?;
        let has_settings = self.clients.called(client, identity).ok_or_else(Refusal::taken)?;
        Ok(Caller { client, has_settings, peer, version, headers })
    }
}
