//! Resources that all ports share.

use crate::{access::Access, byte_budget::ByteBudget, listen::Connections};

/// Limits over all ports together, so that one port cannot use up what the others need. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    pub connections: Connections,
    /// Bytes of requests and answers under way.
    pub bytes: ByteBudget,
    /// Whether and how callers are asked who they are.
    pub access: Access,
}
