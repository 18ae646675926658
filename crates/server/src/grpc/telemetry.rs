use std::time::Duration;

use redstart_engine::{Start, TopicName};
use redstart_wire::v2::{Language, Settings, TelemetryCommand, settings::PubSub, telemetry_command::Command};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::{
    clients::Stream,
    service::{Answers, Service},
    settings::{is_lite, merge},
    status::{Refusal, ok},
};

/// Commands that wait for a client to read them; past it the client is too slow and its stream ends.
const COMMANDS_MAX: usize = 64;
const REPEAT_AFTER: Duration = Duration::from_millis(1500);

/// The Node.js client (1.0.x) can miss the first answer: it may begin to wait after it came.
fn needs_settings_twice(settings: &Settings) -> bool {
    settings.user_agent.as_ref().is_some_and(|agent| agent.language() == Language::NodeJs)
}

async fn repeat(stream: mpsc::WeakSender<Result<TelemetryCommand, Status>>, answer: TelemetryCommand) {
    tokio::time::sleep(REPEAT_AFTER).await;
    if let Some(stream) = stream.upgrade() {
        // Full or closed: then it is not waiting either.
        drop(stream.try_send(Ok(answer)));
    }
}

impl Service {
    /// A client's stream: it sends settings and results, it gets settings and commands.
    pub(super) fn open_telemetry(
        &self,
        client: Option<String>,
        incoming: Streaming<TelemetryCommand>,
    ) -> Answers<TelemetryCommand> {
        let (outgoing, commands) = mpsc::channel(COMMANDS_MAX);
        let service = self.clone();
        tokio::spawn(async move {
            let Some(client) = client else {
                let refusal = Refusal::client_id();
                let command = TelemetryCommand { status: Some(refusal.status()), command: None };
                // The client may be gone already.
                drop(outgoing.send(Ok(command)).await);
                return;
            };
            service.converse(&client, incoming, outgoing).await;
        });
        Box::pin(tokio_stream::wrappers::ReceiverStream::new(commands))
    }

    async fn converse(&self, client: &str, mut incoming: Streaming<TelemetryCommand>, outgoing: Stream) {
        let weak = outgoing.downgrade();
        let mut owner = Some(outgoing);
        while let Some(Ok(command)) = incoming.next().await {
            self.clients.seen(client);
            let Some(stream) = weak.upgrade() else { return };
            // Other commands are results of what nobody here has asked for.
            let Some(Command::Settings(settings)) = command.command else { continue };
            // From here on the stream belongs to the client's entry, which outlives this conversation.
            owner.take();
            let settings = match self.register(client, settings, stream.clone()).await {
                Ok(settings) => settings,
                Err(refusal) => {
                    drop(stream.try_send(Err(Status::invalid_argument(refusal.message))));
                    return;
                }
            };
            let again = needs_settings_twice(&settings);
            let answer = TelemetryCommand { status: Some(ok()), command: Some(Command::Settings(settings)) };
            if stream.try_send(Ok(answer.clone())).is_err() {
                return;
            }
            if again {
                tokio::spawn(repeat(weak.clone(), answer));
            }
        }
    }

    /// Takes a client's settings and says what the server makes of them.
    async fn register(&self, client: &str, settings: Settings, stream: Stream) -> Result<Settings, Refusal> {
        let lite = is_lite(&settings);
        let (mut group, mut topics, mut publishes) = (None, Vec::new(), Vec::new());
        match &settings.pub_sub {
            Some(PubSub::Publishing(publishing)) => {
                publishes =
                    publishing.topics.iter().filter_map(|topic| TopicName::new(&topic.name).ok()).collect();
            }
            Some(PubSub::Subscription(subscription)) => {
                let name = self.group_name(subscription.group.as_ref())?;
                // A lite consumer's group must be there, bound to its topic: nobody can guess that.
                if !lite {
                    self.ensure_group(&name).await?;
                }
                let subscribed = subscription.subscriptions.iter().filter_map(|entry| entry.topic.as_ref());
                topics = subscribed
                    .filter(|_| !lite)
                    .filter_map(|topic| TopicName::new(&topic.name).ok())
                    .collect();
                group = Some(name);
            }
            None => {
                let why = "settings say neither what is published nor what is subscribed to";
                return Err(Refusal::new(redstart_wire::v2::Code::BadRequest, why));
            }
        }
        let (config, body_bytes_max, receive_batch_max) = self
            .ask(move |engine, _| {
                if let Some(group) = &group {
                    for topic in &topics {
                        if let Err(error) = engine.join(group, topic, Start::Latest) {
                            tracing::error!(%error, %topic, "a group cannot find its place");
                        }
                    }
                }
                let limits = &engine.config().limits;
                let sizes = (limits.body_bytes_max, limits.receive_batch_max);
                let config = group.and_then(|group| engine.group(&group)).map(|group| group.config);
                (config, sizes.0, sizes.1)
            })
            .await?;
        let merged = merge(settings, config.as_ref(), body_bytes_max, receive_batch_max);
        let full =
            || Refusal::new(redstart_wire::v2::Code::TooManyRequests, "too many clients are connected");
        self.clients.register(client, publishes, lite, stream).map_err(|_| full())?;
        Ok(merged)
    }
}
