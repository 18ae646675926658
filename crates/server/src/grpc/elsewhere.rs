//! The clients of this protocol, for operators who ask over the other one.

use super::{ClientKind, ClientView, CommandError, Commands, StoredMessage, Told, Verified};
use crate::remoting::{
    Asked, Elsewhere, OtherClient, OtherMessage, OtherSubscription, Role, Takes, Unanswered,
};

impl Elsewhere for Commands {
    fn clients(&self) -> Vec<OtherClient> {
        Commands::clients(self).into_iter().map(other).collect()
    }

    fn thread_dump<'a>(&'a self, client: &'a str) -> Asked<'a, String> {
        Box::pin(async move { Ok(Commands::thread_dump(self, client).await?) })
    }

    fn try_message<'a>(&'a self, client: &'a str, message: OtherMessage) -> Asked<'a, Result<(), String>> {
        Box::pin(async move {
            let OtherMessage { topic, position, size } = message;
            match self.verify_message(client, StoredMessage { topic, position, size }).await? {
                Verified::Consumed => Ok(Ok(())),
                Verified::Failed { why } => Ok(Err(why)),
            }
        })
    }

    fn drain(&self, drained: bool) {
        Commands::drain(self, drained);
    }
}

impl From<CommandError> for Unanswered {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NoAnswer { .. } => Unanswered::Timeout,
            other => Unanswered::Failed(other.to_string()),
        }
    }
}

fn other(client: ClientView) -> OtherClient {
    let ClientView { id, told, remote, silent_for } = client;
    let Told { kind, group, publishes, subscriptions, language, version, polling: _ } = told;
    let role = match group {
        None => Role::Producer { topics: publishes.iter().map(ToString::to_string).collect() },
        Some(group) => Role::Consumer {
            group: group.to_string(),
            takes: match kind {
                ClientKind::PushConsumer | ClientKind::LitePushConsumer => Takes::Pushed,
                _ => Takes::Fetched,
            },
            subscriptions: subscriptions
                .into_iter()
                .map(|entry| OtherSubscription {
                    topic: entry.topic.to_string(),
                    expression: entry.expression,
                    sql: entry.sql,
                })
                .collect(),
        },
    };
    OtherClient { id, role, language, version, remote, silent_for }
}
