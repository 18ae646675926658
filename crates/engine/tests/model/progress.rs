//! The place of one consumer group in one queue, message by message, and which answers to a pop are legal there.

use std::collections::BTreeSet;

use redstart_engine::{GroupId, QueueId, QueueKey, QueueOffset, Receipt, TopicId};

pub const LEVELS: usize = 10;

/// What a message is to the group.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// Never delivered, or to be delivered again after a reset.
    Ahead,
    Flight(Flight),
    Done,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Flight {
    pub receipt: Receipt,
    pub visible_at: u64,
    pub attempt: u16,
    pub attempt_id: Option<String>,
    /// The consumer gave it back for a retry.
    pub given_back: bool,
    /// A decision that ends it is proposed: its dead letter, or its way to the retry topic.
    pub ending: bool,
}

impl Flight {
    /// Of a message that was blocked in an ordered group, and that goes to the retry topic.
    pub fn blocked() -> Flight {
        let queue = QueueKey { topic: TopicId(0), queue: QueueId(0) };
        let receipt = Receipt { group: GroupId(0), queue, offset: QueueOffset(0), seq: 0 };
        Flight { receipt, visible_at: 0, attempt: 0, attempt_id: None, given_back: true, ending: true }
    }
}

/// What the group sees of a message of the queue.
#[derive(Debug, Clone)]
pub struct Seen {
    pub message_group: Option<String>,
    pub level: usize,
    pub passes: bool,
    /// Deliveries before this queue: above 0 in retry topics.
    pub attempt: u16,
}

/// One message of an answer.
#[derive(Debug, Clone)]
pub struct Given {
    pub offset: usize,
    pub attempt: u16,
    pub receipt: Receipt,
}

/// What comes out of a queue in one go. By priority, new messages of all queues come before what failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Part {
    All,
    New,
    Retries,
}

#[derive(Debug, Clone)]
pub struct Rules {
    pub ordered: bool,
    /// Not together with `ordered`.
    pub by_priority: bool,
    pub part: Part,
    /// What this answer gave is no retry, even if its time is out at once.
    pub fresh: Vec<Receipt>,
    pub attempts_max: u32,
    pub attempt_id: Option<String>,
    pub now: u64,
    pub visible_at: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub places: Vec<Place>,
    /// How far the group has looked, for each priority.
    pub cursors: [usize; LEVELS],
    /// An offset was stored, or a message was delivered: not merely looked at and found empty.
    pub used: bool,
    /// The last to receive here did so in order.
    pub ordered: bool,
    /// A consumer that pulls has stored an offset since the last receive.
    pub pulled: bool,
}

impl Progress {
    pub fn starting_at(offset: usize) -> Progress {
        let used = offset > 0;
        let (places, cursors) = (vec![Place::Done; offset], [offset; LEVELS]);
        Progress { places, cursors, used, ordered: false, pulled: false }
    }

    /// Knows of at least `len` messages.
    pub fn grow(&mut self, len: usize) {
        if self.places.len() < len {
            self.places.resize(len, Place::Ahead);
        }
    }

    pub fn flight(&self, offset: usize) -> Option<&Flight> {
        match self.places.get(offset) {
            Some(Place::Flight(flight)) => Some(flight),
            _ => None,
        }
    }

    pub fn flight_mut(&mut self, offset: usize) -> Option<&mut Flight> {
        match self.places.get_mut(offset) {
            Some(Place::Flight(flight)) => Some(flight),
            _ => None,
        }
    }

    pub fn flights(&self) -> impl Iterator<Item = (usize, &Flight)> {
        (0..self.places.len()).filter_map(|offset| Some((offset, self.flight(offset)?)))
    }

    /// A message is done. One that is ahead of the cursor after a reset will be met again.
    pub fn done(&mut self, offset: usize, level: usize) {
        let met_again = offset >= self.cursors[level];
        self.places[offset] = if met_again { Place::Ahead } else { Place::Done };
    }

