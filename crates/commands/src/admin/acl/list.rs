//! `redstart acl list` and `show`.

use std::collections::BTreeSet;

use clap::Args;
use serde::Serialize;

use super::{Rule, rules, rules_table, subject};
use crate::admin::{
    Session,
    output::{Style, View},
    target::Where,
};

#[derive(Debug, Args)]
pub struct List {
    /// Only rules for resources whose names contain this
    #[arg(long, value_name = "TEXT")]
    resource: Option<String>,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Name of the user
    user: String,
    #[command(flatten)]
    at: Where,
}

impl List {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let mut found = BTreeSet::new();
        for broker in session.admin.masters(&self.at.target()).await? {
            let acls = session.admin.acls(&broker.address, None, self.resource.as_deref()).await?;
            found.extend(acls.iter().flat_map(rules));
        }
        show(session, found)
    }
}

impl Show {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let mut found = BTreeSet::new();
        for broker in session.admin.masters(&self.at.target()).await? {
            let acl = session.admin.acl(&broker.address, &subject(&self.user)).await?;
            found.extend(acl.iter().flat_map(rules));
        }
        show(session, found)
    }
}

fn show(session: &Session, rules: BTreeSet<Rule>) -> anyhow::Result<()> {
    session.output.show(&Rules { rules: rules.into_iter().collect() })
}

#[derive(Debug, Serialize)]
struct Rules {
    rules: Vec<Rule>,
}

impl View for Rules {
    fn text(&self, style: Style) -> String {
        if self.rules.is_empty() {
            return "no rules: only super users may do something\n".to_owned();
        }
        rules_table(&self.rules).render(style)
    }
}
