//! What readers and broadcasts share: the queues with their positions, and what is asked of servers about them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{Allocation, Hook, Position, QueueBatch, QueueError, Rebalance, progress::Store, slots::Slots};
use crate::{
    CallError, Client, Filter, Queue, ReceiveError, ShutdownReport,
    client::{Part, PartFuture},
    route::Place,
    transport::{Mark, Pull, Pulled, Session},
};

/// What a builder has been told.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub group: String,
    pub subscriptions: Vec<(String, Filter)>,
    pub sharing: Sharing,
    /// Where a queue begins that has no progress yet.
    pub start: Position,
    pub batch: usize,
    pub wait: Duration,
    pub hook: Option<Hook>,
    /// Where progress is found; `None` for the server, under the group's name.
    pub store: Option<Arc<dyn Store>>,
}

/// Whose the queues are.
#[derive(Debug, Clone)]
pub(super) enum Sharing {
    /// These are this reader's.
    Assigned(Vec<Queue>),
    /// The members of the group share them out.
    Balanced(Allocation),
    /// All are every reader's.
    All,
}

/// Where a reader is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Running,
    Stopping,
    /// No queue is this reader's any more.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(super) client: Client,
    pub(super) session: Session,
    pub(super) settings: Settings,
    slots: Mutex<Slots>,
    /// Something about the queues is not as it was.
    pub(super) changed: Notify,
    pub(super) arrived: Notify,
    pub(super) phase: watch::Sender<Phase>,
    refusal: Mutex<Option<CallError>>,
    given: AtomicU64,
}

impl Core {
    pub fn new(client: Client, session: Session, settings: Settings) -> Arc<Core> {
        Arc::new(Core {
            client,
            session,
            settings,
            slots: Mutex::default(),
            changed: Notify::new(),
            arrived: Notify::new(),
            phase: watch::Sender::new(Phase::Running),
            refusal: Mutex::default(),
            given: AtomicU64::new(0),
        })
    }

    pub fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Returns when the reader is to stop.
    pub async fn stopping(&self) {
        // The sender is this core's own: the wait ends only with the phase.
        let _ = self.phase.subscribe().wait_for(|phase| *phase > Phase::Running).await;
    }

    pub fn stop(&self) {
        self.phase.send_if_modified(|phase| {
            let running = *phase == Phase::Running;
            if running {
                *phase = Phase::Stopping;
            }
            running
        });
        self.arrived.notify_waiters();
    }

    pub fn filter_of(&self, topic: &str) -> Filter {
        let known = self.settings.subscriptions.iter().find(|(known, _)| known == topic);
        known.map(|(_, filter)| filter.clone()).unwrap_or_default()
    }

    /// Where a queue is served.
    pub async fn place(&self, queue: &Queue) -> Result<Place, CallError> {
        let unknown = |why: String| CallError::Connect { address: queue.to_string(), why };
        let route = self.client.route(&queue.topic).await.map_err(|error| unknown(error.to_string()))?;
        let place = route.readable.iter().find(|place| place.queue == *queue);
        place.cloned().ok_or_else(|| unknown("its topic has no such queue now".to_owned()))
    }

    /// The offset at which a queue begins: where its progress is, else where new ones begin.
    pub async fn begin(&self, queue: &Queue) -> Result<i64, CallError> {
        let place = self.place(queue).await?;
        let stored = match &self.settings.store {
            Some(store) => store.load(queue).await.map_err(|error| CallError::Malformed {
                address: "the progress store".to_owned(),
                why: error.to_string(),
            })?,
            None => self.session.stored_offset(&self.settings.group, &place).await?,
        };
        match stored {
            Some(offset) => Ok(offset),
            None => self.find_at(&place, self.settings.start).await,
        }
    }

    pub async fn pull(&self, queue: &Queue, filter: &Filter, offset: i64) -> Result<Pulled, CallError> {
        let from = &self.place(queue).await?;
        let Settings { batch, wait, .. } = self.settings;
        self.session.pull(&Pull { from, offset, filter, max: batch, wait }).await
    }

