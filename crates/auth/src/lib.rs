//! Who a caller is and what it may do: the model of RocketMQ's ACL 2.0 as pure functions. There is no clock, no randomness,
//! no file and no socket here: times, nonces and texts are arguments.
//!
//! ```
//! use redstart_auth::{Action, Entry, Need, Policy, Resource, Rights, Secret, Tier, User};
//!
//! let user = User::new("billing", Secret::new("k3y-of-billing"))?;
//! let entry = Entry::read("Topic:orders-*", &["Sub"], &["10.0.0.0/8"], "Allow")?;
//! let rights = Rights::new([user], [("billing", vec![Policy::new(Tier::Custom, vec![entry])])], Vec::new());
//!
//! let need = Need::right(Resource::topic("orders-eu"), Action::Sub);
//! assert!(rights.authorize("billing", "10.1.2.3".parse()?, [need]).is_allowed());
//! assert!(!rights.authorize("billing", "192.0.2.1".parse()?, [need]).is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod acl1;
mod action;
pub mod attempts;
pub mod audit;
mod built_in;
pub mod date;
mod policy;
pub mod repeats;
mod resource;
mod rights;
pub mod seal;
pub mod signature;
mod source;
mod user;

pub use action::{Action, Actions, InvalidAction};
pub use built_in::built_in;
pub use policy::{Decision, Entry, EntryTexts, InvalidEntry, InvalidWord, Policy, Tier};
pub use resource::{InvalidResource, Kind, Pattern, Resource};
pub use rights::{Denial, Need, Reason, Rights, Verdict};
pub use source::{InvalidSource, SourcePattern, Sources};
pub use user::{InvalidUser, Secret, Standing, Status, Subject, User};
