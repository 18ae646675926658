//! `redstart offset show`.

use clap::Args;
use redstart_client::admin::Error;
use serde::Serialize;

use super::QueueProgress;
use crate::admin::{
    Session,
    output::{Style, View},
};

#[derive(Debug, Args)]
pub struct Show {
    /// Name of the consumer group
    group: String,
    /// Only the queues of this topic
    #[arg(short, long)]
    topic: Option<String>,
}

impl Show {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        if let Some(topic) = &self.topic {
            admin.route(topic).await?;
        }
        if !admin.has_group(&self.group).await? {
            return Err(Error::UnknownGroup { group: self.group.clone() }.into());
        }
        let progress = admin.progress(&self.group, self.topic.as_deref()).await?;
        session.output.show(&Offsets {
            group: self.group.clone(),
            lag: progress.lag(),
            queues: progress.queues.iter().map(QueueProgress::new).collect(),
        })
    }
}

#[derive(Debug, Serialize)]
struct Offsets {
    group: String,
    lag: i64,
    queues: Vec<QueueProgress>,
}

impl View for Offsets {
    fn text(&self, style: Style) -> String {
        match &self.queues[..] {
            [] => format!("consumer group {} has not consumed from any topic yet", self.group),
            queues => {
                QueueProgress::table(queues, style) + &format!("\ntotal lag of {}: {}", self.group, self.lag)
            }
        }
    }
}
