//! The connected clients.

use redstart_wire::remoting::{
    Command,
    body::{ConsumerConnection, ProducerConnection, Producers},
    code,
};

use super::{Admin, Error, json};

impl Admin {
    /// The consumers of a group at one broker; [`Error::NotOnline`] when there is none.
    pub async fn consumers(&self, broker: &str, group: &str) -> Result<ConsumerConnection, Error> {
        let request = code::GET_CONSUMER_CONNECTION_LIST;
        let answer = self.ask(broker, Command::request(request).with_field("consumerGroup", group)).await;
        json::read(broker, request, &answer.map_err(|error| error.about_group(group))?)
    }

    /// The producers of a group at one broker.
    pub async fn producers(&self, broker: &str, group: &str) -> Result<ProducerConnection, Error> {
        let request = code::GET_PRODUCER_CONNECTION_LIST;
        let answer = self.ask(broker, Command::request(request).with_field("producerGroup", group)).await?;
        json::read(broker, request, &answer)
    }

    /// All producers of one broker, by group.
    pub async fn all_producers(&self, broker: &str) -> Result<Producers, Error> {
        let request = code::GET_ALL_PRODUCER_INFO;
        let answer = self.ask(broker, Command::request(request)).await?;
        json::read(broker, request, &answer)
    }
}
