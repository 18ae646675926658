use crate::{byte_budget::ByteBudget, listen::Connections};

/// What all ports share, so that none of them can use up the process. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    pub connections: Connections,
    /// Bytes of requests and answers under way.
    pub bytes: ByteBudget,
}
