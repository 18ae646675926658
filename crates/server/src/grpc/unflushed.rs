//! Answers with messages that HTTP/2 has accepted whole and that may not have reached the socket.
//!
//! A message has reached its consumer when the whole answer that carries it, trailers included, was accepted by HTTP/2
//! under the client's flow-control window and the socket then took everything that HTTP/2 had to write. Clients act on an
//! answer when it has ended, so one that was cut has delivered nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;

use super::renewal::{Holder, Renewal};
use crate::{handover::Handover, shards::ShardNumber};

/// The deliveries of an answer. If it is dropped before [`Deliveries::arrived`], the messages go back to their queues.
#[derive(Debug)]
pub(super) struct Deliveries {
    /// Shared with the stream that reads the messages.
    pub handover: Arc<Mutex<Handover>>,
    pub renew: Option<Renew>,
}

/// The consumer for which the server renews the deliveries.
#[derive(Debug)]
pub(super) struct Renew {
    pub renewal: Arc<Renewal>,
    pub shard: ShardNumber,
    pub holder: Holder,
    /// The end of their invisible time if they are not renewed.
    pub until: Instant,
}

impl Deliveries {
    fn arrived(self) {
        let receipts = self.handover.lock().complete();
        if let Some(Renew { renewal, shard, holder, until }) = self.renew {
            renewal.add(shard, receipts, &Arc::new(holder), until);
        }
    }
}

/// Answers of one connection that HTTP/2 has accepted and that may still be in its buffer. The messages of those that are left
/// when the connection ends go back to their queues.
#[derive(Debug, Default)]
pub(super) struct UnflushedAnswers {
    answers: Mutex<Vec<Deliveries>>,
    /// The socket has not taken all that HTTP/2 has to write.
    blocked: AtomicBool,
}

impl UnflushedAnswers {
    pub fn put(&self, deliveries: Deliveries) {
        self.answers.lock().push(deliveries);
    }

    pub fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }

    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Called after HTTP/2 has written what it could. If the socket took all of it, the answers put here before have arrived.
    pub fn confirm_written(&self) {
        if self.blocked.load(Ordering::Relaxed) {
            return;
        }
        let arrived = std::mem::take(&mut *self.answers.lock());
        for deliveries in arrived {
            deliveries.arrived();
        }
    }
}
