//! Remoting: name servers tell routes, and each broker is asked directly.

mod convert;
mod heartbeat;
mod pop;
mod pull;
mod questions;
mod send;
mod transactions;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use redstart_wire::remoting::{Command, body::TopicRoute, code, from_slice};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};

use self::questions::{Answering, QUESTIONS_MAX, answer_all};
use super::{Replies, Role};
use crate::{
    CallError, Connection, Credentials, Question, ServerCode, Tls, random::random_below, route::Route,
};

/// The template that brokers make new topics from, and how many of its queues a new topic gets.
pub(super) const TEMPLATE_TOPIC: &str = "TBW102";
pub(super) const TEMPLATE_QUEUES: i32 = 4;

/// How servers are reached.
#[derive(Debug)]
pub(crate) struct Settings {
    pub addresses: Vec<String>,
    pub tls: Option<Tls>,
    pub credentials: Option<Credentials>,
    pub timeout: Duration,
    pub client_id: String,
}

/// The connections to name servers and brokers, one to each address.
#[derive(Debug)]
pub(crate) struct Remoting {
    settings: Settings,
    connections: RwLock<HashMap<String, Arc<Connection>>>,
    /// Held while the connection to an address is opened, so that other calls to it wait for the same one.
    opening: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// The name server that answered last.
    name_server: AtomicUsize,
    members: Arc<Mutex<HashMap<u64, Role>>>,
    next_member: AtomicU64,
    /// Where connections hand requests of brokers to.
    questions: mpsc::Sender<Question>,
    answering: Answering,
    answerer: AbortHandle,
}

impl Drop for Remoting {
    fn drop(&mut self) {
        self.answerer.abort();
    }
}

/// One role of the client.
#[derive(Debug)]
pub(crate) struct Session {
    net: Arc<Remoting>,
    member: u64,
    role: Role,
}

impl Remoting {
    pub fn new(settings: Settings) -> Remoting {
        let first = random_below(settings.addresses.len());
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        let members: Arc<Mutex<HashMap<u64, Role>>> = Arc::default();
        let answering = Answering { members: members.clone(), ..Answering::default() };
        let answerer = tokio::spawn(answer_all(answering.clone(), asked)).abort_handle();
        Remoting {
            settings,
            connections: RwLock::default(),
            opening: Mutex::default(),
            name_server: AtomicUsize::new(first),
            members,
            next_member: AtomicU64::new(0),
            questions,
            answering,
            answerer,
        }
    }

    pub fn client_id(&self) -> &str {
        &self.settings.client_id
    }

    pub fn membership(&self) -> watch::Receiver<u64> {
        self.answering.membership.subscribe()
    }

    pub fn replies(&self) -> Arc<Replies> {
        self.answering.replies.clone()
    }

    pub fn has_member(&self, group: &str) -> bool {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let consumes = |role: &Role| matches!(role, Role::Consumer { group: known, .. } if known == group);
        members.values().any(consumes)
    }

    pub async fn probe(&self) -> Result<(), CallError> {
        let mut failed = None;
        for address in &self.settings.addresses {
            match self.connection(address).await {
                Ok(_) => return Ok(()),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The open connection to an address, or a new one.
    async fn connection(&self, address: &str) -> Result<Arc<Connection>, CallError> {
        if let Some(open) = self.open_connection(address) {
            return Ok(open);
        }
        let gate = {
            let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            opening.entry(address.to_owned()).or_default().clone()
        };
        let _turn = gate.lock().await;
        if let Some(open) = self.open_connection(address) {
            return Ok(open);
        }
        let questions = Some(self.questions.clone());
        let opened = Connection::open_with(address, self.settings.tls.as_ref(), questions).await?;
        let opened = Arc::new(opened.with_credentials(self.settings.credentials.clone()));
        // A broker forgets a client whose connection ends, and would ask it nothing until the next heartbeat.
        if !self.settings.addresses.iter().any(|name_server| name_server == address)
            && let Some(heartbeat) = self.heartbeat_request()
        {
            opened.tell(heartbeat)?;
        }
        let mut connections = self.connections.write().unwrap_or_else(PoisonError::into_inner);
        connections.insert(address.to_owned(), opened.clone());
        Ok(opened)
    }

    fn open_connection(&self, address: &str) -> Option<Arc<Connection>> {
        let connections = self.connections.read().unwrap_or_else(PoisonError::into_inner);
        connections.get(address).filter(|connection| !connection.is_closed()).cloned()
    }

    /// Asks a server; the answer, whatever its code.
    pub(super) async fn ask(
        &self,
        address: &str,
        request: Command,
        within: Duration,
    ) -> Result<Command, CallError> {
        let opened = tokio::time::timeout(within, self.connection(address)).await;
        let connection = opened.map_err(|_| CallError::Connect {
            address: address.to_owned(),
            why: format!("no connection within {} ms", within.as_millis()),
        })??;
        Ok(connection.call(request, within).await?)
    }

    /// The same; a refusal is an error.
    pub(super) async fn call(
        &self,
        address: &str,
        request: Command,
        within: Duration,
    ) -> Result<Command, CallError> {
        let answer = self.ask(address, request, within).await?;
        if answer.code == code::SUCCESS { Ok(answer) } else { Err(refused(address, answer)) }
    }

    /// Asks the name server that answered last, else the next that answers.
    async fn ask_names(&self, request: Command) -> Result<Command, CallError> {
        let count = self.settings.addresses.len();
        let first = self.name_server.load(Ordering::Relaxed);
        let mut failed = None;
        for index in (0..count).map(|step| (first + step) % count) {
            let address = &self.settings.addresses[index];
            match self.call(address, request.clone(), self.settings.timeout).await {
                Err(error) if error.code().is_none() || error.is_busy() => failed = Some(error),
                answer => {
                    self.name_server.store(index, Ordering::Relaxed);
                    return answer;
                }
            }
        }
        Err(failed.unwrap_or_else(|| CallError::Connect {
            address: String::new(),
            why: "no address of a name server is given".to_owned(),
        }))
    }

    pub async fn route(&self, topic: &str) -> Result<Option<Route>, CallError> {
        if let Some(route) = self.route_of(topic).await? {
            return Ok(Some(route));
        }
        // The broker makes the topic with the first message, if it may.
        let template = self.route_of(TEMPLATE_TOPIC).await?;
        Ok(template.map(|template| Route::of_template(topic, &template, TEMPLATE_QUEUES)))
    }

    async fn route_of(&self, topic: &str) -> Result<Option<Route>, CallError> {
        let request = Command::request(code::GET_ROUTEINFO_BY_TOPIC)
            .with_field("topic", topic)
            .with_field("acceptStandardJsonOnly", true);
        let answer = match self.ask_names(request).await {
            Err(error) if error.code().is_some_and(ServerCode::is_unknown_topic) => return Ok(None),
            answer => answer?,
        };
        let data: TopicRoute = from_slice(&answer.body).map_err(|error| CallError::Malformed {
            address: self.settings.addresses.join(";"),
            why: format!("the route of topic {topic}: {error}"),
        })?;
        Ok(Some(Route::of_remoting(topic, &data)))
    }
}

pub(super) fn refused(address: &str, answer: Command) -> CallError {
    CallError::Refused {
        address: address.to_owned(),
        code: ServerCode::remoting(answer.code),
        text: answer.remark.unwrap_or_else(|| "it did not say why".to_owned()),
    }
}

pub(super) fn malformed(address: &str, why: impl ToString) -> CallError {
    CallError::Malformed { address: address.to_owned(), why: why.to_string() }
}
