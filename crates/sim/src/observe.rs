//! Reading every queue, as a pull consumer would, and describing everything that can be seen.

use redstart_engine::{
    DLQ_PREFIX, Filter, GroupId, IndexError, Loss, OffsetError, Pull, Pulled, PulledMessage, QueueId,
    QueueKey, QueueOffset, RETRY_PREFIX, TopicId, TopicName, fetch, group_hash,
};

use crate::{
    ops::lite::public_name,
    oracle::{
        Checked, Violation, content, dead_letters, ensure,
        model::{Fate, Seen, SentBack},
        order, places, retention, visibility,
    },
    world::World,
};

pub const READABLE: &str = "everything stored can be read";

/// How much to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What has not been read before.
    New,
    Everything,
}

impl World {
    /// Reads queues and checks their entries.
    pub fn observe(&mut self, depth: Depth) -> Checked {
        self.model.log_start = self.engine().extent().start;
        for name in self.topics() {
            let Some(view) = self.engine().topic(&name) else { continue };
            self.model.topic_names.insert(view.id, public_name(&name).to_string());
            if name.is_lite() {
                self.model.lites.insert(view.id);
            }
            // A queue that is listed no longer has been emptied.
            let known = self.model.queues.iter().filter(|(key, _)| key.topic == view.id);
            let gone: Vec<_> = known.filter(|(key, _)| key.queue.0 as usize >= view.queues.len()).collect();
            let gone: Vec<_> = gone.into_iter().map(|(key, log)| (*key, QueueOffset(log.next))).collect();
            for (key, end) in gone {
                retention::check_minimum(&mut self.model, key, end, self.now)?;
            }
            for (queue, min, end) in view.queues {
                let key = QueueKey { topic: view.id, queue };
                places::check_range(&self.model, key, min, end)?;
                retention::check_minimum(&mut self.model, key, min, self.now)?;
                let next = self.model.queues.get(&key).map_or(0, |log| log.next);
                let from = if depth == Depth::Everything { min } else { min.max(QueueOffset(next)) };
                self.read_queue(&name, key, from, end)?;
            }
        }
        Ok(())
    }

    fn read_queue(
        &mut self,
        name: &TopicName,
        key: QueueKey,
        from: QueueOffset,
        end: QueueOffset,
    ) -> Checked {
        let mut next = from;
        while next < end {
            let pull = Pull {
                topic: name,
                queue: key.queue,
                offset: next,
                max: 32,
                bytes_max: 1 << 20,
                filter: &Filter::All,
            };
            let pulled = self.pull(&pull)?;
            ensure(pulled.next > next, places::DENSE, || format!("{name} {}: nothing at {next}", key.queue))?;
            next = pulled.next;
            for message in pulled.messages {
                self.read_message(name, key, message)?;
            }
        }
        Ok(())
    }

    /// Reads a queue. An index that was damaged may be reported once, and is built again then.
    fn pull(&mut self, pull: &Pull<'_>) -> Result<Pulled, Violation> {
        let unreadable = |error: OffsetError| Violation::new(READABLE, format!("{}: {error}", pull.topic));
        match self.engine().pull(pull) {
            // One may be found after the other.
            Err(OffsetError::Index(IndexError::Malformed { .. })) if self.index_damaged && self.heal() => {
                self.pull(pull)
            }
            other => other.map_err(unreadable),
        }
    }

    /// Lets the engine build damaged indexes again. Says whether it had any to build.
    pub fn heal(&mut self) -> bool {
        self.storage.fail_read(0);
        let (now, mut any) = (self.now, false);
        while let Some(job) = self.engine().rebuild(now) {
            any |= self.engine().job_done(job.run()).is_ok();
        }
        any
    }

    fn read_message(&mut self, name: &TopicName, key: QueueKey, found: PulledMessage) -> Checked {
        let reader = self.engine().reader();
        let fetched = match fetch(&*reader, found.position, found.size) {
            Ok(fetched) => fetched,
            Err(error) if error.proof().is_some_and(|proof| proof.loss() == Loss::Removed) => {
                return self.body_removed(key, found);
            }
            Err(error) => {
                return Err(Violation::new(READABLE, format!("{name} offset {}: {error}", found.offset)));
            }
        };
        let view = fetched.message().map_err(|error| Violation::new(READABLE, error.to_string()))?;
        let number = content::check(&self.model, &view, name)?;
        let seen = Seen {
            number,
            position: found.position,
            size: found.size,
            stored_at: found.stored_at,
            attempt: found.attempt,
            lock: view.group.map_or(0, group_hash),
        };
        let new = places::check(&mut self.model, key, found.offset, seen)?;
        if !new {
            return Ok(());
        }
        if name.as_str().starts_with(DLQ_PREFIX) {
            dead_letters::check(&mut self.model, name.as_str(), number, &view)
        } else if name.as_str().starts_with(RETRY_PREFIX) {
            self.retry_found(name, key.topic, seen)
        } else {
            self.message_found(key, found.offset, seen)
        }
    }

