//! Pops and pulls: answered at once, or kept in the wait list while there is no message and run again when there may be one.

use std::time::Duration;

use redstart_engine::{Cached, ColdPart, GroupId, Popped, PullStatus, QueueKey, Receipt, TopicId};
use rustc_hash::FxHashSet;

use super::{
    Now, ReceiveError, Unavailable,
    cold_reads::{part_for_pop, part_for_pull},
    planted,
    request::{AwaitedPops, PopReply, PopRequest, PullReply, PullRequest},
    runtime::Runtime,
    wait_list::{Recheck, Waiter, WaiterId},
};

/// A search that makes progress may take this long even for a receive that does not wait.
const SEARCH_MIN: Duration = Duration::from_millis(200);

/// A receive that waits while nothing can be recorded is tried again after this time.
const RECORD_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What to do with the receives behind one that was run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestOfLine {
    /// Run the next one: this one has left the wait list, or did not search all queues to their end.
    Run,
    /// Run none: this one covers every queue of the topic and found nothing, or waits for a part of the log that they need too.
    Skip,
}

/// What becomes of a receive that found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Its deadline has passed: it is answered without messages.
    Answer,
    /// The search reached its bounds: it goes on in the next step, until this uptime at the latest.
    Search(Duration),
    /// The search stopped without progress, because the disk cannot read or too much is in flight. It runs again after a backoff.
    BackOff,
    Wait(Recheck),
}

impl Next {
    /// `progress`: the search got further than the one before.
    pub fn of(popped: &Popped, progress: bool, deadline: Duration, wait: Duration, now: Now) -> Next {
        let search_until = deadline.saturating_add(SEARCH_MIN.saturating_sub(wait));
        if popped.more && progress && now.uptime < search_until {
            return Next::Search(search_until);
        }
        if now.uptime >= deadline {
            return Next::Answer;
        }
        if popped.more {
            return Next::BackOff;
        }
        // A message that is visible and was not delivered is blocked by a message group's lock or by a limit, whose release wakes
        // the receive.
        let visible_at =
            popped.next_visible.into_iter().chain(popped.ask_again_at).filter(|at| *at > now.time).min();
        Next::Wait(Recheck { at: deadline, visible_at })
    }
}

impl Runtime {
    /// A receive cannot be served while nothing more can be recorded.
    pub(super) fn check_refused_bytes(&self) -> Result<(), ReceiveError> {
        let full = self.refused_bytes();
        full.map_or(Ok(()), |used| Err(Unavailable::log_refuses(used, self.config.refused_bytes_max).into()))
    }

    /// What a waiting receive gets while nothing more can be recorded.
    pub(super) fn nothing_recordable(&self, now: Now) -> Option<Popped> {
        let again = now.time.after(RECORD_AGAIN_AFTER);
        self.refused_bytes().map(|_| Popped {
            visible_at: now.time,
            ask_again_at: Some(again),
            ..Popped::default()
        })
    }

