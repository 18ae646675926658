//! Accepts connections on every port: one accept loop, one limit of connections that follows from the files that the process may open,
//! and one rule at the limit: the connection that has been idle longest is closed for a new one.

mod accept;
mod activity;
mod connections;
mod file_limits;
mod register;
mod source;

pub(crate) use accept::accept;
pub(crate) use activity::Activity;
pub(crate) use connections::{Port, PortLimits};

pub use connections::Connections;
pub use file_limits::FileLimits;
pub use source::{Accepted, Ends, Listener};
