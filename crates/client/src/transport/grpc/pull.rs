//! Reading single queues, and the progress of groups in them. Apache's proxies do not answer these calls.

use std::time::{Duration, SystemTime};

use redstart_wire::v2::{
    Broker, Code, GetOffsetRequest, GetOffsetResponse, MessageQueue, PullMessageRequest, PullMessageResponse,
    QueryOffsetPolicy, QueryOffsetRequest, QueryOffsetResponse, UpdateOffsetRequest, UpdateOffsetResponse,
    pull_message_response::Content,
};

use super::{
    Session, accept,
    channel::Method,
    convert::{filter_expression, received},
    resource, wire_duration, wire_time,
};
use crate::{
    CallError,
    route::Place,
    transport::{Mark, Pull, Pulled},
};

const PULL_MAX: usize = 32;

fn wire_queue(at: &Place) -> MessageQueue {
    MessageQueue {
        topic: Some(resource(&at.queue.topic)),
        id: at.queue.id,
        broker: Some(Broker { name: at.queue.broker.clone(), id: 0, endpoints: None }),
        ..MessageQueue::default()
    }
}

impl Session {
    pub async fn pull(&self, pull: &Pull<'_>) -> Result<Pulled, CallError> {
        let address = &pull.from.address;
        let request = PullMessageRequest {
            group: Some(resource(self.role().group())),
            message_queue: Some(wire_queue(pull.from)),
            offset: pull.offset,
            batch_size: pull.max.clamp(1, PULL_MAX) as i32,
            filter_expression: Some(filter_expression(pull.filter)),
            long_polling_timeout: Some(wire_duration(pull.wait)),
        };
        self.telemetry.ensure(address);
        let within = pull.wait + self.net.timeout;
        let call = async {
            let channel = self.net.channels.get(address).await?;
            let headers = self.net.headers(self.client_id(), Some(within));
            let (mut answers, _) = channel.begin(Method::PullMessage, headers, &request, true).await?;
            let mut pulled = Pulled { messages: Vec::new(), next: pull.offset };
            while let Some(answer) = channel.next::<PullMessageResponse>(&mut answers).await? {
                match answer.content {
                    Some(Content::Message(message)) => {
                        let queue = &pull.from.queue;
                        let (mut message, _) = received(&queue.topic, &queue.broker, message);
                        message.queue.id = queue.id;
                        pulled.messages.push(message);
                    }
                    Some(Content::NextOffset(next)) => pulled.next = next,
                    Some(Content::Status(status)) if status.code == i32::from(Code::MessageNotFound) => {}
                    Some(Content::Status(status)) => accept(address, Some(&status))?,
                    None => {}
                }
            }
            Ok(pulled)
        };
        let late = |_| CallError::Timeout { address: address.to_string(), within };
        tokio::time::timeout(within, call).await.map_err(late)?
    }

    pub async fn find_offset(&self, at: &Place, mark: Mark) -> Result<i64, CallError> {
        let (policy, timestamp) = match mark {
            Mark::Earliest => (QueryOffsetPolicy::Beginning, None),
            Mark::Latest => (QueryOffsetPolicy::End, None),
            Mark::At(time) => {
                let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
                (QueryOffsetPolicy::Timestamp, Some(wire_time(since.as_millis() as i64)))
            }
        };
        let request = QueryOffsetRequest {
            message_queue: Some(wire_queue(at)),
            query_offset_policy: policy.into(),
            timestamp,
        };
        let answer: QueryOffsetResponse =
            self.call(&at.address, Method::QueryOffset, &request, self.net.timeout).await?;
        accept(&at.address, answer.status.as_ref())?;
        Ok(answer.offset)
    }

    pub async fn stored_offset(&self, group: &str, at: &Place) -> Result<Option<i64>, CallError> {
        let request = GetOffsetRequest { group: Some(resource(group)), message_queue: Some(wire_queue(at)) };
        let answer: GetOffsetResponse =
            self.call(&at.address, Method::GetOffset, &request, self.net.timeout).await?;
        let none = [Code::OffsetNotFound, Code::ConsumerGroupNotFound].map(i32::from);
        if answer.status.as_ref().is_some_and(|status| none.contains(&status.code)) {
            return Ok(None);
        }
        accept(&at.address, answer.status.as_ref())?;
        Ok(Some(answer.offset))
    }

    pub async fn store_offset(&self, group: &str, at: &Place, offset: i64) -> Result<(), CallError> {
        let request =
            UpdateOffsetRequest { group: Some(resource(group)), message_queue: Some(wire_queue(at)), offset };
        let answer: UpdateOffsetResponse =
            self.call(&at.address, Method::UpdateOffset, &request, self.net.timeout).await?;
        accept(&at.address, answer.status.as_ref())
    }
}
