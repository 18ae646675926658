//! The part of the `protobuf` interface that `raft` calls: the size of entries, and configuration changes as bytes.
//!
//! A change is a row of varints: transition, number of changes, type and node of each; its context is not stored. No bytes
//! at all are the change that leaves a joint configuration. The row stands in frames of the log, see
//! `docs/on-disk-format.md`.

use std::{any::Any, sync::OnceLock};

use bytes::Bytes;
use protobuf::{
    Clear, CodedInputStream, CodedOutputStream, Message, ProtobufError, ProtobufResult, UnknownFields,
    error::WireError, reflect::MessageDescriptor,
};

use crate::eraftpb::{
    ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, Entry,
};

/// More changes than this in one are no change that a node proposes.
const CHANGES_MAX: u64 = 64;
/// What an entry takes beside its data and context, at most.
const ENTRY_FIELDS_BYTES: usize = 32;

/// A type that `raft` sees through [`Message`].
trait Coded: Clone + Default {
    fn size(&self) -> u32;
    fn put(&self, out: &mut CodedOutputStream<'_>) -> ProtobufResult<()>;
    fn take(input: &mut CodedInputStream<'_>) -> ProtobufResult<Self>;
}

impl Coded for Entry {
    fn size(&self) -> u32 {
        u32::try_from(self.data.len() + self.context.len() + ENTRY_FIELDS_BYTES).unwrap_or(u32::MAX)
    }

    fn put(&self, _: &mut CodedOutputStream<'_>) -> ProtobufResult<()> {
        Err(not_supported())
    }

    fn take(_: &mut CodedInputStream<'_>) -> ProtobufResult<Self> {
        Err(not_supported())
    }
}

impl Coded for ConfChange {
    fn size(&self) -> u32 {
        0
    }

    fn put(&self, _: &mut CodedOutputStream<'_>) -> ProtobufResult<()> {
        Err(not_supported())
    }

    fn take(_: &mut CodedInputStream<'_>) -> ProtobufResult<Self> {
        Err(not_supported())
    }
}

impl Coded for ConfChangeV2 {
    fn size(&self) -> u32 {
        let numbers = self.numbers().map(protobuf::rt::compute_raw_varint64_size);
        if self.leave_joint() { 0 } else { numbers.sum() }
    }

    fn put(&self, out: &mut CodedOutputStream<'_>) -> ProtobufResult<()> {
        if self.leave_joint() {
            return Ok(());
        }
        self.numbers().try_for_each(|number| out.write_raw_varint64(number))
    }

    fn take(input: &mut CodedInputStream<'_>) -> ProtobufResult<Self> {
        if input.eof()? {
            return Ok(Self::default());
        }
        let transition = known(ConfChangeTransition::from_number, input)?;
        let count = input.read_raw_varint64()?;
        if count > CHANGES_MAX {
            return Err(not_supported());
        }
        let mut changes = Vec::new();
        for _ in 0..count {
            let change_type = known(ConfChangeType::from_number, input)?;
            changes.push(ConfChangeSingle { change_type, node_id: input.read_raw_varint64()? });
        }
        if !input.eof()? {
            return Err(not_supported());
        }
        Ok(Self { transition, changes, context: Bytes::new(), ..Self::default() })
    }
}

impl ConfChangeV2 {
    fn numbers(&self) -> impl Iterator<Item = u64> {
        let changes =
            self.changes.iter().flat_map(|change| [u64::from(change.change_type.number()), change.node_id]);
        [u64::from(self.transition.number()), self.changes.len() as u64].into_iter().chain(changes)
    }
}

fn known<T>(variant: fn(u8) -> Option<T>, input: &mut CodedInputStream<'_>) -> ProtobufResult<T> {
    let number = input.read_raw_varint64()?;
    u8::try_from(number).ok().and_then(variant).ok_or_else(not_supported)
}

/// The bytes are not those of a change, or the type is one that `raft` neither encodes nor decodes.
fn not_supported() -> ProtobufError {
    ProtobufError::WireError(WireError::Other)
}

macro_rules! message {
    ($($name:ident),*) => {$(
        impl Clear for $name {
            fn clear(&mut self) {
                *self = Self::default();
            }
        }

        impl Message for $name {
            fn descriptor(&self) -> &'static MessageDescriptor {
                Self::descriptor_static()
            }

            fn is_initialized(&self) -> bool {
                true
            }

            fn merge_from(&mut self, input: &mut CodedInputStream<'_>) -> ProtobufResult<()> {
                *self = Coded::take(input)?;
                Ok(())
            }

            fn write_to_with_cached_sizes(&self, out: &mut CodedOutputStream<'_>) -> ProtobufResult<()> {
                self.put(out)
            }

            fn compute_size(&self) -> u32 {
                self.size()
            }

            fn get_cached_size(&self) -> u32 {
                self.size()
            }

            fn get_unknown_fields(&self) -> &UnknownFields {
                &self.unknown_fields
            }

            fn mut_unknown_fields(&mut self) -> &mut UnknownFields {
                &mut self.unknown_fields
            }

            fn as_any(&self) -> &dyn Any {
                self
            }

            fn new() -> Self {
                Self::default()
            }

            fn default_instance() -> &'static Self {
                static INSTANCE: OnceLock<$name> = OnceLock::new();
                INSTANCE.get_or_init(Self::default)
            }
        }
    )*};
}

message!(Entry, ConfChange, ConfChangeV2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reads_back() -> ProtobufResult<()> {
        let single = |change_type, node_id| ConfChangeSingle { change_type, node_id };
        let changes = [
            ConfChangeV2::default(),
            ConfChangeV2 { transition: ConfChangeTransition::Explicit, ..ConfChangeV2::default() },
            ConfChangeV2 {
                transition: ConfChangeTransition::Explicit,
                changes: vec![
                    single(ConfChangeType::AddNode, u64::MAX),
                    single(ConfChangeType::AddLearnerNode, 0),
                    single(ConfChangeType::RemoveNode, 77),
                ],
                ..ConfChangeV2::default()
            },
        ];
        for change in changes {
            let bytes = change.write_to_bytes()?;
            let mut back = ConfChangeV2::default();
            back.merge_from_bytes(&bytes)?;
            assert_eq!(back, change);
        }
        Ok(())
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [&[3, 0][..], &[0, 1], &[0, 65], &[0, 0, 0], &[0, 1, 3, 1], &[255; 20]] {
            assert!(ConfChangeV2::default().merge_from_bytes(bytes).is_err(), "{bytes:?}");
        }
    }
}
