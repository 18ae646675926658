//! Known bugs that a test can switch on, to prove that the simulation would find them.
//!
//! An operation calls a function of this module at the step that a bug changes. Without the feature `planted` no bug can be
//! switched on, and each of these functions is the identity, or a constant that the compiler removes. Nothing else in the
//! crate knows which bugs there are.

use std::time::Duration;

use redstart_log::{Index, SegmentId};

use crate::{
    Config, GroupId, SendOptions, Timestamp, TopicId,
    index::Indexes,
    pop::{Passes, Selected},
    record::{Delivered, Fact},
    state::State,
};

/// One planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Outcomes are reported before their frame is durable.
    AckBeforeDurable,
    /// Ordered delivery does not look at the locks of message groups.
    IgnoreGroupLock,
    /// Locks of message groups are not restored at start.
    ForgetLocksOnRestart,
    /// Delayed messages become visible half a second early.
    FireEarly,
    /// Delayed messages of a segment are not in its stored index.
    LoseTimersAtSeal,
    /// A segment is removed without copying its delayed messages forward.
    DropTimersOfSegment,
    /// Dedup keys are not looked up.
    ForgetDedupKey,
    /// Acks are not logged.
    ForgetAcks,
    /// Half messages are visible at once.
    ShowHalfMessages,
    /// Messages go to the dead-letter topic one attempt early.
    DeadLetterEarly,
    /// A message whose properties cannot be read just now is passed over by an SQL filter.
    SkipUnreadable,
    /// A message that is given back counts as consumed.
    GiveBackAcks,
    /// Expired dedup keys are removed only when a key is added, and none is added at the limit.
    KeepExpiredKeys,
    /// Message groups whose locks go with a removed segment do not wake their consumers.
    RetireWithoutWake,
    /// Messages of other topics that a receive passes over in the group's retry topic are forgotten.
    ForgetSkippedRetries,
    /// When a half message is first asked about depends on a setting of the node that applies it.
    SettingInApply,
    /// A segment is removed without a record.
    RetireWithoutRecord,
    /// Facts that took effect when they were recorded are applied again when their frame is committed.
    FactAppliedTwice,
    /// A checkpoint does not wait for the frames that are on their way.
    SpeculationInCheckpoint,
    /// An owner that leads no longer keeps facts that are not committed.
    KeepUncommittedFacts,
    /// Dead letters and copies out of the oldest segment wait for the disk.
    OwnWorkWaits,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Every bug that can be planted.
    pub const ALL: [Planted; 21] = [
        Planted::AckBeforeDurable,
        Planted::IgnoreGroupLock,
        Planted::ForgetLocksOnRestart,
        Planted::FireEarly,
        Planted::LoseTimersAtSeal,
        Planted::DropTimersOfSegment,
        Planted::ForgetDedupKey,
        Planted::ForgetAcks,
        Planted::ShowHalfMessages,
        Planted::DeadLetterEarly,
        Planted::SkipUnreadable,
        Planted::GiveBackAcks,
        Planted::KeepExpiredKeys,
        Planted::RetireWithoutWake,
        Planted::ForgetSkippedRetries,
        Planted::SettingInApply,
        Planted::RetireWithoutRecord,
        Planted::FactAppliedTwice,
        Planted::SpeculationInCheckpoint,
        Planted::KeepUncommittedFacts,
        Planted::OwnWorkWaits,
    ];
}

#[cfg(feature = "planted")]
fn is_planted(config: &Config, bug: Planted) -> bool {
    config.planted == Some(bug)
}

#[cfg(not(feature = "planted"))]
#[inline(always)]
fn is_planted(_: &Config, _: Planted) -> bool {
    false
}

/// Up to which frame decisions take effect.
#[inline]
pub(crate) fn committed(config: &Config, durable: Index, appended: impl FnOnce() -> Index) -> Index {
    if is_planted(config, Planted::AckBeforeDurable) { appended() } else { durable }
}

/// Whether a fact goes to the log.
#[inline]
pub(crate) fn is_logged(config: &Config, fact: &Fact) -> bool {
    !(matches!(fact, Fact::Ack { .. }) && is_planted(config, Planted::ForgetAcks))
}

/// What a pop takes out of one queue.
#[inline]
pub(crate) fn selected(config: &Config, mut selected: Selected) -> Selected {
    if is_planted(config, Planted::IgnoreGroupLock) {
        for blocked in selected.blocked.drain(..) {
            let (offset, lock) = (blocked.offset, blocked.lock);
            selected.delivered.push((Delivered { offset, attempt: 1, lock, priority: 0 }, None));
        }
    }
    selected
}

