//! Dedup keys that are still within their window, and the message that first carried each.

use std::{
    collections::{BTreeSet, hash_map::Entry as Slot},
    ops::Bound,
    time::Duration,
};

use redstart_log::Position;
use rustc_hash::FxHashMap;

use crate::{
    QueueKey, QueueOffset, Timestamp,
    codec::{Malformed, Put, Take},
    record::{put_queue, take_queue},
};

/// Keys that one step removes at most, so that many which expire together do not delay other requests.
pub(crate) const EXPIRED_PER_STEP: usize = 4096;
/// Expired keys are removed this much later, many at once. A lookup does not see them: it compares times.
const REMOVED_AFTER: Duration = Duration::from_secs(1);
/// Expired keys that an insert removes: more than it adds.
const EXPIRED_PER_INSERT: usize = 2;

/// Stored as the offset of a message that was not visible at once.
const HIDDEN: u64 = u64::MAX;

/// What the first message with a key was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub queue: QueueKey,
    pub placed: Placed,
    pub position: Position,
    pub expires: Timestamp,
}

/// Where the first message with a key went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    Visible(QueueOffset),
    /// Not visible before this time.
    Delayed(Timestamp),
    Half,
    /// Delayed or half: a checkpoint does not say which, the message's record does.
    Hidden,
}

impl Placed {
    pub fn is_visible(self) -> bool {
        matches!(self, Placed::Visible(_))
    }
}

/// Bytes of a key in a checkpoint.
const KEY_LEN: usize = 48;

/// Where the encoding of keys goes on: behind this one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeyCursor(Option<(Timestamp, u128)>);

/// The keys that are remembered.
///
/// Layout in a checkpoint: u32 count, then 48 bytes for each, by expiry:
///
/// | field | size | |
/// |---|---|---|
/// | hash | u64, u64 | of topic and key, the high half first |
/// | queue | u32, u32 | topic and queue of the first message |
/// | offset | u64 | its queue offset; all ones if it was not visible at once |
/// | position | u64 | of its record |
/// | expires | u64 | |
#[derive(Debug, Default)]
pub(crate) struct DedupKeys {
    seen: FxHashMap<u128, First>,
    /// Every key of `seen` by the end of its window. Windows differ by topic, so this is not the order of arrival.
    by_expiry: BTreeSet<(Timestamp, u128)>,
    /// Keys whose message was not visible at once, by its position: they go when it is rolled back or recalled.
    hidden: FxHashMap<Position, u128>,
    /// Keys whose window ended up to here are forgotten; those that are still in the tables count for nothing.
    expired_until: Timestamp,
}

