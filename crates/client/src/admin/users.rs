//! Users and their rights, on one broker.

use bytes::Bytes;
use redstart_wire::remoting::{
    Command,
    body::{Acl, User},
    code,
};
use serde::Serialize;

use super::{Admin, Error, json};

impl Admin {
    pub async fn create_user(&self, broker: &str, user: &User) -> Result<(), Error> {
        let request = Command::request(code::AUTH_CREATE_USER).with_field("username", &user.username);
        self.ask_with(broker, request, user).await.map(drop)
    }

    /// Changes what of the user is there.
    pub async fn update_user(&self, broker: &str, user: &User) -> Result<(), Error> {
        let request = Command::request(code::AUTH_UPDATE_USER).with_field("username", &user.username);
        self.ask_with(broker, request, user).await.map(drop)
    }

    pub async fn delete_user(&self, broker: &str, name: &str) -> Result<(), Error> {
        self.ask(broker, Command::request(code::AUTH_DELETE_USER).with_field("username", name))
            .await
            .map(drop)
    }

    pub async fn user(&self, broker: &str, name: &str) -> Result<Option<User>, Error> {
        let request = Command::request(code::AUTH_GET_USER).with_field("username", name);
        self.ask_maybe(broker, request, code::USER_NOT_EXIST).await
    }

    /// The users whose names contain the filter.
    pub async fn users(&self, broker: &str, filter: Option<&str>) -> Result<Vec<User>, Error> {
        let request = with_optional(Command::request(code::AUTH_LIST_USER), "filter", filter);
        Ok(self.ask_maybe(broker, request, code::USER_NOT_EXIST).await?.unwrap_or_default())
    }

    pub async fn create_acl(&self, broker: &str, subject: &str, acl: &Acl) -> Result<(), Error> {
        let request = Command::request(code::AUTH_CREATE_ACL).with_field("subject", subject);
        self.ask_with(broker, request, acl).await.map(drop)
    }

    pub async fn update_acl(&self, broker: &str, subject: &str, acl: &Acl) -> Result<(), Error> {
        let request = Command::request(code::AUTH_UPDATE_ACL).with_field("subject", subject);
        self.ask_with(broker, request, acl).await.map(drop)
    }

    /// Removes the rights of a subject to a resource, or all of them.
    pub async fn delete_acl(&self, broker: &str, subject: &str, resource: Option<&str>) -> Result<(), Error> {
        let request = Command::request(code::AUTH_DELETE_ACL).with_field("subject", subject);
        self.ask(broker, with_optional(request, "resource", resource)).await.map(drop)
    }

    pub async fn acl(&self, broker: &str, subject: &str) -> Result<Option<Acl>, Error> {
        let request = Command::request(code::AUTH_GET_ACL).with_field("subject", subject);
        self.ask_maybe(broker, request, code::POLICY_NOT_EXIST).await
    }

    pub async fn acls(
        &self,
        broker: &str,
        subject: Option<&str>,
        resource: Option<&str>,
    ) -> Result<Vec<Acl>, Error> {
        let request = with_optional(Command::request(code::AUTH_LIST_ACL), "subjectFilter", subject);
        let request = with_optional(request, "resourceFilter", resource);
        Ok(self.ask_maybe(broker, request, code::POLICY_NOT_EXIST).await?.unwrap_or_default())
    }

    /// Asks with a body of JSON.
    pub(super) async fn ask_with(
        &self,
        broker: &str,
        mut request: Command,
        body: &impl Serialize,
    ) -> Result<Command, Error> {
        let body = serde_json::to_vec(body)
            .map_err(|error| json::malformed(broker, request.code, &error.to_string()))?;
        request.body = Bytes::from(body);
        self.ask(broker, request).await
    }

    /// Asks for what may not be there, which servers say with an answer without a body, or with `absent`.
    async fn ask_maybe<T: serde::de::DeserializeOwned>(
        &self,
        broker: &str,
        request: Command,
        absent: i32,
    ) -> Result<Option<T>, Error> {
        let asked = request.code;
        match self.ask(broker, request).await {
            Ok(answer) if answer.body.is_empty() => Ok(None),
            Ok(answer) => json::read(broker, asked, &answer),
            Err(error) if error.code() == Some(absent) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn with_optional(request: Command, name: &str, value: Option<&str>) -> Command {
    match value {
        Some(value) => request.with_field(name, value),
        None => request,
    }
}
