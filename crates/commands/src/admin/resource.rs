//! What the commands for topics and for consumer groups share: each broker keeps both by name.

use std::collections::BTreeMap;

use redstart_client::admin::{
    Admin, Broker, DEAD_LETTER_PREFIX, Error, RETRY_PREFIX, Target, TopicStats, is_system_group,
};
use redstart_wire::remoting::body::{GroupConfig, TopicEntry};

use super::Session;
use crate::failure::Failure;

/// A topic or a consumer group, as a broker describes it.
pub trait Resource: Sized {
    /// In messages.
    const NOUN: &'static str;
    /// The command that works on it.
    const COMMAND: &'static str;

    async fn read(admin: &Admin, broker: &str, name: &str) -> Result<Self, Error>;

    fn unknown(name: &str) -> Error;
}

impl Resource for TopicEntry {
    const NOUN: &'static str = "topic";
    const COMMAND: &'static str = "topic";

    async fn read(admin: &Admin, broker: &str, name: &str) -> Result<TopicEntry, Error> {
        admin.topic_config(broker, name).await
    }

    fn unknown(name: &str) -> Error {
        Error::UnknownTopic { topic: name.to_owned() }
    }
}

impl Resource for GroupConfig {
    const NOUN: &'static str = "consumer group";
    const COMMAND: &'static str = "group";

    async fn read(admin: &Admin, broker: &str, name: &str) -> Result<GroupConfig, Error> {
        admin.group(broker, name).await
    }

    fn unknown(name: &str) -> Error {
        Error::UnknownGroup { group: name.to_owned() }
    }
}

async fn find<R: Resource>(session: &Session, broker: &Broker, name: &str) -> Result<Option<R>, Error> {
    match R::read(&session.admin, &broker.address, name).await {
        Err(Error::UnknownTopic { .. } | Error::UnknownGroup { .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// The brokers that have `name`, each with its description of it; an error if no broker has it.
pub async fn holders<R: Resource>(
    session: &Session,
    name: &str,
    target: &Target,
) -> Result<Vec<(Broker, R)>, Error> {
    let mut found = Vec::new();
    for broker in session.admin.masters(target).await? {
        if let Some(resource) = find(session, &broker, name).await? {
            found.push((broker, resource));
        }
    }
    if found.is_empty() { Err(R::unknown(name)) } else { Ok(found) }
}

/// An error if one of the brokers has `name` already.
pub async fn refuse_existing<R: Resource>(
    session: &Session,
    brokers: &[Broker],
    name: &str,
) -> anyhow::Result<()> {
    for broker in brokers {
        if find::<R>(session, broker, name).await?.is_some() {
            let message = format!("{} {name} exists already on {}", R::NOUN, broker.name);
            let hint = format!("change it with: redstart {} update {name}", R::COMMAND);
            return Err(Failure::new("exists", message).with_hint(hint).into());
        }
    }
    Ok(())
}

pub fn broker_names<'a>(brokers: impl IntoIterator<Item = &'a Broker>) -> Vec<String> {
    brokers.into_iter().map(|broker| broker.name.clone()).collect()
}

/// Whether a topic is left out of lists: those for retries and dead letters, and the server's own.
pub fn is_internal_topic(name: &str, brokers: &[Broker]) -> bool {
    name.starts_with(RETRY_PREFIX)
        || name.starts_with(DEAD_LETTER_PREFIX)
        || Admin::is_own_topic(name, brokers)
}

/// Removes the internal names unless `all` is wanted, and says how many were removed.
pub fn hide_internal<T>(
    found: &mut BTreeMap<String, T>,
    all: bool,
    is_internal: impl Fn(&str) -> bool,
) -> usize {
    let before = found.len();
    if !all {
        found.retain(|name, _| !is_internal(name));
    }
    before - found.len()
}

/// The text for an empty list.
pub fn none_yet(what: &str, hidden: usize, hint: &str) -> String {
    let internal = if hidden > 0 { " (internal ones are shown with --all)" } else { "" };
    format!("no {what} yet{internal}; {hint}")
}

/// Messages stored in a topic.
pub fn stored_messages(stats: &TopicStats) -> i64 {
    stats.queues.iter().map(|(_, row)| row.max_offset - row.min_offset).sum()
}

/// The groups of users on any of the brokers. A broker that does not answer has none.
pub async fn user_groups(session: &Session, brokers: &[Broker]) -> usize {
    let mut groups = std::collections::BTreeSet::new();
    for broker in brokers.iter().filter(|broker| broker.id == 0) {
        let found = session.admin.groups(&broker.address).await.unwrap_or_default();
        groups.extend(found.into_keys().filter(|group| !is_system_group(group)));
    }
    groups.len()
}

/// Reads an attribute of the command line, `key=value`.
pub fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected key=value".to_owned()),
    }
}

/// An error that lists the options of an update of which at least one is needed.
pub fn nothing_to_change(options: &str) -> anyhow::Error {
    Failure::new("usage", "nothing to change").with_hint(format!("give {options}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_a_key_and_a_value() {
        assert_eq!(attribute("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        for bad in ["", "a", "=b", "a="] {
            assert!(attribute(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn internal_names_are_hidden_unless_all_are_wanted() {
        let mut found: BTreeMap<String, ()> = ["orders", "%RETRY%g"].map(|name| (name.to_owned(), ())).into();
        let internal = |name: &str| is_internal_topic(name, &[]);
        assert_eq!((hide_internal(&mut found, true, internal), found.len()), (0, 2));
        assert_eq!((hide_internal(&mut found, false, internal), found.len()), (1, 1));
        assert_eq!(none_yet("topics", 0, "x"), "no topics yet; x");
    }
}
