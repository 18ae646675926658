//! Known bugs that a test can switch on, to prove that the simulation would find them.

/// One planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Outcomes are reported before their frame is durable.
    AckBeforeDurable,
    /// Ordered delivery does not look at locks.
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
    BuryEarly,
    /// A message whose properties cannot be read just now is passed over by an SQL filter.
    SkipUnreadable,
    /// A message that is given back counts as consumed.
    GiveBackEnds,
    /// Expired dedup keys are removed only when a key is added, and none is added at the limit.
    JamDedup,
    /// Message groups whose locks go with a removed segment do not wake their consumers.
    FreeSilently,
}

impl Planted {
    /// Every bug that can be planted.
    pub const ALL: [Planted; 14] = [
        Planted::AckBeforeDurable,
        Planted::IgnoreGroupLock,
        Planted::ForgetLocksOnRestart,
        Planted::FireEarly,
        Planted::LoseTimersAtSeal,
        Planted::DropTimersOfSegment,
        Planted::ForgetDedupKey,
        Planted::ForgetAcks,
        Planted::ShowHalfMessages,
        Planted::BuryEarly,
        Planted::SkipUnreadable,
        Planted::GiveBackEnds,
        Planted::JamDedup,
        Planted::FreeSilently,
    ];
}
