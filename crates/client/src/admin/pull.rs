use std::time::Duration;

use redstart_wire::remoting::{Command, FieldError, code};

use super::{Admin, Error, Message, TOOLS_GROUP, messages::decode_all, refused};

const WAIT: i32 = 2;
const HAS_SUBSCRIPTION: i32 = 4;

/// Which messages are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expression {
    #[default]
    All,
    /// `a || b`
    Tags(String),
    Sql(String),
}

impl Expression {
    /// Kind and text as servers want them.
    fn fields(&self) -> (&'static str, &str) {
        match self {
            Expression::All => ("TAG", "*"),
            Expression::Tags(tags) => ("TAG", tags),
            Expression::Sql(expression) => ("SQL92", expression),
        }
    }
}

/// Messages of one queue from an offset on. No group's offset is moved by it.
#[derive(Debug, Clone, Copy)]
pub struct PullRequest<'a> {
    /// The group that reads; `None` for the one that every server knows.
    pub group: Option<&'a str>,
    pub topic: &'a str,
    pub queue: i32,
    pub offset: i64,
    pub max: u32,
    pub expression: &'a Expression,
    /// How long the broker waits for a message when there is none.
    pub wait: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStatus {
    Found,
    /// The queue ends here.
    NoNewMessage,
    /// There are messages, and none of those that were looked at fits.
    NoMatch,
    /// The queue begins after the offset, or ends before it.
    OffsetMoved,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    pub status: PullStatus,
    pub messages: Vec<Message>,
    /// Where to go on.
    pub next: i64,
    pub min: i64,
    pub max: i64,
}

impl Admin {
    /// Reads from a queue on a broker. `name` is the broker's, for the messages.
    pub async fn pull(&self, broker: &str, name: &str, request: &PullRequest<'_>) -> Result<Pulled, Error> {
        let (kind, expression) = request.expression.fields();
        let wait = if request.wait.is_zero() { 0 } else { WAIT };
        let command = Command::request(code::PULL_MESSAGE)
            .with_field("consumerGroup", request.group.unwrap_or(TOOLS_GROUP))
            .with_field("topic", request.topic)
            .with_field("queueId", request.queue)
            .with_field("queueOffset", request.offset)
            .with_field("maxMsgNums", request.max)
            .with_field("sysFlag", HAS_SUBSCRIPTION | wait)
            .with_field("commitOffset", 0)
            .with_field("suspendTimeoutMillis", request.wait.as_millis())
            .with_field("subVersion", 0)
            .with_field("subscription", expression)
            .with_field("expressionType", kind);
        let mut answer = self.answer(broker, command, self.timeout + request.wait).await?;
        let status = match answer.code {
            code::SUCCESS => PullStatus::Found,
            code::PULL_NOT_FOUND => PullStatus::NoNewMessage,
            code::PULL_RETRY_IMMEDIATELY => PullStatus::NoMatch,
            code::PULL_OFFSET_MOVED => PullStatus::OffsetMoved,
            _ => return Err(refused(broker, code::PULL_MESSAGE, answer).about_topic(request.topic)),
        };
        let mut body = std::mem::take(&mut answer.body);
        let messages = match status {
            PullStatus::Found => decode_all(broker, code::PULL_MESSAGE, name, &mut body)?,
            _ => Vec::new(),
        };
        let read = |error: FieldError| Error::field(broker, code::PULL_MESSAGE, &error);
        Ok(Pulled {
            status,
            messages,
            next: answer.number("nextBeginOffset").map_err(read)?,
            min: answer.number("minOffset").map_err(read)?,
            max: answer.number("maxOffset").map_err(read)?,
        })
    }
}
