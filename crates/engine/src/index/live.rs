use redstart_log::Position;
use rustc_hash::FxHashMap;

use crate::{
    Entry, QueueKey, QueueOffset, Timestamp, message_ref::MessageRef, record::KeyHashes, timer::TimerKey,
};

/// The index of a segment that is still in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveIndex {
    runs: FxHashMap<QueueKey, LiveRun>,
    /// (hash, record position), in the order they came.
    pub keys: Vec<(u64, Position)>,
    /// Timers whose record is in this segment.
    pub timers: Vec<(TimerKey, MessageRef)>,
    pub oldest: Option<Timestamp>,
    pub newest: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub(crate) struct LiveRun {
    pub first: QueueOffset,
    pub entries: Vec<Entry>,
}

impl LiveIndex {
    /// Adds the entry at `offset`; offsets of one queue come in order.
    pub fn push(&mut self, queue: QueueKey, offset: QueueOffset, entry: Entry) {
        let run = self.runs.entry(queue).or_insert_with(|| LiveRun { first: offset, entries: Vec::new() });
        debug_assert_eq!(run.first.0 + run.entries.len() as u64, offset.0, "a queue has no gaps");
        run.entries.push(entry);
        self.oldest.get_or_insert(entry.stored_at);
        self.newest = Some(entry.stored_at);
    }

    pub fn add_keys(&mut self, keys: &KeyHashes, position: Position) {
        self.keys.push((keys.id, position));
        self.keys.extend(keys.keys.iter().map(|hash| (*hash, position)));
    }

    /// The entries of `queue` from `offset` on.
    pub fn entries(&self, queue: QueueKey, offset: QueueOffset) -> &[Entry] {
        self.runs
            .get(&queue)
            .and_then(|run| run.entries.get(usize::try_from(offset.0.checked_sub(run.first.0)?).ok()?..))
            .unwrap_or(&[])
    }

    /// All runs, in queue order.
    pub fn runs(&self) -> Vec<(QueueKey, &LiveRun)> {
        let mut runs: Vec<_> = self.runs.iter().map(|(queue, run)| (*queue, run)).collect();
        runs.sort_unstable_by_key(|(queue, _)| *queue);
        runs
    }
}
