//! Talks to any server that RocketMQ clients can use, over Remoting.

pub mod admin;
mod connection;

pub use connection::{Connection, Error};
