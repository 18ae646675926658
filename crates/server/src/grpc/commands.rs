//! Commands that the server sends to a client over its telemetry stream, and the client's answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redstart_engine::{FetchError, TopicName};
use redstart_log::Position;
use redstart_wire::v2::{
    Code, PrintThreadStackTraceCommand, Resource, Status, TelemetryCommand, VerifyMessageCommand,
    telemetry_command::Command,
};
use tokio::sync::oneshot;

use super::{
    clients::{ClientView, Clients},
    convert::{Envelope, to_wire},
    refusal::ok,
    service::Service,
};
use crate::shards::{ShardNumber, Shards};

/// How long a client has for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Commands that wait for their answers; past it no further command is sent.
const PENDING_MAX: usize = 256;

/// Lists gRPC clients and sends commands to them, for operators. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Commands {
    clients: Arc<Clients>,
    shards: Shards,
    pending: Arc<PendingCommands>,
    answer_timeout: Duration,
}

/// A stored message and the topic under which it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    pub shard: ShardNumber,
    pub topic: TopicName,
    pub position: Position,
    pub size: u32,
}

/// The result of a client's listener for a message that it was given to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    Consumed,
    Failed { why: String },
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("client {client} is not known here")]
    UnknownClient { client: String },
    #[error("client {client} has no open telemetry stream, or does not read it")]
    Unreachable { client: String },
    #[error("{PENDING_MAX} commands are waiting for their answers already")]
    TooMany,
    #[error("client {client} did not answer within {} ms", .within.as_millis())]
    NoAnswer { client: String, within: Duration },
    #[error("client {client} answered with code {code}: {message}")]
    Refused { client: String, code: i32, message: String },
    #[error("the message is of a shard that is not here")]
    UnknownShard,
    #[error(transparent)]
    Message(#[from] FetchError),
}

impl Commands {
    pub(super) fn new(service: &Service) -> Commands {
        Commands {
            clients: service.clients.clone(),
            shards: service.shards.clone(),
            pending: service.pending_commands.clone(),
            answer_timeout: ANSWER_TIMEOUT,
        }
    }

    /// The same with another time for answers.
    #[must_use]
    pub fn with_answer_timeout(self, answer_timeout: Duration) -> Commands {
        Commands { answer_timeout, ..self }
    }

    /// All clients that are or were lately connected.
    pub fn clients(&self) -> Vec<ClientView> {
        self.clients.all()
    }

    /// What the client's threads are doing.
    pub async fn thread_dump(&self, client: &str) -> Result<String, CommandError> {
        let ask = |nonce| Command::PrintThreadStackTraceCommand(PrintThreadStackTraceCommand { nonce });
        let answer = self.ask(client, ask).await?;
        // The C++ client sends the text without a status.
        match (answer.text, answer.status.filter(|status| status.code != i32::from(Code::Ok))) {
            (_, Some(status)) => Err(refused(client, status)),
            (text, None) => Ok(text.unwrap_or_default()),
        }
    }

    /// Lets the client's listener try a stored message.
    pub async fn verify_message(
        &self,
        client: &str,
        message: StoredMessage,
    ) -> Result<Verified, CommandError> {
        let envelope = Envelope {
            topic: Resource { resource_namespace: String::new(), name: message.topic.to_string() },
            attempt: 1,
            ..Envelope::default()
        };
        let shard = self.shards.get(message.shard).ok_or(CommandError::UnknownShard)?;
        let fetched = shard.handle.bodies().fetch(message.position, message.size).await?;
        let message = to_wire(&fetched, envelope)?;
        let ask =
            |nonce| Command::VerifyMessageCommand(VerifyMessageCommand { nonce, message: Some(message) });
        let answer = self.ask(client, ask).await?;
        let status = answer.status.unwrap_or_default();
        match Code::try_from(status.code) {
            Ok(Code::Ok) => Ok(Verified::Consumed),
            Ok(Code::FailedToConsumeMessage | Code::MessageCorrupted) => {
                Ok(Verified::Failed { why: status.message })
            }
            _ => Err(refused(client, status)),
        }
    }

