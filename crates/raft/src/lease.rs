use std::time::Duration;

use crate::config::Moment;

/// Until when no other node can lead.
///
/// A member that has heard of its leader grants no vote for an election time. So once a majority has answered a heartbeat,
/// no other leader can be elected for that long after it was *sent*. A hand-over breaks the rule: its target is voted for at
/// once, also when the order to campaign arrives late. From then on there is no lease for the rest of the term.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    term: u64,
    until: Option<Moment>,
    given_up: bool,
}

impl Lease {
    fn enter(&mut self, term: u64) {
        if self.term != term {
            *self = Self { term, ..Self::default() };
        }
    }

    /// A majority has answered the heartbeats of this moment.
    pub(crate) fn answered(&mut self, term: u64, sent: Moment, lease: Duration) {
        self.enter(term);
        self.until = self.until.max(Some(sent.after(lease)));
    }

    /// Another node was or will be told to campaign.
    pub(crate) fn give_up(&mut self, term: u64) {
        self.enter(term);
        self.given_up = true;
    }

    pub(crate) fn is_given_up(&self, term: u64) -> bool {
        self.term == term && self.given_up
    }

    pub(crate) fn holds(&self, term: u64, now: Moment) -> bool {
        self.term == term && !self.given_up && self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(350);

    #[test]
    fn it_counts_from_when_the_heartbeat_was_sent() {
        let mut lease = Lease::default();
        assert!(!lease.holds(3, Moment(0)));
        lease.answered(3, Moment(1000), LEASE);
        assert!(lease.holds(3, Moment(1349)));
        assert!(!lease.holds(3, Moment(1350)));
        // An answer that was overtaken by a later one.
        lease.answered(3, Moment(900), LEASE);
        assert!(lease.holds(3, Moment(1349)));
    }

    #[test]
    fn it_is_of_one_term() {
        let mut lease = Lease::default();
        lease.answered(3, Moment(1000), LEASE);
        assert!(!lease.holds(4, Moment(1001)));
        lease.answered(4, Moment(0), LEASE);
        assert!(!lease.holds(3, Moment(1)) && lease.holds(4, Moment(1)));
    }

    #[test]
    fn a_hand_over_ends_it_for_the_term() {
        let mut lease = Lease::default();
        lease.answered(3, Moment(1000), LEASE);
        lease.give_up(3);
        lease.answered(3, Moment(1100), LEASE);
        assert!(!lease.holds(3, Moment(1101)));
        lease.answered(4, Moment(1200), LEASE);
        assert!(lease.holds(4, Moment(1201)));
    }
}
