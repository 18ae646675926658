//! The stream on which a server and one role of a client tell each other their settings. It is opened again whenever it ends.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::Duration,
};

use http::HeaderValue;
use redstart_wire::v2::{
    ClientType, Code, Publishing, RecoverOrphanedTransactionCommand, Resource, Settings, Status,
    Subscription, SubscriptionEntry, TelemetryCommand, ThreadStackTrace, Ua, VerifyMessageResult,
    retry_policy::Strategy, settings::PubSub, telemetry_command::Command,
};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    Grpc, accept,
    channel::{Method, framed},
    client_type,
    convert::{filter_expression, received},
    resource, wire_duration,
};
use crate::{
    Backoff, CallError,
    transport::{Check, GroupRules, Role, Transaction},
};

/// How long a receive of this client waits at most, as it tells the server.
const LONG_POLL: Duration = Duration::from_secs(20);
/// Settings are sent again after this time, as the official clients do.
const TELL_AGAIN: Duration = Duration::from_secs(300);

/// What is known about a role, shared with the tasks of its streams.
#[derive(Debug)]
pub(super) struct Shared {
    role: Role,
    client_id: HeaderValue,
    timeout: Duration,
    server: RwLock<ServerSettings>,
}

#[derive(Debug, Default)]
struct ServerSettings {
    rules: GroupRules,
    body_bytes_max: Option<usize>,
}

/// The streams of a role, one to each address.
#[derive(Debug)]
pub(super) struct Telemetry {
    net: Weak<Grpc>,
    shared: Arc<Shared>,
    /// `None` when the role has ended.
    streams: Mutex<Option<HashMap<Arc<str>, JoinHandle<()>>>>,
}

impl Shared {
    pub fn role(&self) -> &Role {
        &self.role
    }

    pub fn client_id(&self) -> &HeaderValue {
        &self.client_id
    }

    pub fn client_type(&self) -> ClientType {
        client_type(&self.role)
    }

    /// The consumer group; producers have none to the server.
    pub fn group(&self) -> Option<Resource> {
        match &self.role {
            Role::Producer { .. } => None,
            Role::Consumer { group, .. } => Some(resource(group)),
        }
    }

    pub fn rules(&self) -> GroupRules {
        self.server.read().unwrap_or_else(PoisonError::into_inner).rules.clone()
    }

    pub fn body_bytes_max(&self) -> Option<usize> {
        self.server.read().unwrap_or_else(PoisonError::into_inner).body_bytes_max
    }

    /// What this role tells the server.
    fn settings(&self, net: &Grpc) -> Settings {
        let pub_sub = match &self.role {
            Role::Producer { topics, .. } => PubSub::Publishing(Publishing {
                topics: topics.iter().map(|topic| resource(topic)).collect(),
                validate_message_type: true,
                ..Publishing::default()
            }),
            Role::Consumer { group, subscriptions, .. } => PubSub::Subscription(Subscription {
                group: Some(resource(group)),
                subscriptions: subscriptions
                    .iter()
                    .map(|(topic, filter)| SubscriptionEntry {
                        topic: Some(resource(topic)),
                        expression: Some(filter_expression(filter)),
                    })
                    .collect(),
                long_polling_timeout: Some(wire_duration(LONG_POLL)),
                ..Subscription::default()
            }),
        };
        Settings {
            client_type: Some(self.client_type().into()),
            access_point: Some(net.endpoints()),
            request_timeout: Some(wire_duration(self.timeout)),
            user_agent: Some(Ua {
                language: redstart_wire::v2::Language::Rust.into(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                platform: std::env::consts::OS.to_owned(),
                hostname: String::new(),
            }),
            pub_sub: Some(pub_sub),
            ..Settings::default()
        }
    }

    /// What the server tells.
    fn apply(&self, settings: &Settings) {
        let mut server = self.server.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = &settings.backoff_policy {
            server.rules.attempts_max = u32::try_from(policy.max_attempts).ok().filter(|max| *max > 0);
            if let Some(Strategy::CustomizedBackoff(waits)) = &policy.strategy {
                let waits = waits.next.iter().filter_map(|wait| Duration::try_from(*wait).ok());
                server.rules.retry_waits = waits.collect();
            } else if let Some(Strategy::ExponentialBackoff(growth)) = &policy.strategy {
                server.rules.retry_waits = exponential(growth, policy.max_attempts);
            }
        }
        match &settings.pub_sub {
            Some(PubSub::Subscription(subscription)) => server.rules.fifo = subscription.fifo,
            Some(PubSub::Publishing(publishing)) => {
                server.body_bytes_max = usize::try_from(publishing.max_body_size).ok().filter(|max| *max > 0);
            }
            None => {}
        }
    }
}

fn exponential(growth: &redstart_wire::v2::ExponentialBackoff, attempts: i32) -> Vec<Duration> {
    let read = |time: &Option<prost_types::Duration>| time.and_then(|time| Duration::try_from(time).ok());
    let (Some(first), Some(max)) = (read(&growth.initial), read(&growth.max)) else { return Vec::new() };
    let backoff = Backoff { first, factor: growth.multiplier.into(), max, jitter: 0.0 };
    (1..=attempts.clamp(1, 64) as u32).map(|failed| backoff.wait(failed)).collect()
}

impl Telemetry {
    /// Opens the stream to the address that the application gave, and waits for the server's settings.
    pub async fn open(net: &Arc<Grpc>, number: u64, role: Role) -> Result<Telemetry, CallError> {
        let client_id = HeaderValue::try_from(format!("{}@{number}", net.client_id)).map_err(|_| {
            CallError::Malformed {
                address: String::new(),
                why: "the client id is no header value".to_owned(),
            }
        })?;
        let shared = Arc::new(Shared { role, client_id, timeout: net.timeout, server: RwLock::default() });
        let telemetry =
            Telemetry { net: Arc::downgrade(net), shared, streams: Mutex::new(Some(HashMap::new())) };
        let address = net.access().clone();
        let (acknowledged, mut hears) = watch::channel(None);
        telemetry.start(&address, Some(acknowledged));
        let within = net.timeout;
        let heard = tokio::time::timeout(within, hears.wait_for(Option::is_some)).await;
        match heard {
            Ok(Ok(answer)) => answer.clone().unwrap_or(Ok(())),
            _ => Err(CallError::Timeout { address: address.to_string(), within }),
        }?;
        Ok(telemetry)
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Sees to it that there is a stream to an address of a route.
    pub fn ensure(&self, address: &Arc<str>) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = streams.as_ref().is_some_and(|streams| !streams.contains_key(address));
        drop(streams);
        if missing {
            self.start(address, None);
        }
    }

