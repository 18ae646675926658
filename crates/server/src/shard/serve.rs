//! Receives: answered at once, held while there is nothing, woken when there may be.

use std::time::Duration;

use redstart_engine::{Popped, PullStatus, QueueKey, Receipt, Timestamp};
use rustc_hash::FxHashSet;

use super::{
    ReceiveError,
    owner::Owner,
    request::{AwaitedPops, PopReply, PopRequest, PullReply, PullRequest, Unavailable},
    waiting::{Held, Waiter, WaiterId},
};

/// What a held receive found when it was run again.
pub(super) enum Retried {
    Gone,
    Served,
    /// Nothing, in any queue that it may read.
    Nothing,
}

impl Owner<'_> {
    pub(super) fn pop(&mut self, request: Box<PopRequest>, reply: PopReply, now: Timestamp) {
        if let Some(attribute) = request.not_with
            && let Some(config) = self.engine.group_config(&request.group)
            && let Some(value) = config.attributes.get(attribute)
        {
            return drop(reply.send(Err(ReceiveError::Other { attribute, value: value.clone() })));
        }
        let popped = match request.run(&mut self.engine, now) {
            Ok(popped) => popped,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let deadline = now.after(request.wait);
        let wait = popped.deliveries.is_empty() && (deadline > now || popped.more);
        let ids = (self.engine.group_id(&request.group), self.engine.topic_id(&request.topic));
        let (true, (Some(group), Some(topic))) = (wait, ids) else { return self.deliver(popped, reply, now) };
        if let Err(error) = self.room_to_wait() {
            return drop(reply.send(Err(error)));
        }
        let look_at = look_at(&popped, deadline, now);
        self.waiting.add(Waiter::Pop { request, reply, group, topic, deadline }, look_at);
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

    pub(super) fn deliver(&mut self, popped: Popped, reply: PopReply, now: Timestamp) {
        self.count(&popped);
        if let Err(Ok(popped)) = reply.send(Ok(popped)) {
            // The consumer has left: its deliveries are taken back and do not count.
            let receipts: Vec<Receipt> = popped.deliveries.iter().map(|delivery| delivery.receipt).collect();
            self.engine.give_back(&receipts, Duration::ZERO, now);
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

    pub(super) fn pull(&mut self, request: Box<PullRequest>, reply: PullReply, now: Timestamp) {
        let pulled = match self.engine.pull(&request.pull()) {
            Ok(pulled) => pulled,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let deadline = now.after(request.wait);
        let wait = pulled.status == PullStatus::NoNewMessage && deadline > now;
        let (true, Some(topic)) = (wait, self.engine.topic_id(&request.topic)) else {
            return drop(reply.send(Ok(pulled)));
        };
        if let Err(error) = self.room_to_wait() {
            return drop(reply.send(Err(error)));
        }
        let queue = QueueKey { topic, queue: request.queue };
        self.waiting.add(Waiter::Pull { request, reply, queue, deadline }, deadline);
    }

    pub(super) fn room_to_wait(&self) -> Result<(), ReceiveError> {
        let (used, limit) = (self.waiting.len(), self.config.waiting_max);
        if used < limit {
            return Ok(());
        }
        Err(Unavailable::Overloaded { what: "waiting receives", used, limit }.into())
    }

    /// Looks at those whose time has come, or whose search was cut short.
    pub(super) fn retry_due(&mut self, now: Timestamp) {
        let due = self.waiting.due(now);
        let unfinished = std::mem::take(&mut self.unfinished);
        for id in due.into_iter().chain(unfinished) {
            self.retry(id, now);
        }
    }

    /// Serves those who waited for what has become available.
    pub(super) fn wake(&mut self, now: Timestamp) {
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
            for id in self.waiting.line(group, topic) {
                // A pop over all queues that finds nothing leaves nothing for those behind it.
                if let Retried::Nothing = self.retry(id, now) {
                    break;
                }
            }
        }
    }

    pub(super) fn end_polls(&mut self, now: Timestamp) {
        for waiter in self.waiting.drain() {
            match waiter {
                Waiter::Pop { reply, .. } | Waiter::Lite { reply, .. } => {
                    let nothing = Popped { visible_at: now, ..Popped::default() };
                    drop(reply.send(Ok(nothing)));
                }
                Waiter::Pull { request, reply, .. } => {
                    drop(reply.send(self.engine.pull(&request.pull()).map_err(ReceiveError::from)));
                }
            }
        }
        self.unfinished.clear();
    }

    fn retry(&mut self, id: WaiterId, now: Timestamp) -> Retried {
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

    fn retry_pull(&mut self, id: WaiterId, now: Timestamp) -> Retried {
        let Some(Waiter::Pull { request, deadline, .. }) = self.waiting.get(id) else { return Retried::Gone };
        let result = self.engine.pull(&request.pull());
        let empty = matches!(&result, Ok(pulled) if pulled.status == PullStatus::NoNewMessage);
        if empty && *deadline > now {
            return Retried::Nothing;
        }
        if let Some(Held { waiter: Waiter::Pull { reply, .. }, .. }) = self.waiting.remove(id) {
            drop(reply.send(result.map_err(ReceiveError::from)));
        }
        Retried::Served
    }

    fn retry_pop(&mut self, id: WaiterId, now: Timestamp) -> Retried {
        let Some(Waiter::Pop { request, deadline, .. }) = self.waiting.get(id) else { return Retried::Gone };
        let (deadline, all_queues) = (*deadline, request.queue.is_none());
        let result = request.run(&mut self.engine, now);
        if let Ok(popped) = &result
            && popped.deliveries.is_empty()
        {
            if popped.more {
                self.unfinished.push(id);
                return Retried::Served;
            }
            if deadline > now {
                self.waiting.look_at(id, look_at(popped, deadline, now));
                return if all_queues { Retried::Nothing } else { Retried::Served };
            }
        }
        if let Some(Held { waiter: Waiter::Pop { reply, .. }, .. }) = self.waiting.remove(id) {
            match result {
                Ok(popped) => self.deliver(popped, reply, now),
                Err(error) => drop(reply.send(Err(error.into()))),
            }
        }
        Retried::Served
    }
}

/// When to look at a pop again that found nothing. Something that is visible already and was not delivered is held
/// back by a lock or a limit; its release wakes the pop.
pub(super) fn look_at(popped: &Popped, deadline: Timestamp, now: Timestamp) -> Timestamp {
    if popped.more {
        return now;
    }
    let next = popped.next_visible.into_iter().chain(popped.retry_at).filter(|at| *at > now).min();
    next.unwrap_or(deadline).min(deadline)
}
