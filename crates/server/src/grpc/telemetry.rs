//! The telemetry stream of a client: it sends its settings and its answers to commands, and gets settings and commands.

use std::{net::SocketAddr, time::Duration};

use prost::Message as _;
use redstart_engine::{Start, TopicName, filter::limits::EXPRESSION_BYTES_MAX};
use redstart_wire::v2::{
    ClientType, Code, FilterType, Language, Resource, Settings, Subscription, SubscriptionEntry,
    TelemetryCommand, settings::PubSub, telemetry_command::Command,
};

use super::{
    admission::Caller,
    answer::Part,
    audit,
    clients::{ClientKind, ClientSettings, ClientSubscription, Polling, Unregistered},
    command_stream::{CommandStream, WeakCommandStream},
    convert::from_duration,
    http2::WINDOW_BYTES,
    refusal::{Refusal, ok},
    request::{Incoming, Rejected},
    rights,
    service::{Answers, Service},
    settings::merge,
    status::Status,
};
use crate::access::{Identity, Needs};

const REPEAT_AFTER: Duration = Duration::from_millis(1500);
/// Encoded settings. They are sent back, so that those of a client that does not read stay in memory.
const SETTINGS_BYTES_MAX: usize = 1 << 20;
/// Topics that one client may publish to or consume.
const TOPICS_MAX: usize = 4096;
/// Texts in which a client describes itself.
const TEXT_LEN_MAX: usize = 64;

/// The Node.js client (1.0.x) can miss the first answer: it may begin to wait for settings after they have come.
fn needs_settings_twice(settings: &Settings) -> bool {
    settings.user_agent.as_ref().is_some_and(|agent| agent.language() == Language::NodeJs)
}

async fn repeat(stream: WeakCommandStream, answer: TelemetryCommand) {
    tokio::time::sleep(REPEAT_AFTER).await;
    if let Some(stream) = stream.upgrade() {
        // A client whose stream is full or closed is not waiting for settings.
        let _ = stream.try_send(answer);
    }
}

/// The answer to a stream that is not admitted.
pub(super) fn refused(refusal: &Refusal) -> Answers<TelemetryCommand> {
    let command = TelemetryCommand { status: Some(refusal.status()), command: None };
    Box::pin(tokio_stream::once(Ok(Part::small(command))))
}

impl Service {
    /// A client's stream: it sends settings and results, it gets settings and commands.
    pub(super) fn open_telemetry(
        &self,
        caller: Caller<'_>,
        identity: Identity,
        mut incoming: Incoming,
    ) -> Answers<TelemetryCommand> {
        let (outgoing, commands) = CommandStream::new(caller.peer.account.clone());
        let (service, client, remote) = (self.clone(), caller.client.to_owned(), caller.peer.remote);
        tokio::spawn(async move {
            let mut stopped = service.stopped.clone();
            tokio::select! {
                () = service.converse(&client, &identity, remote, &mut incoming, &outgoing) => {}
                // The client has closed the stream.
                () = outgoing.closed() => {}
                // The sender outlives this task.
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
            // What is known of the client stays: it may open another stream, or go on without one.
            service.clients.stream_ended(&client, &outgoing);
        });
        Box::pin(tokio_stream::wrappers::ReceiverStream::new(commands))
    }

    /// Whether a client may have what it announces. If not it is told so, and the stream is to end.
    fn may_announce<'n>(
        &self,
        (remote, identity): (SocketAddr, &Identity),
        needs: impl Fn() -> Needs<'n>,
        outgoing: &CommandStream,
    ) -> bool {
        let Err(refusal) = self.authorize(identity, &needs) else { return true };
        audit::denied(self, (remote, identity), audit::TELEMETRY, needs, &refusal);
        let command = TelemetryCommand { status: Some(refusal.status()), command: None };
        // Full or closed: then it is not told, and the stream ends all the same.
        let _ = outgoing.try_send(command);
        false
    }