    fn message_found(&mut self, key: QueueKey, offset: QueueOffset, seen: Seen) -> Checked {
        let known = &self.model.messages[seen.number];
        ensure(known.topic == key.topic, content::NEVER_SENT, || {
            format!("message {:X} of topic {} is in topic {}", seen.number, known.topic, key.topic)
        })?;
        visibility::check_visible(known, seen.stored_at, self.now)?;
        places::check_once(&mut self.model, seen.number, key, offset)?;
        order::check_stored(&self.model, seen.number, key, offset)?;
        self.model.messages[seen.number].fate = Fate::Stored;
        Ok(())
    }

    fn retry_found(&mut self, name: &TopicName, topic: TopicId, seen: Seen) -> Checked {
        let fits = |back: &SentBack| {
            back.number == seen.number
                && back.to == topic
                && back.attempt == seen.attempt
                && !back.seen
                && matches!(back.fate, Fate::Stored | Fate::Unknown)
        };
        let is_due = |back: &SentBack| fits(back) && back.due <= seen.stored_at;
        // A message that was sent back may have been left in flight as well.
        if !self.model.sent_back.iter().any(is_due) && self.left_found(name, seen) {
            return Ok(());
        }
        // If it was sent back more than once: the one that is due, and of those one that is known to be stored.
        let fitting = self.model.sent_back.iter_mut().filter(|back| fits(back));
        let back =
            fitting.min_by_key(|back| (back.due > seen.stored_at, back.fate != Fate::Stored, back.due));
        let Some(back) = back else {
            let known: Vec<_> =
                self.model.sent_back.iter().filter(|back| back.number == seen.number).collect();
            let detail = format!("{seen:?} is in a retry topic; sent back were {known:?}");
            return Err(Violation::new(content::NEVER_SENT, detail));
        };
        back.seen = true;
        ensure(back.due <= seen.stored_at && back.due <= self.now, visibility::NOT_EARLY, || {
            format!("{back:?}")
        })
    }

    /// Whether a message in a retry topic was left there by a group whose consumers pull.
    fn left_found(&mut self, name: &TopicName, seen: Seen) -> bool {
        let Some(name) = name.retried_group() else { return false };
        // What a deleted group has left comes to the next one of its name.
        let groups = self.model.groups.iter().filter(|(_, limits)| limits.name == name);
        let groups: Vec<GroupId> = groups.map(|(id, _)| *id).collect();
        for (key, offset) in self.model.places_of(seen.number) {
            for group in &groups {
                if !self.model.subscriptions.contains_key(&(*group, key.topic)) {
                    continue;
                }
                let turn = self.model.turn(*group, key, offset);
                if turn.left && seen.attempt <= turn.most() {
                    (turn.left, turn.left_before) = (false, true);
                    return true;
                }
            }
        }
        false
    }

    /// A queue still lists a message whose body has gone with its segment.
    fn body_removed(&mut self, key: QueueKey, found: PulledMessage) -> Checked {
        let number = self.model.seen(key, found.offset).map(|seen| seen.number);
        let Some(number) = number else {
            let detail = format!(
                "topic {} queue {} offset {}, {} at {}, has no body",
                key.topic, key.queue, found.offset, found.stored_at, found.position
            );
            ensure(self.model.forced, READABLE, || detail)?;
            let log = self.model.queues.entry(key).or_default();
            log.next = log.next.max(found.offset.0 + 1);
            return Ok(());
        };
        retention::check_removed(&self.model, number, found.stored_at, self.now)
    }

    /// Everything that can be seen from outside, line by line.
    pub fn describe(&mut self) -> Result<Vec<String>, Violation> {
        let now = self.now;
        self.engine().forget_expired_keys(now);
        let mut lines = vec![format!("deferred {:?}", self.engine().deferred())];
        lines.push(format!("deadline {:?}", self.engine().next_deadline()));
        let topics = self.topics();
        for name in &topics {
            let Some(view) = self.engine().topic(name) else { continue };
            for (queue, min, end) in &view.queues {
                lines.extend(self.describe_queue(name, *queue, *min, *end)?);
            }
            lines.push(format!("topic {view:?}"));
        }
        for group in self.engine().group_names() {
            lines.push(format!("group {:?}", self.engine().group(&group)));
            for name in self.topics_of(&group) {
                let progress = self.engine().progress(&group, &name);
                let progress = progress.map_err(|error| Violation::new(READABLE, error.to_string()))?;
                lines.push(format!("progress {group} {name} {progress:?}"));
            }
        }
        Ok(lines)
    }

    fn describe_queue(
        &mut self,
        name: &TopicName,
        queue: QueueId,
        from: QueueOffset,
        end: QueueOffset,
    ) -> Result<Vec<String>, Violation> {
        let (mut lines, mut next) = (Vec::new(), from);
        while next < end {
            let pull =
                Pull { topic: name, queue, offset: next, max: 32, bytes_max: 1 << 20, filter: &Filter::All };
            let pulled = self.pull(&pull)?;
            ensure(pulled.next > next, places::DENSE, || format!("{name} {queue}: nothing at {next}"))?;
            next = pulled.next;
            lines.extend(pulled.messages.iter().map(|message| format!("{name} {queue} {message:?}")));
        }
        Ok(lines)
    }
}
