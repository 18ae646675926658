//! What can be seen of a broker without changing it, compared from end to end.

use redstart_engine::*;

use super::{
    check::same_refusal,
    check::{Check, Harness, topic_name},
    offsets::{first_at, offset_refusal},
    reference::*,
};

impl Harness {
    /// Everything that can be seen.
    pub fn compare(&mut self) -> Check {
        self.compare_names()?;
        for topic in 0..self.reference.topics.len() {
            if self.reference.topics[topic].alive {
                self.compare_topic(topic)?;
                for group in 0..self.reference.groups.len() {
                    if self.reference.groups[group].alive {
                        self.compare_progress(group, topic)?;
                    }
                }
            }
        }
        let waiting = |timer: &&Timer| !matches!(timer.phase, Phase::Fired | Phase::Recalled);
        let delayed = self.reference.timers.iter().filter(waiting).count();
        let transactions = self.reference.halves.iter().filter(|half| half.open).count();
        let held = self.engine.deferred();
        if (held.delayed, held.transactions) != (delayed, transactions) {
            return Err(format!("{held:?}, expected {delayed} delayed and {transactions} transactions"));
        }
        Ok(())
    }

    fn compare_names(&self) -> Check {
        let mut topics: Vec<_> = self
            .reference
            .topics
            .iter()
            .filter(|topic| topic.alive)
            .map(|topic| topic.name.clone())
            .collect();
        topics.sort_unstable();
        let mut groups: Vec<_> = self
            .reference
            .groups
            .iter()
            .filter(|group| group.alive)
            .map(|group| group.name.clone())
            .collect();
        groups.sort_unstable();
        if self.engine.topic_names() != topics || self.engine.group_names() != groups {
            return Err(format!("{:?}, expected {topics:?} {groups:?}", self.engine.topic_names()));
        }
        for group in self.reference.groups.iter().filter(|group| group.alive) {
            let view = self.engine.group(&group.name);
            if view.as_ref().is_none_or(|view| view.config != group.config || Some(view.id) != group.id) {
                return Err(format!("{view:?}, expected {group:?}"));
            }
        }
        Ok(())
    }

    fn compare_topic(&mut self, n: usize) -> Check {
        let topic = &self.reference.topics[n];
        let ends: Vec<_> = (0..self.reference.readable(n))
            .map(|queue| {
                let end = self.reference.entries(n, queue).len() as u64;
                (QueueId(queue), QueueOffset(0), QueueOffset(end))
            })
            .collect();
        let view = self.engine.topic(&topic.name);
        let same = |view: &TopicView| {
            Some(view.id) == topic.id && view.config == topic.config && view.queues == ends
        };
        if !view.as_ref().is_some_and(same) {
            return Err(format!("{view:?}, expected {:?} {ends:?}", topic.config));
        }
        for (queue, _, _) in ends {
            self.compare_queue(n, queue)?;
        }
        Ok(())
    }

    /// Every message of a queue, by its offset and by its position.
    fn compare_queue(&mut self, topic: usize, queue: QueueId) -> Check {
        let name = self.reference.topics[topic].name.clone();
        let reader = self.engine.reader();
        let entries = self.reference.entries(topic, queue.0).to_vec();
        for (offset, entry) in entries.iter().enumerate() {
            let found = self
                .engine
                .message_at(&name, queue, QueueOffset(offset as u64))
                .map_err(|e| e.to_string())?;
            let fetched = fetch(&*reader, found.position, found.size).map_err(|e| e.to_string())?;
            let message = fetched.message().map_err(|e| e.to_string())?.to_message();
            let stored = &mut self.reference.stored[entry.message];
            let position = *stored.position.get_or_insert(found.position);
            if message != stored.message || found.position != position || found.stored_at.0 != entry.stored_at
            {
                return Err(format!("{name} {queue} {offset}: {found:?} {message:?}, expected {stored:?}"));
            }
            // Retries share the one stored copy, which is found where it was first visible.
            if stored.topic == topic && entry.attempt == 0 {
                let by_position = self.engine.message_by_position(position).map_err(|e| e.to_string())?;
                if by_position != found {
                    return Err(format!("by position {by_position:?}, by offset {found:?}"));
                }
            }
        }
        let beyond = self.engine.message_at(&name, queue, QueueOffset(entries.len() as u64));
        if beyond.is_ok() { Err(format!("beyond the end: {beyond:?}")) } else { Ok(()) }
    }

