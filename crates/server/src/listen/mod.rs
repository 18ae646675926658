//! How connections are taken, on every port: one accept loop, one limit for the process that follows from the files it
//! may open, and one rule for what happens at the limit: the longest idle connection gives way to a new one.

mod accept;
mod activity;
mod connections;
mod files;
mod register;

pub(crate) use accept::accept;
pub(crate) use activity::Activity;
pub(crate) use connections::{Port, PortLimits};

pub use connections::Connections;
pub use files::FileBudget;
