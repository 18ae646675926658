//! Receives of lite consumers: one covers every lite topic that its client has subscribed to, and is woken only for those.

use redstart_engine::{Cached, Engine, PopError, Popped, Timestamp, TopicId};

use super::{
    Now,
    cold::pop_misses,
    lites::{LiteAction, LiteChange, LiteNotice, LiteSets, TooManyLites},
    request::{PopReply, PopRequest},
    runtime::Runtime,
    serve::{Next, Retried},
    waiting::{Look, Waiter, WaiterId},
};
use crate::throttle::Throttle;

static NO_PLACE: Throttle = Throttle::new();

impl Runtime {
    pub(super) fn pop_lite(&mut self, request: Box<PopRequest>, reply: PopReply, now: Now) {
        let records = self.engine.batch_records();
        let lites = &mut self.lites;
        let cached =
            self.engine.run_cached(Vec::new(), |engine| take_lites(engine, lites, &request, None, now.time));
        let deadline = now.uptime.saturating_add(request.wait);
        if let Some(part) = pop_misses(&cached) {
            return self.hold_cold(Waiter::Lite { request, reply, deadline }, part, deadline, now);
        }
        let popped = match cached.result {
            Ok(popped) => popped,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let searched = self.engine.batch_records() > records;
        let next = self.next_of(&popped, searched, deadline, request.wait, now);
        if !popped.deliveries.is_empty() || next == Next::Answer {
            return self.deliver(popped, reply, now);
        }
        if let Err(error) = self.room_to_wait() {
            return drop(reply.send(Err(error)));
        }
        self.hold(Waiter::Lite { request, reply, deadline }, deadline, next, now);
    }

    /// A lite topic may have something: receives that wait for it are served, the longest waiting first.
    pub(super) fn wake_lites(&mut self, topic: TopicId, now: Now) {
        let clients = self.lites.clients_of(topic);
        let mut ids: Vec<WaiterId> = clients.flat_map(|client| self.waiting.lites_of(client)).collect();
        ids.sort_unstable();
        for id in ids {
            self.retry_lite(id, Some(topic), now);
        }
    }

    pub(super) fn retry_lite(&mut self, id: WaiterId, only: Option<TopicId>, now: Now) -> Retried {
        let Some(waiter @ Waiter::Lite { request, deadline, .. }) = self.waiting.get(id) else {
            return Retried::Gone;
        };
        if waiter.is_abandoned() {
            self.waiting.remove(id);
            return Retried::Gone;
        }
        let (deadline, wait) = (*deadline, request.wait);
        let records = self.engine.batch_records();
        let (lites, lent) = (&mut self.lites, self.cold.lent_to(id));
        let cached =
            self.engine.run_cached(lent, |engine| take_lites(engine, lites, request, only, now.time));
        let misses = pop_misses(&cached);
        let Cached { mut result, lent, .. } = cached;
        if let Some(part) = misses {
            if let Some(until) = self.suspend(id, part, lent, deadline, now) {
                self.waiting.look_at(id, Look { at: until, visible: None });
                return Retried::Nothing;
            }
            // The disk has not given it for long.
            result = Ok(Popped { visible_at: now.time, ..Popped::default() });
        } else if only.is_none() {
            self.cold.resume(id);
        }
        if let Ok(popped) = &result
            && popped.deliveries.is_empty()
        {
            let searched = self.engine.batch_records() > records;
            let mut next = self.next_of(popped, searched, deadline, wait, now);
            // Its other lite topics were not looked at: what was known of them holds.
            if let (Next::Wait(look), Some(_), Some(last)) = (&mut next, only, self.waiting.look_of(id)) {
                look.at = look.at.min(last.at);
                look.visible = [look.visible, last.visible].into_iter().flatten().min();
            }
            if next != Next::Answer {
                self.hold_on(id, deadline, next, now);
                return Retried::Nothing;
            }
        }
        if let Some(Waiter::Lite { reply, .. }) = self.waiting.remove(id) {
            match result {
                Ok(popped) => self.deliver(popped, reply, now),
                Err(error) => drop(reply.send(Err(error.into()))),
            }
        }
        Retried::Served
    }

    /// Takes over what a client has subscribed to. Its waiting receive sees the change at once.
    pub(super) fn change_lites(
        &mut self,
        change: LiteChange,
        now: Now,
    ) -> Result<Vec<LiteNotice>, TooManyLites> {
        let (client, group) = (change.client.clone(), change.group.clone());
        let offset = match &change.action {
            LiteAction::Add(_, offset) => *offset,
            LiteAction::Remove(_) | LiteAction::Replace(_) => redstart_engine::LiteOffset::Last,
        };
        let changed = self.lites.change(change, self.config.lite_subscriptions_max)?;
        for topic in &changed.added {
            if let Err(error) = self.engine.join_lite(&group, *topic, offset)
                && let Some(repeated) = NO_PLACE.permit()
            {
                tracing::error!(%error, %group, repeated, "a group cannot find its place in a lite topic");
            }
        }
        if !changed.added.is_empty() {
            for id in self.waiting.lites_of(&client) {
                self.retry_lite(id, None, now);
            }
        }
        Ok(changed.notices)
    }

    /// Forgets clients that are gone, and says who lost a lite topic since this was last asked.
    pub(super) fn lite_upkeep(&mut self, gone: &[String]) -> Vec<LiteNotice> {
        for client in gone {
            self.lites.leave(client);
        }
        let expired = self.engine.take_expired_lites();
        expired.iter().flat_map(|(topic, _, lite)| self.lites.forget(*topic, lite)).collect()
    }
}

/// Runs a receive over all lite topics of its client, or only over the one that may have something new.
fn take_lites(
    engine: &mut Engine,
    lites: &mut LiteSets,
    request: &PopRequest,
    only: Option<TopicId>,
    now: Timestamp,
) -> Result<Popped, PopError> {
    let (topics, turn) = lites.topics(&request.client, &request.group, &request.topic);
    let one = only.filter(|topic| topics.binary_search(topic).is_ok());
    let topics = match (&one, only) {
        (Some(topic), _) => std::slice::from_ref(topic),
        (None, Some(_)) => &[],
        (None, None) => topics,
    };
    let popped = engine.pop_lite(&request.pop(), topics, turn, now)?;
    if let Some(last) = popped.deliveries.last() {
        lites.served(&request.client, last.receipt.queue.topic);
    }
    Ok(popped)
}
