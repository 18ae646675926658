//! `redstart auth`: what a user may do, decided here from the users and rules that the broker has.

use std::{net::IpAddr, process::ExitCode};

use anyhow::Context;
use clap::{Args, Subcommand};
use redstart_auth::{Actions, Need, Resource, Verdict};
use redstart_client::admin::rights;
use serde::Serialize;

use super::{
    Session,
    acl::subject,
    output::{Style, View},
    target::Where,
    user,
};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether a user may do something, and which rule decides; exits with 1 if not
    Test(Test),
}

#[derive(Debug, Args)]
pub struct Test {
    /// Name of the user
    #[arg(long)]
    user: String,
    /// Pub, Sub, Create, Update, Delete, Get, List, or Any for a request that any right on the resource allows
    #[arg(long, value_parser = Actions::of_request)]
    action: Actions,
    /// What the request is about: Topic:NAME, Group:NAME or Cluster:NAME
    #[arg(long)]
    resource: String,
    /// Address that the request comes from
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    source: IpAddr,
    #[command(flatten)]
    at: Where,
}

pub async fn run(command: &Command, session: &Session) -> anyhow::Result<ExitCode> {
    let Command::Test(test) = command;
    test.run(session).await
}

impl Test {
    async fn run(&self, session: &Session) -> anyhow::Result<ExitCode> {
        let resource = Resource::read(&self.resource)?;
        let mut is_allowed = true;
        for (broker, known) in user::holders(session, &self.user, &self.at.target()).await? {
            let acl = session.admin.acl(&broker.address, &subject(&self.user)).await?;
            let rights = rights(&known, acl.as_ref(), &broker.cluster)
                .with_context(|| format!("the rules of {} on {} cannot be read", self.user, broker.name))?;
            let verdict = rights.authorize(&self.user, self.source, [Need::right(resource, self.action)]);
            is_allowed &= verdict.is_allowed();
            session.output.next(&Answer::of(&broker.name, &verdict))?;
        }
        Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

#[derive(Debug, Serialize)]
struct Answer {
    broker: String,
    allowed: bool,
    reason: String,
}

impl Answer {
    fn of(broker: &str, verdict: &Verdict<'_>) -> Answer {
        let reason = match verdict {
            Verdict::Allowed(reason) => reason.to_string(),
            Verdict::Denied(denial) => denial.reason.to_string(),
        };
        Answer { broker: broker.to_owned(), allowed: verdict.is_allowed(), reason }
    }
}

impl View for Answer {
    fn text(&self, _: Style) -> String {
        let word = if self.allowed { "allow" } else { "deny" };
        format!("{word}: {} (broker {})\n", self.reason, self.broker)
    }
}
