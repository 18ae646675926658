//! `redstart acl grant`, `deny` and `revoke`.

use clap::Args;
use redstart_auth::{Decision, Entry};
use redstart_wire::remoting::body::{Acl, Policy, PolicyEntry};
use serde::Serialize;

use super::subject;
use crate::admin::{
    Session,
    confirm::Consent,
    output::{Style, View, listed},
    resource::broker_names,
    target::Where,
    user,
};

#[derive(Debug, Args)]
pub struct Rule {
    /// Name of the user
    user: String,
    /// What the rule is for: Topic:NAME, Group:NAME, Cluster:NAME, a prefix such as Topic:orders-*, Topic:* or *
    resource: String,
    /// Pub, Sub, Create, Update, Delete, Get, List or All, separated by commas
    #[arg(required = true, value_delimiter = ',')]
    actions: Vec<String>,
    /// Only for callers from this address, range (10.0.0.1-9) or network (10.0.0.0/8); may be given several times
    #[arg(long = "source", value_name = "ADDRESS", value_delimiter = ',')]
    sources: Vec<String>,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub struct Revoke {
    /// Name of the user
    user: String,
    /// The resource of the rule; without it all rules of the user go
    resource: Option<String>,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    consent: Consent,
}

impl Rule {
    pub async fn run(&self, session: &Session, decision: Decision) -> anyhow::Result<()> {
        // Servers refuse what cannot be read; here the sentence says which word it is.
        let entry = Entry::read(&self.resource, &self.actions, &self.sources, decision.name())?;
        let stated = PolicyEntry {
            resource: entry.resource.to_string(),
            actions: entry.actions.words().into_iter().map(str::to_owned).collect(),
            source_ips: Some(self.sources.clone()).filter(|sources| !sources.is_empty()),
            decision: decision.name().to_owned(),
        };
        let subject = subject(&self.user);
        let acl = Acl {
            subject: Some(subject.clone()),
            policies: vec![Policy { policy_type: None, entries: vec![stated] }],
        };
        let held = user::holders(session, &self.user, &self.at.target()).await?;
        let mut brokers = Vec::with_capacity(held.len());
        for (broker, _) in held {
            session.admin.create_acl(&broker.address, &subject, &acl).await?;
            brokers.push(broker);
        }
        let brokers = broker_names(&brokers);
        let from =
            if self.sources.is_empty() { String::new() } else { format!(" from {}", self.sources.join(",")) };
        session.output.show(&Done { user: self.user.clone(), what: format!("{entry}{from}"), brokers })
    }
}

impl Revoke {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let what = match &self.resource {
            Some(resource) => format!("the rule for {resource}"),
            None => "all rules".to_owned(),
        };
        let brokers = session.admin.masters(&self.at.target()).await?;
        let names = broker_names(&brokers);
        self.consent.ask(&format!("remove {what} of user {} on {}", self.user, listed(&names)))?;
        for broker in &brokers {
            let subject = subject(&self.user);
            session.admin.delete_acl(&broker.address, &subject, self.resource.as_deref()).await?;
        }
        let what = format!("removed {what}");
        session.output.show(&Done { user: self.user.clone(), what, brokers: names })
    }
}

#[derive(Debug, Serialize)]
struct Done {
    user: String,
    #[serde(rename = "rule")]
    what: String,
    brokers: Vec<String>,
}

impl View for Done {
    fn text(&self, _: Style) -> String {
        format!("user {}: {} on {}\n", self.user, self.what, listed(&self.brokers))
    }
}
