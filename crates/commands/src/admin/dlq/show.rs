//! `redstart dlq show`.

use std::collections::VecDeque;

use clap::Args;
use serde::Serialize;

use super::{letter::origin, open};
use crate::admin::{
    Session,
    message::{MessageView, Start},
    output::{Style, View, count},
    table::Table,
};

#[derive(Debug, Args)]
pub struct Show {
    /// Name of the consumer group
    group: String,
    /// Show at most this many, the newest
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: u32,
}

impl Show {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let mut letters: VecDeque<Letter> = VecDeque::new();
        if let Some(mut reader) = open(session, &self.group, Start::Last(self.limit)).await? {
            while let Some(message) = reader.next(&session.admin).await? {
                let origin_topic = origin(&self.group, &message);
                letters.push_back(Letter { origin_topic, message: MessageView::new(&message) });
                if letters.len() > self.limit as usize {
                    letters.pop_front();
                }
            }
        }
        session.output.show(&Letters { group: self.group.clone(), dead_letters: letters.into() })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Letters {
    group: String,
    dead_letters: Vec<Letter>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Letter {
    /// The topic that it was sent to; `None` when its properties do not tell.
    origin_topic: Option<String>,
    #[serde(flatten)]
    message: MessageView,
}

impl View for Letters {
    fn text(&self, style: Style) -> String {
        if self.dead_letters.is_empty() {
            return format!("consumer group {} has no dead letters", self.group);
        }
        let mut table = Table::new()
            .left("DIED AT")
            .left("TOPIC")
            .left("ID")
            .right("RETRIES")
            .wide("QUEUE")
            .wide("OFFSET ID")
            .left("TAG")
            .left("KEYS")
            .left("BODY");
        for letter in &self.dead_letters {
            let message = &letter.message;
            table.row([
                style.time(message.stored_at),
                letter.origin_topic.clone().unwrap_or_else(|| "?".to_owned()),
                message.id.clone(),
                message.retries.to_string(),
                message.place(),
                message.offset_id.clone(),
                message.tag.clone().unwrap_or_default(),
                message.keys.join(" "),
                message.body.summary(),
            ]);
        }
        let shown = count(self.dead_letters.len(), "dead letter");
        table.render(style) + &format!("\n{shown}; to send them again: redstart dlq resend {}", self.group)
    }
}
