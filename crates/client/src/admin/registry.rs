//! What name servers keep beside routes: values by namespace and key, their own settings, and whether brokers may be written to.

use std::collections::BTreeMap;

use bytes::Bytes;
use redstart_wire::remoting::{Command, code};

use super::{Admin, Error};

/// The namespace of the queues of ordered topics.
pub const ORDER_NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

impl Admin {
    /// On every name server.
    pub async fn put_value(&self, namespace: &str, key: &str, value: &str) -> Result<(), Error> {
        self.ask_every_name(&of_key(code::PUT_KV_CONFIG, namespace, key).with_field("value", value)).await
    }

    pub async fn value(&self, namespace: &str, key: &str) -> Result<Option<String>, Error> {
        match self.ask_names(of_key(code::GET_KV_CONFIG, namespace, key)).await {
            Ok(answer) => Ok(answer.field("value").map(str::to_owned)),
            Err(error) if error.code() == Some(code::QUERY_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// On every name server.
    pub async fn delete_value(&self, namespace: &str, key: &str) -> Result<(), Error> {
        self.ask_every_name(&of_key(code::DELETE_KV_CONFIG, namespace, key)).await
    }

    /// The settings of one name server.
    pub async fn name_config(&self, address: &str) -> Result<BTreeMap<String, String>, Error> {
        let answer = self.ask_name(address, Command::request(code::GET_NAMESRV_CONFIG)).await?;
        Ok(super::cluster::properties(&String::from_utf8_lossy(&answer.body)))
    }

    /// Changes a setting of every name server.
    pub async fn update_name_config(&self, key: &str, value: &str) -> Result<(), Error> {
        let mut request = Command::request(code::UPDATE_NAMESRV_CONFIG);
        request.body = property(key, value);
        self.ask_every_name(&request).await
    }

    /// Changes a setting of a broker.
    pub async fn update_broker_config(&self, broker: &str, key: &str, value: &str) -> Result<(), Error> {
        let mut request = Command::request(code::UPDATE_BROKER_CONFIG);
        request.body = property(key, value);
        self.ask(broker, request).await.map(drop)
    }

    /// Removes a broker's write permission in one name server; returns the number of topics.
    pub async fn wipe_write_permission(&self, address: &str, broker: &str) -> Result<i32, Error> {
        self.permission(address, broker, code::WIPE_WRITE_PERM_OF_BROKER, "wipeTopicCount").await
    }

    /// Restores a broker's write permission.
    pub async fn add_write_permission(&self, address: &str, broker: &str) -> Result<i32, Error> {
        self.permission(address, broker, code::ADD_WRITE_PERM_OF_BROKER, "addTopicCount").await
    }

    async fn permission(
        &self,
        address: &str,
        broker: &str,
        request: i32,
        count: &'static str,
    ) -> Result<i32, Error> {
        let answer =
            self.ask_name(address, Command::request(request).with_field("brokerName", broker)).await?;
        answer.number(count).map_err(|error| Error::field(address, request, &error))
    }

    async fn ask_every_name(&self, request: &Command) -> Result<(), Error> {
        for address in self.names() {
            self.ask_name(address, request.clone()).await?;
        }
        Ok(())
    }
}

fn of_key(code: i32, namespace: &str, key: &str) -> Command {
    Command::request(code).with_field("namespace", namespace).with_field("key", key)
}

/// One setting as Java's properties.
fn property(key: &str, value: &str) -> Bytes {
    format!("{key}={value}\n").into()
}
