use std::{collections::VecDeque, future::Future, pin::Pin, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redstart_client::admin::{Admin, Error, Expression, Message, Pulled};

use super::{
    Reader,
    reader::{QueueReader, pull},
};

/// How long a broker holds a question that it has no answer to.
const WAIT: Duration = Duration::from_secs(15);
/// Before a broker that has gone is tried again.
const PAUSE: Duration = Duration::from_secs(1);

type Asked<'a> = Pin<Box<dyn Future<Output = (QueueReader, Result<Pulled, Error>)> + 'a>>;

/// Every queue of a topic, each waiting for its next message.
pub struct Following<'a> {
    admin: &'a Admin,
    topic: String,
    expression: Expression,
    asked: FuturesUnordered<Asked<'a>>,
    ready: VecDeque<Message>,
    away: bool,
}

impl<'a> Following<'a> {
    pub fn new(admin: &'a Admin, reader: Reader) -> Following<'a> {
        let (topic, expression, queues) = reader.into_queues();
        let mut following = Following {
            admin,
            topic,
            expression,
            asked: FuturesUnordered::new(),
            ready: VecDeque::new(),
            away: false,
        };
        for queue in queues {
            following.ask(queue, Duration::ZERO);
        }
        following
    }

    fn ask(&mut self, queue: QueueReader, pause: Duration) {
        let (admin, topic, expression) = (self.admin, self.topic.clone(), self.expression.clone());
        self.asked.push(Box::pin(async move {
            tokio::time::sleep(pause).await;
            let pulled = pull(admin, &topic, &expression, &queue, WAIT).await;
            (queue, pulled)
        }));
    }

    /// The next message of any queue; `None` when there is no queue. A broker that goes away is waited for: it is told
    /// once.
    pub async fn next(&mut self) -> Result<Option<Message>, Error> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            let Some((mut queue, pulled)) = self.asked.next().await else { return Ok(None) };
            match pulled {
                Ok(pulled) => {
                    self.away = false;
                    queue.next = pulled.next;
                    self.ready.extend(pulled.messages);
                    self.ask(queue, Duration::ZERO);
                }
                Err(error @ (Error::NoBroker { .. } | Error::Connection(_))) => {
                    if !std::mem::replace(&mut self.away, true) {
                        eprintln!("redstart: {error}; waiting for it");
                    }
                    self.ask(queue, PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
