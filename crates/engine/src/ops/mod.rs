//! The engine and its operations, a file for each kind of request.
//!
//! A *decision* (a message, a configuration, the end of a transaction) is proposed into the current batch and gets a
//! [`Ticket`]. [`Engine::submit`] appends the batch as one frame; when the log says that frame is durable,
//! [`Engine::committed`] applies it and returns the outcomes. A *fact* (delivered, acked, offset stored) changes the
//! state at once and is logged with the same frame.

mod admin;
mod batch;
mod census;
mod changes;
mod dead_letters;
mod deliver;
mod event;
mod follow;
mod inspect;
mod jobs;
mod key_query;
mod lite;
mod offsets;
mod own_reads;
mod pass_over;
mod query;
mod rebuild;
mod recall;
mod receipts;
mod recovery;
mod retention;
mod retries;
mod send;
mod send_back;
mod settings;
mod sizes;
mod tick;
mod time;
mod trace;
mod transactions;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use redstart_log::{Index, Log, Position, Reader, SegmentId, Usage};
use rustc_hash::FxHashMap;

pub use admin::{AdminError, GroupView, TopicView};
pub use batch::Outcome;
pub use census::{Backlog, Census, DeferredOfTopic, Overdue};
pub use changes::Change;
pub use dead_letters::{
    DLQ_ATTEMPTS, DLQ_ORIGIN_MESSAGE_ID, DLQ_ORIGIN_TOPIC, DLQ_REASON, ForwardError, dead_letter,
};
pub use deliver::{Delivery, Pop, PopError, Popped, READ_AGAIN_AFTER, Start};
pub use event::Event;
pub use inspect::Extent;
pub use jobs::{Cached, Job, JobDone};
pub use key_query::{KeyAnswer, KeyQuery, QueryStep};
pub use lite::{LITE_EXPIRATION, LiteError, LiteOffset};
pub use offsets::{OffsetError, Pull, PullStatus, Pulled, PulledMessage, QueueProgress, ResetTo};
pub use pass_over::PassedOver;
pub use query::{Found, QueryError};
pub use recall::RecallError;
pub use receipts::AckError;
pub use recovery::{OpenError, Recovered};
pub use retention::{Contents, RetireError, Retired};
pub use retries::{RECONSUME_TIME, RETRY_TOPIC};
pub use send::{Half as HalfOptions, SendError, SendOptions, SendReceipt, Sent, Visibility};
pub use send_back::{SendBack, SendBackError};
pub use settings::SettingError;
pub(crate) use settings::Settings;
pub use trace::{Trace, TraceError, TraceEvent, TraceStep};
pub use transactions::{TransactionCheck, TransactionError};

use crate::{
    BODY_BYTES_CEILING, Config, GroupId, LiteName, QueueKey, QueueOffset, Ticket, Timestamp, TopicId,
    TopicName,
    checkpoint::Encoding,
    index::Indexes,
    planted,
    record::Fact,
    speculation::Speculation,
    state::{Effects, FinalAttempt, State},
};
use batch::{Batch, PendingFrame};
use own_reads::OwnReads;
use retention::Retirement;
use time::Time;

/// The broker's state machine over one log. One owner; no clock, no threads, no randomness of its own.
pub struct Engine {
    log: Box<dyn Log>,
    reader: Arc<dyn Reader>,
    config: Config,
    state: State,
    indexes: Indexes,
    speculation: Speculation,
    batch: Batch,
    /// Appended frames that are not committed yet, oldest first.
    pending: VecDeque<PendingFrame>,
    ticket_next: u64,
    /// The last frame whose decisions were applied.
    applied: Index,
    /// The last frame whose facts were applied: those of an own frame take effect when they are recorded, so it may be ahead
    /// of `applied`. Facts up to here are not applied again when their frame is committed.
    facts_applied: Index,
    /// Where the frame behind `applied` begins, if that was read from the log.
    followed: Option<(Index, Position)>,
    time: Time,
    /// The owner does not trust its clock: no segment is removed because of its age.
    time_suspicious: bool,
    /// When a segment was last removed because of its age.
    aged_out_at: Option<Timestamp>,
    /// Numbers of receipts made since this start begin here. A crash may have lost the facts of earlier deliveries; their
    /// receipts must not be valid for deliveries after it.
    receipts_from: u64,
    wakes: Wakes,
    /// By retry topic: which receives are woken when a message comes to it.
    retry_readers: FxHashMap<TopicId, retries::Readers>,
    changes: Vec<Change>,
    events: Vec<Event>,
    passed_over: PassedOver,
    /// Idle lite topics that were removed, until the owner takes them.
    expired_lites: VecDeque<(TopicId, TopicName, LiteName)>,
    /// When to try again to move messages to the dead-letter or retry topic that could not be read.
    moves_again_at: Option<Timestamp>,
    /// When to try again to build a damaged index, whose segment the disk could not read.
    rebuild_again_at: Option<Timestamp>,
    /// When to ask again about transactions whose checks the owner could not take.
    checks_again_at: Option<Timestamp>,
    /// Messages that move when the dead-letter or retry topic exists, or the disk reads again.
    postponed_moves: Vec<FinalAttempt>,
    /// Messages that move when they have been read.
    cold_moves: Vec<FinalAttempt>,
    /// Reads for messages that move, and for copies out of the oldest segment.
    own_reads: OwnReads,
    /// Such copies wait for reads.
    copies_wait: bool,
    /// Indexes of the checkpoints that exist, newest first.
    checkpoints: [Index; 2],
    checkpointing: bool,
    /// The checkpoint that is being encoded, and its frame.
    encoding: Option<(Index, Encoding)>,
    /// The file of the next segment could not be made when the broker last tried.
    spare_failed: bool,
    /// Segments whose index is being written.
    sealing: BTreeSet<SegmentId>,
    retirement: Retirement,
    usage: Option<Usage>,
}

