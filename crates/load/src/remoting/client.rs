//! Routes and connections of a Remoting client.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use redstart_client::Connection;
use redstart_wire::remoting::{Command, Serialization, body::TopicRoute, code, from_slice};
use serde::de::DeserializeOwned;

use crate::Server;

/// The timeout of Java's producers.
pub const TIMEOUT: Duration = Duration::from_secs(3);
const MASTER: &str = "0";
const READABLE: u8 = 4;
const WRITABLE: u8 = 2;

/// Connections to the name server and to each broker of the topics.
#[derive(Debug)]
pub struct Client {
    names: Connection,
    brokers: HashMap<String, Arc<Connection>>,
    /// The user and the TLS of all connections.
    server: Server,
    pub serialization: Serialization,
}

/// One queue of a topic and the address of its broker.
#[derive(Debug, Clone)]
pub struct Queue {
    pub connection: Arc<Connection>,
    pub broker: String,
    pub topic: String,
    pub id: u32,
}

/// Selects the readable or the writable queues of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    Sending,
    Reading,
}

impl Client {
    pub async fn open(name_server: &Server, serialization: Serialization) -> anyhow::Result<Client> {
        let names = connect(name_server).await.context("the name server; is it up?")?;
        Ok(Client { names, brokers: HashMap::new(), server: name_server.clone(), serialization })
    }

    pub fn request(&self, code: i32) -> Command {
        Command { serialization: self.serialization, ..Command::request(code) }
    }

    /// The topic's queues, in the order in which clients use them.
    pub async fn queues(&mut self, topic: &str, purpose: For) -> anyhow::Result<Vec<Queue>> {
        let route = self.route(topic).await?;
        let route = route.with_context(|| format!("topic {topic} does not exist; --create makes it"))?;
        let mut queues = Vec::new();
        for (broker, address, count) in places(&route, purpose) {
            let connection = self.broker(&address).await?;
            let queue = |id| Queue {
                connection: connection.clone(),
                broker: broker.clone(),
                topic: topic.to_owned(),
                id,
            };
            queues.extend((0..count).map(queue));
        }
        ensure!(!queues.is_empty(), "topic {topic} has no queue to use");
        Ok(queues)
    }

    /// The route of the topic; `None` when it does not exist.
    pub async fn route(&self, topic: &str) -> anyhow::Result<Option<TopicRoute>> {
        let request = self.request(code::GET_ROUTEINFO_BY_TOPIC).with_field("topic", topic);
        let answer = self.names.call(request, TIMEOUT).await?;
        if answer.code == code::TOPIC_NOT_EXIST {
            return Ok(None);
        }
        json(&succeeded(answer)?).map(Some)
    }

    pub async fn broker(&mut self, address: &str) -> anyhow::Result<Arc<Connection>> {
        if let Some(open) = self.brokers.get(address) {
            return Ok(open.clone());
        }
        let connection = Arc::new(connect(&self.server(address.to_owned())).await?);
        self.brokers.insert(address.to_owned(), connection.clone());
        Ok(connection)
    }

    /// A broker, and the user of this client.
    pub fn server(&self, address: String) -> Server {
        Server { address, ..self.server.clone() }
    }

    pub async fn ask_names(&self, request: Command) -> anyhow::Result<Command> {
        succeeded(self.names.call(request, TIMEOUT).await?)
    }
}

async fn connect(server: &Server) -> Result<Connection, redstart_client::Error> {
    let connection = Connection::open_over(&server.address, server.tls.as_ref()).await?;
    Ok(connection.with_credentials(server.credentials.clone()))
}

/// Brokers that have queues of the topic: name, address, number of queues.
fn places(route: &TopicRoute, purpose: For) -> Vec<(String, String, u32)> {
    let place = |queues: &redstart_wire::remoting::body::QueueData| {
        let (count, permission) = match purpose {
            For::Sending => (queues.write_queue_nums, WRITABLE),
            For::Reading => (queues.read_queue_nums, READABLE),
        };
        let broker = route.broker_datas.iter().find(|broker| broker.broker_name == queues.broker_name)?;
        let address = broker.broker_addrs.get(MASTER)?;
        (queues.perm & permission != 0).then(|| (queues.broker_name.clone(), address.clone(), count))
    };
    route.queue_datas.iter().filter_map(place).collect()
}

/// The answer, if its code is success.
pub fn succeeded(answer: Command) -> anyhow::Result<Command> {
    if answer.code != code::SUCCESS {
        bail!("{} ({})", answer.remark.as_deref().unwrap_or("refused without a word"), answer.code);
    }
    Ok(answer)
}

/// Reads a body as JSON, also in the lenient form that Java writes.
pub fn json<T: DeserializeOwned>(answer: &Command) -> anyhow::Result<T> {
    from_slice(&answer.body).context("the answer's body is not what it should be")
}

#[cfg(test)]
mod tests {
    use redstart_wire::remoting::body::{BrokerData, QueueData};

    use super::*;

    #[test]
    fn queues_are_those_of_masters_that_allow_it() {
        let queues = |name: &str, perm| QueueData {
            broker_name: name.to_owned(),
            read_queue_nums: 3,
            write_queue_nums: 2,
            perm,
            topic_sys_flag: 0,
        };
        let broker = |name: &str, id: &str| BrokerData {
            broker_name: name.to_owned(),
            broker_addrs: [(id.to_owned(), format!("{name}:1"))].into(),
            ..BrokerData::default()
        };
        let route = TopicRoute {
            queue_datas: vec![queues("a", 6), queues("b", 4), queues("c", 6), queues("d", 6)],
            broker_datas: vec![broker("a", "0"), broker("b", "0"), broker("c", "1")],
            ..TopicRoute::default()
        };
        let place = |name: &str, count| (name.to_owned(), format!("{name}:1"), count);
        assert_eq!(places(&route, For::Sending), [place("a", 2)], "b is read-only, c a replica, d unknown");
        assert_eq!(places(&route, For::Reading), [place("a", 3), place("b", 3)]);
    }
}
