use std::collections::BTreeMap;

use anyhow::Context;
use clap::Args;
use redstart_client::admin::Message;
use serde::Serialize;

use super::{
    letter::{again, origin},
    open,
};
use crate::admin::{
    Session,
    confirm::Consent,
    message::Start,
    output::{Style, View, count, listed},
    time::{self, Moment},
};

/// Dead letters that are looked at in one go: they are read before anything is sent.
const LETTERS_MAX: usize = 10_000;

#[derive(Debug, Args)]
pub struct Resend {
    group: String,
    /// Only those that came from this topic
    #[arg(short, long)]
    topic: Option<String>,
    /// At most so many, the oldest first
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only those that died at or after: a time (UTC), or how long ago
    #[arg(long, value_parser = time::moment, default_value = "earliest")]
    from: Moment,
    #[command(flatten)]
    consent: Consent,
}

impl Resend {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let admin = &session.admin;
        let (letters, without_origin) = self.read(session).await?;
        let mut done = Done { group: self.group.clone(), resent: 0, without_origin, topics: BTreeMap::new() };
        if letters.is_empty() {
            return session.output.show(&done);
        }
        let mut topics: Vec<&str> = letters.iter().map(|(topic, _)| topic.as_str()).collect();
        topics.sort_unstable();
        topics.dedup();
        for topic in &topics {
            admin.route(topic).await?;
        }
        let what = format!(
            "send {} of consumer group {} again to {}; they stay dead letters, and a second resend sends them a second time",
            count(letters.len(), "dead letter"),
            self.group,
            listed(&topics)
        );
        self.consent.ask(&what)?;
        for (topic, letter) in &letters {
            let sent = admin.send(&again(letter, topic)).await;
            sent.with_context(|| {
                format!("{} sent again, then {} was not", count(done.resent, "dead letter"), letter.id())
            })?;
            done.resent += 1;
            *done.topics.entry(topic.clone()).or_default() += 1;
        }
        session.output.show(&done)
    }

    /// The dead letters that are wanted with the topics they came from, and how many say nothing of theirs.
    async fn read(&self, session: &Session) -> anyhow::Result<(Vec<(String, Message)>, usize)> {
        let (mut letters, mut without) = (Vec::new(), 0);
        let limit = self.limit.unwrap_or(LETTERS_MAX).min(LETTERS_MAX);
        let Some(mut reader) = open(session, &self.group, Start::At(self.from)).await? else {
            return Ok((letters, without));
        };
        while letters.len() < limit {
            let Some(message) = reader.next(&session.admin).await? else { break };
            match origin(&self.group, &message) {
                Some(topic) if self.topic.as_ref().is_none_or(|wanted| *wanted == topic) => {
                    letters.push((topic, message));
                }
                Some(_) => {}
                None => without += 1,
            }
        }
        Ok((letters, without))
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    group: String,
    resent: usize,
    /// Dead letters that do not say which topic they came from.
    without_origin: usize,
    /// How many went to each topic.
    topics: BTreeMap<String, usize>,
}

impl View for Done {
    fn text(&self, _: Style) -> String {
        let mut text = match self.resent {
            0 => format!("no dead letter of consumer group {} to send again", self.group),
            resent => {
                let topics: Vec<String> =
                    self.topics.iter().map(|(topic, count)| format!("{count} to {topic}")).collect();
                format!(
                    "{} of consumer group {} sent again: {}",
                    count(resent, "dead letter"),
                    self.group,
                    listed(&topics)
                )
            }
        };
        if self.without_origin > 0 {
            text += &format!("; {} left, which do not say where they came from", self.without_origin);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_counted() {
        let done = |topics: &[(&str, usize)], without_origin| Done {
            group: "g".to_owned(),
            resent: topics.iter().map(|(_, count)| count).sum(),
            without_origin,
            topics: topics.iter().map(|(topic, count)| ((*topic).to_owned(), *count)).collect(),
        };
        let text = |done: Done| done.text(Style::default());
        assert_eq!(text(done(&[], 0)), "no dead letter of consumer group g to send again");
        assert_eq!(
            text(done(&[("a", 1), ("b", 2)], 1)),
            "3 dead letters of consumer group g sent again: 1 to a and 2 to b; 1 left, which do not say where they came from"
        );
    }
}
