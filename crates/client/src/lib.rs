//! Producers and consumers for [Redstart](https://github.com/redstart-mq/redstart) and Apache RocketMQ 4.x and 5.x.
//!
//! One [`Client`] holds the connections and everything comes from it. It speaks Remoting (`host:port` of name servers) or gRPC
//! (`grpc://host:port`); what follows is the same over both.
//!
#![cfg_attr(feature = "messaging", doc = include_str!("../docs/overview.md"))]
//!
//! # Features
//!
//! | Feature | Adds |
//! |---|---|
//! | `grpc` (default) | gRPC beside Remoting |
//! | `messaging` | producers and consumers over Remoting alone |
//! | `stream` | [`Receiver`] and [`QueueReader`] as streams |
//! | `admin` | requests of operators: topics, groups, offsets |

#![warn(missing_docs)]

#[cfg(feature = "admin")]
#[allow(missing_docs, reason = "bodies are the protocol's own")]
pub mod admin;
#[cfg(any(feature = "admin", feature = "messaging"))]
mod body;
mod connection;
mod credentials;
#[cfg(any(feature = "admin", feature = "messaging"))]
mod java;
mod stream;
mod tls;

#[cfg(feature = "messaging")]
mod backoff;
#[cfg(feature = "messaging")]
mod client;
#[cfg(feature = "messaging")]
mod codec;
#[cfg(feature = "messaging")]
mod consumer;
#[cfg(feature = "messaging")]
mod error;
#[cfg(feature = "messaging")]
mod filter;
#[cfg(feature = "messaging")]
mod ledger;
#[cfg(feature = "messaging")]
mod message;
#[cfg(feature = "messaging")]
mod message_id;
#[cfg(feature = "messaging")]
mod producer;
#[cfg(feature = "messaging")]
mod queue;
#[cfg(feature = "messaging")]
mod random;
#[cfg(feature = "messaging")]
mod reader;
#[cfg(feature = "messaging")]
mod received;
#[cfg(feature = "messaging")]
mod route;
#[cfg(feature = "messaging")]
mod trace;
#[cfg(feature = "messaging")]
mod transport;

#[cfg(any(feature = "admin", feature = "messaging"))]
pub use body::BodyError;
pub use connection::{Connection, Error, Question};
pub use credentials::Credentials;
pub use stream::Stream;
pub use tls::{ClientCertificate, InvalidTls, Tls, Trust};

#[cfg(feature = "messaging")]
pub use {
    backoff::Backoff,
    client::{Client, ClientBuilder},
    codec::{Codec, DecodeError, Json, Poison},
    consumer::*,
    error::{BuildError, CallError, Protocol, RouteError, SendError, ServerCode},
    filter::Filter,
    ledger::*,
    message::{DeliveryTime, InvalidMessage, Message, ShardKey},
    producer::{
        Checker, ChooseQueue, ExecuteError, Executed, FaultPolicy, Prepared, Producer, ProducerBuilder,
        ProducerCounters, RequestError, Requester, RequesterCounters, Selector, SendStatus, Sent,
        TransactionError, TransactionProducer, TransactionProducerBuilder, Verdict,
    },
    queue::Queue,
    reader::*,
    received::{DeadLetterOrigin, Received, ReplyError},
    trace::{InvalidTraceContext, TraceBridge, TraceContext},
};
