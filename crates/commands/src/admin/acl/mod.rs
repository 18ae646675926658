//! `redstart acl`: the rules that say what users may do.

mod change;
mod list;

use clap::Subcommand;
use redstart_wire::remoting::body::Acl;
use serde::Serialize;

use super::{Session, table::Table};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the rules
    List(list::List),
    /// Show the rules of a user
    Show(list::Show),
    /// Allow a user actions on a resource; a rule of the user for the same resource is replaced
    Grant(change::Rule),
    /// Deny a user actions on a resource; a rule of the user for the same resource is replaced
    Deny(change::Rule),
    /// Remove the rule of a user for a resource, or all its rules
    Revoke(change::Revoke),
}

pub async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    match command {
        Command::List(list) => list.run(session).await,
        Command::Show(show) => show.run(session).await,
        Command::Grant(rule) => rule.run(session, redstart_auth::Decision::Allow).await,
        Command::Deny(rule) => rule.run(session, redstart_auth::Decision::Deny).await,
        Command::Revoke(revoke) => revoke.run(session).await,
    }
}

/// How the protocol names a user that rules are for.
pub fn subject(user: &str) -> String {
    format!("User:{user}")
}

/// One rule, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Rule {
    user: String,
    policy: String,
    resource: String,
    actions: Vec<String>,
    sources: Vec<String>,
    decision: String,
}

pub fn rules(acl: &Acl) -> Vec<Rule> {
    let subject = acl.subject.as_deref().unwrap_or_default();
    let user = subject.strip_prefix("User:").unwrap_or(subject);
    let of_policy = |policy: &redstart_wire::remoting::body::Policy| {
        let tier = policy.policy_type.clone().unwrap_or_else(|| "Custom".to_owned());
        let rule = move |entry: &redstart_wire::remoting::body::PolicyEntry| Rule {
            user: user.to_owned(),
            policy: tier.clone(),
            resource: entry.resource.clone(),
            actions: entry.actions.clone(),
            sources: entry.source_ips.clone().unwrap_or_default(),
            decision: entry.decision.clone(),
        };
        policy.entries.iter().map(rule).collect::<Vec<_>>()
    };
    acl.policies.iter().flat_map(of_policy).collect()
}

pub fn rules_table(rules: &[Rule]) -> Table {
    let mut table = Table::new()
        .left("USER")
        .left("RESOURCE")
        .left("DECISION")
        .left("ACTIONS")
        .left("FROM")
        .wide("POLICY");
    for rule in rules {
        let from = if rule.sources.is_empty() { "anywhere".to_owned() } else { rule.sources.join(",") };
        let Rule { user, policy, resource, actions, decision, .. } = rule.clone();
        table.row([user, resource, decision, actions.join(","), from, policy]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::output::Style;

    #[test]
    fn rules_are_shown_in_a_table() {
        let acl: Acl = serde_json::from_str(
            r#"{"subject":"User:app","policies":[{"entries":[{"resource":"Topic:orders","actions":["Pub","Sub"],
            "sourceIps":["10.0.0.0/8"],"decision":"Allow"},{"resource":"*","actions":["All"],"decision":"Deny"}]}]}"#,
        )
        .unwrap();
        assert_eq!(
            rules_table(&rules(&acl)).render(Style::default()),
            concat!(
                "USER  RESOURCE      DECISION  ACTIONS  FROM\n",
                "app   Topic:orders  Allow     Pub,Sub  10.0.0.0/8\n",
                "app   *             Deny      All      anywhere\n",
            )
        );
    }
}