    async fn converse(
        &self,
        client: &str,
        identity: &Identity,
        remote: SocketAddr,
        incoming: &mut Incoming,
        outgoing: &CommandStream,
    ) {
        let mut rights_changed = self.config.resources.access.changes();
        loop {
            let next = tokio::select! {
                next = incoming.next::<TelemetryCommand>() => next,
                // Commands reach the client over this stream only while it has the rights.
                () = rights_changed.next() => {
                    let settings = self.clients.settings(client).unwrap_or_default();
                    if self.may_announce((remote, identity), || rights::announced(&settings), outgoing) {
                        continue;
                    }
                    return;
                }
            };
            let command = match next {
                Ok(Some(command)) => command,
                Ok(None) | Err(Rejected::Status(_)) => return,
                Err(Rejected::Spent(spent)) => {
                    return outgoing.fail(Status::resource_exhausted(spent.to_string()));
                }
            };
            self.clients.seen(client);
            let settings = match command.command {
                Some(Command::Settings(settings)) => settings,
                Some(other) => {
                    self.pending_commands.answered(client, command.status, other);
                    continue;
                }
                None => continue,
            };
            // The client has to read the answer to its last settings first. Otherwise the answers to a client that only sends
            // would pile up.
            if !outgoing.is_read() {
                // Meanwhile HTTP/2 buffers up to a window of what the client sends.
                if !incoming.count_window(WINDOW_BYTES as usize) {
                    return outgoing.fail(Status::resource_exhausted(
                        "the answer to earlier settings has not been read",
                    ));
                }
                if !outgoing.read().await {
                    return;
                }
            }
            // Before rights are asked for, which takes time for each topic.
            if let Err(refusal) = check_size(&settings) {
                return outgoing.fail(Status::invalid_argument(refusal.message));
            }
            if !self.may_announce((remote, identity), || rights::settings(&settings), outgoing) {
                return;
            }
            let settings = match self.register(client, identity, remote, settings, outgoing.clone()).await {
                Ok(settings) => settings,
                Err(refusal) => {
                    return outgoing.fail(Status::invalid_argument(refusal.message));
                }
            };
            let again = needs_settings_twice(&settings);
            let answer = TelemetryCommand { status: Some(ok()), command: Some(Command::Settings(settings)) };
            if outgoing.try_send(answer.clone()).is_err() {
                return outgoing.fail(Status::resource_exhausted("there are no bytes left for an answer"));
            }
            if again {
                tokio::spawn(repeat(outgoing.downgrade(), answer));
            }
        }
    }

    /// Registers a client's settings; returns them with what the server decides for it.
    async fn register(
        &self,
        client: &str,
        identity: &Identity,
        remote: SocketAddr,
        settings: Settings,
        stream: CommandStream,
    ) -> Result<Settings, Refusal> {
        let known = self.read_settings(&settings)?;
        // A lite consumer's group must exist and be bound to a topic, so it cannot be created on demand.
        let lite = known.kind.is_lite();
        if let Some(group) = known.group.as_ref().filter(|_| !lite) {
            self.ensure_group(group).await?;
        }
        let group = known.group.clone();
        let subscribed = known.subscriptions.iter().filter(|_| !lite);
        let topics: Vec<TopicName> = subscribed.map(|entry| entry.topic.clone()).collect();
        // A group begins in its topics when its first consumer connects.
        if let Some(group) = &group {
            self.shards.begin(group, topics, Start::Configured).await?;
        }
        let (config, body_bytes_max, receive_batch_max) = self
            .ask(self.shards.first(), move |engine, _| {
                let limits = &engine.config().limits;
                let sizes = (limits.body_bytes_max, limits.receive_batch_max);
                let config = group.and_then(|group| engine.group(&group)).map(|group| group.config);
                (config, sizes.0, sizes.1)
            })
            .await?;
        let merged = merge(settings, config.as_ref(), body_bytes_max, receive_batch_max);
        self.clients.register(client, identity, known, Some(remote), stream).map_err(
            |error| match error {
                Unregistered::Full => Refusal::new(Code::TooManyRequests, "too many clients are connected"),
                Unregistered::Taken => Refusal::taken(),
            },
        )?;
        Ok(merged)
    }