    fn start(&self, address: &Arc<str>, acknowledged: Option<watch::Sender<SettingsAcknowledged>>) {
        let stream = Stream { net: self.net.clone(), shared: self.shared.clone(), address: address.clone() };
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(streams) = streams.as_mut() {
            streams.entry(address.clone()).or_insert_with(|| tokio::spawn(stream.run(acknowledged)));
        }
    }

    pub fn stop(&self) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner).take();
        streams.into_iter().flatten().for_each(|(_, stream)| stream.abort());
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether the server has taken the settings.
type SettingsAcknowledged = Option<Result<(), CallError>>;

struct Stream {
    net: Weak<Grpc>,
    shared: Arc<Shared>,
    address: Arc<str>,
}

impl Stream {
    /// Keeps a stream open until the client is gone.
    async fn run(self, mut acknowledged: Option<watch::Sender<SettingsAcknowledged>>) {
        let backoff = Backoff::of_connections();
        let mut failed = 0;
        loop {
            let Some(net) = self.net.upgrade() else { return };
            let ended = self.serve(&net, &mut acknowledged, &mut failed).await;
            drop(net);
            if let Err(error) = ended {
                tracing::debug!(%error, "a telemetry stream ended");
                if let Some(acknowledged) = acknowledged.take() {
                    // The first stream failed: the role is not built, and this task ends with it.
                    acknowledged.send_replace(Some(Err(error)));
                    return;
                }
            }
            failed += 1;
            tokio::time::sleep(backoff.wait(failed)).await;
        }
    }

    /// Hands a check to the producer. One for which there is no room is asked again.
    fn check(&self, asked: RecoverOrphanedTransactionCommand) {
        let Role::Producer { checks: Some(checks), .. } = &self.shared.role else { return };
        let Some(message) = asked.message else { return };
        let topic = message.topic.as_ref().map(|topic| topic.name.clone()).unwrap_or_default();
        let (message, _) = received(&topic, "", message);
        let transaction = Transaction {
            address: self.address.clone(),
            topic,
            broker: String::new(),
            message_id: message.id.clone(),
            id: asked.transaction_id,
            half_offset: 0,
            physical_offset: 0,
        };
        if checks.try_send(Check { message, transaction }).is_err() {
            tracing::warn!(address = %self.address, "a check of a transaction was not answered");
        }
    }

    async fn serve(
        &self,
        net: &Arc<Grpc>,
        acknowledged: &mut Option<watch::Sender<SettingsAcknowledged>>,
        failed: &mut u32,
    ) -> Result<(), CallError> {
        let channel = net.channels.get(&self.address).await?;
        let settings = |net: &Grpc| TelemetryCommand {
            status: None,
            command: Some(Command::Settings(self.shared.settings(net))),
        };
        let headers = net.headers(&self.shared.client_id, None);
        let (mut answers, mut sending) =
            channel.begin(Method::Telemetry, headers, &settings(net), false).await?;
        let mut tell_again = tokio::time::interval(TELL_AGAIN);
        tell_again.tick().await;
        loop {
            let command = tokio::select! {
                next = channel.next::<TelemetryCommand>(&mut answers) => next?,
                _ = tell_again.tick() => {
                    let _ = sending.send_data(framed(&settings(net)), false);
                    continue;
                }
            };
            let Some(command) = command else { return Ok(()) };
            let answer = match command.command {
                Some(Command::Settings(settings)) => {
                    accept(&self.address, command.status.as_ref())?;
                    *failed = 0;
                    self.shared.apply(&settings);
                    if let Some(acknowledged) = acknowledged.take() {
                        acknowledged.send_replace(Some(Ok(())));
                    }
                    None
                }
                Some(Command::PrintThreadStackTraceCommand(asked)) => {
                    Some(Command::ThreadStackTrace(ThreadStackTrace {
                        nonce: asked.nonce,
                        thread_stack_trace: None,
                    }))
                }
                Some(Command::VerifyMessageCommand(asked)) => {
                    Some(Command::VerifyMessageResult(VerifyMessageResult { nonce: asked.nonce }))
                }
                Some(Command::RecoverOrphanedTransactionCommand(asked)) => {
                    self.check(asked);
                    None
                }
                Some(_) => None,
                // A status alone says that the settings were refused.
                None => {
                    accept(&self.address, command.status.as_ref())?;
                    None
                }
            };
            if let Some(answer) = answer {
                let status = Status {
                    code: Code::NotImplemented.into(),
                    message: "not offered by this client".to_owned(),
                };
                let answer = TelemetryCommand { status: Some(status), command: Some(answer) };
                let _ = sending.send_data(framed(&answer), false);
            }
        }
    }
}