    fn compare_progress(&self, group: usize, topic: usize) -> Check {
        let (by, of) = (&self.reference.groups[group].name, &self.reference.topics[topic].name);
        let found = self.engine.progress(by, of).map_err(|e| e.to_string())?;
        let popped = self.reference.subscriptions.get(&(group, topic)).is_some_and(|found| found.popped);
        for (queue, found) in (0..self.reference.readable(topic)).zip(&found) {
            let entries = self.reference.entries(topic, queue);
            let progress = self.reference.progress(group, topic, queue);
            let consumer = progress.map_or(0, |progress| progress.consumer());
            let expected = QueueProgress {
                queue: QueueId(queue),
                min: QueueOffset(0),
                end: QueueOffset(entries.len() as u64),
                consumer: QueueOffset(consumer as u64),
                in_flight: progress.map_or(0, |progress| {
                    progress.flights().filter(|(_, flight)| flight.attempt > 0).count()
                }),
                oldest_unconsumed: entries.get(consumer).map(|entry| Timestamp(entry.stored_at)),
            };
            if *found != expected {
                return Err(format!("{by} in {of}: {found:?}, expected {expected:?}"));
            }
            if self.reference.topics[topic].config.permission.read {
                let offset =
                    self.engine.consumer_offset(by, of, QueueId(queue)).map_err(|e| e.to_string())?;
                let used = progress.is_some_and(|progress| progress.used);
                let legal = match offset {
                    Some(offset) => offset.0 as usize == consumer && (used || popped),
                    None => !used,
                };
                if !legal {
                    return Err(format!(
                        "{by} in {of} {queue}: stored offset {offset:?}, it is {progress:?}"
                    ));
                }
            }
        }
        if found.len() == self.reference.readable(topic) as usize {
            Ok(())
        } else {
            Err(format!("{by} in {of}: {} queues", found.len()))
        }
    }

    pub fn query(&self, topic: usize, key: u8, from_age_ms: u64, span_ms: u64, max: usize) -> Check {
        let name = topic_name(topic);
        let key = if key < 4 { format!("k{key}") } else { format!("m{}", self.messages_sent / 2 + 1) };
        let from = self.reference.now.saturating_sub(from_age_ms);
        let to = from + span_ms;
        let result = self.run_query(&name, &key, Timestamp(from), Timestamp(to), max);
        let Some(topic) = self.reference.topic(&name) else {
            let refused = matches!(result, Err(QueryError::UnknownTopic { .. }));
            return if refused { Ok(()) } else { Err(format!("query of an unknown topic: {result:?}")) };
        };
        let found = result.map_err(|error| error.to_string())?;
        let mut expected = Vec::new();
        for queue in 0..self.reference.readable(topic) {
            for (offset, entry) in self.reference.entries(topic, queue).iter().enumerate() {
                let stored = &self.reference.stored[entry.message];
                let carries = stored.message.id == key || stored.message.keys.contains(&key);
                let in_time = entry.stored_at >= from && entry.stored_at <= to;
                if stored.topic == topic && entry.attempt == 0 && carries && in_time {
                    expected.push((entry.stored_at, queue, offset as u64));
                }
            }
        }
        // Newest first; of one millisecond any may come first.
        expected.sort_unstable_by(|a, b| b.cmp(a));
        let all: Vec<_> = found.iter().map(|f| (f.stored_at.0, f.queue.queue.0, f.offset.0)).collect();
        let times: Vec<u64> = all.iter().map(|(at, ..)| *at).collect();
        let expected_times: Vec<u64> = expected.iter().map(|(at, ..)| *at).take(max).collect();
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        let legal = times == expected_times
            && unique.len() == all.len()
            && all.iter().all(|found| expected.contains(found));
        if legal { Ok(()) } else { Err(format!("query {key} {from}..{to}: {all:?}, expected {expected:?}")) }
    }

    fn run_query(
        &self,
        topic: &TopicName,
        key: &str,
        from: Timestamp,
        to: Timestamp,
        max: usize,
    ) -> Result<Vec<Found>, QueryError> {
        let mut query = self.engine.key_query(topic, key, from, to, max)?;
        loop {
            match self.engine.query_step(&query)? {
                QueryStep::Unfinished(next) => query = next,
                QueryStep::Done(answer) => return Ok(answer.found),
            }
        }
    }

    pub fn offset_at(&self, topic: usize, queue: u32, age_ms: u64) -> Check {
        let name = topic_name(topic);
        let at = self.reference.now.saturating_sub(age_ms);
        let result = self.engine.offset_at(&name, QueueId(queue), Timestamp(at));
        let refusal = result.as_ref().err().map(offset_refusal);
        same_refusal("offset at", &self.expected_queue(topic, queue), refusal)?;
        let (Ok(found), Some(topic)) = (result, self.reference.topic(&name)) else { return Ok(()) };
        let expected = first_at(self.reference.entries(topic, queue), at);
        if found.0 as usize == expected {
            Ok(())
        } else {
            Err(format!("offset {found:?}, expected {expected}"))
        }
    }
}
