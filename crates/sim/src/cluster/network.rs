//! What carries messages between nodes: late, out of order, twice, or not at all.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use redstart_raft::{Message, message};

use crate::{
    oracle::{Violation, ensure},
    rng::Rng,
};

pub const DECODES: &str = "a message that was sent can be read";

/// How bad a network is.
#[derive(Debug, Clone, Copy)]
pub struct Quality {
    /// One in so many is lost; 0 for none.
    pub loss: u64,
    /// One in so many comes twice; 0 for none.
    pub duplicates: u64,
    pub delay_ms: (u64, u64),
    /// One in so many takes much longer; 0 for none.
    pub stragglers: u64,
}

impl Quality {
    pub const GOOD: Quality = Quality { loss: 0, duplicates: 0, delay_ms: (0, 2), stragglers: 0 };

    pub fn some(rng: &mut Rng) -> Quality {
        Quality {
            loss: rng.of([0, 0, 50, 10, 4]),
            duplicates: rng.of([0, 20, 5]),
            delay_ms: rng.of([(0, 1), (0, 5), (1, 30), (5, 120)]),
            stragglers: rng.of([0, 30, 8]),
        }
    }
}

#[derive(Debug)]
pub struct Network {
    pub quality: Quality,
    /// Pairs of nodes between which nothing goes through, in this direction.
    pub cuts: BTreeSet<(usize, usize)>,
    /// Pairs of nodes between which everything takes so many milliseconds more, in this direction.
    pub slow: BTreeMap<(usize, usize), u64>,
    under_way: BTreeMap<(u64, u64), (usize, Bytes)>,
    sent: u64,
}

impl Network {
    pub fn new() -> Network {
        Network {
            quality: Quality::GOOD,
            cuts: BTreeSet::new(),
            slow: BTreeMap::new(),
            under_way: BTreeMap::new(),
            sent: 0,
        }
    }

    pub fn send(&mut self, rng: &mut Rng, now: u64, from: usize, to: usize, message: &Message) {
        let Quality { loss, duplicates, delay_ms, stragglers } = self.quality;
        let happens = |rng: &mut Rng, one_in: u64| one_in > 0 && rng.one_in(one_in);
        if self.cuts.contains(&(from, to)) || happens(rng, loss) {
            return;
        }
        let bytes = Bytes::from(message::encode(message));
        let copies = if happens(rng, duplicates) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay = rng.between(delay_ms.0, delay_ms.1) + self.slow.get(&(from, to)).unwrap_or(&0);
            if happens(rng, stragglers) {
                delay += rng.between(100, 2500);
            }
            self.sent += 1;
            self.under_way.insert((now + delay, self.sent), (to, bytes.clone()));
        }
    }

    /// The next message that has arrived, and where.
    pub fn arrived(&mut self, now: u64) -> Result<Option<(usize, Message)>, Violation> {
        match self.under_way.first_entry() {
            Some(next) if next.key().0 <= now => {
                let (to, bytes) = next.remove();
                let decoded = message::decode(bytes);
                ensure(decoded.is_ok(), DECODES, || format!("{decoded:?}"))?;
                Ok(decoded.ok().map(|message| (to, message)))
            }
            _ => Ok(None),
        }
    }

    /// Cuts a node off from all others, in one direction or both.
    pub fn isolate(&mut self, node: usize, nodes: usize, inbound: bool, outbound: bool) {
        for other in (0..nodes).filter(|other| *other != node) {
            if inbound {
                self.cuts.insert((other, node));
            }
            if outbound {
                self.cuts.insert((node, other));
            }
        }
    }

    pub fn heal(&mut self) {
        self.quality = Quality::GOOD;
        self.cuts.clear();
        self.slow.clear();
    }
}
