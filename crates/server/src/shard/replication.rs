//! The replica of this node: what drives it from the owner thread, and how a shard with replicas is opened.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use parking_lot::Mutex;
use redstart_engine::{Config as EngineConfig, Engine};
use redstart_log::{Index, Log, Options as LogOptions, Recovery, Storage};
use redstart_raft::{Failure as ReplicaFailure, Member, Message, Moment, Replica, ReplicatedLog, Role};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::{
    Config, Counters, Failure, Now, Shard, ShardHandle, StartError, SystemClock,
    engine_slot::EngineSlot,
    flush_thread::FlushThread,
    jobs::{BackgroundJobs, JobThreads},
    log_lines,
    owner::Owner,
    request::Request,
    runtime::Runtime,
};
use crate::throttle::Throttle;

/// Inputs taken in one step, so that requests and reports do not have to wait for more of them.
const INPUTS_PER_STEP: usize = 512;
/// How often the view of the replica is made anew.
const VIEW_INTERVAL: Duration = Duration::from_millis(100);
/// A target of a hand-over may lack this many frames.
const TRANSFER_LAG_MAX: u64 = 10_000;

static REFUSED: Throttle = Throttle::new();

/// What happens to a replica.
#[derive(Debug)]
pub enum ReplicaInput {
    /// A message of a peer. What it takes of the link's window is given back when it was read.
    Message { message: Box<Message>, held: Option<OwnedSemaphorePermit> },
    /// The connection to a peer was lost.
    LinkDown(Member),
    /// Leadership is to be handed to this node, or to the one that has the most frames.
    Transfer { to: Option<u32>, answer: oneshot::Sender<Result<u32, TransferRefused>> },
}

/// What gives inputs to a replica. Clones give them to the same one.
#[derive(Debug, Clone)]
pub struct ReplicaInputs(Sender<ReplicaInput>);

/// What the owner of a replica takes inputs from.
#[derive(Debug)]
pub struct ReplicaIncoming(Receiver<ReplicaInput>);

impl ReplicaIncoming {
    #[cfg(test)]
    pub(crate) fn try_take(&self) -> Option<ReplicaInput> {
        self.0.try_recv().ok()
    }
}

impl ReplicaInputs {
    /// Not bounded in number: the links bound the bytes of what they give.
    pub fn new() -> (ReplicaInputs, ReplicaIncoming) {
        let (give, take) = crossbeam_channel::unbounded();
        (ReplicaInputs(give), ReplicaIncoming(take))
    }

    /// `false` when the shard has ended.
    pub(crate) fn give(&self, input: ReplicaInput) -> bool {
        self.0.send(input).is_ok()
    }

    /// Hands leadership to a node, or to the one that has the most frames. Returns the node that was told to lead.
    pub async fn transfer(&self, to: Option<u32>) -> Result<u32, TransferRefused> {
        let (answer, answered) = oneshot::channel();
        self.give(ReplicaInput::Transfer { to, answer });
        answered.await.unwrap_or(Err(TransferRefused::NotLeading))
    }
}

/// Why leadership is not handed over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferRefused {
    #[error("this node does not lead")]
    NotLeading,
    #[error("no other node has enough of the frames")]
    NobodyElse,
    #[error("{0}")]
    Refused(String),
}

/// Who leads, as far as this node knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    pub leader: Option<u32>,
    /// The term in which this node leads and has the state of all that was committed before.
    pub serves: Option<u64>,
}

/// A replica, as metrics and commands show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaView {
    pub node: u32,
    pub leads: bool,
    pub leader: Option<u32>,
    pub term: u64,
    pub appended: u64,
    pub durable: u64,
    pub committed: u64,
    pub applied: u64,
    pub voters: Vec<u32>,
    pub learners: Vec<u32>,
    /// How far the other members have acknowledged frames, if this node leads.
    pub acknowledged: Vec<(u32, u64)>,
    /// Terms in which this node has begun to serve.
    pub elections_won: u64,
    pub stepped_down: u64,
    pub catching_up: bool,
}

/// What a shard with replicas is opened with.
pub struct Replication {
    pub member: Member,
    /// The nodes with which the group began, the same for every node and every start.
    pub founders: Vec<u32>,
    /// Election times are drawn from it.
    pub seed: u64,
    pub inputs: ReplicaIncoming,
    /// Sends a message, and never waits.
    pub send: Box<dyn Fn(&Message) + Send>,
    pub standing: watch::Sender<Standing>,
    pub view: SharedView,
}

/// The view of a replica, made anew some times a second.
pub type SharedView = Arc<Mutex<ReplicaView>>;

impl std::fmt::Debug for Replication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replication").field("founders", &self.founders).finish_non_exhaustive()
    }
}

