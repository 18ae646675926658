//! `/healthz` and `/readyz`.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use http::StatusCode;
use hyper::body::Incoming;
use parking_lot::RwLock;

use super::{
    answer::text,
    call::{Call, Right},
    refusal::Refusal,
    router::{Answering, Part, Request},
};
use crate::shard::{Condition, ShardHandle};

/// The stage of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Recovering the log, opening ports.
    Starting = 0,
    /// Every port accepts connections.
    Serving = 1,
    /// Asked to stop: connections are about to be closed.
    Stopping = 2,
}

/// Whether the process works, and whether clients should connect. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Health {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    stage: AtomicU8,
    shards: RwLock<Vec<ShardHandle>>,
}

impl Health {
    pub fn set(&self, stage: Stage) {
        self.state.stage.store(stage as u8, Ordering::SeqCst);
    }

    /// Sets the shards whose condition is reported.
    pub fn watch(&self, shards: impl IntoIterator<Item = ShardHandle>) {
        *self.state.shards.write() = shards.into_iter().collect();
    }

    /// What a condition tells first, over all shards.
    fn find<T>(&self, tells: impl Fn(&Condition) -> Option<T>) -> Option<T> {
        self.state.shards.read().iter().find_map(|shard| tells(shard.counters().condition()))
    }

    /// `/healthz`, for supervisors that restart a failed process.
    pub fn live_page(&self) -> impl Part + use<> {
        Page { health: self.clone(), path: "/healthz", problem: Health::failed }
    }

    /// `/readyz`, for load balancers that route clients here.
    pub fn ready_page(&self) -> impl Part + use<> {
        Page { health: self.clone(), path: "/readyz", problem: Health::unready }
    }

    fn failed(&self) -> Option<String> {
        let failure = self.find(|condition| condition.failure().map(str::to_owned))?;
        Some(format!("the shard has failed: {failure}"))
    }

    fn unready(&self) -> Option<String> {
        let stage = self.state.stage.load(Ordering::SeqCst);
        if stage == Stage::Stopping as u8 {
            return Some("stopping".to_owned());
        }
        if stage != Stage::Serving as u8 {
            return Some("starting".to_owned());
        }
        let scarce = || self.find(|condition| condition.is_room_scarce().then_some(())).is_some();
        self.failed()
            .or_else(|| self.find(|condition| Some(condition.disk_full()?.to_string())))
            .or_else(|| scarce().then(|| "the disk has no room for another segment".to_owned()))
    }
}

#[derive(Debug)]
struct Page {
    health: Health,
    path: &'static str,
    /// The reason for a refusal, if there is one.
    problem: fn(&Health) -> Option<String>,
}

impl Part for Page {
    fn path(&self) -> &'static str {
        self.path
    }

    fn right(&self, _: &Request) -> Result<Right, Refusal> {
        Ok(Right::Open)
    }

    fn answer(&self, _: Call, _: Incoming) -> Answering<'_> {
        let answer = match (self.problem)(&self.health) {
            None => text(StatusCode::OK, "ok"),
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, &why),
        };
        Box::pin(std::future::ready(answer))
    }
}
