//! Receives: answered at once, held while there is nothing, woken when there may be.

use std::time::Duration;

use redstart_engine::{Cached, ColdPart, GroupId, Popped, PullStatus, QueueKey, Receipt, TopicId};
use rustc_hash::FxHashSet;

use super::{
    Now, ReceiveError,
    cold::{pop_misses, pull_misses},
    planted::planted,
    request::{AwaitedPops, PopReply, PopRequest, PullReply, PullRequest, Unavailable},
    runtime::Runtime,
    waiting::{Look, Waiter, WaiterId},
};

/// A search that makes progress may take this long, also for a receive that does not wait.
const SEARCH_MIN: Duration = Duration::from_millis(200);

/// What a held receive found when it was run again.
pub(super) enum Retried {
    Gone,
    Served,
    /// Nothing, in any queue that it may read.
    Nothing,
}

/// What becomes of a receive that found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Its time is over.
    Answer,
    /// The search was cut short by its bounds: it goes on in the next step, until this time at the latest.
    Search(Duration),
    /// The search was cut short and got nowhere: the disk cannot read, or too much is in flight. It is tried after a pause.
    Stalled,
    Wait(Look),
}

impl Next {
    /// `searched`: the search got further than the last one did.
    pub fn of(popped: &Popped, searched: bool, deadline: Duration, wait: Duration, now: Now) -> Next {
        let search_until = deadline.saturating_add(SEARCH_MIN.saturating_sub(wait));
        if popped.more && searched && now.uptime < search_until {
            return Next::Search(search_until);
        }
        if now.uptime >= deadline {
            return Next::Answer;
        }
        if popped.more {
            return Next::Stalled;
        }
        // What is visible already and was not delivered is held back by a lock or a limit; its release wakes the receive.
        let visible =
            popped.next_visible.into_iter().chain(popped.retry_at).filter(|at| *at > now.time).min();
        Next::Wait(Look { at: deadline, visible })
    }
}

