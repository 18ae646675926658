//! `redstart user list` and `show`.

use std::collections::BTreeMap;

use clap::Args;
use redstart_auth::{Standing, Status};
use redstart_wire::remoting::body::User;
use serde::Serialize;

use super::holders;
use crate::admin::{
    Session,
    acl::{Rule, rules, rules_table, subject},
    output::{Style, View, fields},
    table::Table,
    target::Where,
};

#[derive(Debug, Args)]
pub struct List {
    /// Only users whose names contain this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Name of the user
    name: String,
    #[command(flatten)]
    at: Where,
}

impl List {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let mut found: BTreeMap<String, Row> = BTreeMap::new();
        for broker in session.admin.masters(&self.at.target()).await? {
            let users = session.admin.users(&broker.address, self.filter.as_deref()).await?;
            for user in users {
                found.entry(user.username.clone()).or_insert_with(|| Row::of(&user));
            }
        }
        session.output.show(&Users { users: found.into_values().collect() })
    }
}

impl Show {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let held = holders(session, &self.name, &self.at.target()).await?;
        let mut shown = None;
        for (broker, user) in held {
            let acl = session.admin.acl(&broker.address, &subject(&self.name)).await?;
            let detail = Detail { user: Row::of(&user), rules: acl.iter().flat_map(rules).collect() };
            shown = shown.or(Some(detail));
        }
        shown.map_or(Ok(()), |shown| session.output.show(&shown))
    }
}

/// What is shown of a user: its secret never is, although Apache tells it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    user: String,
    super_user: bool,
    enabled: bool,
}

impl Row {
    fn of(user: &User) -> Row {
        let standing = user.user_type.as_deref().and_then(|word| Standing::read(word).ok());
        let status = user.user_status.as_deref().and_then(|word| Status::read(word).ok());
        Row {
            user: user.username.clone(),
            super_user: standing == Some(Standing::Super),
            enabled: status != Some(Status::Disabled),
        }
    }

    fn standing(&self) -> &'static str {
        if self.super_user { "super" } else { "normal" }
    }

    fn status(&self) -> &'static str {
        if self.enabled { "enabled" } else { "disabled" }
    }
}

#[derive(Debug, Serialize)]
struct Users {
    users: Vec<Row>,
}

impl View for Users {
    fn text(&self, style: Style) -> String {
        if self.users.is_empty() {
            return "no users; create one with: redstart user create NAME\n".to_owned();
        }
        let mut table = Table::new().left("USER").left("KIND").left("STATUS");
        for row in &self.users {
            table.row([row.user.clone(), row.standing().to_owned(), row.status().to_owned()]);
        }
        table.render(style)
    }
}

#[derive(Debug, Serialize)]
struct Detail {
    #[serde(flatten)]
    user: Row,
    rules: Vec<Rule>,
}

impl View for Detail {
    fn text(&self, style: Style) -> String {
        let head = [
            ("user", self.user.user.clone()),
            ("kind", self.user.standing().to_owned()),
            ("status", self.user.status().to_owned()),
        ];
        let rules = match (self.rules.is_empty(), self.user.super_user) {
            (false, _) => rules_table(&self.rules).render(style),
            (true, true) => "no rules; a super user needs none\n".to_owned(),
            (true, false) => "no rules, so it may do nothing\n".to_owned(),
        };
        format!("{}\n{rules}", fields(style, &head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, kind: &str, status: &str) -> User {
        User {
            username: name.to_owned(),
            password: Some("a-secret".to_owned()),
            user_type: Some(kind.to_owned()),
            user_status: Some(status.to_owned()),
        }
    }

    #[test]
    fn a_list_shows_kind_and_status_and_no_secret() {
        let users = [user("admin", "Super", "enable"), user("app", "Normal", "disable")];
        let users = Users { users: users.iter().map(Row::of).collect() };
        assert_eq!(
            users.text(Style::default()),
            "USER   KIND    STATUS\nadmin  super   enabled\napp    normal  disabled\n"
        );
        let json = serde_json::to_string(&users).unwrap();
        assert!(json.contains(r#"{"user":"app","superUser":false,"enabled":false}"#), "{json}");
        assert!(!json.contains("a-secret"), "{json}");
    }
}
