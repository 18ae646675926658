//! `redstart message query`.

use clap::Args;
use redstart_client::admin::KeyQuery;
use serde::Serialize;

use super::MessageView;
use crate::admin::{
    Session,
    output::{Style, View},
    time::{self, Moment},
};

#[derive(Debug, Args)]
pub struct Query {
    /// Topic to search
    topic: String,
    /// Key of the messages
    #[arg(short, long)]
    key: String,
    /// Only messages stored at or after this time (UTC), or how long ago, such as 1h
    #[arg(long, value_name = "WHEN", value_parser = time::moment)]
    from: Option<Moment>,
    /// Only messages stored before this time (UTC), or how long ago
    #[arg(long, value_name = "WHEN", value_parser = time::moment)]
    to: Option<Moment>,
    /// Show at most this many
    #[arg(long, default_value_t = 64, value_name = "N")]
    limit: u32,
}

fn ms(moment: Option<Moment>, default: i64) -> i64 {
    match moment {
        Some(Moment::At(ms)) => ms,
        Some(Moment::Earliest) => 0,
        Some(Moment::Latest) => i64::MAX,
        None => default,
    }
}

impl Query {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let query = KeyQuery {
            from: ms(self.from, 0),
            to: ms(self.to, i64::MAX),
            max: self.limit,
            ..KeyQuery::new(&self.topic, &self.key)
        };
        let found = session.admin.messages_by_key(query).await?;
        session.output.show(&Found {
            topic: self.topic.clone(),
            key: self.key.clone(),
            messages: found.iter().map(MessageView::new).collect(),
        })
    }
}

#[derive(Debug, Serialize)]
struct Found {
    topic: String,
    key: String,
    messages: Vec<MessageView>,
}

impl View for Found {
    fn text(&self, style: Style) -> String {
        if self.messages.is_empty() {
            return format!("no message in topic {} has the key {}", self.topic, self.key);
        }
        self.messages.iter().map(|message| message.text(style) + "\n").collect()
    }
}