    async fn find_at(&self, place: &Place, position: Position) -> Result<i64, CallError> {
        let mark = match position {
            Position::Offset(offset) => return Ok(offset),
            Position::Earliest => Mark::Earliest,
            Position::Latest => Mark::Latest,
            Position::At(time) => Mark::At(time),
        };
        self.session.find_offset(place, mark).await
    }

    pub async fn find(&self, queue: &Queue, position: Position) -> Result<i64, QueueError> {
        let place = self.place(queue).await?;
        Ok(self.find_at(&place, position).await?)
    }

    fn check_mine(&self, queue: &Queue) -> Result<(), QueueError> {
        let mine = self.slots().has(queue);
        if mine { Ok(()) } else { Err(QueueError::NotAssigned { queue: queue.clone() }) }
    }

    /// Another member may have a queue that was this reader's, and its progress must not go back.
    pub async fn commit(&self, queue: &Queue, offset: i64) -> Result<(), QueueError> {
        self.check_mine(queue)?;
        let place = self.place(queue).await?;
        Ok(self.session.store_offset(&self.settings.group, &place, offset).await?)
    }

    pub async fn committed(&self, queue: &Queue) -> Result<Option<i64>, QueueError> {
        let place = self.place(queue).await?;
        Ok(self.session.stored_offset(&self.settings.group, &place).await?)
    }

    pub async fn seek(&self, queue: &Queue, position: Position) -> Result<(), QueueError> {
        self.check_mine(queue)?;
        let offset = self.find(queue, position).await?;
        let found = self.slots().seek(queue, offset);
        self.changed.notify_waiters();
        if found { Ok(()) } else { Err(QueueError::NotAssigned { queue: queue.clone() }) }
    }

    pub fn pause(&self, queue: &Queue, paused: bool) -> Result<(), QueueError> {
        let found = self.slots().pause(queue, paused);
        self.changed.notify_waiters();
        self.arrived.notify_waiters();
        if found { Ok(()) } else { Err(QueueError::NotAssigned { queue: queue.clone() }) }
    }

    pub fn take(&self) -> Option<QueueBatch> {
        let batch = self.slots().take()?;
        self.given.fetch_add(batch.messages.len() as u64, Ordering::Relaxed);
        self.changed.notify_waiters();
        Some(batch)
    }

    pub async fn next(&self) -> Result<QueueBatch, ReceiveError> {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if self.phase() > Phase::Running {
                return Err(ReceiveError::ShutDown);
            }
            if let Some(batch) = self.take() {
                return Ok(batch);
            }
            if let Some(refusal) = self.refusal() {
                return Err(ReceiveError::Refused(refusal));
            }
            arrived.await;
        }
    }

    /// Notes why nothing comes, or that something comes again.
    pub fn refuse(&self, refusal: Option<CallError>) {
        let said = refusal.is_some();
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
        if said {
            self.arrived.notify_waiters();
        }
    }

    fn refusal(&self) -> Option<CallError> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the application which queues come and go.
    pub async fn announce(self: &Arc<Core>, revoked: &[Queue], assigned: &[Queue]) {
        let Some(Hook(hook)) = self.settings.hook.clone() else { return };
        if revoked.is_empty() && assigned.is_empty() {
            return;
        }
        let change = Rebalance { core: self.clone(), revoked: revoked.to_vec(), assigned: assigned.to_vec() };
        if crate::consumer::guarded(|| hook(change)).await.is_none() {
            tracing::error!("a rebalance hook panicked");
        }
    }

    pub async fn shutdown(&self, deadline: Instant) -> ShutdownReport {
        self.stop();
        let mut phase = self.phase.subscribe();
        let left = phase.wait_for(|phase| *phase == Phase::Stopped);
        let _ = tokio::time::timeout_at(deadline, left).await;
        let _ = tokio::time::timeout_at(deadline, self.session.close(&self.client.addresses())).await;
        ShutdownReport { finished: self.given.load(Ordering::Relaxed), ..ShutdownReport::default() }
    }
}

impl Part for Core {
    fn shut_down(self: Arc<Core>, deadline: Instant) -> PartFuture {
        Box::pin(async move { Core::shutdown(&self, deadline).await })
    }
}
