//! Talks to any server that RocketMQ clients can use, over Remoting.

pub mod admin;
mod connection;
mod credentials;
mod stream;
mod tls;

pub use connection::{Connection, Error};
pub use credentials::Credentials;
pub use stream::Stream;
pub use tls::{ClientCertificate, InvalidTls, Tls, Trust};
