//! The official clients of one scenario.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::TransactionChecker;
use rocketmq::{Producer, SimpleConsumer};

use crate::harness::Failure;

/// This client's deadline of a receive is its long poll, without slack, so the server must answer before it is over.
/// Apache polls for 20 s at most; asking for less than that makes its answers come too late.
const POLL: Duration = Duration::from_secs(25);

pub fn on_apache() -> bool {
    std::env::var("INTEROP_SERVER").is_ok_and(|server| server == "apache")
}

pub fn endpoint() -> String {
    std::env::var("INTEROP_ENDPOINT").unwrap_or_else(|_| "127.0.0.1:8081".into())
}

pub fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    i64::try_from(since.as_millis()).expect("fits for ages")
}

#[derive(Clone)]
pub struct Clients {
    lang: &'static str,
    /// Topic and group are prepared under the scenario's name, see topics.txt.
    pub topic: String,
    pub group: String,
    /// User and secret, where the server asks for them.
    credentials: Option<(String, String)>,
    /// Tag of every message of this run; receives name it, so no run sees what an earlier one left behind.
    pub tag: String,
}

impl Clients {
    pub fn new(lang: &'static str, scenario: &str) -> Self {
        let name = format!("{lang}-{scenario}");
        Clients {
            lang,
            topic: name.clone(),
            group: name,
            credentials: None,
            tag: format!("run-{:x}-{}", unix_ms(), std::process::id()),
        }
    }

    pub fn named(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.lang)
    }

    /// With the secret that lib/auth.py gave the user.
    pub fn acting_as(&self, user: &str) -> Self {
        self.signing_with(user, &format!("secret-of-{user}"))
    }

    pub fn signing_with(&self, user: &str, secret: &str) -> Self {
        Clients { credentials: Some((user.to_owned(), secret.to_owned())), ..self.clone() }
    }

    pub fn on_topic(&self, topic: String) -> Self {
        Clients { topic, ..self.clone() }
    }

    pub fn message(&self, body: impl Into<Vec<u8>>) -> MessageBuilder {
        MessageBuilder::builder().set_topic(&self.topic).set_tag(&self.tag).set_body(body.into())
    }

    pub async fn producer(&self) -> Result<Producer, ClientError> {
        started(Producer::new(self.producer_option(), self.client_option())?).await
    }

    pub async fn transaction_producer(
        &self,
        checker: Box<TransactionChecker>,
    ) -> Result<Producer, ClientError> {
        started(Producer::new_transaction_producer(self.producer_option(), self.client_option(), checker)?)
            .await
    }

    /// After a restart Apache takes connections before its name server knows the topics again, and then keeps the
    /// answer "no route" for a while; so nobody else asks before one topic can be written.
    pub async fn await_server(&self) {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(60) && self.probe().await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn probe(&self) -> Result<(), ClientError> {
        let producer = self.producer().await?;
        producer.send(self.message("is anybody there").build()?).await?;
        producer.shutdown().await
    }

    fn client_option(&self) -> ClientOption {
        let mut option = ClientOption::default();
        option.set_access_url(endpoint());
        option.set_enable_tls(false);
        option.set_long_polling_timeout(POLL);
        if let Some((user, secret)) = &self.credentials {
            option.set_access_key(user);
            option.set_secret_key(secret);
        }
        option
    }

    fn producer_option(&self) -> ProducerOption {
        let mut option = ProducerOption::default();
        option.set_topics(vec![self.topic.clone()]);
        option
    }

    pub async fn consumer(&self) -> Result<Consumer, ClientError> {
        self.filtered_consumer(FilterExpression::new(FilterType::Tag, &self.tag)).await
    }

    /// A consumer whose group has a position: a new group may start at the newest message of its first receive.
    pub async fn filtered_consumer(&self, filter: FilterExpression) -> Result<Consumer, ClientError> {
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(&self.group);
        option.set_topics(vec![self.topic.clone()]);
        let mut inner = SimpleConsumer::new(option, self.client_option())?;
        inner.start().await?;
        let consumer = Consumer { inner, topic: self.topic.clone(), filter };
        consumer.prime().await?;
        Ok(consumer)
    }
}

async fn started(mut producer: Producer) -> Result<Producer, ClientError> {
    producer.start().await?;
    Ok(producer)
}

pub struct Arrival {
    pub message: MessageView,
    pub at: Instant,
    pub unix_ms: i64,
}

impl Arrival {
    pub fn body(&self) -> String {
        String::from_utf8_lossy(self.message.body()).into_owned()
    }
}

pub fn bodies(arrivals: &[Arrival]) -> Vec<String> {
    arrivals.iter().map(Arrival::body).collect()
}

pub fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}

/// How to receive; the default takes what is there, acknowledges it and gives up after one long poll or two.
pub struct Wanted {
    pub count: usize,
    pub within: Duration,
    pub invisible: Duration,
    pub batch: i32,
    pub ack: bool,
}

impl Wanted {
    pub fn count(count: usize) -> Self {
        Wanted { count, within: POLL, invisible: Duration::from_secs(30), batch: 16, ack: true }
    }
}

pub struct Consumer {
    pub inner: SimpleConsumer,
    topic: String,
    filter: FilterExpression,
}

impl Consumer {
    /// start() does not wait for the settings, so the first receive may meet a server that does not know them yet.
    async fn prime(&self) -> Result<(), ClientError> {
        for _ in 0..3 {
            if self.take(1, Duration::from_secs(10)).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.take(1, Duration::from_secs(10)).await.map(drop)
    }

    pub async fn take(&self, batch: i32, invisible: Duration) -> Result<Vec<MessageView>, ClientError> {
        self.inner.receive_with(&self.topic, &self.filter, batch, invisible).await
    }

    /// Receives until enough messages came or the time is over, in the order of arrival.
    pub async fn receive(&self, wanted: Wanted) -> Result<Vec<Arrival>, Failure> {
        let started = Instant::now();
        let mut arrivals = Vec::new();
        while arrivals.len() < wanted.count && started.elapsed() < wanted.within {
            for message in self.take(wanted.batch, wanted.invisible).await? {
                if wanted.ack {
                    self.inner.ack(&message).await?;
                }
                arrivals.push(Arrival { message, at: Instant::now(), unix_ms: unix_ms() });
            }
        }
        Ok(arrivals)
    }

    /// Bodies that still arrive in one long poll; a scenario that is done expects none.
    pub async fn leftovers(&self) -> Result<Vec<String>, Failure> {
        let once = Wanted { within: Duration::from_millis(1), ..Wanted::count(1) };
        Ok(bodies(&self.receive(once).await?))
    }
}
