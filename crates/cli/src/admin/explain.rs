//! Errors as one line that says why, and what to do.

use anyhow::anyhow;
use redstart_client::admin::{Admin, Error, Target};

use crate::similar::similar;

/// Adds what helps: how to start a server, what a name may have meant.
pub async fn explain(admin: &Admin, error: anyhow::Error) -> anyhow::Error {
    let Some(cause) = error.downcast_ref::<Error>() else { return error };
    // What was being done when it happened is more than can be said here.
    if error.to_string() != cause.to_string() {
        return error;
    }
    match cause {
        Error::NoNameServer { address, why } => {
            anyhow!("no broker at {address} ({why}); is it running? Try: redstart serve")
        }
        Error::NoBroker { address, why } => anyhow!(
            "the name server is there, but no broker at {address} ({why}); can that address be reached from here? See --advertise of redstart serve"
        ),
        Error::UnknownTopic { topic } => {
            let names = admin.topic_names().await.unwrap_or_default();
            let create = format!("create it with: redstart topic create {topic}");
            unknown(cause, topic, &names, &create)
        }
        Error::UnknownGroup { group } => {
            let names = group_names(admin).await.unwrap_or_default();
            let create = format!("create it with: redstart group create {group}");
            unknown(cause, group, &names, &create)
        }
        _ => error,
    }
}

fn unknown(cause: &Error, name: &str, names: &[String], otherwise: &str) -> anyhow::Error {
    match &similar(name, names.iter().map(String::as_str))[..] {
        [] => anyhow!("{cause}; {otherwise}"),
        close => anyhow!("{cause}; did you mean {}?", close.join(", ")),
    }
}

async fn group_names(admin: &Admin) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for broker in admin.masters(&Target::Everywhere).await? {
        names.extend(admin.groups(&broker.address).await?.into_keys());
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
