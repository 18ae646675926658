//! Users and policies as they are stored, read into what decides.

use std::collections::BTreeMap;

use redstart_auth::{Entry, InvalidEntry, Policy, Rights, Subject, User, built_in};
use redstart_wire::remoting::body;

use super::{
    secrets::Secrets,
    stored_user::{ReadUserError, StoredUser},
};

/// Where users and policies are kept among the engine's settings.
pub(crate) const USERS: &str = "user";
pub(crate) const ACLS: &str = "acl";

/// What cannot be read gives no rights: a user without a readable secret cannot authenticate, and a policy with a rule that
/// cannot be read is left out whole, for the rule may be one that denies.
pub(super) fn rights(
    users: &BTreeMap<String, String>,
    acls: &BTreeMap<String, String>,
    cluster: &str,
    secrets: &Secrets,
) -> Rights {
    let users = users.iter().filter_map(|(name, text)| {
        user(text, secrets).inspect_err(|why| tracing::error!(user = name, %why, "a user is left out")).ok()
    });
    let policies: Vec<_> = acls
        .iter()
        .filter_map(|(subject, text)| {
            let read = policies(text).and_then(|policies| {
                let subject = Subject::read(subject).map_err(|error| error.to_string())?;
                Ok((subject.user, policies))
            });
            read.inspect_err(|why| tracing::error!(subject, why, "rights are left out")).ok()
        })
        .collect();
    Rights::new(users, policies, built_in(cluster))
}

fn user(text: &str, secrets: &Secrets) -> Result<User, ReadUserError> {
    StoredUser::read(text)?.user(secrets)
}

fn policies(text: &str) -> Result<Vec<Policy>, String> {
    let stored: body::Acl = serde_json::from_str(text).map_err(|error| error.to_string())?;
    stored.policies.iter().map(|policy| read_policy(policy).map_err(|error| error.to_string())).collect()
}

/// A policy of the protocol, checked.
pub(crate) fn read_policy(policy: &body::Policy) -> Result<Policy, InvalidEntry> {
    Policy::read(policy.policy_type.as_deref(), policy.entries.iter().map(body::PolicyEntry::texts))
}

/// The same as the protocol writes it.
pub(crate) fn write_policy(policy: &Policy) -> body::Policy {
    let entry = |entry: &Entry| {
        let sources: Vec<String> = entry.sources.texts().map(str::to_owned).collect();
        body::PolicyEntry {
            resource: entry.resource.to_string(),
            actions: entry.actions.words().into_iter().map(str::to_owned).collect(),
            source_ips: Some(sources).filter(|sources| !sources.is_empty()),
            decision: entry.decision.name().to_owned(),
        }
    };
    body::Policy {
        policy_type: Some(policy.tier.name().to_owned()),
        entries: policy.entries.iter().map(entry).collect(),
    }
}

#[cfg(test)]
mod tests {
    use redstart_auth::{Action, Need, Resource};

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    const APP: (&str, &str) = ("app", r#"{"username":"app","password":"secret-of-app"}"#);

    fn may_publish(acl: &str) -> bool {
        let rights = rights(&map(&[APP]), &map(&[("User:app", acl)]), "c", &Secrets::default());
        let need = Need::right(Resource::topic("orders"), Action::Pub);
        rights.authorize("app", "10.0.0.1".parse().unwrap(), [need]).is_allowed()
    }

    #[test]
    fn what_is_stored_decides() {
        assert!(may_publish(
            r#"{"policies":[{"entries":[{"resource":"Topic:*","actions":["Pub"],"decision":"Allow"}]}]}"#
        ));
        assert!(!may_publish(r#"{"policies":[]}"#));
    }

    #[test]
    fn a_policy_that_cannot_be_read_gives_no_rights() {
        for broken in [
            "",
            "{",
            r#"{"policies":[{"entries":[{"resource":"Topic:*","actions":["Pub"],"decision":"Allow"},{"resource":"?","actions":["Pub"],"decision":"Deny"}]}]}"#,
        ] {
            assert!(!may_publish(broken), "{broken}");
        }
    }

    #[test]
    fn a_user_that_cannot_be_read_is_nobody() {
        for broken in ["{", r#"{"username":"app"}"#, r#"{"username":"app","password":"s","userType":"Root"}"#]
        {
            assert!(
                rights(&map(&[("app", broken)]), &map(&[]), "c", &Secrets::default()).user("app").is_none(),
                "{broken}"
            );
        }
    }

    #[test]
    fn traces_and_the_like_need_no_rule() {
        let rights = rights(&map(&[APP]), &map(&[]), "c", &Secrets::default());
        let here = "10.0.0.1".parse().unwrap();
        let allowed =
            |resource, action| rights.authorize("app", here, [Need::right(resource, action)]).is_allowed();
        assert!(allowed(Resource::topic("RMQ_SYS_TRACE_TOPIC"), Action::Pub));
        assert!(!allowed(Resource::topic("RMQ_SYS_TRACE_TOPIC"), Action::Sub));
        assert!(allowed(Resource::topic("c_REPLY_TOPIC"), Action::Pub));
        assert!(allowed(Resource::topic("TBW102"), Action::Get));
        assert!(!allowed(Resource::topic("TBW102"), Action::Pub));
        assert!(allowed(Resource::group("TOOLS_CONSUMER"), Action::Sub));
    }
}
