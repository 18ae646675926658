//! The Remoting protocol of RocketMQ 4.x clients and `mqadmin`.

mod batch;
pub mod body;
pub mod code;
mod fields;
pub mod flag;
mod frame;
mod id;
mod json;
mod language;
mod lenient;
mod message;
mod pop;
mod properties;
mod send;

pub use batch::{BatchEntry, BatchError, decode_batch};
pub use fields::{FieldError, FieldValue, Fields, TooManyFields};
pub use frame::{Command, DecodeError, FRAME_BYTES_MAX, Serialization, VERSION, decode, encode, encode_head};
pub use id::{offset_message_id, read_offset_message_id};
pub use language::Language;
pub use lenient::{JsonError, from_slice};
pub use message::{StoredMessage, TooLong, take_body};
pub use pop::{PopHandle, PopOffsets};
pub use properties::{
    PROPERTIES_BYTES_MAX, decode_properties, encode_properties, put_properties, read_properties,
};
pub use send::SendHeader;

/// Field of the answer to `GET_BROKER_CONFIG`: the keys that `UPDATE_BROKER_CONFIG` has set, separated by commas. Apache's
/// brokers do not send it, and other clients ignore it.
pub const CHANGED_KEYS: &str = "changedKeys";