impl Shard {
    /// Opens the log of this node's replica in `storage` and starts to take part. Requests are served while this node leads.
    pub fn open_replicated(
        storage: Arc<dyn Storage>,
        log: LogOptions,
        engine: EngineConfig,
        config: Config,
        replication: Replication,
    ) -> Result<(Shard, Recovery), StartError> {
        let segment_bytes = log.segment_bytes;
        let Replication { member, founders, seed, inputs: ReplicaIncoming(inputs), send, standing, view } =
            replication;
        let raft = redstart_raft::Config::new(member, seed);
        let founders: Vec<Member> =
            founders.into_iter().map(|node| Member { node, incarnation: 0 }).collect();
        let (log, recovery) = redstart_raft::open_log(&storage, log, &raft)?;
        let is_member = redstart_raft::has_vote(storage.as_ref()).map_err(ReplicaFailure::from)?;
        if !is_member && log.appended() > Index(0) {
            return Err(StartError::WasAlone);
        }
        log_lines::log_volume(log.usage().ok(), segment_bytes);
        let started = Instant::now();
        let replica = Replica::open(storage, Box::new(log), &founders, raft, Moment(0))?;
        let log = ReplicatedLog::new(replica);
        let reader = log.reader();
        let (requests, incoming) = crossbeam_channel::bounded::<Request>(config.requests_max);
        let pending_bytes = config.pending_bytes.0.clone();
        let counters = Arc::new(Counters::default());
        let flush_thread = FlushThread::new(log.flusher(), config.flush, counters.clone());
        let threads = config.job_threads.clone().map_or_else(|| JobThreads::start(1), Ok)?;
        let driver =
            ReplicaDriver { log, inputs, send, standing, view, started, led: None, shown_at: Duration::ZERO };
        // Connection tasks do not use the engine: whether this node may serve is known to its owner alone.
        let handle = ShardHandle::new(
            requests,
            std::sync::Weak::new(),
            pending_bytes,
            reader,
            counters.clone(),
            &config,
        );
        let work = move || {
            counters.clone().condition().watch(|| {
                let mut driver = driver;
                let Some(engine) = driver.open_engine(&incoming, engine)? else { return Ok(()) };
                let mut runtime = Runtime::new(engine, config, counters.clone());
                runtime.role = super::leadership::Role::Following;
                let slot = EngineSlot::new(runtime);
                let jobs = BackgroundJobs::new(threads);
                let clock = Arc::new(SystemClock);
                let owner = Owner::new(&slot, incoming, flush_thread, jobs, clock, counters.clone());
                owner.with_replica(driver).run()
            })
        };
        let owner = std::thread::Builder::new().name("shard-owner".to_owned()).spawn(work)?;
        Ok((Shard { handle, owner: Some(owner) }, recovery))
    }
}

/// Drives the replica from the owner thread.
pub(super) struct ReplicaDriver {
    log: ReplicatedLog,
    inputs: Receiver<ReplicaInput>,
    send: Box<dyn Fn(&Message) + Send>,
    standing: watch::Sender<Standing>,
    view: SharedView,
    started: Instant,
    /// The term in which the engine leads.
    led: Option<u64>,
    shown_at: Duration,
}

/// What the owner has to know of the replica after a step.
struct State {
    leads: Option<u64>,
    committed: Index,
    held: bool,
    wants_flush: bool,
    leader: Option<u32>,
}

impl ReplicaDriver {
    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn inputs(&self) -> &Receiver<ReplicaInput> {
        &self.inputs
    }

    pub fn tick(&self) -> Duration {
        TICK
    }

