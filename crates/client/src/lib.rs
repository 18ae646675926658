//! Talks to any server that RocketMQ clients can use, over Remoting.

pub mod admin;
mod connection;
mod credentials;

pub use connection::{Connection, Error};
pub use credentials::Credentials;
