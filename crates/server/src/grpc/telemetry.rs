use std::{net::SocketAddr, sync::Arc, time::Duration};

use prost::Message as _;
use redstart_engine::{Start, TopicName, filter::limits::EXPRESSION_BYTES_MAX};
use redstart_wire::v2::{
    ClientType, Code, FilterType, Language, Resource, Settings, Subscription, SubscriptionEntry,
    TelemetryCommand, settings::PubSub, telemetry_command::Command,
};
use tonic::Status;

use super::{
    clients::{ClientKind, ClientSubscription, Polling, Told},
    command_stream::{CommandStream, WeakCommandStream},
    convert::from_duration,
    http2::WINDOW_BYTES,
    io::Peer,
    request::{Incoming, Rejected},
    service::{Answers, Service},
    settings::merge,
    status::{Refusal, ok},
};
use crate::throttle::Throttle;

static NO_PLACE: Throttle = Throttle::new();

const REPEAT_AFTER: Duration = Duration::from_millis(1500);
/// Settings as they come; they are sent back, so a client that does not read would have them kept for it.
const SETTINGS_BYTES_MAX: usize = 1 << 20;
/// Topics that one client may publish to or consume.
const TOPICS_MAX: usize = 4096;
/// Texts in which a client describes itself.
const TEXT_LEN_MAX: usize = 64;

/// Who opened a telemetry stream.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    pub client: Option<String>,
    pub peer: Arc<Peer>,
}

/// The Node.js client (1.0.x) can miss the first answer: it may begin to wait after it came.
fn needs_settings_twice(settings: &Settings) -> bool {
    settings.user_agent.as_ref().is_some_and(|agent| agent.language() == Language::NodeJs)
}

async fn repeat(stream: WeakCommandStream, answer: TelemetryCommand) {
    tokio::time::sleep(REPEAT_AFTER).await;
    if let Some(stream) = stream.upgrade() {
        // Full or closed: then it is not waiting either.
        let _ = stream.try_send(answer);
    }
}

impl Service {
    /// A client's stream: it sends settings and results, it gets settings and commands.
    pub(super) fn open_telemetry(&self, opener: Opener, mut incoming: Incoming) -> Answers<TelemetryCommand> {
        let (outgoing, commands) = CommandStream::new(opener.peer.account.clone());
        let service = self.clone();
        tokio::spawn(async move {
            let Some(client) = opener.client else {
                let refusal = Refusal::client_id();
                let command = TelemetryCommand { status: Some(refusal.status()), command: None };
                // The client may be gone already.
                let _ = outgoing.try_send(command);
                return;
            };
            let mut stopped = service.stopped.clone();
            tokio::select! {
                () = service.converse(&client, opener.peer.remote, &mut incoming, &outgoing) => {}
                // The client does not read, or has gone.
                () = outgoing.closed() => {}
                // The sender outlives this.
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
            // What is known of the client stays: it may come back, or go on without a stream.
            service.clients.stream_ended(&client, &outgoing);
        });
        Box::pin(tokio_stream::wrappers::ReceiverStream::new(commands))
    }

    async fn converse(
        &self,
        client: &str,
        remote: Option<SocketAddr>,
        incoming: &mut Incoming,
        outgoing: &CommandStream,
    ) {
        loop {
            let command = match incoming.next::<TelemetryCommand>().await {
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
                    self.questions.answered(client, command.status, other);
                    continue;
                }
                None => continue,
            };
            // What was sent before is read first: else the answers of a client that only talks pile up.
            if !outgoing.is_read() {
                // What the client may send until then is kept by HTTP/2.
                if !incoming.count_window(WINDOW_BYTES as usize) {
                    return outgoing
                        .fail(Status::resource_exhausted("settings of before have not been read"));
                }
                if !outgoing.read().await {
                    return;
                }
            }
            let settings = match self.register(client, remote, settings, outgoing.clone()).await {
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

    /// Takes a client's settings and says what the server makes of them.
    async fn register(
        &self,
        client: &str,
        remote: Option<SocketAddr>,
        settings: Settings,
        stream: CommandStream,
    ) -> Result<Settings, Refusal> {
        let told = self.told(&settings)?;
        // A lite consumer's group must be there, bound to its topic: nobody can guess that.
        let lite = told.kind.is_lite();
        if let Some(group) = told.group.as_ref().filter(|_| !lite) {
            self.ensure_group(group).await?;
        }
        let group = told.group.clone();
        let subscribed = told.subscriptions.iter().filter(|_| !lite);
        let topics: Vec<TopicName> = subscribed.map(|entry| entry.topic.clone()).collect();
        let (config, body_bytes_max, receive_batch_max) = self
            .ask(move |engine, _| {
                if let Some(group) = &group {
                    for topic in &topics {
                        if let Err(error) = engine.join(group, topic, Start::Latest)
                            && let Some(repeated) = NO_PLACE.permit()
                        {
                            tracing::error!(%error, %topic, repeated, "a group cannot find its place");
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
        let full = || Refusal::new(Code::TooManyRequests, "too many clients are connected");
        self.clients.register(client, told, remote, stream).map_err(|_| full())?;
        Ok(merged)
    }

    /// What a client's settings say about it.
    fn told(&self, settings: &Settings) -> Result<Told, Refusal> {
        let len = settings.encoded_len();
        if len > SETTINGS_BYTES_MAX {
            let why = format!("settings of {len} bytes; the limit is {SETTINGS_BYTES_MAX}");
            return Err(Refusal::new(Code::BadRequest, why));
        }
        let mut told = Told { kind: kind(settings.client_type()), ..Told::default() };
        if let Some(agent) = &settings.user_agent {
            told.language = agent.language().as_str_name().to_owned();
            told.version = agent.version.chars().take(TEXT_LEN_MAX).collect();
        }
        match &settings.pub_sub {
            Some(PubSub::Publishing(publishing)) => {
                check_count(publishing.topics.len())?;
                told.publishes = publishing.topics.iter().filter_map(topic_name).collect();
            }
            Some(PubSub::Subscription(subscription)) => {
                told.polling = polling(told.kind, settings, subscription);
                check_count(subscription.subscriptions.len())?;
                told.group = Some(self.group_name(subscription.group.as_ref())?);
                for entry in &subscription.subscriptions {
                    told.subscriptions.extend(subscribed(entry)?);
                }
            }
            None => {
                let why = "settings say neither what is published nor what is subscribed to";
                return Err(Refusal::new(Code::BadRequest, why));
            }
        }
        Ok(told)
    }
}

fn check_count(topics: usize) -> Result<(), Refusal> {
    if topics > TOPICS_MAX {
        let why = format!("settings with {topics} topics; the limit is {TOPICS_MAX}");
        return Err(Refusal::new(Code::BadRequest, why));
    }
    Ok(())
}

/// Names that are none are not looked at: whoever uses them is refused then.
fn topic_name(resource: &Resource) -> Option<TopicName> {
    TopicName::new(&resource.name).ok()
}

fn subscribed(entry: &SubscriptionEntry) -> Result<Option<ClientSubscription>, Refusal> {
    // One that makes no sense is refused with each receive; what is kept here must only have a bound.
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

/// Only simple consumers choose how long they poll; push consumers do as the server says.
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
