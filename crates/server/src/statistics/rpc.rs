//! How long calls take, by request and outcome, without a lock.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{Distribution, Histogram};

/// RocketMQ's bounds, in milliseconds.
static BOUNDS_MS: [u64; 9] = [1, 3, 5, 7, 10, 100, 1000, 2000, 3000];
/// Kinds of calls that are counted one by one; further kinds count together as [`Call::Other`].
const KINDS_MAX: usize = 512;
/// Slots that are looked at for a kind before it counts as [`Call::Other`].
const PROBES_MAX: usize = 16;
/// The number in a free slot. No kind of call has it.
const FREE: u64 = u64::MAX;
/// The number in the last slot, which counts [`Call::Other`].
const OTHERS: u64 = u64::MAX - 1;

/// What a call was and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Remoting {
        request: i32,
        response: i32,
        one_way: bool,
    },
    /// The number of the method in the service, and of the gRPC status.
    Grpc {
        method: u8,
        status: u8,
    },
    /// A kind for which no slot was free.
    Other,
}

/// How long calls took, by their kind. Counting takes no lock: a slot is found by the number of the kind and, the first time,
/// taken with one compare-and-exchange.
#[derive(Debug)]
pub struct Rpcs {
    slots: Box<[Slot]>,
}

#[derive(Debug)]
struct Slot {
    kind: AtomicU64,
    times: Histogram<9>,
}

impl Default for Rpcs {
    fn default() -> Self {
        let slot = |n| Slot {
            kind: AtomicU64::new(if n == KINDS_MAX { OTHERS } else { FREE }),
            times: Histogram::new(&BOUNDS_MS),
        };
        Rpcs { slots: (0..=KINDS_MAX).map(slot).collect() }
    }
}

impl Rpcs {
    pub fn took(&self, call: Call, time: Duration) {
        let slot = self.slot(call.number());
        slot.times.observe(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }

    fn slot(&self, kind: u64) -> &Slot {
        let start = (kind.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % KINDS_MAX;
        for n in 0..PROBES_MAX {
            let slot = &self.slots[(start + n) % KINDS_MAX];
            let mut found = slot.kind.load(Ordering::Relaxed);
            if found == FREE {
                let taken = slot.kind.compare_exchange(FREE, kind, Ordering::Relaxed, Ordering::Relaxed);
                found = taken.map_or_else(|found| found, |_| kind);
            }
            if found == kind {
                return slot;
            }
        }
        &self.slots[KINDS_MAX]
    }

    /// All kinds that were counted.
    pub fn all(&self) -> impl Iterator<Item = (Call, Distribution)> {
        self.slots.iter().filter_map(|slot| {
            let kind = slot.kind.load(Ordering::Relaxed);
            let times = slot.times.distribution();
            (kind != FREE && times.count > 0).then(|| (Call::of(kind), times))
        })
    }
}

impl Call {
    /// Request and response codes of Remoting have 32 bits each; the one-way mark takes the sign of the response, which
    /// the broker itself chooses and which is never negative. gRPC calls have a request code that no Remoting call gets.
    fn number(self) -> u64 {
        const GRPC: u32 = i32::MIN as u32;
        let pack = |high: u32, low: u32| (u64::from(high) << 32) | u64::from(low);
        match self {
            Call::Remoting { request, response, one_way } => {
                let low = (response as u32 & 0x7fff_ffff) | (u32::from(one_way) << 31);
                // `FREE`, `OTHERS` and the mark of gRPC use these two; no client sends them as request codes.
                let high = if request == i32::MIN || request == -1 { i32::MAX } else { request };
                pack(high as u32, low)
            }
            Call::Grpc { method, status } => pack(GRPC, (u32::from(method) << 8) | u32::from(status)),
            Call::Other => OTHERS,
        }
    }

    fn of(number: u64) -> Call {
        let (high, low) = ((number >> 32) as u32, number as u32);
        match high as i32 {
            -1 => Call::Other,
            i32::MIN => Call::Grpc { method: (low >> 8) as u8, status: low as u8 },
            request => {
                Call::Remoting { request, response: (low & 0x7fff_ffff) as i32, one_way: low >> 31 == 1 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_comes_back_from_its_number() {
        let calls = [
            Call::Remoting { request: 310, response: 0, one_way: false },
            Call::Remoting { request: 200_050, response: 210, one_way: true },
            Call::Remoting { request: 0, response: i32::MAX, one_way: true },
            Call::Remoting { request: -2, response: 3, one_way: false },
            Call::Grpc { method: 0, status: 0 },
            Call::Grpc { method: 255, status: 255 },
            Call::Other,
        ];
        for call in calls {
            assert_eq!(Call::of(call.number()), call);
            assert_ne!(call.number(), FREE);
        }
        for request in [i32::MIN, -1] {
            let call = Call::Remoting { request, response: -1, one_way: true };
            assert!(matches!(Call::of(call.number()), Call::Remoting { request: i32::MAX, .. }));
        }
    }

    #[test]
    fn every_call_is_counted_however_many_kinds_there_are() {
        let rpcs = Rpcs::default();
        const CALLS: usize = 10_000;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for request in 0..CALLS as i32 {
                        let call = Call::Remoting { request, response: 0, one_way: false };
                        rpcs.took(call, Duration::from_millis(2));
                    }
                });
            }
        });
        let all: Vec<_> = rpcs.all().collect();
        assert_eq!(all.iter().map(|(_, times)| times.count).sum::<u64>(), 4 * CALLS as u64);
        assert!(all.len() <= KINDS_MAX + 1, "{}", all.len());
        let others = all.iter().find(|(call, _)| *call == Call::Other);
        assert!(others.is_some_and(|(_, times)| times.count > 0));
        for (call, times) in &all {
            assert!(times.count >= 4, "{call:?} has a slot of its own");
        }
    }
}
