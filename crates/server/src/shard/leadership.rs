//! What a shard with replicas does when it begins to lead, leads no longer, and follows.
//!
//! A shard that follows applies what is committed and proposes nothing. It serves reads of its state; every other request is set aside
//! unanswered, because its connection is closed as soon as the front ends learn that this node does not lead, and the client asks again
//! where it is served. So is what was not answered yet when leadership was lost: whether it took effect is not known.

use std::{any::Any, time::Duration};

use redstart_log::Index;

use super::{Failure, Now, log_lines, request::Request, runtime::Runtime};

/// How long requests without an answer are kept. Their connections are closed long before.
const SET_ASIDE_FOR: Duration = Duration::from_secs(2);

/// What a shard may do with its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    /// There are no replicas.
    #[default]
    Alone,
    /// It decides. While it cannot know that no other node does, or hands leadership over, requests are held.
    Leading {
        held: bool,
    },
    Following,
}

/// Requests and answers that will not be given, with the time at which they may be forgotten.
#[derive(Default)]
pub(super) struct SetAside(Vec<(Duration, Box<dyn Any + Send>)>);

impl SetAside {
    fn put(&mut self, what: impl Any + Send, now: Now) {
        self.0.push((now.uptime + SET_ASIDE_FOR, Box::new(what)));
    }

    fn forget(&mut self, now: Now) {
        self.0.retain(|(until, _)| now.uptime < *until);
    }
}

impl Runtime {
    /// Whether this shard may record facts and propose decisions.
    pub(super) fn decides(&self) -> bool {
        self.role != Role::Following
    }

    /// Whether requests and appends have to wait.
    pub(super) fn holds_requests(&self) -> bool {
        self.role == Role::Leading { held: true }
    }

    /// Sets whether requests have to wait; only while this shard leads.
    pub(super) fn hold_requests(&mut self, held: bool) {
        if let Role::Leading { .. } = self.role {
            self.role = Role::Leading { held };
        }
    }

    /// Applies what is committed up to `index`. None of it was proposed here, or leadership was lost since.
    pub(super) fn follow(&mut self, index: Index) -> Result<(), Failure> {
        if self.engine.applied() >= index {
            return Ok(());
        }
        self.engine.follow(index)?;
        drop(self.engine.take_wakes());
        self.count_events();
        self.engine.take_changes().iter().for_each(log_lines::log_change);
        Ok(())
    }

    /// From here on this shard decides. All that is committed has been applied.
    pub(super) fn lead(&mut self, term: u64) {
        self.engine.lead(term);
        self.role = Role::Leading { held: true };
    }

    /// Another node may decide from here on: what was only proposed or recorded is forgotten.
    pub(super) fn step_down(&mut self, now: Now) -> Result<(), Failure> {
        self.role = Role::Following;
        // What was begun of a checkpoint is of committed frames only.
        while self.engine.is_encoding() {
            self.encode_checkpoint();
        }
        drop(self.engine.drop_speculation()?);
        drop(self.engine.take_wakes());
        self.end_deferral();
        (self.facts_flush_at, self.refusal, self.checkpoint_wanted) = (None, None, false);
        self.clear_tick_backoff();
        self.written.clear();
        self.unfinished_searches.clear();
        let waiting: Vec<_> = self.wait_list.drain().collect();
        let cold_reads = std::mem::take(&mut self.cold_reads);
        self.lite_subscriptions = Default::default();
        let replies = std::mem::take(&mut self.replies);
        self.set_aside.put((waiting, cold_reads, replies), now);
        Ok(())
    }

    /// Takes a request while this shard follows. Returns those that can be served.
    pub(super) fn take_as_follower(&mut self, request: Request, now: Now) -> Option<Request> {
        match request {
            Request::Query(_) | Request::CountPops { .. } | Request::EndPolls | Request::Stop => {
                Some(request)
            }
            Request::WakeUp => None,
            request => {
                self.set_aside.put(request, now);
                None
            }
        }
    }

    /// What a shard does on its own while it follows.
    pub(super) fn work_as_follower(&mut self, now: Now) {
        self.set_aside.forget(now);
        self.run_suspended(now);
        self.jobs.extend(self.engine.make_spare());
        self.housekeep(now);
        self.counters.set_waiting_receives(0);
    }
}
