//! Requests of operators to a cluster: a name server lists the brokers, and each broker is asked directly.
//!
//! Methods that take a broker's address ask that broker; the others find the brokers themselves. Bodies are
//! RocketMQ's types as `redstart_wire` has them.

mod registry;
mod running;
mod upkeep;
mod users;

mod clients;
mod cluster;
mod error;
mod groups;
mod json;
mod message;
mod messages;
mod names;
mod offsets;
mod progress;
pub mod property;
mod pull;
mod rights;
mod send;
mod topics;
mod trace;

use std::{collections::HashMap, sync::Arc, time::Duration};

use redstart_wire::remoting::{Command, code};
use tokio::sync::Mutex;

pub use crate::BodyError;
pub use cluster::{Broker, ChangedConfig, Target};
pub use error::Error;
pub use message::Message;
pub use messages::KeyQuery;
pub use names::{
    DEAD_LETTER_PREFIX, POP_RETRY_SEPARATORS, RETRY_PREFIX, TRACE_TOPIC, is_system_group, is_system_topic,
};
pub use offsets::Boundary;
pub use progress::{ConsumeStats, Progress};
pub use property as properties;
pub use pull::{Expression, PullRequest, PullStatus, Pulled};
pub use rights::{UnreadableRights, rights};
pub use send::{OutgoingMessage, Place, Receipt, SendStatus, message_id, places};
pub use topics::{TopicSpec, TopicStats};
pub use trace::{Trace, TraceKind, read_trace};

pub use registry::ORDER_NAMESPACE;
pub use running::{ConsumeRates, DirectResult, PopQueueInfo, QueueInfo, RunningInfo};
pub use upkeep::{BrokerConsumeStats, Cleaning};

use crate::{Connection, Credentials, Tls, connection};

/// As mqadmin has it.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The consumer group that messages are read with: every server knows it, and it has no offsets.
const TOOLS_GROUP: &str = "TOOLS_CONSUMER";

/// Access to a cluster for operators. Connections are opened when they are needed and kept open.
#[derive(Debug)]
pub struct Admin {
    names: Vec<String>,
    timeout: Duration,
    credentials: Option<Credentials>,
    tls: Option<Tls>,
    connections: Mutex<HashMap<String, Arc<Connection>>>,
}

impl Admin {
    /// `names` are the addresses of the name servers, separated by `;`.
    pub fn new(names: &str) -> Admin {
        let names = names.split(';').map(|address| address.trim().to_owned()).filter(|name| !name.is_empty());
        Admin {
            names: names.collect(),
            timeout: TIMEOUT,
            credentials: None,
            tls: None,
            connections: Mutex::default(),
        }
    }

    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Admin {
        self.timeout = timeout;
        self
    }

    /// Signs every request.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Option<Credentials>) -> Admin {
        self.credentials = credentials;
        self
    }

    /// Connects with TLS, to name servers and brokers alike.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Tls>) -> Admin {
        self.tls = tls;
        self
    }

    /// The name servers as they were given.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn names_text(&self) -> String {
        self.names.join(";")
    }

    /// Asks the first name server that can be reached. The answer's code is success.
    pub async fn ask_names(&self, request: Command) -> Result<Command, Error> {
        let mut failed =
            Error::NoNameServer { address: self.names_text(), why: "no address given".to_owned() };
        for address in &self.names {
            match self.ask_name(address, request.clone()).await {
                Err(error @ Error::NoNameServer { .. }) => failed = error,
                other => return other,
            }
        }
        Err(failed)
    }

    /// Asks one name server.
    pub async fn ask_name(&self, address: &str, request: Command) -> Result<Command, Error> {
        let asked = self.call(address, request, self.timeout).await;
        asked.map_err(|error| match error {
            Error::NoBroker { address, why } => Error::NoNameServer { address, why },
            other => other,
        })
    }

    /// Asks a broker. The answer's code is success.
    pub async fn ask(&self, broker: &str, request: Command) -> Result<Command, Error> {
        self.call(broker, request, self.timeout).await
    }

    async fn call(&self, address: &str, request: Command, timeout: Duration) -> Result<Command, Error> {
        let asked = request.code;
        let answer = self.answer(address, request, timeout).await?;
        if answer.code != code::SUCCESS {
            return Err(refused(address, asked, answer));
        }
        Ok(answer)
    }

    /// The answer, whatever its code.
    async fn answer(&self, address: &str, request: Command, timeout: Duration) -> Result<Command, Error> {
        let connection = self.connection(address).await?;
        let answered = connection.call(request, timeout).await;
        if let Err(connection::Error::Closed { .. }) = &answered {
            // The next call opens another one.
            self.connections.lock().await.remove(address);
        }
        answered.map_err(Error::Connection)
    }

    async fn connection(&self, address: &str) -> Result<Arc<Connection>, Error> {
        // The lock is held while a connection is opened, so that other calls to the same server wait for it.
        let mut connections = self.connections.lock().await;
        if let Some(connection) = connections.get(address) {
            return Ok(connection.clone());
        }
        let opened = Connection::open_over(address, self.tls.as_ref()).await;
        let connection = opened.map_err(|error| match error {
            connection::Error::Connect { address, why } => Error::NoBroker { address, why },
            other => Error::Connection(other),
        })?;
        let connection = Arc::new(connection.with_credentials(self.credentials.clone()));
        connections.insert(address.to_owned(), connection.clone());
        Ok(connection)
    }
}

fn refused(address: &str, request: i32, answer: Command) -> Error {
    Error::Refused {
        address: address.to_owned(),
        request,
        code: answer.code,
        remark: answer.remark.unwrap_or_else(|| "it did not say why".to_owned()),
    }
}
