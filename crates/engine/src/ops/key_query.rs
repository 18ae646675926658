//! The search for messages by key, in bounded steps: the owner thread serves other requests between two of them.

use redstart_log::{Position, SegmentId};

use super::{Engine, Found, QueryError, query::Linked, record_size_max};
use crate::{
    QueueKey, QueueOffset, Timestamp, TopicName,
    index::{IndexError, KeyIndex},
    record::{Placement, key_hash},
};

/// Index blocks and records that one step may look at.
const PROBES_PER_STEP: usize = 64;
/// Keys of an index in memory that count as one probe.
const KEYS_PER_PROBE: usize = 4096;
/// The bisection of a queue by time, which is one unit of work, counts as this many probes.
const BISECTION_PROBES: usize = 16;
/// Records that one query may read: the newest that carry the key.
const CANDIDATES_MAX: usize = 1024;
/// Candidates are thinned out when there are so many.
const CANDIDATES_KEPT: usize = 4 * CANDIDATES_MAX;
/// Entries looked through for the place of a message that became visible after it was stored.
const PLACE_SCAN_MAX: usize = 100_000;

/// A search that goes on where the last step ended.
#[derive(Debug, Clone)]
pub struct KeyQuery {
    key: String,
    hash: u64,
    from: Timestamp,
    to: Timestamp,
    max: usize,
    stage: Stage,
    /// Probes that are left to all further steps.
    probes: usize,
    candidates: Vec<Position>,
    found: Vec<Found>,
    truncated: bool,
}

/// What the next unit of work is.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Looks through the keys of an index in memory, from this one on.
    Live {
        segment: SegmentId,
        from: usize,
    },
    /// Looks for the first block of a stored index that may hold the key.
    Bisect {
        segment: SegmentId,
        low: u64,
        high: u64,
    },
    Scan {
        segment: SegmentId,
        block: u64,
    },
    /// Reads the newest candidate that was not read yet.
    Record,
    /// Looks for the place of a message that became visible later than it was stored.
    Place(Placing),
    Done,
}

#[derive(Debug, Clone, Copy)]
struct Placing {
    queue: QueueKey,
    position: Position,
    size: u32,
    offset: QueueOffset,
    entries_left: usize,
}

/// What a step of a search came to.
#[derive(Debug)]
pub enum QueryStep {
    /// There is more to look at.
    Unfinished(KeyQuery),
    Done(KeyAnswer),
}

/// Messages found by key, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAnswer {
    pub found: Vec<Found>,
    /// The search ended at its bounds: there may be further messages with the key.
    pub truncated: bool,
}

impl Engine {
    /// A search for the visible messages of a topic that carry `key`, as a key or as their id, and became visible in the
    /// given time.
    pub fn key_query(
        &self,
        topic: &TopicName,
        key: &str,
        from: Timestamp,
        to: Timestamp,
        max: usize,
    ) -> Result<KeyQuery, QueryError> {
        let Some(id) = self.state.topic_names.get(topic).copied() else {
            return Err(QueryError::UnknownTopic { topic: topic.clone() });
        };
        let mut query = KeyQuery {
            key: key.to_owned(),
            hash: key_hash(id, key),
            from,
            to,
            max,
            stage: Stage::Done,
            probes: self.config.limits.query_probes_max,
            candidates: Vec::new(),
            found: Vec::new(),
            truncated: false,
        };
        self.enter_segment_before(None, &mut query);
        Ok(query)
    }

    /// Searches on, as far as one step may.
    pub fn query_step(&self, query: &KeyQuery) -> Result<QueryStep, QueryError> {
        let mut query = query.clone();
        let mut probes = PROBES_PER_STEP;
        while probes > 0 {
            if let Stage::Done = query.stage {
                return Ok(QueryStep::Done(query.answer()));
            }
            if query.probes == 0 {
                query.truncated = true;
                return Ok(QueryStep::Done(query.answer()));
            }
            let used = match self.query_unit(&mut query) {
                // The next step begins with what is not in memory.
                Err(QueryError::Index(IndexError::Cold(_))) if probes < PROBES_PER_STEP => {
                    self.indexes.access().forget_missed();
                    break;
                }
                used => used?,
            };
            probes = probes.saturating_sub(used);
            query.probes = query.probes.saturating_sub(used);
        }
        Ok(QueryStep::Unfinished(query))
    }

    /// Does one unit of work, and says how many probes it counts as.
    fn query_unit(&self, query: &mut KeyQuery) -> Result<usize, QueryError> {
        match query.stage {
            Stage::Live { segment, from } => {
                let Some(KeyIndex::Live(keys)) = self.indexes.keys_of(segment) else {
                    // It was written to its file, or removed, since the last step.
                    self.enter(segment, query);
                    return Ok(1);
                };
                let until = from.saturating_add(KEYS_PER_PROBE).min(keys.len());
                query.collect(keys.get(from..until).unwrap_or_default());
                query.stage = Stage::Live { segment, from: until };
                if until == keys.len() {
                    self.enter_segment_before(Some(segment), query);
                }
            }
            Stage::Bisect { segment, low, high } if low < high => {
                let middle = low + (high - low) / 2;
                let Some(keys) = self.indexes.key_block(segment, middle)? else {
                    self.enter(segment, query);
                    return Ok(1);
                };
                query.stage = match keys.last() {
                    Some((last, _)) if *last < query.hash => Stage::Bisect { segment, low: middle + 1, high },
                    _ => Stage::Bisect { segment, low, high: middle },
                };
            }
            Stage::Bisect { segment, low, .. } => {
                query.stage = Stage::Scan { segment, block: low };
                return Ok(0);
            }
            Stage::Scan { segment, block } => {
                let Some(keys) = self.indexes.key_block(segment, block)? else {
                    match self.indexes.keys_of(segment) {
                        // It was built again since the last step.
                        Some(KeyIndex::Live(_)) => self.enter(segment, query),
                        _ => self.enter_segment_before(Some(segment), query),
                    }
                    return Ok(1);
                };
                query.collect(&keys);
                query.stage = Stage::Scan { segment, block: block + 1 };
                if keys.last().is_none_or(|(last, _)| *last > query.hash) {
                    self.enter_segment_before(Some(segment), query);
                }
            }
            Stage::Record => return self.query_record(query),
            Stage::Place(placing) => self.query_place(placing, query)?,
            Stage::Done => {}
        }
        Ok(1)
    }

