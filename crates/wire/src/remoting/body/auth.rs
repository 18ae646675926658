use std::fmt;

use serde::{Deserialize, Serialize};

/// A user; in a change, what is absent stays as it is.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    pub username: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_status: Option<String>,
}

/// Without the password, which must not end up in a log.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("username", &self.username)
            .field("user_type", &self.user_type)
            .field("user_status", &self.user_status)
            .finish_non_exhaustive()
    }
}

/// What a subject may do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Acl {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    pub policies: Vec<Policy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_type: Option<String>,
    pub entries: Vec<PolicyEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyEntry {
    pub resource: String,
    pub actions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ips: Option<Vec<String>>,
    pub decision: String,
}

impl PolicyEntry {
    /// Resource, actions, source addresses, decision.
    pub fn texts(&self) -> (&str, &[String], &[String], &str) {
        (&self.resource, &self.actions, self.source_ips.as_deref().unwrap_or_default(), &self.decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_printed() {
        let user: User = serde_json::from_str(r#"{"username":"u","password":"secret"}"#).unwrap();
        assert_eq!(user.password.as_deref(), Some("secret"));
        assert!(!format!("{user:?}").contains("secret"));
        assert_eq!(serde_json::to_string(&user).unwrap(), r#"{"username":"u","password":"secret"}"#);
    }
}
