//! Slows guessing of secrets, per address and per user.
//!
//! Every failure costs a token of the address it came from and of the user it named; tokens come back with time. Without
//! tokens requests are refused before their signature is looked at, so that an attempt tells nothing. A client that has
//! authenticated from its address before has tokens of its own: guessing from elsewhere does not lock it out.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

/// Failures that are free.
const BURST: u64 = 10;
/// Time for one token to come back, in milliseconds.
const REFILL_MS: i64 = 1000;
const ENTRIES_MAX: usize = 4096;

/// Addresses that one peer is likely to hold: an IPv4 address, or a network of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Origin(IpAddr);

impl Origin {
    fn of(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                Origin(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))))
            }
            v4 @ IpAddr::V4(_) => Origin(v4),
        }
    }
}

/// Failures on record. All tables are bounded.
#[derive(Debug, Default)]
pub struct Attempts {
    addresses: Table<Origin>,
    users: Table<Box<str>>,
    /// Users and addresses that have authenticated; no failures, or those of the two together.
    known: Table<(Box<str>, Origin)>,
}

/// Too many failures; how long until the next attempt is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many failed attempts to authenticate; try again in {} s", wait_ms / 1000 + 1)]
pub struct SlowDown {
    pub wait_ms: i64,
}

impl Attempts {
    /// Whether a request that names `user` is to be looked at. Times are in milliseconds of any clock that does not go back.
    pub fn check(&self, user: &str, address: IpAddr, now: i64) -> Result<(), SlowDown> {
        let origin = Origin::of(address);
        let wait = match self.known.wait(&(user.into(), origin), now) {
            Some(wait) => wait,
            None => {
                let address = self.addresses.wait(&origin, now).unwrap_or(0);
                address.max(self.users.wait(user, now).unwrap_or(0))
            }
        };
        if wait > 0 { Err(SlowDown { wait_ms: wait }) } else { Ok(()) }
    }

    /// No failure is on record, so every check passes.
    pub fn is_quiet(&self, now: i64) -> bool {
        let mut failures = self.known.0.values().map(|bucket| bucket.standing(now).0);
        self.addresses.0.is_empty() && self.users.0.is_empty() && failures.all(|failures| failures == 0)
    }

    /// Forgets failures whose tokens have all come back.
    pub fn forget(&mut self, now: i64) {
        self.addresses.forget(now);
        self.users.forget(now);
    }

    /// `user` is `None` if the named user does not exist: names made up by a peer take no memory.
    pub fn failed(&mut self, user: Option<&str>, address: IpAddr, now: i64) {
        let origin = Origin::of(address);
        if let Some(user) = user {
            let pair = (user.into(), origin);
            if self.known.0.contains_key(&pair) {
                self.known.record(pair, now);
                return;
            }
            self.users.record(user.into(), now);
        }
        self.addresses.record(origin, now);
    }

    /// To be called for the first success of a connection; more often changes nothing.
    pub fn succeeded(&mut self, user: &str, address: IpAddr, now: i64) {
        let pair = (user.into(), Origin::of(address));
        self.known.touch(pair, now);
    }
}

/// How many failures there were, less one for every [`REFILL_MS`] since.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    failures: u64,
    at: i64,
}

impl Bucket {
    /// Failures still on record, and the rest of the time until one of them goes.
    fn standing(self, now: i64) -> (u64, i64) {
        let elapsed = now.saturating_sub(self.at).max(0);
        let back = u64::try_from(elapsed / REFILL_MS).unwrap_or(0);
        (self.failures.saturating_sub(back), elapsed % REFILL_MS)
    }

    fn wait(self, now: i64) -> i64 {
        let (failures, elapsed) = self.standing(now);
        if failures < BURST { 0 } else { REFILL_MS - elapsed }
    }
}

#[derive(Debug)]
struct Table<K>(BTreeMap<K, Bucket>);

