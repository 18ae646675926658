//! `redstart dlq resend`.

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

/// Dead letters of one run. All are read before the first is sent, so that the operator can confirm their number.
const LETTERS_MAX: usize = 10_000;

#[derive(Debug, Args)]
pub struct Resend {
    /// Name of the consumer group
    group: String,
    /// Resend only those that came from this topic
    #[arg(short, long)]
    topic: Option<String>,
    /// Resend at most this many, the oldest first
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Resend only those that died at or after this time (UTC), or how long ago, such as 1h
    #[arg(long, value_name = "WHEN", value_parser = time::moment, default_value = "earliest")]
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
            "send {} of consumer group {} again to {}; they stay in the dead-letter queue, and another resend sends them again",
            count(letters.len(), "dead letter"),
            self.group,
            listed(&topics)
        );
        self.consent.ask(&what)?;
        for (topic, letter) in &letters {
            let sent = admin.send(&again(letter, topic)).await;
            sent.with_context(|| {
                format!("{} sent again, then {} failed", count(done.resent, "dead letter"), letter.id())
            })?;
            done.resent += 1;
            *done.topics.entry(topic.clone()).or_default() += 1;
        }
        session.output.show(&done)
    }

    /// The selected dead letters with the topics they came from, and the number of those whose topic is not known.
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
    /// Dead letters whose topic is not known.
    without_origin: usize,
    /// Dead letters sent to each topic.
    topics: BTreeMap<String, usize>,
}

impl View for Done {
    fn text(&self, _: Style) -> String {
        let mut text = match self.resent {
            0 => format!("consumer group {} has no dead letters to send again", self.group),
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
            text += &format!("; {} not sent, because their topic is not known", self.without_origin);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resent_letters_are_counted_by_topic() {
        let done = |topics: &[(&str, usize)], without_origin| Done {
            group: "g".to_owned(),
            resent: topics.iter().map(|(_, count)| count).sum(),
            without_origin,
            topics: topics.iter().map(|(topic, count)| ((*topic).to_owned(), *count)).collect(),
        };
        let text = |done: Done| done.text(Style::default());
        assert_eq!(text(done(&[], 0)), "consumer group g has no dead letters to send again");
        assert_eq!(
            text(done(&[("a", 1), ("b", 2)], 1)),
            "3 dead letters of consumer group g sent again: 1 to a and 2 to b; 1 not sent, because their topic is not known"
        );
    }
}