impl Runtime {
    pub(super) fn pop(&mut self, request: Box<PopRequest>, reply: PopReply, now: Now) {
        if let Some(attribute) = request.not_with
            && let Some(config) = self.engine.group_config(&request.group)
            && let Some(value) = config.attributes.get(attribute)
        {
            return drop(reply.send(Err(ReceiveError::Other { attribute, value: value.clone() })));
        }
        let records = self.engine.batch_records();
        let cached = self.engine.run_cached(Vec::new(), |engine| request.run(engine, now.time));
        let deadline = now.uptime.saturating_add(request.wait);
        let misses = pop_misses(&cached);
        let Cached { result, missed, .. } = cached;
        if let Some(part) = misses {
            let ids = (self.engine.group_id(&request.group), self.engine.topic_id(&request.topic));
            let (Some(group), Some(topic)) = ids else { return };
            return self.hold_cold(
                Waiter::Pop { request, reply, group, topic, deadline },
                part,
                deadline,
                now,
            );
        }
        // The next receive will need it.
        missed.into_iter().for_each(|part| self.read_cold(part));
        let popped = match result {
            Ok(popped) => popped,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        if !popped.deliveries.is_empty() {
            return self.deliver(popped, reply, now);
        }
        let searched = self.engine.batch_records() > records;
        let next = self.next_of(&popped, searched, deadline, request.wait, now);
        let ids = (self.engine.group_id(&request.group), self.engine.topic_id(&request.topic));
        let (false, (Some(group), Some(topic))) = (next == Next::Answer, ids) else {
            return self.deliver(popped, reply, now);
        };
        if let Err(error) = self.room_to_wait() {
            return drop(reply.send(Err(error)));
        }
        let waiter = Waiter::Pop { request, reply, group, topic, deadline };
        self.hold(waiter, deadline, next, now);
    }

    pub(super) fn next_of(
        &self,
        popped: &Popped,
        searched: bool,
        deadline: Duration,
        wait: Duration,
        now: Now,
    ) -> Next {
        if planted!(self.config, SearchSpins) && (popped.more || popped.retry_at.is_some()) {
            return Next::Search(Duration::MAX);
        }
        Next::of(popped, searched, deadline, wait, now)
    }

    /// Holds a receive that is new and needs a part which is not in memory.
    pub(super) fn hold_cold(&mut self, waiter: Waiter, part: ColdPart, deadline: Duration, now: Now) {
        if let Err(error) = self.room_to_wait() {
            return match waiter {
                Waiter::Pop { reply, .. } | Waiter::Lite { reply, .. } => drop(reply.send(Err(error))),
                Waiter::Pull { reply, .. } => drop(reply.send(Err(error))),
            };
        }
        let id = self.waiting.add(waiter, Look { at: deadline, visible: None });
        if let Some(until) = self.suspend(id, part, Vec::new(), deadline, now) {
            self.waiting.look_at(id, Look { at: until, visible: None });
        }
    }

    /// Runs a receive again whose part was read, and those that are behind it.
    pub(super) fn retry_suspended(&mut self, id: WaiterId, now: Now) {
        let line = match self.waiting.get(id) {
            Some(Waiter::Pop { group, topic, .. }) => Some((*group, *topic)),
            _ => None,
        };
        if let (Some((group, topic)), Retried::Served | Retried::Gone) = (line, self.retry(id, now)) {
            self.serve_line(group, topic, now);
        }
        if self.waiting.get(id).is_none() {
            self.cold.resume(id);
        }
    }

    /// Holds a receive that is new.
    pub(super) fn hold(&mut self, waiter: Waiter, deadline: Duration, next: Next, now: Now) {
        let id = self.waiting.add(waiter, Look { at: deadline, visible: None });
        self.hold_on(id, deadline, next, now);
    }

    /// Holds a receive for longer.
    pub(super) fn hold_on(&mut self, id: WaiterId, deadline: Duration, next: Next, now: Now) {
        match next {
            Next::Answer => {}
            Next::Search(until) => {
                self.waiting.look_at(id, Look { at: until, visible: None });
                self.unfinished.push(id);
            }
            Next::Stalled => self.waiting.stall(id, deadline, now),
            Next::Wait(look) => self.waiting.look_at(id, look),
        }
    }

    /// Pops that wait and whose clients do so too.
    pub(super) fn count_pops(&self, of: &AwaitedPops) -> usize {
        let ids = (self.engine.group_id(&of.group), self.engine.topic_id(&of.topic));
        let (Some(group), Some(topic)) = ids else { return 0 };
        let waits = |id: &WaiterId| match self.waiting.get(*id) {
            Some(waiter @ Waiter::Pop { request, .. }) => request.queue == of.queue && !waiter.is_abandoned(),
            _ => false,
        };
        self.waiting.line(group, topic).iter().filter(|id| waits(id)).count()
    }

    pub(super) fn deliver(&mut self, popped: Popped, reply: PopReply, now: Now) {
        self.count(&popped);
        if let Err(Ok(popped)) = reply.send(Ok(popped)) {
            // The consumer has left: its deliveries are taken back and do not count.
            if planted!(self.config, LeaveCounts) {
                for delivery in &popped.deliveries {
                    let _ = self.engine.change_invisible(delivery.receipt, Duration::ZERO, now.time);
                }
                return;
            }
            let receipts: Vec<Receipt> = popped.deliveries.iter().map(|delivery| delivery.receipt).collect();
            self.engine.give_back(&receipts, Duration::ZERO, now.time);
        }
    }

    /// All deliveries of a pop are for one group and out of one topic.
    fn count(&self, popped: &Popped) {
        let statistics = self.counters.statistics();
        let Some(first) = popped.deliveries.first() else { return statistics.missed.add(1, 0) };
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
        if let (Some(part), Some(topic)) = (pull_misses(&cached), self.engine.topic_id(&request.topic)) {
            let queue = QueueKey { topic, queue: request.queue };
            return self.hold_cold(Waiter::Pull { request, reply, queue, deadline }, part, deadline, now);
        }
        // The next pull will need it.
        cached.missed.into_iter().for_each(|part| self.read_cold(part));
        let pulled = match cached.result {
            Ok(pulled) => pulled,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let wait = pulled.status == PullStatus::NoNewMessage && deadline > now.uptime;
        let (true, Some(topic)) = (wait, self.engine.topic_id(&request.topic)) else {
            return drop(reply.send(Ok(pulled)));
        };
        if let Err(error) = self.room_to_wait() {
            return drop(reply.send(Err(error)));
        }
        let queue = QueueKey { topic, queue: request.queue };
        let look = Look { at: deadline, visible: None };
        self.waiting.add(Waiter::Pull { request, reply, queue, deadline }, look);
    }

    pub(super) fn room_to_wait(&self) -> Result<(), ReceiveError> {
        let (used, limit) = (self.waiting.len(), self.config.waiting_max);
        if used < limit {
            return Ok(());
        }
        Err(Unavailable::Overloaded { what: "waiting receives", used, limit }.into())
    }

    /// Looks at receives whose time has come, or whose search was cut short.
    pub(super) fn retry_due(&mut self, now: Now) {
        let due = self.waiting.due(now);
        let mut unfinished = std::mem::take(&mut self.unfinished);
        unfinished.sort_unstable();
        unfinished.dedup();
        for id in due.into_iter().chain(unfinished) {
            let line = self.line_watched_by(id);
            if let (Some((group, topic)), Retried::Served | Retried::Gone) = (line, self.retry(id, now)) {
                self.serve_line(group, topic, now);
            }
        }
    }

    /// The line whose next visible message this pop waits for. Only the first in a line that found nothing does; when it
    /// goes, the next has to look.
    fn line_watched_by(&self, id: WaiterId) -> Option<(GroupId, TopicId)> {
        match self.waiting.get(id)? {
            Waiter::Pop { group, topic, .. } if self.waiting.look_of(id)?.visible.is_some() => {
                Some((*group, *topic))
            }
            _ => None,
        }
    }

    fn serve_line(&mut self, group: GroupId, topic: TopicId, now: Now) {
        for id in self.waiting.line(group, topic) {
            // A pop over all queues that finds nothing leaves nothing for those behind it.
            if let Retried::Nothing = self.retry(id, now) {
                break;
            }
        }
    }

    /// Serves receives that waited for what has become available.
    pub(super) fn wake(&mut self, now: Now) {
        let wakes = self.engine.take_wakes();
        if self.waiting.len() == 0 {
            return;
        }
        let mut groups: FxHashSet<_> = wakes.groups.into_iter().collect();
        let queues: FxHashSet<_> = wakes.queues.into_iter().collect();
        for queue in queues {
            for id in self.waiting.pulls_of(queue) {
                self.retry(id, now);
            }
            self.wake_lites(queue.topic, now);
            groups.extend(self.waiting.groups_of(queue.topic).into_iter().map(|group| (group, queue.topic)));
        }
        for (group, topic) in groups {
            self.wake_lites(topic, now);
            self.serve_line(group, topic, now);
        }
    }

    pub(super) fn end_polls(&mut self, now: Now) {
        for waiter in self.waiting.drain() {
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
        self.unfinished.clear();
    }

    fn retry(&mut self, id: WaiterId, now: Now) -> Retried {
        match self.waiting.get(id) {
            None => Retried::Gone,
            Some(waiter) if waiter.is_abandoned() => {
                self.waiting.remove(id);
                Retried::Gone
            }
            Some(Waiter::Pull { .. }) => self.retry_pull(id, now),
            Some(Waiter::Pop { .. }) => self.retry_pop(id, now),
            Some(Waiter::Lite { .. }) => self.retry_lite(id, None, now),
        }
    }

    fn retry_pull(&mut self, id: WaiterId, now: Now) -> Retried {
        let Some(Waiter::Pull { request, deadline, .. }) = self.waiting.get(id) else { return Retried::Gone };
        let lent = self.cold.lent_to(id);
        let cached = self.engine.run_cached(lent, |engine| engine.pull(&request.pull()));
        let deadline = *deadline;
        if let Some(part) = pull_misses(&cached)
            && let Some(until) = self.suspend(id, part, cached.lent, deadline, now)
        {
            self.waiting.look_at(id, Look { at: until, visible: None });
            return Retried::Nothing;
        }
        self.cold.resume(id);
        let result = cached.result;
        let empty = matches!(&result, Ok(pulled) if pulled.status == PullStatus::NoNewMessage);
        if empty && deadline > now.uptime {
            self.waiting.look_at(id, Look { at: deadline, visible: None });
            return Retried::Nothing;
        }
        if let Some(Waiter::Pull { reply, .. }) = self.waiting.remove(id) {
            drop(reply.send(result.map_err(ReceiveError::from)));
        }
        Retried::Served
    }

    fn retry_pop(&mut self, id: WaiterId, now: Now) -> Retried {
        let Some(Waiter::Pop { request, deadline, .. }) = self.waiting.get(id) else { return Retried::Gone };
        let (deadline, wait, all_queues) = (*deadline, request.wait, request.queue.is_none());
        let records = self.engine.batch_records();
        let lent = self.cold.lent_to(id);
        let cached = self.engine.run_cached(lent, |engine| request.run(engine, now.time));
        let misses = pop_misses(&cached);
        let Cached { mut result, lent, missed } = cached;
        if let Some(part) = misses {
            if let Some(until) = self.suspend(id, part, lent, deadline, now) {
                self.waiting.look_at(id, Look { at: until, visible: None });
                return if all_queues { Retried::Nothing } else { Retried::Served };
            }
            // The disk has not given it for long.
            result = Ok(Popped { visible_at: now.time, ..Popped::default() });
        } else {
            self.cold.resume(id);
            missed.into_iter().for_each(|part| self.read_cold(part));
        }
        if let Ok(popped) = &result
            && popped.deliveries.is_empty()
        {
            let searched = self.engine.batch_records() > records;
            let next = self.next_of(popped, searched, deadline, wait, now);
            if next != Next::Answer {
                self.hold_on(id, deadline, next, now);
                let nothing = all_queues && matches!(next, Next::Wait(_));
                return if nothing { Retried::Nothing } else { Retried::Served };
            }
        }
        if let Some(Waiter::Pop { reply, .. }) = self.waiting.remove(id) {
            match result {
                Ok(popped) => self.deliver(popped, reply, now),
                Err(error) => drop(reply.send(Err(error.into()))),
            }
        }
        Retried::Served
    }
}
