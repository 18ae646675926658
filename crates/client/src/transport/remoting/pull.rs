//! Reading single queues, and the progress of groups in them.

use std::time::{Duration, SystemTime};

use redstart_wire::remoting::{Command, FieldError, StoredMessage, body::ConsumerIds, code, from_slice};

use super::{Session, convert::received, malformed, refused};
use crate::{
    CallError, Received,
    route::Place,
    transport::{Mark, Pull, Pulled},
};

/// Bits of the system flag of a pull.
const SUSPEND: i32 = 2;
const SUBSCRIPTION: i32 = 4;
const PULL_MAX: usize = 1024;

impl Session {
    pub async fn pull(&self, pull: &Pull<'_>) -> Result<Pulled, CallError> {
        let (kind, expression) = pull.filter.fields();
        let (address, queue) = (&pull.from.address, &pull.from.queue);
        let suspend = if pull.wait.is_zero() { 0 } else { SUSPEND };
        let request = Command::request(code::PULL_MESSAGE)
            .and("consumerGroup", self.role.group())
            .and("topic", &queue.topic)
            .and("queueId", queue.id)
            .and("queueOffset", pull.offset)
            .and("maxMsgNums", pull.max.clamp(1, PULL_MAX))
            .and("sysFlag", SUBSCRIPTION | suspend)
            .and("commitOffset", 0)
            .and("suspendTimeoutMillis", pull.wait.as_millis() as i64)
            .and("subVersion", 0)
            .and("subscription", expression)
            .and("expressionType", kind)
            .and("bname", &queue.broker);
        let mut answer = self.net.ask(address, request, pull.wait + self.net.settings.timeout).await?;
        let found = match answer.code {
            code::SUCCESS => true,
            code::PULL_NOT_FOUND | code::PULL_RETRY_IMMEDIATELY | code::PULL_OFFSET_MOVED => false,
            _ => return Err(refused(address, answer)),
        };
        let next = answer.number("nextBeginOffset").map_err(|error: FieldError| malformed(address, error))?;
        let mut body = std::mem::take(&mut answer.body);
        let mut messages: Vec<Received> = Vec::new();
        while found && !body.is_empty() {
            let stored = StoredMessage::decode(&mut body)
                .ok_or_else(|| malformed(address, "a message that cannot be read"))?;
            messages.push(received(address, &queue.broker, &stored));
        }
        // Brokers compare hashes of tags.
        messages.retain(|message| pull.filter.takes_tag(message.tag()));
        Ok(Pulled { messages, next })
    }

    fn about_queue(code: i32, at: &Place) -> Command {
        Command::request(code)
            .with_field("topic", &at.queue.topic)
            .with_field("queueId", at.queue.id)
            .with_field("bname", &at.queue.broker)
    }

    async fn ask_offset(&self, at: &Place, request: Command) -> Result<i64, CallError> {
        let answer = self.net.call(&at.address, request, self.net.settings.timeout).await?;
        answer.number("offset").map_err(|error: FieldError| malformed(&at.address, error))
    }

    pub async fn find_offset(&self, at: &Place, mark: Mark) -> Result<i64, CallError> {
        let request = match mark {
            Mark::Earliest => Session::about_queue(code::GET_MIN_OFFSET, at),
            Mark::Latest => Session::about_queue(code::GET_MAX_OFFSET, at),
            Mark::At(time) => {
                let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
                Session::about_queue(code::SEARCH_OFFSET_BY_TIMESTAMP, at)
                    .with_field("timestamp", since.as_millis() as i64)
                    .with_field("boundaryType", "LOWER")
            }
        };
        self.ask_offset(at, request).await
    }

    pub async fn stored_offset(&self, group: &str, at: &Place) -> Result<Option<i64>, CallError> {
        let request = Session::about_queue(code::QUERY_CONSUMER_OFFSET, at)
            .with_field("consumerGroup", group)
            .with_field("setZeroIfNotFound", false);
        match self.ask_offset(at, request).await {
            Err(error) if error.code().is_some_and(|code| code.number == code::QUERY_NOT_FOUND) => Ok(None),
            offset => offset.map(Some),
        }
    }

    pub async fn store_offset(&self, group: &str, at: &Place, offset: i64) -> Result<(), CallError> {
        let request = Session::about_queue(code::UPDATE_CONSUMER_OFFSET, at)
            .with_field("consumerGroup", group)
            .with_field("commitOffset", offset);
        self.net.call(&at.address, request, self.net.settings.timeout).await.map(drop)
    }

    pub async fn members(&self, address: &str) -> Result<Vec<String>, CallError> {
        let request =
            Command::request(code::GET_CONSUMER_LIST_BY_GROUP).with_field("consumerGroup", self.role.group());
        let answer = self.net.call(address, request, self.net.settings.timeout).await?;
        let ids: ConsumerIds = from_slice(&answer.body).map_err(|error| malformed(address, error))?;
        Ok(ids.consumer_id_list)
    }
}
