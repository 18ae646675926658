//! Requests: messages that are answered by a message.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Core, ProducerBuilder};
use crate::{
    BuildError, Message, Received, SendError, ShutdownReport,
    message_id::unique_text,
    transport::{Purpose, Replies},
};

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// No answer came in time. A consumer may have processed the request all the same.
    #[error("no answer came within {} ms", within.as_millis())]
    Timeout {
        /// The time that the request had.
        within: Duration,
    },
}

/// What a requester has done since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RequesterCounters {
    /// Requests that were answered.
    pub answered: u64,
    /// Answers that came when nobody waited for them any more, to any requester of the client.
    pub late: u64,
}

/// Sends messages and waits for the answers of consumers, over Remoting.
///
/// ```no_run
/// # async fn example(client: redstart_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redstart_client::{Filter, Message};
///
/// let service = client
///     .worker("prices")
///     .subscribe("price-of", Filter::all())
///     .run(|job| async move { job.reply("42").await })
///     .await?;
///
/// let requester = client.producer().group("shop").requests().await?;
/// let answer = requester.request(Message::new("price-of", "tea"), Duration::from_secs(3)).await?;
/// assert_eq!(&answer.body()[..], b"42");
/// # drop(service);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Requester {
    core: Arc<Core>,
    replies: Arc<Replies>,
}

impl Requester {
    pub(super) async fn build(builder: ProducerBuilder) -> Result<Requester, BuildError> {
        let Some(replies) = builder.client.net().replies() else {
            let faults = vec!["requests need Remoting: gRPC carries no answers".to_owned()];
            return Err(BuildError::Invalid { faults });
        };
        let core = builder.start(Vec::new(), None).await?;
        Ok(Requester { core, replies })
    }

    /// Sends a request and waits for its answer. Consumers of this crate skip a request whose time is over before they see it.
    ///
    /// Dropping the future forgets the request; a consumer may process it all the same.
    pub async fn request(&self, message: Message, within: Duration) -> Result<Received, RequestError> {
        let deadline = Instant::now() + within;
        // The broker that has the answer must know this client.
        self.core.introduce(&message.topic).await;
        let correlation = unique_text();
        let answer = self.replies.expect(&correlation);
        let purpose = Purpose::Request { correlation, within };
        let sent = tokio::time::timeout_at(deadline, self.core.send_for(message, purpose)).await;
        let late = |_| RequestError::Timeout { within };
        let sent = sent.map_err(late)?;
        self.core.count(&sent);
        sent?;
        let answer = tokio::time::timeout_at(deadline, answer.wait()).await.map_err(late)?;
        answer.ok_or(RequestError::Timeout { within })
    }

    /// What this requester has done.
    pub fn counters(&self) -> RequesterCounters {
        let (answered, late) = self.replies.counts();
        RequesterCounters { answered, late }
    }

    /// Takes no more requests and waits for those on their way to a broker.
    pub async fn shutdown(&self, within: Duration) -> ShutdownReport {
        self.core.shutdown(Instant::now() + within).await
    }
}
