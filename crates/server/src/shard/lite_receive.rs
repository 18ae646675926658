//! Receives of lite consumers. One receive covers all lite topics that its client has subscribed to, and only messages of those
//! wake it.

use redstart_engine::{Cached, Engine, PopError, Popped, Timestamp, TopicId};

use super::{
    Now,
    cold_reads::part_for_pop,
    lite_subscriptions::{LiteAction, LiteChange, LiteNotice, LiteSubscriptions, TooManyLiteSubscriptions},
    receive::{Next, RestOfLine},
    request::{PopReply, PopRequest},
    runtime::Runtime,
    wait_list::{Recheck, Waiter, WaiterId},
};
use crate::throttle::Throttle;

static NOT_JOINED: Throttle = Throttle::new();

impl Runtime {
    pub(super) fn pop_lite(&mut self, request: Box<PopRequest>, reply: PopReply, now: Now) {
        if let Err(error) = self.check_refused_bytes() {
            return drop(reply.send(Err(error)));
        }
        let records = self.engine.batch_records();
        let subscriptions = &mut self.lite_subscriptions;
        let cached = self.engine.run_cached(Vec::new(), |engine| {
            pop_lite_topics(engine, subscriptions, &request, None, now.time)
        });
        let deadline = now.uptime.saturating_add(request.wait);
        if let Some(part) = part_for_pop(&cached) {
            return self.wait_for_read(Waiter::Lite { request, reply, deadline }, part, deadline, now);
        }
        let popped = match cached.result {
            Ok(popped) => popped,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let progress = self.engine.batch_records() > records;
        let next = self.next_of(&popped, progress, deadline, request.wait, now);
        if !popped.deliveries.is_empty() || next == Next::Answer {
            return self.deliver(popped, reply, now);
        }
        if let Err(error) = self.check_wait_list_limit() {
            return drop(reply.send(Err(error)));
        }
        self.start_waiting(Waiter::Lite { request, reply, deadline }, deadline, next, now);
    }

    /// A lite topic may have a message: runs the receives that wait for it, in the order in which they came.
    pub(super) fn wake_lites(&mut self, topic: TopicId, now: Now) {
        let clients = self.lite_subscriptions.clients_of(topic);
        let mut ids: Vec<WaiterId> = clients.flat_map(|client| self.wait_list.lites_of(client)).collect();
        ids.sort_unstable();
        for id in ids {
            self.rerun_lite(id, Some(topic), now);
        }
    }

    /// Runs a waiting receive again, over all lite topics of its client or over `only` one.
    pub(super) fn rerun_lite(&mut self, id: WaiterId, only: Option<TopicId>, now: Now) -> RestOfLine {
        let Some(waiter @ Waiter::Lite { request, deadline, .. }) = self.wait_list.get(id) else {
            return RestOfLine::Run;
        };
        if waiter.is_abandoned() {
            self.wait_list.remove(id);
            return RestOfLine::Run;
        }
        let (deadline, wait) = (*deadline, request.wait);
        let records = self.engine.batch_records();
        let nothing = self.nothing_recordable(now);
        let (subscriptions, kept) = (&mut self.lite_subscriptions, self.cold_reads.take_kept(id));
        let cached = self.engine.run_cached(kept, |engine| match nothing {
            Some(nothing) => Ok(nothing),
            None => pop_lite_topics(engine, subscriptions, request, only, now.time),
        });
        let needed = part_for_pop(&cached);
        let Cached { mut result, parts: kept, .. } = cached;
        if let Some(part) = needed {
            if let Some(until) = self.suspend(id, part, kept, deadline, now) {
                self.wait_list.schedule(id, Recheck::at(until));
                return RestOfLine::Skip;
            }
            // The part was not read in time.
            result = Ok(Popped { visible_at: now.time, ..Popped::default() });
        } else if only.is_none() {
            self.cold_reads.end_suspension(id);
        }
        if let Ok(popped) = &result
            && popped.deliveries.is_empty()
        {
            let progress = self.engine.batch_records() > records;
            let mut next = self.next_of(popped, progress, deadline, wait, now);
            // Its other lite topics were not searched: what the last search found out about them still holds.
            if let (Next::Wait(recheck), Some(_), Some(last)) =
                (&mut next, only, self.wait_list.recheck_of(id))
            {
                recheck.at = recheck.at.min(last.at);
                recheck.visible_at = [recheck.visible_at, last.visible_at].into_iter().flatten().min();
            }
            if next != Next::Answer {
                self.keep_waiting(id, deadline, next, now);
                return RestOfLine::Skip;
            }
        }
        if let Some(Waiter::Lite { reply, .. }) = self.wait_list.remove(id) {
            match result {
                Ok(popped) => self.deliver(popped, reply, now),
                Err(error) => drop(reply.send(Err(error.into()))),
            }
        }
        RestOfLine::Run
    }

    /// Changes the subscriptions of a client. Its waiting receives see the change at once.
    pub(super) fn change_lites(
        &mut self,
        change: LiteChange,
        now: Now,
    ) -> Result<Vec<LiteNotice>, TooManyLiteSubscriptions> {
        let (client, group) = (change.client.clone(), change.group.clone());
        let offset = match &change.action {
            LiteAction::Add(_, offset) => *offset,
            LiteAction::Remove(_) | LiteAction::Replace(_) => redstart_engine::LiteOffset::Last,
        };
        let changed = self.lite_subscriptions.change(change, self.config.lite_subscriptions_max)?;
        for topic in &changed.added {
            if let Err(error) = self.engine.join_lite(&group, *topic, offset)
                && let Some(repeated) = NOT_JOINED.permit()
            {
                tracing::error!(%error, %group, repeated, "a group could not get a position in a lite topic");
            }
        }
        if !changed.added.is_empty() {
            for id in self.wait_list.lites_of(&client) {
                self.rerun_lite(id, None, now);
            }
        }
        Ok(changed.notices)
    }

    /// Removes the subscriptions of clients that have disconnected. Returns a notice for every subscription that was lost since the
    /// last call because its lite topic expired.
    pub(super) fn lite_upkeep(&mut self, disconnected: &[String]) -> Vec<LiteNotice> {
        for client in disconnected {
            self.lite_subscriptions.remove_client(client);
        }
        let expired = self.engine.take_expired_lites();
        expired
            .iter()
            .flat_map(|(topic, _, lite)| self.lite_subscriptions.remove_topic(*topic, lite))
            .collect()
    }
}

/// Pops from all lite topics of the client, or from `only` one.
fn pop_lite_topics(
    engine: &mut Engine,
    subscriptions: &mut LiteSubscriptions,
    request: &PopRequest,
    only: Option<TopicId>,
    now: Timestamp,
) -> Result<Popped, PopError> {
    let (topics, last_served) = subscriptions.topics(&request.client, &request.group, &request.topic);
    let one = only.filter(|topic| topics.binary_search(topic).is_ok());
    let topics = match (&one, only) {
        (Some(topic), _) => std::slice::from_ref(topic),
        (None, Some(_)) => &[],
        (None, None) => topics,
    };
    let popped = engine.pop_lite(&request.pop(), topics, last_served, now)?;
    if let Some(last) = popped.deliveries.last() {
        subscriptions.set_last_served(&request.client, last.receipt.queue.topic);
    }
    Ok(popped)
}