    /// Goes on with the newest segment before the given one whose messages may have become visible in time. Older segments
    /// are all searched: a delayed message is filed where its record is.
    fn enter_segment_before(&self, segment: Option<SegmentId>, query: &mut KeyQuery) {
        query.thin_out();
        let enough = query.candidates.len() >= CANDIDATES_MAX;
        let next = self.indexes.segment_before(segment, query.to);
        match next.filter(|_| !enough) {
            Some(next) => self.enter(next, query),
            None => {
                query.truncated |= enough && next.is_some();
                // The last is read first.
                query.candidates.reverse();
                query.stage = Stage::Record;
            }
        }
    }

    /// Begins with a segment.
    fn enter(&self, segment: SegmentId, query: &mut KeyQuery) {
        match self.indexes.keys_of(segment) {
            Some(KeyIndex::Live(_)) => query.stage = Stage::Live { segment, from: 0 },
            Some(KeyIndex::Stored { blocks }) => {
                query.stage = Stage::Bisect { segment, low: 0, high: blocks }
            }
            None => self.enter_segment_before(Some(segment), query),
        }
    }

    fn query_record(&self, query: &mut KeyQuery) -> Result<usize, QueryError> {
        let Some(position) = query.candidates.last().copied() else {
            query.stage = Stage::Done;
            return Ok(0);
        };
        let fetched = match self.indexes.record_at(position, record_size_max(&self.config)) {
            Ok(fetched) => Some(fetched),
            Err(error) if error.proof().is_some() => None,
            Err(error) => return Err(error.into()),
        };
        let stored = fetched.as_ref().and_then(|fetched| Some((fetched.size(), fetched.stored().ok()?)));
        let carries = |message: &crate::MessageView<'_>| {
            message.id == query.key || message.keys.contains(&query.key.as_str())
        };
        let mut used = 1;
        if let Some((size, stored)) = stored.filter(|(_, stored)| carries(&stored.message)) {
            if let Placement::Visible(_) = stored.placement {
                let place = fetched.as_ref().map(|fetched| self.place_of(fetched, &stored));
                query.add(place.transpose()?.flatten());
            } else if let Some(offset) = self.linked_from(&stored)? {
                let queue = stored.queue;
                let placing = Placing { queue, position, size, offset, entries_left: PLACE_SCAN_MAX };
                query.stage = Stage::Place(placing);
                used = BISECTION_PROBES;
            }
        }
        query.candidates.pop();
        Ok(used)
    }

    fn query_place(&self, mut placing: Placing, query: &mut KeyQuery) -> Result<(), IndexError> {
        let Placing { queue, position, size, offset, entries_left } = placing;
        query.stage = Stage::Record;
        match self.find_linked(queue, position, offset, entries_left)? {
            Linked::At(offset, stored_at) => {
                query.add(Some(Found { queue, offset, position, size, stored_at }));
            }
            Linked::Missing => {}
            Linked::Beyond { entries } if entries >= entries_left => query.truncated = true,
            Linked::Beyond { entries } => {
                placing.offset = QueueOffset(offset.0 + entries as u64);
                placing.entries_left -= entries;
                query.stage = Stage::Place(placing);
            }
        }
        Ok(())
    }
}

impl KeyQuery {
    fn collect(&mut self, keys: &[(u64, Position)]) {
        let hash = self.hash;
        let fits = keys.iter().filter(|(key, _)| *key == hash);
        self.candidates.extend(fits.map(|(_, position)| *position));
        if self.candidates.len() >= CANDIDATES_KEPT {
            self.thin_out();
        }
    }

    /// Keeps the newest candidates, newest first. A message that names a key twice, or its own id as a key, is one message.
    fn thin_out(&mut self) {
        self.candidates.sort_unstable_by(|a, b| b.cmp(a));
        self.candidates.dedup();
        self.truncated |= self.candidates.len() > CANDIDATES_MAX;
        self.candidates.truncate(CANDIDATES_MAX);
    }

    fn add(&mut self, place: Option<Found>) {
        let in_time = |place: &Found| place.stored_at >= self.from && place.stored_at <= self.to;
        let place = place.filter(in_time);
        self.found.extend(place);
    }

    fn answer(mut self) -> KeyAnswer {
        self.found.sort_by_key(|found| std::cmp::Reverse((found.stored_at, found.position)));
        self.found.truncate(self.max);
        KeyAnswer { found: self.found, truncated: self.truncated }
    }
}
