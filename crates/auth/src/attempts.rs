//! Slows guessing of secrets, per address and per user.
//!
//! Every failure costs a token of the address it came from, of the user it named and of the two together; tokens come back with
//! time. Without tokens requests are refused before their signature is looked at, so that an attempt tells nothing.
//!
//! Guessing must not lock out a user who knows its secret. A client that has authenticated from its address before has tokens
//! of its own. One that has not, after a restart say, has a few attempts that failures of the same user from elsewhere do not
//! take away. An address has more tokens than a user, and gets them back sooner: many users may share it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use crate::user::NAME_LEN_MAX;

/// Tokens of a user, and of a user at an address.
const USER: Rate = Rate { burst: 10, refill_ms: 1000 };
const ADDRESS: Rate = Rate { burst: 100, refill_ms: 100 };
/// Failures of a user at an address up to which those of the same user from elsewhere do not count.
const OWN_ATTEMPTS: u64 = 3;
const ENTRIES_MAX: usize = 4096;

/// Failures that are free, and the time for one token to come back in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u64,
    refill_ms: i64,
}

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
#[derive(Debug)]
pub struct Attempts {
    addresses: Table<Origin>,
    users: Table<Box<str>>,
    /// Failures of a name from an address. A name need not be that of a user: whether it is must not be told.
    pairs: Table<(Box<str>, Origin)>,
    /// Users and addresses that have authenticated; no failures, or those of the two together.
    known: Table<(Box<str>, Origin)>,
}

/// Too many failures; how long until the next attempt is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many failed attempts to authenticate; try again in {} s", wait_ms / 1000 + 1)]
pub struct SlowDown {
    pub wait_ms: i64,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts {
            addresses: Table::new(ADDRESS),
            users: Table::new(USER),
            pairs: Table::new(USER),
            known: Table::new(USER),
        }
    }
}

impl Attempts {
    /// Whether a request that names `user` is to be looked at. Times are in milliseconds of any clock that does not go back.
    pub fn check(&self, user: &str, address: IpAddr, now: i64) -> Result<(), SlowDown> {
        let (user, origin) = (bounded(user), Origin::of(address));
        let pair = (user.into(), origin);
        let wait = match self.known.wait(&pair, now) {
            Some(wait) => wait,
            None => {
                let address = self.addresses.wait(&origin, now).unwrap_or(0);
                let own = match self.pairs.failures(&pair, now) {
                    failures if failures < OWN_ATTEMPTS => 0,
                    _ => self.pairs.wait(&pair, now).max(self.users.wait(user, now)).unwrap_or(0),
                };
                address.max(own)
            }
        };
        if wait > 0 { Err(SlowDown { wait_ms: wait }) } else { Ok(()) }
    }

    /// No failure is on record, so every check passes.
    pub fn is_quiet(&self, now: i64) -> bool {
        let mut known = self.known.entries.keys().map(|pair| self.known.failures(pair, now));
        let forgotten = [self.addresses.is_empty(), self.users.is_empty(), self.pairs.is_empty()];
        forgotten == [true; 3] && known.all(|failures| failures == 0)
    }

    /// Forgets failures whose tokens have all come back.
    pub fn forget(&mut self, now: i64) {
        self.addresses.forget(now);
        self.users.forget(now);
        self.pairs.forget(now);
    }

    /// A signature that did not match. `exists` is whether there is a user of that name; others have no tokens of their own.
    pub fn failed(&mut self, name: &str, exists: bool, address: IpAddr, now: i64) {
        let (name, origin) = (bounded(name), Origin::of(address));
        let pair = (name.into(), origin);
        if self.known.entries.contains_key(&pair) {
            self.known.record(pair, now);
            return;
        }
        if exists {
            self.users.record(name.into(), now);
        }
        self.pairs.record(pair, now);
        self.addresses.record(origin, now);
    }

    /// To be called for the first success of a connection; more often changes nothing.
    pub fn succeeded(&mut self, user: &str, address: IpAddr, now: i64) {
        let pair = (user.into(), Origin::of(address));
        self.known.touch(pair, now);
    }
}

/// A name that a caller says is kept, so its length is bounded. No user has a longer one, and none has the empty one, which all longer
/// names share.
fn bounded(name: &str) -> &str {
    if name.len() > NAME_LEN_MAX { "" } else { name }
}

/// How many failures there were, less one for every refill since.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    failures: u64,
    at: i64,
}