/// Queues and groups for which a receive may find something now. Taken by the owner after each step.
#[derive(Debug, Default)]
pub struct Wakes {
    /// Queues that gained a message.
    pub queues: Vec<QueueKey>,
    /// Groups that may get a message of a topic which they could not get before.
    pub groups: Vec<(GroupId, TopicId)>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("topics", &self.state.topics.len())
            .field("groups", &self.state.groups.len())
            .field("applied", &self.applied)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Reads messages; may be used from any thread while the engine works on.
    pub fn reader(&self) -> Arc<dyn Reader> {
        self.reader.clone()
    }

    pub fn log(&self) -> &dyn Log {
        &*self.log
    }

    /// What may be delivered now and could not before; empties the list.
    pub fn take_wakes(&mut self) -> Wakes {
        std::mem::take(&mut self.wakes)
    }

    /// Whether [`Engine::take_wakes`] has anything to give.
    pub fn has_wakes(&self) -> bool {
        !self.wakes.queues.is_empty() || !self.wakes.groups.is_empty()
    }

    fn ticket(&mut self) -> Ticket {
        self.ticket_next += 1;
        Ticket(self.ticket_next)
    }

    /// A fact takes effect at once and is logged with the current batch.
    fn record(&mut self, fact: &Fact) {
        if planted::is_logged(&self.config, fact) {
            fact.put(&mut self.batch.payload);
            self.batch.records += 1;
            self.batch.facts += 1;
        }
        self.apply_fact(fact);
    }

    fn apply_fact(&mut self, fact: &Fact) {
        let mut effects = Effects::default();
        self.state.apply_fact(fact, &mut self.speculation.dying, &mut effects);
        self.note(effects);
    }

    /// Gives out the next offset of a queue; `None` if its topic is gone.
    fn propose_offset(&mut self, key: QueueKey) -> Option<QueueOffset> {
        let topics = &self.state.topics;
        let end = |key: QueueKey| {
            let topic = topics.get(&key.topic)?;
            Some(topic.queue(key.queue).map_or(QueueOffset(0), |queue| queue.end()))
        };
        let found = end(key)?;
        self.speculation.prune_offsets(end);
        Some(self.speculation.propose_offset(key, found))
    }

    fn note(&mut self, effects: Effects) {
        if !self.retry_readers.is_empty() {
            let grown = effects.grown.iter().map(|queue| queue.topic);
            for retry in grown.chain(effects.released.iter().map(|(_, topic)| *topic)) {
                if let Some((group, topics)) = self.retry_readers.get(&retry) {
                    self.wakes.groups.extend(topics.iter().map(|topic| (*group, *topic)));
                }
            }
        }
        self.wakes.queues.extend(effects.grown);
        self.wakes.groups.extend(effects.released);
        self.wakes.groups.extend(planted::woken_by_retire(&self.config, effects.retired));
        if let Some(key) = effects.timer {
            self.speculation.timers.added(key);
        }
    }

    pub(crate) fn topic_name(&self, id: TopicId) -> Option<&TopicName> {
        self.state.topics.get(&id).map(|topic| &topic.name)
    }

    /// How many delayed messages, open transactions and dedup keys there are.
    pub fn deferred(&self) -> Deferred {
        Deferred {
            delayed: self.state.timers.len(),
            transactions: self.state.transactions.len(),
            dedup_keys: self.state.dedup.len() + self.speculation.dedup_keys.len(),
        }
    }

    /// Bytes of the current batch that have not been appended, facts that the log has refused included.
    pub fn batch_bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// Decisions and facts of the current batch, facts that the log has refused included.
    pub fn batch_records(&self) -> usize {
        self.batch.records()
    }

    /// Whether the engine's own work should leave further `bytes` to a later batch: one frame has to hold it all.
    fn batch_is_full(&self, bytes: usize) -> bool {
        let limit = self.config.limits.batch_bytes_max;
        !self.batch.payload.is_empty() && self.batch.payload.len() + bytes >= limit
    }

    pub fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Whether the batch decides something that a caller may wait for.
    pub fn has_decisions(&self) -> bool {
        !self.batch.proposals.is_empty()
    }

    /// Frames appended and not yet durable.
    pub fn pending_frames(&self) -> usize {
        self.pending.len()
    }
}

/// Counts of messages that are stored and in no queue yet, and of remembered dedup keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferred {
    pub delayed: usize,
    pub transactions: usize,
    pub dedup_keys: usize,
}

/// Largest record a message can be, with room for its properties and the record's own fields. What was stored under a
/// larger limit than today's stays readable.
fn record_size_max(config: &Config) -> u32 {
    let limits = &config.limits;
    let body = limits.body_bytes_max.max(BODY_BYTES_CEILING);
    u32::try_from(body + 4 * limits.properties_bytes_max + (64 << 10)).unwrap_or(u32::MAX)
}