/// What becomes of a message that an SQL filter needs and the disk did not give.
#[inline]
pub(crate) fn unreadable(config: &Config) -> Passes {
    if is_planted(config, Planted::SkipUnreadable) { Passes::No } else { Passes::Unreadable }
}

/// After how many deliveries a message goes to the dead-letter topic.
#[inline]
pub(crate) fn attempts_max(config: &Config, attempts_max: u32) -> u32 {
    attempts_max - u32::from(is_planted(config, Planted::DeadLetterEarly))
}

/// Whether a delivery that is given back counts as consumed.
#[inline]
pub(crate) fn acks_given_back(config: &Config) -> bool {
    is_planted(config, Planted::GiveBackAcks)
}

/// The time with which the due times of delayed messages are compared.
#[inline]
pub(crate) fn timers_now(config: &Config, now: Timestamp) -> Timestamp {
    const EARLY: Duration = Duration::from_millis(500);
    if is_planted(config, Planted::FireEarly) { now.after(EARLY) } else { now }
}

/// How many expired dedup keys one step removes.
#[inline]
pub(crate) fn expired_keys_max(config: &Config, max: usize) -> usize {
    if is_planted(config, Planted::KeepExpiredKeys) { 0 } else { max }
}

/// Whether dedup keys of earlier messages are looked up.
#[inline]
pub(crate) fn looks_up_dedup_keys(config: &Config) -> bool {
    !is_planted(config, Planted::ForgetDedupKey)
}

/// How messages are stored.
#[inline]
pub(crate) fn send_options(config: &Config, options: SendOptions) -> SendOptions {
    if is_planted(config, Planted::ShowHalfMessages) {
        SendOptions { half: None, ..options }
    } else {
        options
    }
}

/// Called before the index of a segment is written.
#[inline]
pub(crate) fn before_seal(config: &Config, indexes: &mut Indexes, segment: SegmentId) {
    if is_planted(config, Planted::LoseTimersAtSeal) {
        indexes.live_mut(segment).timers.clear();
    }
}

/// Whether messages that must outlive their segment are copied forward.
#[inline]
pub(crate) fn copies_forward(config: &Config) -> bool {
    !is_planted(config, Planted::DropTimersOfSegment)
}

/// The groups that are woken after a segment was removed.
#[inline]
pub(crate) fn woken_by_retire(config: &Config, groups: Vec<(GroupId, TopicId)>) -> Vec<(GroupId, TopicId)> {
    if is_planted(config, Planted::RetireWithoutWake) { Vec::new() } else { groups }
}

/// The messages of a retry topic that a receive leaves to receives of other topics.
#[inline]
pub(crate) fn skipped_retries(config: &Config, skipped: Vec<Delivered>) -> Vec<Delivered> {
    if is_planted(config, Planted::ForgetSkippedRetries) { Vec::new() } else { skipped }
}

/// Whether the removal of a segment is a record.
#[inline]
pub(crate) fn records_retirement(config: &Config) -> bool {
    !is_planted(config, Planted::RetireWithoutRecord)
}

/// Whether facts are applied again when their frame is committed.
#[inline]
pub(crate) fn applies_facts_again(config: &Config) -> bool {
    is_planted(config, Planted::FactAppliedTwice)
}

/// Whether a checkpoint waits until nothing is on its way.
#[inline]
pub(crate) fn checkpoints_wait(config: &Config) -> bool {
    !is_planted(config, Planted::SpeculationInCheckpoint)
}

/// Whether an owner that leads no longer forgets facts that are not committed.
#[inline]
pub(crate) fn forgets_uncommitted_facts(config: &Config) -> bool {
    !is_planted(config, Planted::KeepUncommittedFacts)
}

/// When a half message is first asked about.
#[inline]
pub(crate) fn check_after(state: &State, check_after: Duration) -> Duration {
    #[cfg(feature = "planted")]
    if let Some(max) = state.check_after_max {
        return check_after.min(max);
    }
    let _ = state;
    check_after
}

/// Whether the engine's own work waits for the disk.
#[inline]
pub(crate) fn own_work_waits(config: &Config) -> bool {
    is_planted(config, Planted::OwnWorkWaits)
}

/// Called when a start has restored the state.
#[inline]
pub(crate) fn after_start(config: &Config, state: &mut State) {
    if is_planted(config, Planted::SettingInApply) {
        #[cfg(feature = "planted")]
        (state.check_after_max = Some(config.transactions.open_max));
    }
    if is_planted(config, Planted::ForgetLocksOnRestart) {
        let all = state.subscriptions.values_mut().flat_map(|subscription| &mut subscription.queues);
        all.for_each(|progress| progress.locks = Some(Box::default()));
    }
}
