//! Adds a hint to the errors that have a usual cause.

use redstart_client::admin::{Admin, Error, Target};

use crate::{
    failure::{Failure, admin_code},
    similar::similar,
};

/// The error with a hint: how to start a server, which name was probably meant, how to create what is missing.
pub async fn explain(admin: &Admin, error: anyhow::Error) -> anyhow::Error {
    let Some(cause) = error.downcast_ref::<Error>() else { return error };
    // An error with context says what was being done, which is more than a hint can add.
    if error.to_string() != cause.to_string() {
        return error;
    }
    let code = admin_code(cause);
    let failure = match cause {
        Error::NoNameServer { address, why } => Failure::new(code, format!("no broker at {address} ({why})"))
            .with_hint("is it running? Try: redstart serve"),
        Error::NoBroker { address, why } => {
            Failure::new(code, format!("the name server is there, but no broker at {address} ({why})")).with_hint(
                "can that address be reached from here? The broker's --advertise sets the address that clients get",
            )
        }
        Error::UnknownTopic { topic } => {
            let names = admin.topic_names().await.unwrap_or_default();
            let create = format!("create it with: redstart topic create {topic}");
            Failure::new(code, cause.to_string()).with_hint(suggestion(topic, &names).unwrap_or(create))
        }
        Error::UnknownGroup { group } => {
            let names = group_names(admin).await.unwrap_or_default();
            let create = format!("create it with: redstart group create {group}");
            Failure::new(code, cause.to_string()).with_hint(suggestion(group, &names).unwrap_or(create))
        }
        _ => return error,
    };
    failure.into()
}

fn suggestion(name: &str, names: &[String]) -> Option<String> {
    let close = similar(name, names.iter().map(String::as_str));
    (!close.is_empty()).then(|| format!("did you mean {}?", close.join(", ")))
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
