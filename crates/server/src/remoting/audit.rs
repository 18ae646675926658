//! What the audit log is told of Remoting requests: denials, and changes that an administrator makes.

use std::borrow::Cow;

use redstart_auth::signature::remoting::ACCESS_KEY;
use redstart_wire::remoting::code;

use super::{
    dispatch::SERVED,
    request::{Answer, Received, Request},
};
use crate::{
    access::{Identity, Needs},
    audit::{Entry, Outcome},
};

const PORT: &str = "remoting";
/// Settings that one line names.
const SETTINGS_MAX: usize = 16;

/// Fields that name what a request of a super user is about, and what stands before their value.
const OBJECTS: &[(&str, &str)] = &[
    ("username", "User:"),
    ("accessKey", "User:"),
    ("subject", ""),
    ("resource", ""),
    ("topic", "Topic:"),
    ("namespace", "Namespace:"),
    ("key", "Key:"),
    ("brokerName", "Broker:"),
];

/// The caller has not proved who it is; the name is what it says.
pub(super) fn unauthenticated(received: &Received, why: &str) {
    let user = received.field(ACCESS_KEY).filter(|user| !user.is_empty());
    record(received, user, &[], Outcome::Unauthenticated, why);
}

/// The caller may not do what the request needs.
pub(super) fn denied(received: &Received, identity: &Identity, needs: Option<&Needs<'_>>, why: &str) {
    let objects = needs.map(|needs| objects(received, needs)).unwrap_or_default();
    record(received, identity.user().map(|user| &**user), &objects, Outcome::Denied, why);
}

/// What a request is about: the resources that it needs rights on, and where it needs a super user, what its fields name.
pub(super) fn objects(received: &Received, needs: &Needs<'_>) -> Vec<String> {
    let mut objects = needs.resources();
    if needs.is_for_super_users() {
        let named = OBJECTS.iter().filter_map(|(field, prefix)| {
            let value = received.field(field).filter(|value| !value.is_empty())?;
            Some(format!("{prefix}{value}"))
        });
        objects.extend(named);
        objects.extend(settings(received));
    }
    objects
}

/// The names of the settings that a request changes. Their values may be anything and are left out.
fn settings(received: &Received) -> Vec<String> {
    if !matches!(received.code, code::UPDATE_BROKER_CONFIG | code::UPDATE_NAMESRV_CONFIG) {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&received.body);
    let names = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.trim());
    names.take(SETTINGS_MAX).map(|name| format!("Setting:{name}")).collect()
}

/// A change that is under way. It is recorded when it ends, also by the end of its connection.
pub(super) struct Change<'a>(Option<&'a Request>);

impl<'a> Change<'a> {
    /// Most requests are no change of an administrator: then there is nothing to record.
    pub fn of(request: &'a Request) -> Change<'a> {
        Change(request.changed_objects().map(|_| request))
    }

    pub fn ended(mut self, answer: &Answer) {
        let outcome = if answer.code == code::SUCCESS { Outcome::Done } else { Outcome::Failed };
        self.record(outcome, answer.remark.as_deref().unwrap_or_default());
    }

    fn record(&mut self, outcome: Outcome, why: &str) {
        if let Some(request) = self.0.take() {
            let user = request.identity().user().map(|user| &**user);
            record(request, user, request.changed_objects().unwrap_or_default(), outcome, why);
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.record(Outcome::Failed, "the connection ended before the outcome was known");
    }
}

fn record(received: &Received, user: Option<&str>, objects: &[String], outcome: Outcome, why: &str) {
    let known = SERVED.iter().find(|(code, _)| *code == received.code);
    let request: Cow<'_, str> =
        known.map_or_else(|| format!("code {}", received.code).into(), |(_, name)| (*name).into());
    let from = received.peer.remote;
    received.access().record(Entry { user, from, port: PORT, request: &request, objects, outcome, why });
}
