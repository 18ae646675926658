//! `redstart user create`, `set-secret`, `enable`, `disable` and `delete`.

use clap::Args;
use redstart_auth::{Secret, Standing, Status, User as KnownUser};
use redstart_client::admin::Broker;
use redstart_wire::remoting::body::User;
use serde::Serialize;

use super::{holders, secret};
use crate::{
    admin::{
        Session,
        acl::subject,
        confirm::Consent,
        output::{Style, View, listed},
        resource::broker_names,
        target::Where,
    },
    failure::Failure,
};

#[derive(Debug, Args)]
pub struct Create {
    /// Name of the user
    name: String,
    /// Make it a super user, which may do everything
    #[arg(long = "super")]
    is_super: bool,
    #[command(flatten)]
    secret: secret::Source,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub struct SetSecret {
    /// Name of the user
    name: String,
    #[command(flatten)]
    secret: secret::Source,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub struct Enable {
    /// Name of the user
    name: String,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub struct Disable {
    /// Name of the user
    name: String,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub struct Delete {
    /// Name of the user
    name: String,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    consent: Consent,
}

impl Create {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let chosen = self.secret.choose()?;
        // Servers check less: Apache takes names that no rule can be written for.
        KnownUser::new(&self.name, Secret::new(chosen.secret.as_str()))?;
        let masters = session.admin.masters(&self.at.target()).await?;
        for broker in &masters {
            if session.admin.user(&broker.address, &self.name).await?.is_some() {
                let there = format!("the user {} exists already on {}", self.name, broker.name);
                return Err(Failure::new("exists", there)
                    .with_hint("redstart user set-secret gives it another secret")
                    .into());
            }
        }
        let standing = if self.is_super { Standing::Super } else { Standing::Normal };
        let user = User {
            username: self.name.clone(),
            password: Some(chosen.secret.clone()),
            user_type: Some(standing.name().to_owned()),
            // Apache stores a user without one, and then refuses it.
            user_status: Some(Status::Enabled.name().to_owned()),
        };
        for broker in &masters {
            session.admin.create_user(&broker.address, &user).await?;
        }
        session.output.show(&Done::new(&self.name, "created", &masters).with_secret(chosen))
    }
}

impl SetSecret {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let chosen = self.secret.choose()?;
        KnownUser::new(&self.name, Secret::new(chosen.secret.as_str()))?;
        let change = User { password: Some(chosen.secret.clone()), ..unchanged(&self.name) };
        let brokers = update(session, &change, &self.at).await?;
        session.output.show(&Done::new(&self.name, "has another secret", &brokers).with_secret(chosen))
    }
}

impl Enable {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let brokers = set_status(session, &self.name, Status::Enabled, &self.at).await?;
        session.output.show(&Done::new(&self.name, "enabled", &brokers))
    }
}

impl Disable {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let brokers = set_status(session, &self.name, Status::Disabled, &self.at).await?;
        session.output.show(&Done::new(&self.name, "disabled", &brokers))
    }
}

impl Delete {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let held = holders(session, &self.name, &self.at.target()).await?;
        let brokers: Vec<Broker> = held.into_iter().map(|(broker, _)| broker).collect();
        let names = broker_names(&brokers);
        self.consent.ask(&format!("delete user {} with its rules on {}", self.name, listed(&names)))?;
        for broker in &brokers {
            let subject = subject(&self.name);
            // The rules first: a user without rules may do nothing, rules without a user wait for the next of that name.
            if session.admin.acl(&broker.address, &subject).await?.is_some() {
                session.admin.delete_acl(&broker.address, &subject, None).await?;
            }
            session.admin.delete_user(&broker.address, &self.name).await?;
        }
        session.output.show(&Done::new(&self.name, "deleted", &brokers))
    }
}

/// A change of nothing.
fn unchanged(name: &str) -> User {
    User { username: name.to_owned(), ..User::default() }
}

async fn set_status(
    session: &Session,
    name: &str,
    status: Status,
    at: &Where,
) -> anyhow::Result<Vec<Broker>> {
    let change = User { user_status: Some(status.name().to_owned()), ..unchanged(name) };
    update(session, &change, at).await
}

/// Changes the user on the brokers that know it.
async fn update(session: &Session, change: &User, at: &Where) -> anyhow::Result<Vec<Broker>> {
    let held = holders(session, &change.username, &at.target()).await?;
    let mut brokers = Vec::with_capacity(held.len());
    for (broker, _) in held {
        session.admin.update_user(&broker.address, change).await?;
        brokers.push(broker);
    }
    Ok(brokers)
}

/// What was done, and the secret if nobody knows it yet.
#[derive(Debug, Serialize)]
struct Done {
    user: String,
    #[serde(skip)]
    what: &'static str,
    brokers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl Done {
    fn new(user: &str, what: &'static str, brokers: &[Broker]) -> Done {
        Done { user: user.to_owned(), what, brokers: broker_names(brokers), secret: None }
    }

    fn with_secret(mut self, chosen: secret::Chosen) -> Done {
        self.secret = chosen.is_new.then_some(chosen.secret);
        self
    }
}

impl View for Done {
    fn text(&self, _: Style) -> String {
        let done = format!("user {} {} on {}\n", self.user, self.what, listed(&self.brokers));
        match &self.secret {
            Some(secret) => format!("{done}secret: {secret}  (it is not shown again)\n"),
            None => done,
        }
    }
}
