//! Receives of lite consumers: one covers every lite topic that its client has subscribed to, and is woken only for those.

use redstart_engine::{PopError, Popped, Timestamp, TopicId};

use super::{
    lites::{LiteAction, LiteChange, LiteNotice, TooManyLites},
    owner::Owner,
    request::{PopReply, PopRequest},
    serve::{Retried, look_at},
    waiting::{Waiter, WaiterId},
};

impl Owner<'_> {
    pub(super) fn pop_lite(&mut self, request: Box<PopRequest>, reply: PopReply, now: Timestamp) {
        let popped = match self.take_lites(&request, None, now) {
            Ok(popped) => popped,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let deadline = now.after(request.wait);
        if !popped.deliveries.is_empty() || (deadline <= now && !popped.more) {
            return self.deliver(popped, reply, now);
        }
        if let Err(error) = self.room_to_wait() {
            return drop(reply.send(Err(error)));
        }
        let look_at = look_at(&popped, deadline, now);
        self.waiting.add(Waiter::Lite { request, reply, deadline }, look_at);
    }

    /// Runs a receive over all lite topics of its client, or only over the one that may have something new.
    fn take_lites(
        &mut self,
        request: &PopRequest,
        only: Option<TopicId>,
        now: Timestamp,
    ) -> Result<Popped, PopError> {
        let (topics, turn) = self.lites.topics(&request.client, &request.group, &request.topic);
        let one = only.filter(|topic| topics.binary_search(topic).is_ok());
        let topics = match (&one, only) {
            (Some(topic), _) => std::slice::from_ref(topic),
            (None, Some(_)) => &[],
            (None, None) => topics,
        };
        let popped = self.engine.pop_lite(&request.pop(), topics, turn, now)?;
        if let Some(last) = popped.deliveries.last() {
            self.lites.served(&request.client, last.receipt.queue.topic);
        }
        Ok(popped)
    }

    /// A lite topic may have something: those who wait for it are served, who has waited longest first.
    pub(super) fn wake_lites(&mut self, topic: TopicId, now: Timestamp) {
        let clients = self.lites.clients_of(topic);
        let mut ids: Vec<WaiterId> = clients.flat_map(|client| self.waiting.lites_of(client)).collect();
        ids.sort_unstable();
        for id in ids {
            self.retry_lite(id, Some(topic), now);
        }
    }

    pub(super) fn retry_lite(&mut self, id: WaiterId, only: Option<TopicId>, now: Timestamp) -> Retried {
        let Some(waiter) = self.waiting.remove(id) else { return Retried::Gone };
        let Waiter::Lite { request, reply, deadline } = waiter.waiter else { return Retried::Gone };
        if reply.is_closed() {
            return Retried::Gone;
        }
        match self.take_lites(&request, only, now) {
            Err(error) => drop(reply.send(Err(error.into()))),
            Ok(popped) if popped.deliveries.is_empty() && (popped.more || deadline > now) => {
                let mut at = look_at(&popped, deadline, now);
                if only.is_some() {
                    at = at.min(waiter.look_at);
                }
                self.waiting.put_back(id, Waiter::Lite { request, reply, deadline }, at);
                return Retried::Nothing;
            }
            Ok(popped) => self.deliver(popped, reply, now),
        }
        Retried::Served
    }

    /// Takes over what a client has subscribed to. Its waiting receive sees the change at once.
    pub(super) fn change_lites(
        &mut self,
        change: LiteChange,
        now: Timestamp,
    ) -> Result<Vec<LiteNotice>, TooManyLites> {
        let (client, group) = (change.client.clone(), change.group.clone());
        let offset = match &change.action {
            LiteAction::Add(_, offset) => *offset,
            LiteAction::Remove(_) | LiteAction::Replace(_) => redstart_engine::LiteOffset::Last,
        };
        let changed = self.lites.change(change, self.config.lite_subscriptions_max)?;
        for topic in &changed.added {
            if let Err(error) = self.engine.join_lite(&group, *topic, offset) {
                tracing::error!(%error, %group, "a group cannot find its place in a lite topic");
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