    /// Everything below is done.
    pub fn consumer(&self) -> usize {
        let low = *self.cursors.iter().min().expect("there are levels");
        let unfinished = self.places.iter().take(low).position(|place| *place != Place::Done);
        unfinished.unwrap_or(low)
    }

    /// A pull consumer stores its offset: what it has met before that is done. In order it began with the first message
    /// that was not done, else with the first that no consumer was given.
    pub fn commit(&mut self, to: usize, levels: &[usize]) {
        self.grow(to);
        let (low, back, ordered) = (self.low(), self.is_back(to), self.ordered);
        for (offset, place) in self.places.iter_mut().enumerate() {
            let passed_over = levels.get(offset).is_some_and(|level| offset < self.cursors[*level]);
            let met = offset < to && (ordered || offset >= low);
            match place {
                Place::Flight(flight) if flight.ending => {}
                Place::Flight(_) | Place::Ahead if met => *place = Place::Done,
                Place::Flight(flight) if offset < to || flight.attempt > 0 || !back => {}
                Place::Ahead if offset < to && passed_over => {}
                _ if offset < to => *place = Place::Done,
                _ => *place = Place::Ahead,
            }
        }
        self.cursors = [to; LEVELS];
        self.used = true;
        self.pulled = true;
    }

    fn low(&self) -> usize {
        *self.cursors.iter().min().expect("there are levels")
    }

    /// Where a pull consumer begins.
    pub fn pulls_from(&self) -> usize {
        if self.ordered { self.consumer() } else { self.low() }
    }

    /// Delivered and not done, or blocked in an ordered group.
    pub fn has_flights(&self, levels: &[usize]) -> bool {
        let over = |(offset, place): (usize, &Place)| {
            *place == Place::Ahead && offset < self.cursors[levels[offset]]
        };
        self.flights().next().is_some() || self.places.iter().enumerate().any(over)
    }

    /// What pull consumers do not ask for, with the time since when, and how often it was delivered.
    pub fn left_behind(&self, now: u64) -> Vec<(u64, usize, u16)> {
        let low = if self.pulled && !self.ordered { self.low() } else { 0 };
        let left = |offset: usize| match &self.places[offset] {
            Place::Flight(flight) if flight.ending || flight.visible_at > now => None,
            Place::Flight(flight) => Some((flight.visible_at, offset, flight.attempt)),
            // An ordered pop passed over it.
            Place::Ahead => Some((0, offset, 0)),
            Place::Done => None,
        };
        (0..low.min(self.places.len())).filter_map(left).collect()
    }

    fn is_back(&self, to: usize) -> bool {
        to < *self.cursors.iter().max().expect("there are levels")
    }

    /// An operator moves the group: what consumers hold of the range moved over is taken from them.
    pub fn reset(&mut self, to: usize, levels: &[usize]) {
        self.grow(to);
        let back = self.is_back(to);
        for (offset, place) in self.places.iter_mut().enumerate() {
            if let Place::Flight(flight) = place
                && !flight.given_back
                && !flight.ending
                && (offset >= to) == back
            {
                *place = Place::Done;
            }
        }
        for (offset, place) in self.places.iter_mut().enumerate() {
            let passed_over = levels.get(offset).is_some_and(|level| offset < self.cursors[*level]);
            match place {
                // One that no consumer was given is moved over like any other.
                Place::Flight(flight) if flight.attempt > 0 || flight.ending || (offset >= to) != back => {}
                Place::Ahead if back && offset < to && passed_over => {}
                _ if offset < to => *place = Place::Done,
                _ => *place = Place::Ahead,
            }
        }
        self.cursors = [to; LEVELS];
        self.used = true;
    }

    /// Blocked, and accepted by the filter of the pop that blocked it.
    fn passed_over(&self, offset: usize, seen: &Seen) -> bool {
        self.places[offset] == Place::Ahead && offset < self.cursors[seen.level]
    }

    pub fn is_new(&self, offset: usize, seen: &Seen) -> bool {
        self.places[offset] == Place::Ahead && (seen.passes || offset < self.cursors[seen.level])
    }