    /// Waits until the replica has what an engine needs, and opens it. `None` if the shard is stopped before.
    fn open_engine(
        &mut self,
        incoming: &Receiver<Request>,
        config: EngineConfig,
    ) -> Result<Option<Engine>, Failure> {
        let flusher = self.log.flusher();
        while self.log.replica().is_catching_up() {
            match incoming.try_recv() {
                Ok(Request::Stop) | Err(crossbeam_channel::TryRecvError::Disconnected) => return Ok(None),
                // There is no state to serve from.
                Ok(_) | Err(crossbeam_channel::TryRecvError::Empty) => {}
            }
            let first = match self.inputs.recv_timeout(TICK) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            };
            let uptime = self.started.elapsed();
            self.take_inputs(first, uptime)?;
            if self.log.replica().wants_flush() {
                flusher.flush()?;
            }
            self.send();
            self.show(None, uptime);
        }
        let stored = self.log.checkpoints().load()?.0;
        let checkpoint = stored.first().map_or(Index(0), |(at, _)| *at);
        // A checkpoint is taken of committed frames only.
        let committed = self.log.committed().max(checkpoint);
        let (engine, recovered) = Engine::open_until(Box::new(self.log.clone()), config, committed)?;
        tracing::info!(
            committed = committed.0,
            frames_replayed = recovered.frames_replayed,
            "the state of the replica is open"
        );
        Ok(Some(engine))
    }

    /// Gives the replica what has happened, and the engine what came of it.
    pub fn step(&mut self, runtime: &mut Runtime, now: Now) -> Result<(), Failure> {
        self.take_inputs(None, now.uptime)?;
        let state = self.look(now);
        if self.led.is_some() && self.led != state.leads {
            // Before the engine learns of commits: other frames may be committed at the indexes that it has proposed.
            self.led = None;
            tracing::info!(leader = state.leader, "this node leads no longer");
            self.view.lock().stepped_down += 1;
            self.tell(Standing { leader: state.leader.filter(|_| state.leads.is_none()), serves: None });
            runtime.step_down(now)?;
        }
        match state.leads {
            Some(term) if self.led.is_none() => {
                runtime.follow(state.committed)?;
                runtime.lead(term);
                self.led = Some(term);
                tracing::info!(term, committed = state.committed.0, "this node leads");
                self.view.lock().elections_won += 1;
            }
            Some(_) => runtime.commit(state.committed, now)?,
            None => runtime.follow(state.committed)?,
        }
        runtime.hold_requests(state.held);
        // A leader's own frames are flushed by their kind; what is left are frames that the replica has made.
        if state.wants_flush && (self.led.is_none() || runtime.facts_flush_at.is_none()) {
            runtime.order_flush();
        }
        self.tell(Standing { leader: state.leader, serves: self.led });
        self.show(Some(runtime.engine.applied()), now.uptime);
        Ok(())
    }

    fn look(&self, now: Now) -> State {
        let replica = self.log.replica();
        State {
            leads: replica.leads(),
            committed: replica.committed(),
            held: !replica.may_serve(moment(now.uptime)) || replica.is_handing_over(),
            wants_flush: replica.wants_flush(),
            leader: replica.leader().map(|member| member.node),
        }
    }

    fn tell(&self, standing: Standing) {
        self.standing.send_if_modified(|before| std::mem::replace(before, standing) != standing);
    }

    fn take_inputs(&mut self, first: Option<ReplicaInput>, uptime: Duration) -> Result<(), Failure> {
        let now = moment(uptime);
        let mut replica = self.log.replica();
        for input in first.into_iter().chain(self.inputs.try_iter().take(INPUTS_PER_STEP)) {
            match input {
                ReplicaInput::Message { message, held } => {
                    let from = redstart_raft::message::sender(&message).node;
                    if let Err(refusal) = replica.receive(now, *message)?
                        && let Some(repeated) = REFUSED.permit()
                    {
                        tracing::warn!(from, %refusal, repeated, "refused a message of a peer");
                    }
                    drop(held);
                }
                ReplicaInput::LinkDown(member) => replica.link_down(member)?,
                ReplicaInput::Transfer { to, answer } => {
                    // Nobody may wait for the answer any more.
                    drop(answer.send(transfer(&mut replica, to)?));
                }
            }
        }
        Ok(replica.tick(now)?)
    }

    /// Sends what the replica has to say.
    pub fn send(&self) {
        let messages = self.log.replica().take_messages();
        messages.iter().for_each(&self.send);
    }

    fn show(&mut self, applied: Option<Index>, uptime: Duration) {
        if uptime < self.shown_at {
            return;
        }
        self.shown_at = uptime + VIEW_INTERVAL;
        let replica = self.log.replica();
        let membership = replica.membership();
        let nodes = |members: &[Member]| members.iter().map(|member| member.node).collect();
        let own = replica.member();
        let others = membership.voters.iter().chain(&membership.learners).filter(|member| **member != own);
        let acknowledged = others.filter_map(|member| Some((member.node, replica.acknowledged(*member)?.0)));
        let mut view = self.view.lock();
        *view = ReplicaView {
            node: own.node,
            leads: self.led.is_some(),
            leader: replica.leader().map(|member| member.node),
            term: replica.term(),
            appended: replica.appended().0,
            durable: replica.durable().0,
            committed: replica.committed().0,
            applied: applied.map_or(view.applied, |applied| applied.0),
            voters: nodes(&membership.voters),
            learners: nodes(&membership.learners),
            acknowledged: acknowledged.collect(),
            elections_won: view.elections_won,
            stepped_down: view.stepped_down,
            catching_up: replica.is_catching_up(),
        };
    }
}

/// Time between two looks at the clock, while nothing else happens.
const TICK: Duration = Duration::from_millis(20);

fn moment(uptime: Duration) -> Moment {
    Moment(uptime.as_millis() as u64)
}

/// Hands leadership to a node, or to the voter that has the most frames.
fn transfer(replica: &mut Replica, to: Option<u32>) -> Result<Result<u32, TransferRefused>, Failure> {
    if replica.role() != Role::Leader {
        return Ok(Err(TransferRefused::NotLeading));
    }
    let voters = replica.membership().voters;
    let others = voters.into_iter().filter(|member| *member != replica.member());
    let target = match to {
        Some(node) => others.into_iter().find(|member| member.node == node),
        None => {
            let enough = replica.appended().0.saturating_sub(TRANSFER_LAG_MAX);
            let with_frames = others.filter_map(|member| Some((replica.acknowledged(member)?.0, member)));
            with_frames.filter(|(frames, _)| *frames >= enough).max().map(|(_, member)| member)
        }
    };
    let Some(target) = target else { return Ok(Err(TransferRefused::NobodyElse)) };
    Ok(match replica.transfer_to(target)? {
        Ok(()) => Ok(target.node),
        Err(refusal) => Err(TransferRefused::Refused(refusal.to_string())),
    })
}

#[cfg(test)]
mod tests;