    async fn ask(
        &self,
        client: &str,
        command: impl FnOnce(String) -> Command,
    ) -> Result<Answer, CommandError> {
        let unreachable = || CommandError::Unreachable { client: client.to_owned() };
        let Some(stream) = self.clients.stream_of(client) else {
            return Err(CommandError::UnknownClient { client: client.to_owned() });
        };
        let stream = stream.ok_or_else(unreachable)?;
        let mut question = self.pending.put(client).ok_or(CommandError::TooMany)?;
        let command =
            TelemetryCommand { status: Some(ok()), command: Some(command(question.nonce.to_string())) };
        stream.try_send(command).map_err(|_| unreachable())?;
        match tokio::time::timeout(self.answer_timeout, &mut question.answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => {
                Err(CommandError::NoAnswer { client: client.to_owned(), within: self.answer_timeout })
            }
        }
    }
}

fn refused(client: &str, status: Status) -> CommandError {
    CommandError::Refused { client: client.to_owned(), code: status.code, message: status.message }
}

/// A client's answer to a command.
#[derive(Debug, Default)]
struct Answer {
    status: Option<Status>,
    text: Option<String>,
}

/// Commands whose answers are awaited.
#[derive(Debug, Default)]
pub(super) struct PendingCommands {
    pending: Mutex<HashMap<u64, Pending>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Pending {
    client: String,
    answer: oneshot::Sender<Answer>,
}

/// A command whose answer is awaited. Dropping it ends the wait.
#[derive(Debug)]
struct PendingAnswer<'a> {
    nonce: u64,
    answer: oneshot::Receiver<Answer>,
    all: &'a PendingCommands,
}

impl Drop for PendingAnswer<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.nonce);
    }
}

impl PendingCommands {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` when too many wait.
    fn put(&self, client: &str) -> Option<PendingAnswer<'_>> {
        let mut pending = self.lock();
        if pending.len() >= PENDING_MAX {
            return None;
        }
        let nonce = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        pending.insert(nonce, Pending { client: client.to_owned(), answer: sender });
        drop(pending);
        Some(PendingAnswer { nonce, answer, all: self })
    }

    /// Hands a client's answer to the task that waits for it. An answer without a command, or from another client than the one
    /// that was asked, is dropped.
    pub fn answered(&self, client: &str, status: Option<Status>, command: Command) {
        let (nonce, text) = match command {
            Command::ThreadStackTrace(trace) => (trace.nonce, trace.thread_stack_trace),
            Command::VerifyMessageResult(result) => (result.nonce, None),
            // The Node.js client sends the command back, with its status.
            Command::VerifyMessageCommand(command) => (command.nonce, None),
            Command::PrintThreadStackTraceCommand(command) => (command.nonce, None),
            Command::Settings(_)
            | Command::RecoverOrphanedTransactionCommand(_)
            | Command::ReconnectEndpointsCommand(_)
            | Command::NotifyUnsubscribeLiteCommand(_) => return,
        };
        let Ok(nonce) = nonce.parse::<u64>() else { return };
        let mut pending = self.lock();
        if pending.get(&nonce).is_some_and(|pending| pending.client == client)
            && let Some(found) = pending.remove(&nonce)
        {
            // The task that asked may have given up.
            drop(found.answer.send(Answer { status, text }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_bounded_and_forgotten_with_who_asked() {
        let questions = PendingCommands::default();
        let asked: Vec<_> = (0..PENDING_MAX).map(|_| questions.put("c").unwrap()).collect();
        assert!(questions.put("c").is_none());
        drop(asked);
        assert!(questions.put("c").is_some());
        assert!(questions.lock().is_empty());
    }
}
