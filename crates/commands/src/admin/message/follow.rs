//! Follows the queues of a topic: one pull in flight for each.

use std::{collections::VecDeque, future::Future, pin::Pin, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redstart_client::admin::{Admin, Error, Expression, Message, Pulled};

use super::{
    Reader,
    reader::{QueueReader, pull},
};

/// How long a broker holds a pull for which it has no message.
const WAIT: Duration = Duration::from_secs(15);
/// Pause before a broker that does not answer is tried again.
const PAUSE: Duration = Duration::from_secs(1);

type Pulling<'a> = Pin<Box<dyn Future<Output = (QueueReader, Result<Pulled, Error>)> + 'a>>;

/// Every queue of a topic, each waiting for its next message.
pub struct Following<'a> {
    admin: &'a Admin,
    topic: String,
    expression: Expression,
    pulls: FuturesUnordered<Pulling<'a>>,
    ready: VecDeque<Message>,
    /// The broker did not answer the last pull; it is reported once.
    unreachable: bool,
}

impl<'a> Following<'a> {
    pub fn new(admin: &'a Admin, reader: Reader) -> Following<'a> {
        let (topic, expression, queues) = reader.into_queues();
        let mut following = Following {
            admin,
            topic,
            expression,
            pulls: FuturesUnordered::new(),
            ready: VecDeque::new(),
            unreachable: false,
        };
        for queue in queues {
            following.pull(queue, Duration::ZERO);
        }
        following
    }

    fn pull(&mut self, queue: QueueReader, pause: Duration) {
        let (admin, topic, expression) = (self.admin, self.topic.clone(), self.expression.clone());
        self.pulls.push(Box::pin(async move {
            tokio::time::sleep(pause).await;
            let pulled = pull(admin, &topic, &expression, &queue, WAIT).await;
            (queue, pulled)
        }));
    }

    /// The next message of any queue; `None` when the topic has no queue. Waits for a broker that does not answer.
    pub async fn next(&mut self) -> Result<Option<Message>, Error> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            let Some((mut queue, pulled)) = self.pulls.next().await else { return Ok(None) };
            match pulled {
                Ok(pulled) => {
                    self.unreachable = false;
                    queue.next = pulled.next;
                    self.ready.extend(pulled.messages);
                    self.pull(queue, Duration::ZERO);
                }
                Err(error @ (Error::NoBroker { .. } | Error::Connection(_))) => {
                    if !std::mem::replace(&mut self.unreachable, true) {
                        eprintln!("redstart: {error}; trying again until it answers");
                    }
                    self.pull(queue, PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