    fn is_due(&self, offset: usize, rules: &Rules) -> bool {
        self.flight(offset).is_some_and(|flight| {
            !flight.ending
                && flight.visible_at <= rules.now
                && u32::from(flight.attempt) < rules.attempts_max
                && !rules.fresh.contains(&flight.receipt)
        })
    }

    fn is_same_attempt(&self, offset: usize, rules: &Rules) -> bool {
        self.flight(offset).is_some_and(|flight| {
            let held = !flight.given_back && !flight.ending && flight.visible_at > rules.now;
            held && rules.attempt_id.is_some() && flight.attempt_id == rules.attempt_id
        })
    }

    /// Whether two states could follow from the same answer here; the engine does not keep the priority of a message
    /// that an ordered pop passed over.
    pub fn is_ambiguous(&self, seen: &[Seen], rules: &Rules) -> bool {
        let over =
            |(offset, seen): (usize, &Seen)| offset < self.places.len() && self.passed_over(offset, seen);
        rules.by_priority && seen.iter().enumerate().any(over)
    }

    /// Checks what came out of this queue, at most `room` messages, and takes it over.
    pub fn judge(
        &mut self,
        seen: &[Seen],
        given: &[Given],
        room: usize,
        rules: &Rules,
    ) -> Result<(), String> {
        self.grow(seen.len());
        (self.ordered, self.pulled) = (rules.ordered, false);
        let full = given.len() == room;
        let offsets: BTreeSet<usize> = given.iter().map(|given| given.offset).collect();
        if given.len() > room || offsets.len() != given.len() {
            return Err(format!("{} messages with repetitions or over {room}: {offsets:?}", given.len()));
        }
        for one in given {
            self.judge_one(seen, one, rules)?;
        }
        if rules.ordered {
            self.judge_order(seen, &offsets, full, rules)?;
        } else {
            self.judge_choice(seen, &offsets, full, rules)?;
        }
        let rank = |one: &Given| {
            let level = if rules.by_priority { seen[one.offset].level } else { 0 };
            (std::cmp::Reverse(level), one.offset)
        };
        if !given.is_sorted_by_key(rank) {
            return Err(format!("out of order: {given:?}"));
        }
        if rules.part != Part::Retries {
            self.look_ahead(seen, given, full, rules.by_priority);
        }
        for one in given {
            self.places[one.offset] = Place::Flight(Flight {
                receipt: one.receipt,
                visible_at: rules.visible_at,
                attempt: one.attempt,
                attempt_id: rules.attempt_id.clone(),
                given_back: false,
                ending: false,
            });
            self.used = true;
        }
        Ok(())
    }

    fn judge_one(&self, seen: &[Seen], one: &Given, rules: &Rules) -> Result<(), String> {
        let Some(entry) = seen.get(one.offset) else { return Err(format!("no such message: {one:?}")) };
        let attempt = if self.is_new(one.offset, entry) {
            entry.attempt + 1
        } else if rules.ordered && self.is_same_attempt(one.offset, rules) {
            self.flight(one.offset).map_or(0, |flight| flight.attempt)
        } else if self.is_due(one.offset, rules) {
            self.flight(one.offset).map_or(0, |flight| flight.attempt.max(entry.attempt) + 1)
        } else {
            return Err(format!("not to be delivered: {one:?}, it is {:?}", self.places[one.offset]));
        };
        if one.attempt != attempt {
            return Err(format!("attempt {attempt} was expected: {one:?}"));
        }
        Ok(())
    }

