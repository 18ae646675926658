//! The latency of calls: from the headers of the request to those of the answer.

use std::{sync::Arc, time::Instant};

use super::{method::Method, status::Code};
use crate::{shard::Counters, statistics::Call};

/// A call that has begun. A call that its client cancels is not counted.
#[derive(Debug)]
pub(super) struct Timing {
    method: Option<Method>,
    began: Instant,
    counters: Arc<Counters>,
}

impl Timing {
    pub fn begin(method: Option<Method>, counters: Arc<Counters>) -> Timing {
        Timing { method, began: Instant::now(), counters }
    }

    /// Counts the call when its answer begins, or when it is refused with this status.
    pub fn ended(&self, status: Code) {
        let call = Call::Grpc { method: Method::number(self.method), status: status as u8 };
        self.counters.statistics().rpcs.took(call, self.began.elapsed());
    }
}
