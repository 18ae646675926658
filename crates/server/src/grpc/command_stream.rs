//! The server's end of a telemetry stream.

use std::sync::Arc;

use prost::Message as _;
use redstart_wire::v2::TelemetryCommand;
use tokio::sync::mpsc;

use super::{answer::Part, status::Status};
use crate::byte_budget::Account;

/// Commands that wait for a client to read them; past it the client gets no more.
const COMMANDS_MAX: usize = 16;

/// The commands of a telemetry stream, as they go to the client.
pub(super) type Commands = mpsc::Receiver<Result<Part<TelemetryCommand>, Status>>;

/// Sends commands to a client. Clones refer to the same stream.
#[derive(Debug, Clone)]
pub(super) struct CommandStream {
    commands: mpsc::Sender<Result<Part<TelemetryCommand>, Status>>,
    /// The account of the connection, in which commands count until they are written.
    account: Arc<Account>,
}

/// The client does not read its commands, or its stream has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotTaken;

impl CommandStream {
    pub fn new(account: Arc<Account>) -> (CommandStream, Commands) {
        let (commands, queued) = mpsc::channel(COMMANDS_MAX);
        (CommandStream { commands, account }, queued)
    }

    pub fn try_send(&self, command: TelemetryCommand) -> Result<(), NotTaken> {
        let grant = self.account.try_grant(command.encoded_len()).map_err(|_| NotTaken)?;
        let part = Part { message: command, grant: Some(grant) };
        self.commands.try_send(Ok(part)).map_err(|_| NotTaken)
    }

    /// Ends the stream with a status.
    pub fn fail(&self, status: Status) {
        // A client that does not read does not get the status.
        drop(self.commands.try_send(Err(status)));
    }

    /// Whether the client has read every command.
    pub fn is_read(&self) -> bool {
        self.commands.capacity() == COMMANDS_MAX
    }

    /// Waits until the client has read every command. `false` when the stream has ended.
    pub async fn read(&self) -> bool {
        self.commands.reserve_many(COMMANDS_MAX).await.is_ok()
    }

    pub fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits for the end of the stream.
    pub async fn closed(&self) {
        self.commands.closed().await;
    }

    pub fn is_same(&self, other: &CommandStream) -> bool {
        self.commands.same_channel(&other.commands)
    }

    /// A handle that does not keep the stream open.
    pub fn downgrade(&self) -> WeakCommandStream {
        WeakCommandStream { commands: self.commands.downgrade(), account: self.account.clone() }
    }
}

/// A handle to a stream that does not keep it open.
#[derive(Debug)]
pub(super) struct WeakCommandStream {
    commands: mpsc::WeakSender<Result<Part<TelemetryCommand>, Status>>,
    account: Arc<Account>,
}

impl WeakCommandStream {
    pub fn upgrade(self) -> Option<CommandStream> {
        let WeakCommandStream { commands, account } = self;
        Some(CommandStream { commands: commands.upgrade()?, account })
    }
}

#[cfg(test)]
mod tests {
    use redstart_wire::v2::{Settings, Ua, telemetry_command::Command};

    use super::*;
    use crate::byte_budget::ByteBudget;

    fn command(bytes: usize) -> TelemetryCommand {
        let agent = Ua { hostname: "h".repeat(bytes), ..Ua::default() };
        let settings = Settings { user_agent: Some(agent), ..Settings::default() };
        TelemetryCommand { status: None, command: Some(Command::Settings(settings)) }
    }

    #[test]
    fn commands_that_nobody_reads_are_bounded_in_number_and_bytes() {
        let account = ByteBudget::new(64 << 20).account(1 << 20);
        let (stream, queued) = CommandStream::new(account.clone());
        for _ in 0..COMMANDS_MAX {
            assert_eq!(stream.try_send(command(10)), Ok(()));
        }
        assert_eq!(stream.try_send(command(10)), Err(NotTaken));
        drop(queued);
        assert_eq!(account.used(), 0, "they count until they are dropped");

        let (stream, mut queued) = CommandStream::new(account);
        assert_eq!(stream.try_send(command(700 << 10)), Ok(()));
        assert_eq!(stream.try_send(command(700 << 10)), Err(NotTaken));
        drop(queued.try_recv().unwrap());
        assert_eq!(stream.try_send(command(700 << 10)), Ok(()));
    }
}