impl DedupKeys {
    /// Keys that take memory.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    pub fn first(&self, key: u128, now: Timestamp) -> Option<&First> {
        self.seen.get(&key).filter(|first| first.expires > now.max(self.expired_until))
    }

    pub fn insert(&mut self, key: u128, first: First) {
        if first.expires > self.expired_until {
            self.put(key, first);
        } else {
            self.remove(key);
        }
        self.remove_expired(EXPIRED_PER_INSERT);
    }

    fn put(&mut self, key: u128, first: First) {
        match self.seen.entry(key) {
            Slot::Occupied(mut slot) => {
                let old = slot.insert(first);
                self.unlink(key, &old);
            }
            Slot::Vacant(slot) => {
                slot.insert(first);
            }
        }
        self.by_expiry.insert((first.expires, key));
        if !first.placed.is_visible() {
            self.hidden.insert(first.position, key);
        }
    }

    /// Forgets the keys whose window ended up to `until`. They leave the tables with [`DedupKeys::remove_expired`].
    pub fn expire(&mut self, until: Timestamp) {
        self.expired_until = self.expired_until.max(until);
    }

    pub fn expired_until(&self) -> Timestamp {
        self.expired_until
    }

    /// Takes forgotten keys out of the tables, at most `max`.
    pub fn remove_expired(&mut self, max: usize) {
        for _ in 0..max {
            let first = self.by_expiry.first().copied();
            let Some((_, key)) = first.filter(|(expires, _)| *expires <= self.expired_until) else { return };
            self.remove(key);
        }
    }

    /// When the first window ends of the keys that are not forgotten.
    pub fn first_expiry(&self) -> Option<Timestamp> {
        let after = Bound::Excluded((self.expired_until, u128::MAX));
        self.by_expiry.range((after, Bound::Unbounded)).next().map(|(expires, _)| *expires)
    }

    /// When there is something to forget, or to take out of the tables.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.by_expiry.first().map(|(expires, _)| expires.after(REMOVED_AFTER))
    }

    /// The message that was stored at `position` will never be visible: another may carry its key.
    pub fn forget(&mut self, position: Position) {
        if let Some(key) = self.hidden.get(&position).copied() {
            self.remove(key);
        }
    }

    /// The message that was stored at `position` is visible: its key stays for its window.
    pub fn made_visible(&mut self, position: Position) {
        self.hidden.remove(&position);
    }

    fn remove(&mut self, key: u128) {
        if let Some(first) = self.seen.remove(&key) {
            self.unlink(key, &first);
        }
    }

    /// Takes what points at a key's former message out of the other tables.
    fn unlink(&mut self, key: u128, old: &First) {
        self.by_expiry.remove(&(old.expires, key));
        if self.hidden.get(&old.position) == Some(&key) {
            self.hidden.remove(&old.position);
        }
    }

    /// Bytes that [`DedupKeys::encode_some`] writes for all keys.
    pub fn encoded_len(&self) -> usize {
        self.seen.len() * KEY_LEN
    }

    /// Encodes keys of messages before `end`, beginning behind those that were encoded before, after having looked at `max`
    /// of them. Says how many it wrote; `None` in `cursor` means that there are no more.
    ///
    /// Keys may come and go between two calls. One that came since the first of them belongs to a message behind `end`. One
    /// that went has expired, or its message was taken back: a frame says so that a start reads again.
    pub fn encode_some(
        &self,
        cursor: &mut Option<KeyCursor>,
        end: Position,
        max: usize,
        out: &mut Vec<u8>,
    ) -> u32 {
        let Some(KeyCursor(after)) = *cursor else { return 0 };
        let from = Bound::Excluded(after.unwrap_or((self.expired_until, u128::MAX)));
        let (mut looked_at, mut written) = (0, 0);
        for (expires, key) in self.by_expiry.range((from, Bound::Unbounded)).take(max) {
            looked_at += 1;
            *cursor = Some(KeyCursor(Some((*expires, *key))));
            let Some(first) = self.seen.get(key).filter(|first| first.position < end) else { continue };
            written += 1;
            out.put_u64((key >> 64) as u64);
            out.put_u64(*key as u64);
            put_queue(first.queue, out);
            out.put_u64(match first.placed {
                Placed::Visible(offset) => offset.0,
                Placed::Delayed(_) | Placed::Half | Placed::Hidden => HIDDEN,
            });
            out.put_u64(first.position.0);
            out.put_u64(first.expires.0);
        }
        if looked_at < max {
            *cursor = None;
        }
        written
    }

    /// When the last keys were forgotten is not with them: see [`DedupKeys::expire`].
    pub fn decode(take: &mut Take<'_>) -> Result<DedupKeys, Malformed> {
        let mut keys = DedupKeys::default();
        for _ in 0..take.count(KEY_LEN)? {
            let key = (u128::from(take.u64()?) << 64) | u128::from(take.u64()?);
            let first = First {
                queue: take_queue(take)?,
                placed: match take.u64()? {
                    HIDDEN => Placed::Hidden,
                    offset => Placed::Visible(QueueOffset(offset)),
                },
                position: Position(take.u64()?),
                expires: Timestamp(take.u64()?),
            };
            keys.put(key, first);
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn first(position: u64, visible: bool, expires: u64) -> First {
        First {
            queue: QueueKey::default(),
            placed: if visible { Placed::Visible(QueueOffset(position)) } else { Placed::Hidden },
            position: Position(position),
            expires: Timestamp(expires),
        }
    }

    #[test]
    fn a_long_window_does_not_keep_the_keys_of_short_ones() {
        let mut keys = DedupKeys::default();
        keys.insert(0, first(0, true, 1_000_000));
        for n in 1..1000 {
            keys.insert(n, first(n as u64, true, 100));
        }
        assert_eq!(keys.next_expiry(), Some(Timestamp(1_100)));
        assert_eq!(keys.first_expiry(), Some(Timestamp(100)));
        keys.expire(Timestamp(100));
        keys.remove_expired(500);
        assert_eq!(keys.len(), 500, "a step is bounded");
        assert_eq!(keys.first_expiry(), Some(Timestamp(1_000_000)));
        keys.remove_expired(500);
        assert_eq!(keys.len(), 1);
        keys.expire(Timestamp(1_000_000));
        keys.remove_expired(500);
        assert_eq!((keys.len(), keys.next_expiry()), (0, None));
    }

    #[test]
    fn a_key_whose_window_has_ended_is_forgotten_whether_it_comes_before_that_or_after() {
        let [mut before, mut after] = [DedupKeys::default(), DedupKeys::default()];
        before.insert(7, first(1, true, 100));
        before.expire(Timestamp(100));
        after.expire(Timestamp(100));
        after.insert(7, first(1, true, 100));
        for keys in [&before, &after] {
            assert_eq!(keys.first(7, Timestamp(0)), None);
            let mut bytes = Vec::new();
            keys.encode_some(&mut Some(KeyCursor::default()), Position(u64::MAX), 9, &mut bytes);
            assert!(bytes.is_empty());
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert { key: u8, visible: bool, window: u64 },
        Forget { position: u8 },
        MadeVisible { position: u8 },
        Expire { max: usize },
        Pass { ms: u64 },
        Restart,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let window = prop::sample::select(vec![1u64, 10, 100, 10_000]);
        let step = prop_oneof![
            6 => (0..12u8, any::<bool>(), window)
                .prop_map(|(key, visible, window)| Step::Insert { key, visible, window }),
            2 => (0..60u8).prop_map(|position| Step::Forget { position }),
            2 => (0..60u8).prop_map(|position| Step::MadeVisible { position }),
            2 => (0..4usize).prop_map(|max| Step::Expire { max }),
            3 => (0..200u64).prop_map(|ms| Step::Pass { ms }),
            1 => Just(Step::Restart),
        ];
        prop::collection::vec(step, 1..80)
    }

    proptest! {
        /// Against a map that never forgets anything but what is rolled back or recalled.
        #[test]
        fn a_key_is_known_within_its_window_and_no_longer(steps in steps()) {
            let mut keys = DedupKeys::default();
            let mut model: BTreeMap<u128, First> = BTreeMap::new();
            let mut visible: Vec<Position> = Vec::new();
            let (mut now, mut position) = (0, 0);
            for step in steps {
                match step {
                    Step::Insert { key, visible, window } => {
                        let key = u128::from(key);
                        if model.get(&key).is_some_and(|first| first.expires > Timestamp(now)) {
                            continue;
                        }
                        let first = first(position, visible, now + window);
                        position += 1;
                        keys.insert(key, first);
                        model.insert(key, first);
                    }
                    Step::Forget { position } => {
                        let position = Position(position.into());
                        if !visible.contains(&position) {
                            keys.forget(position);
                            model.retain(|_, first| first.placed.is_visible() || first.position != position);
                        }
                    }
                    Step::MadeVisible { position } => {
                        visible.push(Position(position.into()));
                        keys.made_visible(Position(position.into()));
                    }
                    Step::Expire { max } => {
                        keys.expire(Timestamp(now));
                        keys.remove_expired(max);
                    }
                    Step::Pass { ms } => now += ms,
                    Step::Restart => {
                        let (mut bytes, mut count, mut cursor) = (vec![0; 4], 0, Some(KeyCursor::default()));
                        while cursor.is_some() {
                            count += keys.encode_some(&mut cursor, Position(u64::MAX), 3, &mut bytes);
                        }
                        bytes[..4].copy_from_slice(&count.to_le_bytes());
                        keys = DedupKeys::decode(&mut Take::new(&bytes, "keys")).unwrap();
                    }
                }
                for key in 0..12 {
                    let expected = model.get(&key).filter(|first| first.expires > Timestamp(now));
                    prop_assert_eq!(keys.first(key, Timestamp(now)), expected);
                }
                prop_assert_eq!(keys.by_expiry.len(), keys.seen.len());
                prop_assert!(keys.hidden.len() <= keys.seen.len());
            }
            keys.expire(Timestamp(u64::MAX));
            keys.remove_expired(usize::MAX);
            prop_assert_eq!((keys.len(), keys.hidden.len(), keys.by_expiry.len()), (0, 0, 0));
        }
    }
}
