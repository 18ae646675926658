use std::time::Duration;

use crate::membership::Member;
#[cfg(feature = "sim")]
use crate::planted::Planted;

/// A reading of the node's own monotonic clock, in milliseconds. It goes on while the process is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0 + duration.as_millis() as u64)
    }
}

/// How a replica is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which member of the group it is.
    pub member: Member,
    /// Election times are drawn from this.
    pub seed: u64,
    pub timing: Timing,
    /// Frames of the newest part of the log that are kept in memory. What is not committed is kept in any case.
    pub memory_bytes_max: usize,
    /// Frames in one message; a larger one travels alone.
    pub message_bytes_max: u64,
    /// Messages with frames that may be under way to one member.
    pub messages_in_flight_max: usize,
    /// How much may be committed before the vote file says so. A start reads at least what came after it.
    pub floor_bytes: u64,
    /// A bug to plant, so that a simulation can prove that it would notice.
    #[cfg(feature = "sim")]
    pub planted: Option<Planted>,
}

impl Config {
    pub fn new(member: Member, seed: u64) -> Self {
        Self {
            member,
            seed,
            timing: Timing::default(),
            memory_bytes_max: 16 << 20,
            message_bytes_max: 512 << 10,
            messages_in_flight_max: 16,
            floor_bytes: 16 << 20,
            #[cfg(feature = "sim")]
            planted: None,
        }
    }
}

/// The group's timers, the same on all nodes.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub tick: Duration,
    /// Ticks between two heartbeats of a leader.
    pub heartbeat_ticks: usize,
    /// A node that has heard nothing of a leader for so many ticks may be voted for, and votes for others. One that has,
    /// does not.
    pub election_ticks: usize,
    /// How many ticks more a node may wait before it campaigns; drawn anew each time.
    pub election_spread_ticks: u64,
    /// How long a leader is the only one after it sent the heartbeats that a majority has answered. Shorter than the election
    /// time, by what two clocks may differ in that time, and by a tick.
    pub lease: Duration,
    /// After so many ticks a leader sends a checkpoint again to members that have not said that they have it.
    pub checkpoint_ticks: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(25),
            heartbeat_ticks: 4,
            election_ticks: 20,
            election_spread_ticks: 20,
            lease: Duration::from_millis(350),
            checkpoint_ticks: 400,
        }
    }
}

impl Timing {
    pub fn election(&self) -> Duration {
        self.tick * self.election_ticks as u32
    }
}
