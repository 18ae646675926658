//! The scenarios, by subject.

pub mod auth;
pub mod delay;
pub mod fifo;
pub mod filters;
pub mod messages;
pub mod refusals;
pub mod sharing;
pub mod simple;
pub mod transactions;
