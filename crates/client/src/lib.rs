//! Talks to any server that RocketMQ clients can use, over Remoting.

mod connection;

pub use connection::{Connection, Error};