    /// Without order: everything that is due and new, up to the room; new ones first come first served, those that
    /// are due in any order.
    fn judge_choice(
        &self,
        seen: &[Seen],
        given: &BTreeSet<usize>,
        full: bool,
        rules: &Rules,
    ) -> Result<(), String> {
        let level_of = |offset: usize| match (rules.by_priority, rules.part) {
            (true, Part::All | Part::New) => seen[offset].level,
            _ => 0,
        };
        let lowest = given.iter().map(|offset| level_of(*offset)).min().unwrap_or(0);
        for offset in (0..seen.len()).filter(|offset| !given.contains(offset)) {
            let new = rules.part != Part::Retries && self.is_new(offset, &seen[offset]);
            let counted = self.flight(offset).is_some_and(|flight| flight.attempt > 0);
            let part_of_due = match rules.part {
                Part::All => true,
                Part::New => !counted,
                Part::Retries => counted,
            };
            let due = part_of_due && self.is_due(offset, rules);
            if (new || due) && (!full || level_of(offset) > lowest) {
                return Err(format!("left out: {offset}, given {given:?}"));
            }
            let overtaken = |later: &usize| {
                *later > offset && level_of(*later) == level_of(offset) && self.is_new(*later, &seen[*later])
            };
            if new && given.iter().any(overtaken) {
                return Err(format!("new message {offset} was overtaken, given {given:?}"));
            }
        }
        Ok(())
    }

    /// In order: of each message group the next one, or several in a row.
    fn judge_order(
        &self,
        seen: &[Seen],
        given: &BTreeSet<usize>,
        full: bool,
        rules: &Rules,
    ) -> Result<(), String> {
        let locks: BTreeSet<&Option<String>> = seen.iter().map(|seen| &seen.message_group).collect();
        for lock in locks {
            let own = || (0..seen.len()).filter(|offset| seen[*offset].message_group == *lock);
            let flights: Vec<usize> = own().filter(|offset| self.flight(*offset).is_some()).collect();
            let new: Vec<usize> = own().filter(|offset| self.is_new(*offset, &seen[*offset])).collect();
            let skipped = |offset: usize, of: &[usize]| {
                of.iter().any(|earlier| *earlier < offset && !given.contains(earlier))
            };
            for offset in own().filter(|offset| given.contains(offset)) {
                let is_new = new.contains(&offset);
                let free = flights.iter().all(|flight| given.contains(flight));
                if is_new && (!free || skipped(offset, &new)) {
                    return Err(format!("message group {lock:?}: {offset} came before its turn"));
                }
                let again = self.is_same_attempt(offset, rules);
                if !is_new && !again && skipped(offset, &flights) {
                    return Err(format!("message group {lock:?}: retry {offset} overtook an earlier one"));
                }
            }
            let next = match flights.first() {
                Some(first) => Some(*first).filter(|first| self.is_due(*first, rules)),
                None => new.first().copied(),
            };
            if let Some(next) = next.filter(|next| !full && !given.contains(next)) {
                return Err(format!("message group {lock:?}: {next} was left out"));
            }
        }
        Ok(())
    }

    /// The group has looked to the end, or just past the last message it had room for. What its filter refused on the
    /// way is done.
    fn look_ahead(&mut self, seen: &[Seen], given: &[Given], full: bool, by_priority: bool) {
        let lowest = given.iter().map(|one| seen[one.offset].level).min().unwrap_or(0);
        let after_last = |level: Option<usize>| {
            let new = given.iter().map(|one| one.offset).filter(|offset| {
                let its = seen[*offset].level;
                self.places[*offset] == Place::Ahead
                    && *offset >= self.cursors[its]
                    && level.is_none_or(|level| level == its)
            });
            new.max().map(|last| last + 1)
        };
        let mut cursors = self.cursors;
        for (level, cursor) in cursors.iter_mut().enumerate() {
            let stop = match (full, by_priority) {
                (false, _) => Some(seen.len()),
                (true, false) => after_last(None),
                (true, true) if level > lowest => Some(seen.len()),
                (true, true) if level == lowest => after_last(Some(level)),
                (true, true) => None,
            };
            *cursor = (*cursor).max(stop.unwrap_or(0));
        }
        for (offset, seen) in seen.iter().enumerate() {
            let looked_at = offset >= self.cursors[seen.level] && offset < cursors[seen.level];
            if looked_at && !seen.passes && self.places[offset] == Place::Ahead {
                self.places[offset] = Place::Done;
            }
        }
        self.used |= cursors != self.cursors;
        self.cursors = cursors;
    }
}
