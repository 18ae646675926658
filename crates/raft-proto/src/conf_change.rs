//! What `raft` asks about configurations and their changes.

use std::borrow::Cow;

use crate::eraftpb::{
    ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
};

/// Both forms of a change, seen as the newer one.
pub trait ConfChangeI {
    fn into_v2(self) -> ConfChangeV2;
    fn as_v2(&self) -> Cow<'_, ConfChangeV2>;
    /// The change itself, if it has the older form.
    fn as_v1(&self) -> Option<&ConfChange>;
}

impl ConfChangeI for ConfChange {
    fn into_v2(self) -> ConfChangeV2 {
        let single = ConfChangeSingle { change_type: self.change_type, node_id: self.node_id };
        ConfChangeV2 { changes: vec![single], context: self.context, ..ConfChangeV2::default() }
    }

    fn as_v2(&self) -> Cow<'_, ConfChangeV2> {
        Cow::Owned(self.clone().into_v2())
    }

    fn as_v1(&self) -> Option<&ConfChange> {
        Some(self)
    }
}

impl ConfChangeI for ConfChangeV2 {
    fn into_v2(self) -> ConfChangeV2 {
        self
    }

    fn as_v2(&self) -> Cow<'_, ConfChangeV2> {
        Cow::Borrowed(self)
    }

    fn as_v1(&self) -> Option<&ConfChange> {
        None
    }
}

impl ConfChangeV2 {
    /// Whether the change goes through a joint configuration, and then whether `raft` leaves that by itself. One change
    /// needs none, unless it is asked for.
    pub fn enter_joint(&self) -> Option<bool> {
        match self.transition {
            ConfChangeTransition::Auto if self.changes.len() <= 1 => None,
            ConfChangeTransition::Auto | ConfChangeTransition::Implicit => Some(true),
            ConfChangeTransition::Explicit => Some(false),
        }
    }

    /// Whether the change leaves a joint configuration.
    pub fn leave_joint(&self) -> bool {
        self.transition == ConfChangeTransition::Auto && self.changes.is_empty()
    }
}

/// Whether two configurations have the same nodes, in whatever order.
pub fn conf_state_eq(left: &ConfState, right: &ConfState) -> bool {
    fn same(left: &[u64], right: &[u64]) -> bool {
        left.iter().all(|node| right.contains(node)) && right.iter().all(|node| left.contains(node))
    }
    same(&left.voters, &right.voters)
        && same(&left.learners, &right.learners)
        && same(&left.voters_outgoing, &right.voters_outgoing)
        && same(&left.learners_next, &right.learners_next)
        && left.auto_leave == right.auto_leave
}

/// The change of one node.
pub fn new_conf_change_single(node_id: u64, change_type: ConfChangeType) -> ConfChangeSingle {
    ConfChangeSingle { change_type, node_id }
}
