//! Queues over HTTP against the real binary, alone and together with clients of the other protocols.

mod bad_input;
mod broker;
mod consuming;
mod other_protocols;
mod rights;
mod sending;
