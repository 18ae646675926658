use redstart_auth::{
    InvalidEntry, InvalidUser, InvalidWord, Policy, Rights, Secret, Standing, Status, User, built_in,
};
use redstart_wire::remoting::body;

/// A user or a rule that a server has told cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableRights {
    #[error(transparent)]
    User(#[from] InvalidUser),
    #[error(transparent)]
    Word(#[from] InvalidWord),
    #[error(transparent)]
    Rule(#[from] InvalidEntry),
}

/// The rights of one user, so that they can be asked here what the server would decide. Nobody can authenticate by them: servers
/// do not tell secrets.
pub fn rights(user: &body::User, acl: Option<&body::Acl>, cluster: &str) -> Result<Rights, UnreadableRights> {
    let mut known = User::new(&user.username, Secret::new("not told"))?;
    if let Some(kind) = &user.user_type {
        known.standing = Standing::read(kind)?;
    }
    if let Some(status) = &user.user_status {
        known.status = Status::read(status)?;
    }
    let policies = acl.map(|acl| acl.policies.as_slice()).unwrap_or_default();
    let policies = policies.iter().map(policy).collect::<Result<Vec<_>, _>>()?;
    Ok(Rights::new([known], [(user.username.as_str(), policies)], built_in(cluster)))
}

fn policy(policy: &body::Policy) -> Result<Policy, InvalidEntry> {
    Policy::read(policy.policy_type.as_deref(), policy.entries.iter().map(body::PolicyEntry::texts))
}

#[cfg(test)]
mod tests {
    use redstart_auth::{Action, Need, Resource};

    use super::*;

    #[test]
    fn rules_of_the_wire_decide() {
        let acl: body::Acl = serde_json::from_str(
            r#"{"policies":[{"entries":[{"resource":"Topic:orders-*","actions":["Pub"],"decision":"Allow"},
            {"resource":"Topic:orders-eu","actions":["Pub"],"sourceIps":["10.0.0.0/8"],"decision":"Deny"}]}]}"#,
        )
        .unwrap();
        let user: body::User = serde_json::from_str(r#"{"username":"app","password":"***"}"#).unwrap();
        let rights = rights(&user, Some(&acl), "c").unwrap();
        let verdict = |topic, from: &str| {
            let need = Need::right(Resource::topic(topic), Action::Pub);
            rights.authorize("app", from.parse().unwrap(), [need]).is_allowed()
        };
        assert!(verdict("orders-us", "10.1.1.1"));
        assert!(!verdict("orders-eu", "10.1.1.1"));
        assert!(verdict("orders-eu", "192.0.2.1"));
        assert!(verdict("RMQ_SYS_TRACE_TOPIC", "192.0.2.1"));
        assert!(!verdict("bills", "192.0.2.1"));
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_an_error() {
        let acl = r#"{"policies":[{"entries":[{"resource":"?","actions":["Pub"],"decision":"Deny"}]}]}"#;
        let acl: body::Acl = serde_json::from_str(acl).unwrap();
        let user = body::User { username: "app".to_owned(), ..body::User::default() };
        assert!(rights(&user, Some(&acl), "c").is_err());
    }
}