impl Bucket {
    /// Failures still on record, and the rest of the time until one of them goes.
    fn standing(self, rate: Rate, now: i64) -> (u64, i64) {
        let elapsed = now.saturating_sub(self.at).max(0);
        let back = u64::try_from(elapsed / rate.refill_ms).unwrap_or(0);
        (self.failures.saturating_sub(back), elapsed % rate.refill_ms)
    }
}

#[derive(Debug)]
struct Table<K> {
    rate: Rate,
    entries: BTreeMap<K, Bucket>,
}

impl<K: Ord + Clone> Table<K> {
    fn new(rate: Rate) -> Table<K> {
        Table { rate, entries: BTreeMap::new() }
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn failures(&self, key: &K, now: i64) -> u64 {
        self.entries.get(key).map_or(0, |bucket| bucket.standing(self.rate, now).0)
    }

    fn wait<Q: Ord + ?Sized>(&self, key: &Q, now: i64) -> Option<i64>
    where
        K: std::borrow::Borrow<Q>,
    {
        let (failures, elapsed) = self.entries.get(key)?.standing(self.rate, now);
        Some(if failures < self.rate.burst { 0 } else { self.rate.refill_ms - elapsed })
    }

    fn record(&mut self, key: K, now: i64) {
        let rate = self.rate;
        let bucket = self.entry(key, now);
        let (failures, elapsed) = bucket.standing(rate, now);
        // The part of a token that has come back is kept; an attempt while there are none is not counted on top.
        *bucket = Bucket { failures: (failures + 1).min(rate.burst), at: now - elapsed };
    }

    fn touch(&mut self, key: K, now: i64) {
        let rate = self.rate;
        let bucket = self.entry(key, now);
        if bucket.standing(rate, now).0 == 0 {
            bucket.at = now;
        }
    }

    fn entry(&mut self, key: K, now: i64) -> &mut Bucket {
        if self.entries.len() >= ENTRIES_MAX && !self.entries.contains_key(&key) {
            self.make_room(now);
        }
        self.entries.entry(key).or_insert(Bucket { failures: 0, at: now })
    }

    fn forget(&mut self, now: i64) {
        let rate = self.rate;
        self.entries.retain(|_, bucket| bucket.standing(rate, now).0 > 0);
    }

    /// Drops the entry with the fewest failures, of these the oldest.
    fn make_room(&mut self, now: i64) {
        let least =
            self.entries.iter().min_by_key(|(_, bucket)| (bucket.standing(self.rate, now).0, bucket.at));
        if let Some(key) = least.map(|(key, _)| key.clone()) {
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BURST: u64 = USER.burst;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn fail(attempts: &mut Attempts, name: &str, from: &str, times: u64) {
        for _ in 0..times {
            attempts.failed(name, true, address(from), 0);
        }
    }

    #[test]
    fn after_some_failures_a_user_at_an_address_has_to_wait_and_then_gets_one_attempt_at_a_time() {
        let mut attempts = Attempts::default();
        fail(&mut attempts, "app", "192.0.2.1", BURST);
        assert_eq!(attempts.check("app", address("192.0.2.1"), 0), Err(SlowDown { wait_ms: 1000 }));
        assert_eq!(attempts.check("app", address("192.0.2.1"), 999), Err(SlowDown { wait_ms: 1 }));
        assert_eq!(attempts.check("app", address("192.0.2.1"), 1000), Ok(()));
        attempts.failed("app", true, address("192.0.2.1"), 1000);
        assert!(attempts.check("app", address("192.0.2.1"), 1500).is_err());
        assert_eq!(attempts.check("app", address("192.0.2.1"), 2000), Ok(()));
    }

    #[test]
    fn a_name_without_a_user_is_slowed_alike() {
        let mut attempts = Attempts::default();
        for _ in 0..BURST {
            attempts.failed("nobody", false, address("192.0.2.1"), 0);
        }
        assert!(attempts.check("nobody", address("192.0.2.1"), 0).is_err());
        assert!(attempts.check("other", address("192.0.2.1"), 0).is_ok());
    }

    #[test]
    fn a_user_is_guarded_against_many_addresses() {
        let mut attempts = Attempts::default();
        for host in 0..BURST {
            fail(&mut attempts, "app", &format!("192.0.2.{host}"), OWN_ATTEMPTS);
        }
        assert!(attempts.check("app", address("192.0.2.1"), 0).is_err(), "it has used its own attempts up");
        assert!(attempts.check("other", address("192.0.2.1"), 0).is_ok());
    }

    #[test]
    fn after_a_restart_guessing_from_elsewhere_does_not_lock_a_user_out() {
        let mut attempts = Attempts::default();
        fail(&mut attempts, "app", "192.0.2.1", 10 * BURST);
        assert!(attempts.check("app", address("10.0.0.1"), 0).is_ok(), "no failure is its own");
    }

    #[test]
    fn behind_one_address_guessing_at_one_user_does_not_lock_out_the_others() {
        let mut attempts = Attempts::default();
        fail(&mut attempts, "app", "192.0.2.1", 2 * BURST);
        assert!(attempts.check("app", address("192.0.2.1"), 0).is_err());
        assert!(attempts.check("billing", address("192.0.2.1"), 0).is_ok());
    }

    #[test]
    fn an_address_that_tries_many_names_is_slowed() {
        let mut attempts = Attempts::default();
        for name in 0..ADDRESS.burst {
            attempts.failed(&format!("name{name}"), false, address("192.0.2.1"), 0);
        }
        let slow = SlowDown { wait_ms: ADDRESS.refill_ms };
        assert_eq!(attempts.check("another", address("192.0.2.1"), 0), Err(slow));
        assert_eq!(attempts.check("another", address("192.0.2.2"), 0), Ok(()));
    }

    #[test]
    fn a_client_that_has_authenticated_is_not_locked_out_by_guessing_from_elsewhere() {
        let mut attempts = Attempts::default();
        attempts.succeeded("app", address("10.0.0.1"), 0);
        for host in 0..100 {
            attempts.failed("app", true, address(&format!("192.0.2.{host}")), 1);
        }
        assert!(attempts.check("app", address("10.0.0.1"), 2).is_ok());
        // From its own address guessing is slowed, too.
        for _ in 0..BURST {
            attempts.failed("app", true, address("10.0.0.1"), 3);
        }
        assert!(attempts.check("app", address("10.0.0.1"), 4).is_err());
        attempts.forget(BURST as i64 * USER.refill_ms);
        assert!(!attempts.is_quiet(4), "its own failures count");
    }

    #[test]
    fn a_network_of_64_bits_is_one_peer() {
        let mut attempts = Attempts::default();
        fail(&mut attempts, "app", "2001:db8::1", BURST);
        fail(&mut attempts, "app", "::ffff:192.0.2.1", BURST);
        assert!(attempts.check("app", address("2001:db8::ffff"), 0).is_err());
        assert!(attempts.check("app", address("2001:db8:0:1::1"), 0).is_ok());
        assert!(attempts.check("app", address("192.0.2.1"), 0).is_err());
    }

    #[test]
    fn long_names_are_slowed_and_not_kept() {
        let mut attempts = Attempts::default();
        for host in 0..BURST {
            attempts.failed(&format!("{host}").repeat(1 << 20), false, address("192.0.2.1"), 0);
        }
        assert!(attempts.check(&"another".repeat(100), address("192.0.2.1"), 0).is_err());
        assert!(attempts.check("app", address("192.0.2.1"), 0).is_ok());
        let longest = attempts.pairs.entries.keys().map(|(name, _)| name.len()).max();
        assert!(longest.is_some_and(|length| length <= NAME_LEN_MAX), "{longest:?}");
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut attempts = Attempts::default();
        fail(&mut attempts, "app", "192.0.2.1", BURST);
        for host in 0..3 * ENTRIES_MAX as u32 {
            attempts.failed("x", false, IpAddr::V4((0x0a00_0000 + host).into()), 1);
            attempts.succeeded(&format!("u{host}"), address("10.0.0.1"), 1);
        }
        let sizes =
            [attempts.addresses.entries.len(), attempts.pairs.entries.len(), attempts.known.entries.len()];
        assert!(sizes.iter().all(|size| *size <= ENTRIES_MAX), "{sizes:?}");
        assert!(attempts.check("app", address("192.0.2.1"), 1).is_err(), "the worst is kept");
        assert!(!attempts.is_quiet(1));
        let later = 1 + BURST as i64 * USER.refill_ms;
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
                    attempts.failed("app", true, address("192.0.2.1"), now);
                }
            }
            prop_assert!(looked_at <= BURST as i64 + now / USER.refill_ms + 1);
        }
    }
}
