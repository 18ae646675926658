//! Messages, entries and configurations. The module has the name that `raft` imports.

use bytes::Bytes;
use protobuf::UnknownFields;

/// An enumeration whose numbers are part of the protocol. The first variant is the default.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $first:ident, $($variant:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            #[default]
            $first,
            $($variant,)+
        }

        impl $name {
            const ALL: &[Self] = &[Self::$first, $(Self::$variant,)+];

            pub fn number(self) -> u8 {
                self as u8
            }

            /// The variant with this number.
            pub fn from_number(number: u8) -> Option<Self> {
                Self::ALL.get(usize::from(number)).copied()
            }
        }
    };
}

numbered! {
    /// What an entry holds.
    EntryType { EntryNormal, EntryConfChange, EntryConfChangeV2, }
}

numbered! {
    /// What a message is.
    MessageType {
        MsgHup, MsgBeat, MsgPropose, MsgAppend, MsgAppendResponse, MsgRequestVote, MsgRequestVoteResponse, MsgSnapshot,
        MsgHeartbeat, MsgHeartbeatResponse, MsgUnreachable, MsgSnapStatus, MsgCheckQuorum, MsgTransferLeader,
        MsgTimeoutNow, MsgReadIndex, MsgReadIndexResp, MsgRequestPreVote, MsgRequestPreVoteResponse,
    }
}

numbered! {
    /// How a joint configuration is left: by `raft` when it can, always by `raft`, or by the caller.
    ConfChangeTransition { Auto, Implicit, Explicit, }
}

numbered! {
    /// What happens to a node.
    ConfChangeType { AddNode, RemoveNode, AddLearnerNode, }
}

/// One entry of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    pub entry_type: EntryType,
    pub term: u64,
    pub index: u64,
    pub data: Bytes,
    pub context: Bytes,
    pub sync_log: bool,
    /// Always empty; part of the interface of `protobuf`.
    pub unknown_fields: UnknownFields,
}

/// A snapshot stands for all entries up to its index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub data: Bytes,
    pub metadata: SnapshotMetadata,
}

impl Snapshot {
    pub fn is_empty(&self) -> bool {
        self.metadata.index == 0
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SnapshotMetadata {
    pub conf_state: ConfState,
    pub index: u64,
    pub term: u64,
}

/// What one node tells another, or itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub msg_type: MessageType,
    pub to: u64,
    pub from: u64,
    pub term: u64,
    /// The term of the entry at `index`.
    pub log_term: u64,
    pub index: u64,
    pub entries: Vec<Entry>,
    pub commit: u64,
    pub commit_term: u64,
    pub snapshot: Snapshot,
    pub request_snapshot: u64,
    pub reject: bool,
    pub reject_hint: u64,
    pub context: Bytes,
    pub deprecated_priority: u64,
    pub priority: i64,
}

/// What a node must not forget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HardState {
    pub term: u64,
    pub vote: u64,
    pub commit: u64,
}

/// Who takes part. While `voters_outgoing` is not empty, a decision needs a majority of both sets of voters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfState {
    pub voters: Vec<u64>,
    pub learners: Vec<u64>,
    pub voters_outgoing: Vec<u64>,
    /// Nodes that become learners when the outgoing voters are dropped.
    pub learners_next: Vec<u64>,
    pub auto_leave: bool,
}

impl<V, L> From<(V, L)> for ConfState
where
    V: IntoIterator<Item = u64>,
    L: IntoIterator<Item = u64>,
{
    fn from((voters, learners): (V, L)) -> Self {
        Self {
            voters: voters.into_iter().collect(),
            learners: learners.into_iter().collect(),
            ..Self::default()
        }
    }
}

/// A change of one node, in the form of earlier versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfChange {
    pub id: u64,
    pub change_type: ConfChangeType,
    pub node_id: u64,
    pub context: Bytes,
    /// Always empty; part of the interface of `protobuf`.
    pub unknown_fields: UnknownFields,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConfChangeSingle {
    pub change_type: ConfChangeType,
    pub node_id: u64,
}

/// A change of any number of nodes. Without changes it leaves a joint configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfChangeV2 {
    pub transition: ConfChangeTransition,
    pub changes: Vec<ConfChangeSingle>,
    pub context: Bytes,
    /// Always empty; part of the interface of `protobuf`.
    pub unknown_fields: UnknownFields,
}

/// Accessors by the names that a code generator gives them.
macro_rules! accessors {
    ($name:ident: $(copy $copy:ident $get_copy:ident $set_copy:ident $copied:ty,)*
     $(part $part:ident $get:ident $set:ident $mutable:ident $take:ident $kept:ty => $seen:ty,)*) => {
        impl $name {
            $(
                pub fn $get_copy(&self) -> $copied { self.$copy }
                pub fn $set_copy(&mut self, value: $copied) { self.$copy = value; }
            )*
            $(
                pub fn $get(&self) -> &$seen { &self.$part }
                pub fn $set(&mut self, value: $kept) { self.$part = value; }
                pub fn $mutable(&mut self) -> &mut $kept { &mut self.$part }
                pub fn $take(&mut self) -> $kept { std::mem::take(&mut self.$part) }
            )*
        }
    };
}

accessors!(Entry:
    copy entry_type get_entry_type set_entry_type EntryType,
    copy term get_term set_term u64,
    copy index get_index set_index u64,
    part data get_data set_data mut_data take_data Bytes => [u8],
    part context get_context set_context mut_context take_context Bytes => [u8],
);
accessors!(Snapshot:
    part data get_data set_data mut_data take_data Bytes => [u8],
    part metadata get_metadata set_metadata mut_metadata take_metadata SnapshotMetadata => SnapshotMetadata,
);
accessors!(SnapshotMetadata:
    copy term get_term set_term u64,
    copy index get_index set_index u64,
    part conf_state get_conf_state set_conf_state mut_conf_state take_conf_state ConfState => ConfState,
);
accessors!(Message:
    copy msg_type get_msg_type set_msg_type MessageType,
    copy term get_term set_term u64,
    copy index get_index set_index u64,
    copy commit get_commit set_commit u64,
    part entries get_entries set_entries mut_entries take_entries Vec<Entry> => [Entry],
    part snapshot get_snapshot set_snapshot mut_snapshot take_snapshot Snapshot => Snapshot,
    part context get_context set_context mut_context take_context Bytes => [u8],
);
accessors!(HardState:
    copy term get_term set_term u64,
    copy vote get_vote set_vote u64,
    copy commit get_commit set_commit u64,
);
accessors!(ConfState:
    part voters get_voters set_voters mut_voters take_voters Vec<u64> => [u64],
    part learners get_learners set_learners mut_learners take_learners Vec<u64> => [u64],
    part voters_outgoing get_voters_outgoing set_voters_outgoing mut_voters_outgoing take_voters_outgoing Vec<u64> => [u64],
    part learners_next get_learners_next set_learners_next mut_learners_next take_learners_next Vec<u64> => [u64],
);
accessors!(ConfChange:
    copy change_type get_change_type set_change_type ConfChangeType,
    copy node_id get_node_id set_node_id u64,
    part context get_context set_context mut_context take_context Bytes => [u8],
);
accessors!(ConfChangeSingle:
    copy change_type get_change_type set_change_type ConfChangeType,
    copy node_id get_node_id set_node_id u64,
);
accessors!(ConfChangeV2:
    copy transition get_transition set_transition ConfChangeTransition,
    part changes get_changes set_changes mut_changes take_changes Vec<ConfChangeSingle> => [ConfChangeSingle],
    part context get_context set_context mut_context take_context Bytes => [u8],
);
