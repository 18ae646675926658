//! Bits of a message's system flag.

pub const COMPRESSED: i32 = 0x1;
pub const TRANSACTION: i32 = 0xc;
pub const TRANSACTION_PREPARED: i32 = 0x4;
pub const TRANSACTION_COMMIT: i32 = 0x8;
pub const TRANSACTION_ROLLBACK: i32 = 0xc;
pub const BORN_HOST_V6: i32 = 0x10;
pub const STORE_HOST_V6: i32 = 0x20;
pub const NEEDS_UNWRAP: i32 = 0x40;
pub const INNER_BATCH: i32 = 0x80;

/// Bits that a producer may set and the broker hands on: the others say how this copy is written.
pub const OF_PRODUCER: i32 = !(TRANSACTION | BORN_HOST_V6 | STORE_HOST_V6 | NEEDS_UNWRAP | INNER_BATCH);