impl<K> Default for Table<K> {
    fn default() -> Self {
        Table(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Table<K> {
    fn wait<Q: Ord + ?Sized>(&self, key: &Q, now: i64) -> Option<i64>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.get(key).map(|bucket| bucket.wait(now))
    }

    fn record(&mut self, key: K, now: i64) {
        let bucket = self.entry(key, now);
        let (failures, elapsed) = bucket.standing(now);
        // The part of a token that has come back is kept; an attempt while there are none is not counted on top.
        *bucket = Bucket { failures: (failures + 1).min(BURST), at: now - elapsed };
    }

    fn touch(&mut self, key: K, now: i64) {
        let bucket = self.entry(key, now);
        if bucket.standing(now).0 == 0 {
            bucket.at = now;
        }
    }

    fn entry(&mut self, key: K, now: i64) -> &mut Bucket {
        if self.0.len() >= ENTRIES_MAX && !self.0.contains_key(&key) {
            self.make_room(now);
        }
        self.0.entry(key).or_insert(Bucket { failures: 0, at: now })
    }

    fn forget(&mut self, now: i64) {
        self.0.retain(|_, bucket| bucket.standing(now).0 > 0);
    }

    /// Drops the entry with the fewest failures, of these the oldest.
    fn make_room(&mut self, now: i64) {
        let least = self.0.iter().min_by_key(|(_, bucket)| (bucket.standing(now).0, bucket.at));
        if let Some(key) = least.map(|(key, _)| key.clone()) {
            self.0.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn exhausted(user: Option<&str>, from: &str) -> Attempts {
        let mut attempts = Attempts::default();
        for _ in 0..BURST {
            attempts.failed(user, address(from), 0);
        }
        attempts
    }

    #[test]
    fn after_some_failures_an_address_has_to_wait_and_then_gets_one_attempt_at_a_time() {
        let mut attempts = exhausted(None, "192.0.2.1");
        assert_eq!(attempts.check("app", address("192.0.2.1"), 0), Err(SlowDown { wait_ms: 1000 }));
        assert_eq!(attempts.check("app", address("192.0.2.1"), 999), Err(SlowDown { wait_ms: 1 }));
        assert_eq!(attempts.check("app", address("192.0.2.1"), 1000), Ok(()));
        assert_eq!(attempts.check("app", address("192.0.2.2"), 0), Ok(()));
        attempts.failed(None, address("192.0.2.1"), 1000);
        assert!(attempts.check("app", address("192.0.2.1"), 1500).is_err());
        assert_eq!(attempts.check("app", address("192.0.2.1"), 2000), Ok(()));
    }

    #[test]
    fn a_user_is_guarded_against_many_addresses() {
        let mut attempts = Attempts::default();
        for host in 0..BURST {
            attempts.failed(Some("app"), address(&format!("192.0.2.{host}")), 0);
        }
        assert!(attempts.check("app", address("198.51.100.1"), 0).is_err());
        assert!(attempts.check("other", address("198.51.100.1"), 0).is_ok());
    }

    #[test]
    fn a_client_that_has_authenticated_is_not_locked_out_by_guessing_from_elsewhere() {
        let mut attempts = Attempts::default();
        attempts.succeeded("app", address("10.0.0.1"), 0);
        for host in 0..100 {
            attempts.failed(Some("app"), address(&format!("192.0.2.{host}")), 1);
        }
        assert!(attempts.check("app", address("192.0.2.200"), 2).is_err());
        assert!(attempts.check("app", address("10.0.0.1"), 2).is_ok());
        // From its own address guessing is slowed, too.
        for _ in 0..BURST {
            attempts.failed(Some("app"), address("10.0.0.1"), 3);
        }
        assert!(attempts.check("app", address("10.0.0.1"), 4).is_err());
        attempts.forget(BURST as i64 * REFILL_MS);
        assert!(!attempts.is_quiet(4), "its own failures count");
    }

    #[test]
    fn a_network_of_64_bits_is_one_peer() {
        let attempts = exhausted(None, "2001:db8::1");
        assert!(attempts.check("app", address("2001:db8::ffff"), 0).is_err());
        assert!(attempts.check("app", address("2001:db8:0:1::1"), 0).is_ok());
        let mapped = exhausted(None, "::ffff:192.0.2.1");
        assert!(mapped.check("app", address("192.0.2.1"), 0).is_err());
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut attempts = exhausted(Some("app"), "192.0.2.1");
        for host in 0..3 * ENTRIES_MAX as u32 {
            attempts.failed(None, IpAddr::V4((0x0a00_0000 + host).into()), 1);
            attempts.succeeded(&format!("u{host}"), address("10.0.0.1"), 1);
        }
        assert!(attempts.addresses.0.len() <= ENTRIES_MAX && attempts.known.0.len() <= ENTRIES_MAX);
        assert!(attempts.check("app", address("192.0.2.1"), 1).is_err(), "the worst is kept");
        assert!(!attempts.is_quiet(1));
        let later = 1 + BURST as i64 * REFILL_MS;
        attempts.forget(later);
        assert!(attempts.is_quiet(later));
    }

    proptest! {
        #[test]
        fn no_more_than_the_burst_and_one_a_second_get_through(gaps in proptest::collection::vec(0i64..3000, 1..300)) {
            let mut attempts = Attempts::default();
            let (mut now, mut looked_at) = (0, 0);
            for gap in gaps {
                now += gap;
                if attempts.check("app", address("192.0.2.1"), now).is_ok() {
                    looked_at += 1;
                    attempts.failed(Some("app"), address("192.0.2.1"), now);
                }
            }
            prop_assert!(looked_at <= BURST as i64 + now / REFILL_MS + 1);
        }
    }
}
