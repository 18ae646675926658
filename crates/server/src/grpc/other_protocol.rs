//! Shows the gRPC clients to operators, who ask over Remoting.

use super::{ClientKind, ClientSettings, ClientView, CommandError, Commands, StoredMessage, Verified};
use crate::remoting::{
    DeliveryMode, NoReply, OtherClient, OtherMessage, OtherProtocolClients, OtherSubscription, ReplyFuture,
    Role,
};

impl OtherProtocolClients for Commands {
    fn clients(&self) -> Vec<OtherClient> {
        Commands::clients(self).into_iter().map(other).collect()
    }

    fn thread_dump<'a>(&'a self, client: &'a str) -> ReplyFuture<'a, String> {
        Box::pin(async move { Ok(Commands::thread_dump(self, client).await?) })
    }

    fn try_message<'a>(
        &'a self,
        client: &'a str,
        message: OtherMessage,
    ) -> ReplyFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let OtherMessage { shard, topic, position, size } = message;
            match self.verify_message(client, StoredMessage { shard, topic, position, size }).await? {
                Verified::Consumed => Ok(Ok(())),
                Verified::Failed { why } => Ok(Err(why)),
            }
        })
    }
}

impl From<CommandError> for NoReply {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NoAnswer { .. } => NoReply::Timeout,
            other => NoReply::Failed(other.to_string()),
        }
    }
}

fn other(client: ClientView) -> OtherClient {
    let ClientView { id, settings, remote, silent_for } = client;
    let ClientSettings { kind, group, publishes, subscriptions, language, version, polling: _ } = settings;
    let role = match group {
        None => Role::Producer { topics: publishes.iter().map(ToString::to_string).collect() },
        Some(group) => Role::Consumer {
            group: group.to_string(),
            delivery: match kind {
                ClientKind::PushConsumer | ClientKind::LitePushConsumer => DeliveryMode::Push,
                _ => DeliveryMode::Pull,
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
