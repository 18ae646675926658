//! One client in one group, and the bytes that it takes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use redstart_wire::remoting::Language;

use super::subscription::ParsedSubscription;
use crate::remoting::{peer::Peer, refusal::Refusal};

/// Bytes that the members of one connection may take, and all members together.
pub(super) const CONNECTION_BYTES_MAX: usize = 4 << 20;
const ALL_BYTES_MAX: usize = 256 << 20;

/// One client in one group.
#[derive(Debug, Clone)]
pub(in crate::remoting) struct Member {
    pub client_id: String,
    pub peer: Arc<Peer>,
    pub language: Language,
    pub version: i32,
    pub seen: Instant,
    /// By topic; none for producers.
    pub subscriptions: BTreeMap<String, ParsedSubscription>,
    /// The client's own checksum of its subscriptions.
    pub(super) fingerprint: i32,
    pub(super) bytes: Arc<MemberBytes>,
}

/// Bytes of a member, counted for its connection and for all members until this is dropped.
#[derive(Debug)]
pub(super) struct MemberBytes {
    all: Arc<AtomicUsize>,
    peer: Arc<Peer>,
    pub(super) count: usize,
}

impl MemberBytes {
    /// `replaced` is what the same member takes now: a heartbeat that needs no more than before is accepted at the limit too.
    pub fn take(
        all: &Arc<AtomicUsize>,
        peer: &Arc<Peer>,
        bytes: usize,
        replaced: usize,
    ) -> Result<Arc<MemberBytes>, Refusal> {
        let counted = MemberBytes { all: all.clone(), peer: peer.clone(), count: bytes };
        let of_all = all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let of_peer = peer.member_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bytes > replaced && of_peer - replaced > CONNECTION_BYTES_MAX {
            return Err(Refusal::busy("bytes of the clients on one connection", CONNECTION_BYTES_MAX));
        }
        if bytes > replaced && of_all - replaced > ALL_BYTES_MAX {
            return Err(Refusal::busy("bytes of all clients", ALL_BYTES_MAX));
        }
        Ok(Arc::new(counted))
    }
}

impl Drop for MemberBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::Relaxed);
        self.peer.member_bytes.fetch_sub(self.count, Ordering::Relaxed);
    }
}