    /// Reads and checks a client's settings.
    fn read_settings(&self, settings: &Settings) -> Result<ClientSettings, Refusal> {
        let mut known = ClientSettings { kind: kind(settings.client_type()), ..ClientSettings::default() };
        if let Some(agent) = &settings.user_agent {
            known.language = agent.language().as_str_name().to_owned();
            known.version = agent.version.chars().take(TEXT_LEN_MAX).collect();
        }
        match &settings.pub_sub {
            Some(PubSub::Publishing(publishing)) => {
                known.publishes = publishing.topics.iter().filter_map(topic_name).collect();
            }
            Some(PubSub::Subscription(subscription)) => {
                known.polling = polling(known.kind, settings, subscription);
                known.group = Some(self.group_name(subscription.group.as_ref())?);
                for entry in &subscription.subscriptions {
                    known.subscriptions.extend(subscribed(entry)?);
                }
            }
            None => {
                let why = "the settings have neither a publishing nor a subscription part";
                return Err(Refusal::new(Code::BadRequest, why));
            }
        }
        Ok(known)
    }
}

fn check_size(settings: &Settings) -> Result<(), Refusal> {
    let len = settings.encoded_len();
    if len > SETTINGS_BYTES_MAX {
        let why = format!("settings of {len} bytes; the limit is {SETTINGS_BYTES_MAX}");
        return Err(Refusal::new(Code::BadRequest, why));
    }
    let topics = match &settings.pub_sub {
        Some(PubSub::Publishing(publishing)) => publishing.topics.len(),
        Some(PubSub::Subscription(subscription)) => subscription.subscriptions.len(),
        None => 0,
    };
    if topics > TOPICS_MAX {
        let why = format!("settings with {topics} topics; the limit is {TOPICS_MAX}");
        return Err(Refusal::new(Code::BadRequest, why));
    }
    Ok(())
}

/// Invalid topic names are ignored here; a send or receive that uses one is refused.
fn topic_name(resource: &Resource) -> Option<TopicName> {
    TopicName::new(&resource.name).ok()
}

fn subscribed(entry: &SubscriptionEntry) -> Result<Option<ClientSubscription>, Refusal> {
    // An invalid expression is refused with each receive; here only its size is bounded.
    let len = entry.expression.as_ref().map_or(0, |expression| expression.expression.len());
    if len > EXPRESSION_BYTES_MAX {
        let why = format!("a filter expression of {len} bytes; the limit is {EXPRESSION_BYTES_MAX}");
        return Err(Refusal::new(Code::IllegalFilterExpression, why));
    }
    let Some(topic) = entry.topic.as_ref().and_then(topic_name) else { return Ok(None) };
    let expression = entry.expression.as_ref();
    Ok(Some(ClientSubscription {
        topic,
        expression: expression.map_or_else(|| "*".to_owned(), |found| found.expression.clone()),
        sql: expression.is_some_and(|found| found.r#type() == FilterType::Sql),
    }))
}

/// Only simple consumers choose how long they poll; the server chooses for push consumers.
fn polling(kind: ClientKind, settings: &Settings, subscription: &Subscription) -> Polling {
    let simple = matches!(kind, ClientKind::SimpleConsumer | ClientKind::LiteSimpleConsumer);
    let long_poll = subscription.long_polling_timeout.as_ref().filter(|_| simple);
    Polling {
        long_poll: long_poll.and_then(from_duration),
        request_timeout: settings.request_timeout.as_ref().and_then(from_duration),
    }
}

fn kind(client_type: ClientType) -> ClientKind {
    match client_type {
        ClientType::Unspecified => ClientKind::Unknown,
        ClientType::Producer => ClientKind::Producer,
        ClientType::PushConsumer => ClientKind::PushConsumer,
        ClientType::SimpleConsumer => ClientKind::SimpleConsumer,
        ClientType::PullConsumer => ClientKind::PullConsumer,
        ClientType::LitePushConsumer => ClientKind::LitePushConsumer,
        ClientType::LiteSimpleConsumer => ClientKind::LiteSimpleConsumer,
    }
}