    pub(super) fn pop(&mut self, request: Box<PopRequest>, reply: PopReply, now: Now) {
        if let Err(error) = self.check_refused_bytes() {
            return drop(reply.send(Err(error)));
        }
        if let Some(attribute) = request.refused_attribute
            && let Some(config) = self.engine.group_config(&request.group)
            && let Some(value) = config.attributes.get(attribute)
        {
            return drop(reply.send(Err(ReceiveError::WrongGroupKind { attribute, value: value.clone() })));
        }
        if request.only_if_begun && self.engine.has_begun(&request.group, &request.topic) == Some(false) {
            return drop(reply.send(Err(ReceiveError::NotBegun)));
        }
        let records = self.engine.batch_records();
        let cached = self.engine.run_cached(Vec::new(), |engine| request.run(engine, now.time));
        let deadline = now.uptime.saturating_add(request.wait);
        let needed = part_for_pop(&cached);
        let Cached { result, missed, .. } = cached;
        if let Some(part) = needed {
            let ids = (self.engine.group_id(&request.group), self.engine.topic_id(&request.topic));
            let (Some(group), Some(topic)) = ids else { return };
            return self.wait_for_read(
                Waiter::Pop { request, reply, group, topic, deadline },
                part,
                deadline,
                now,
            );
        }
        // The next receive will need this part.
        missed.into_iter().for_each(|part| self.read_cold(part));
        let popped = match result {
            Ok(popped) => popped,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        if !popped.deliveries.is_empty() {
            return self.deliver(popped, reply, now);
        }
        let progress = self.engine.batch_records() > records;
        let next = self.next_of(&popped, progress, deadline, request.wait, now);
        let ids = (self.engine.group_id(&request.group), self.engine.topic_id(&request.topic));
        let (false, (Some(group), Some(topic))) = (next == Next::Answer, ids) else {
            return self.deliver(popped, reply, now);
        };
        if let Err(error) = self.check_wait_list_limit() {
            return drop(reply.send(Err(error)));
        }
        let waiter = Waiter::Pop { request, reply, group, topic, deadline };
        self.start_waiting(waiter, deadline, next, now);
    }

    pub(super) fn next_of(
        &self,
        popped: &Popped,
        progress: bool,
        deadline: Duration,
        wait: Duration,
        now: Now,
    ) -> Next {
        let next = Next::of(popped, progress, deadline, wait, now);
        planted::next(&self.config, popped, next)
    }

    /// Adds a new receive to the wait list until a part which is not in memory was read for it.
    pub(super) fn wait_for_read(&mut self, waiter: Waiter, part: ColdPart, deadline: Duration, now: Now) {
        if let Err(error) = self.check_wait_list_limit() {
            return match waiter {
                Waiter::Pop { reply, .. } | Waiter::Lite { reply, .. } => drop(reply.send(Err(error))),
                Waiter::Pull { reply, .. } => drop(reply.send(Err(error))),
            };
        }
        let id = self.wait_list.add(waiter, Recheck::at(deadline));
        if let Some(until) = self.suspend(id, part, Vec::new(), deadline, now) {
            self.wait_list.schedule(id, Recheck::at(until));
        }
    }

    /// Runs a suspended receive again because its part was read, and then the receives behind it.
    pub(super) fn rerun_suspended(&mut self, id: WaiterId, now: Now) {
        let line = match self.wait_list.get(id) {
            Some(Waiter::Pop { group, topic, .. }) => Some((*group, *topic)),
            _ => None,
        };
        if let (Some((group, topic)), RestOfLine::Run) = (line, self.rerun(id, now)) {
            self.rerun_line(group, topic, now);
        }
        if self.wait_list.get(id).is_none() {
            self.cold_reads.end_suspension(id);
        }
    }

    /// Adds a new receive to the wait list.
    pub(super) fn start_waiting(&mut self, waiter: Waiter, deadline: Duration, next: Next, now: Now) {
        let id = self.wait_list.add(waiter, Recheck::at(deadline));
        self.keep_waiting(id, deadline, next, now);
    }

    /// Schedules the next run of a waiting receive.
    pub(super) fn keep_waiting(&mut self, id: WaiterId, deadline: Duration, next: Next, now: Now) {
        match next {
            Next::Answer => {}
            Next::Search(until) => {
                self.wait_list.schedule(id, Recheck::at(until));
                self.unfinished_searches.push(id);
            }
            Next::BackOff => self.wait_list.back_off(id, deadline, now),
            Next::Wait(look) => self.wait_list.schedule(id, look),
        }
    }

    /// Waiting pops whose callers have not given up.
    pub(super) fn count_pops(&self, of: &AwaitedPops) -> usize {
        let ids = (self.engine.group_id(&of.group), self.engine.topic_id(&of.topic));
        let (Some(group), Some(topic)) = ids else { return 0 };
        let waits = |id: &WaiterId| match self.wait_list.get(*id) {
            Some(waiter @ Waiter::Pop { request, .. }) => request.queue == of.queue && !waiter.is_abandoned(),
            _ => false,
        };
        self.wait_list.line(group, topic).iter().filter(|id| waits(id)).count()
    }

    pub(super) fn deliver(&mut self, popped: Popped, reply: PopReply, now: Now) {
        self.count_deliveries(&popped);
        if let Err(Ok(popped)) = reply.send(Ok(popped)) {
            // The caller has given up: its deliveries are given back and do not count as attempts.
            let receipts: Vec<Receipt> = popped.deliveries.iter().map(|delivery| delivery.receipt).collect();
            if !planted::counts_lost_deliveries(&self.config, &mut self.engine, &receipts, now) {
                self.engine.give_back(&receipts, Duration::ZERO, now.time);
            }
        }
    }

    /// All deliveries of a pop are for one group and of one topic.
    fn count_deliveries(&self, popped: &Popped) {
        let statistics = self.counters.statistics();
        let Some(first) = popped.deliveries.first() else { return statistics.empty_receives.add(1, 0) };
        let bytes = popped.deliveries.iter().map(|delivery| delivery.size as usize).sum();
        let (topic, group) = (first.receipt.queue.topic, first.receipt.group);
        let names = self.engine.shown_topic(topic).zip(self.engine.group_name_of(group));
        if let Some((topic, group)) = names {
            statistics.got(&topic, &group, popped.deliveries.len(), bytes);
        }
    }

    pub(super) fn pull(&mut self, request: Box<PullRequest>, reply: PullReply, now: Now) {
        let cached = self.engine.run_cached(Vec::new(), |engine| engine.pull(&request.pull()));
        let deadline = now.uptime.saturating_add(request.wait);
        if let (Some(part), Some(topic)) = (part_for_pull(&cached), self.engine.topic_id(&request.topic)) {
            let queue = QueueKey { topic, queue: request.queue };
            return self.wait_for_read(Waiter::Pull { request, reply, queue, deadline }, part, deadline, now);
        }
        // The next pull will need this part.
        cached.missed.into_iter().for_each(|part| self.read_cold(part));
        let pulled = match cached.result {
            Ok(pulled) => pulled,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let wait = pulled.status == PullStatus::NoNewMessage && deadline > now.uptime;
        let (true, Some(topic)) = (wait, self.engine.topic_id(&request.topic)) else {
            return drop(reply.send(Ok(pulled)));
        };
        if let Err(error) = self.check_wait_list_limit() {
            return drop(reply.send(Err(error)));
        }
        let queue = QueueKey { topic, queue: request.queue };
        self.wait_list.add(Waiter::Pull { request, reply, queue, deadline }, Recheck::at(deadline));
    }

    pub(super) fn check_wait_list_limit(&self) -> Result<(), ReceiveError> {
        let (used, limit) = (self.wait_list.len(), self.config.waiting_receives_max);
        if used < limit {
            return Ok(());
        }
        Err(Unavailable::Overloaded { what: "waiting receives", used, limit }.into())
    }

    /// Runs the receives that are due again, and those whose search reached its bounds.
    pub(super) fn rerun_due(&mut self, now: Now) {
        let due = self.wait_list.due(now);
        let mut unfinished = std::mem::take(&mut self.unfinished_searches);
        unfinished.sort_unstable();
        unfinished.dedup();
        for id in due.into_iter().chain(unfinished) {
            let line = self.line_watched_by(id);
            if let (Some((group, topic)), RestOfLine::Run) = (line, self.rerun(id, now)) {
                self.rerun_line(group, topic, now);
            }
        }
    }

    /// The line for which this pop watches the next visible message. Only the first pop of a line that found nothing does; when it
    /// leaves the wait list, the next one has to be run.
    fn line_watched_by(&self, id: WaiterId) -> Option<(GroupId, TopicId)> {
        match self.wait_list.get(id)? {
            Waiter::Pop { group, topic, .. } if self.wait_list.recheck_of(id)?.visible_at.is_some() => {
                Some((*group, *topic))
            }
            _ => None,
        }
    }

    fn rerun_line(&mut self, group: GroupId, topic: TopicId, now: Now) {
        for id in self.wait_list.line(group, topic) {
            if self.rerun(id, now) == RestOfLine::Skip {
                break;
            }
        }
    }

    /// Runs the receives that wait for what has become available.
    pub(super) fn wake(&mut self, now: Now) {
        let wakes = self.engine.take_wakes();
        if self.wait_list.len() == 0 {
            return;
        }
        let mut groups: FxHashSet<_> = wakes.groups.into_iter().collect();
        let queues: FxHashSet<_> = wakes.queues.into_iter().collect();
        for queue in queues {
            for id in self.wait_list.pulls_of(queue) {
                self.rerun(id, now);
            }
            self.wake_lites(queue.topic, now);
            groups
                .extend(self.wait_list.groups_of(queue.topic).into_iter().map(|group| (group, queue.topic)));
        }
        for (group, topic) in groups {
            self.wake_lites(topic, now);
            self.rerun_line(group, topic, now);
        }
    }

    /// Answers every waiting receive: pops without messages, pulls with what they find now.
    pub(super) fn end_polls(&mut self, now: Now) {
        for waiter in self.wait_list.drain() {
            match waiter {
                Waiter::Pop { reply, .. } | Waiter::Lite { reply, .. } => {
                    let nothing = Popped { visible_at: now.time, ..Popped::default() };
                    drop(reply.send(Ok(nothing)));
                }
                Waiter::Pull { request, reply, .. } => {
                    drop(reply.send(self.engine.pull(&request.pull()).map_err(ReceiveError::from)));
                }
            }
        }
        self.unfinished_searches.clear();
    }

    /// Runs a waiting receive again: answers it and removes it from the wait list, or schedules its next run.
    fn rerun(&mut self, id: WaiterId, now: Now) -> RestOfLine {
        match self.wait_list.get(id) {
            None => RestOfLine::Run,
            Some(waiter) if waiter.is_abandoned() => {
                self.wait_list.remove(id);
                RestOfLine::Run
            }
            Some(Waiter::Pull { .. }) => self.rerun_pull(id, now),
            Some(Waiter::Pop { .. }) => self.rerun_pop(id, now),
            Some(Waiter::Lite { .. }) => self.rerun_lite(id, None, now),
        }
    }

    fn rerun_pull(&mut self, id: WaiterId, now: Now) -> RestOfLine {
        let Some(Waiter::Pull { request, deadline, .. }) = self.wait_list.get(id) else {
            return RestOfLine::Run;
        };
        let kept = self.cold_reads.take_kept(id);
        let cached = self.engine.run_cached(kept, |engine| engine.pull(&request.pull()));
        let deadline = *deadline;
        if let Some(part) = part_for_pull(&cached)
            && let Some(until) = self.suspend(id, part, cached.parts, deadline, now)
        {
            self.wait_list.schedule(id, Recheck::at(until));
            return RestOfLine::Skip;
        }
        self.cold_reads.end_suspension(id);
        let result = cached.result;
        let empty = matches!(&result, Ok(pulled) if pulled.status == PullStatus::NoNewMessage);
        if empty && deadline > now.uptime {
            self.wait_list.schedule(id, Recheck::at(deadline));
            return RestOfLine::Skip;
        }
        if let Some(Waiter::Pull { reply, .. }) = self.wait_list.remove(id) {
            drop(reply.send(result.map_err(ReceiveError::from)));
        }
        RestOfLine::Run
    }

    fn rerun_pop(&mut self, id: WaiterId, now: Now) -> RestOfLine {
        let Some(Waiter::Pop { request, deadline, .. }) = self.wait_list.get(id) else {
            return RestOfLine::Run;
        };
        let (deadline, wait, all_queues) = (*deadline, request.wait, request.queue.is_none());
        let records = self.engine.batch_records();
        let kept = self.cold_reads.take_kept(id);
        let nothing = self.nothing_recordable(now);
        let cached =
            self.engine.run_cached(kept, |engine| nothing.map_or_else(|| request.run(engine, now.time), Ok));
        let needed = part_for_pop(&cached);
        let Cached { mut result, parts: kept, missed } = cached;
        if let Some(part) = needed {
            if let Some(until) = self.suspend(id, part, kept, deadline, now) {
                self.wait_list.schedule(id, Recheck::at(until));
                return if all_queues { RestOfLine::Skip } else { RestOfLine::Run };
            }
            // The part was not read in time.
            result = Ok(Popped { visible_at: now.time, ..Popped::default() });
        } else {
            self.cold_reads.end_suspension(id);
            missed.into_iter().for_each(|part| self.read_cold(part));
        }
        if let Ok(popped) = &result
            && popped.deliveries.is_empty()
        {
            let progress = self.engine.batch_records() > records;
            let next = self.next_of(popped, progress, deadline, wait, now);
            if next != Next::Answer {
                self.keep_waiting(id, deadline, next, now);
                let searched_all = all_queues && matches!(next, Next::Wait(_));
                return if searched_all { RestOfLine::Skip } else { RestOfLine::Run };
            }
        }
        if let Some(Waiter::Pop { reply, .. }) = self.wait_list.remove(id) {
            match result {
                Ok(popped) => self.deliver(popped, reply, now),
                Err(error) => drop(reply.send(Err(error.into()))),
            }
        }
        RestOfLine::Run
    }
}
