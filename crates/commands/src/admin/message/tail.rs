//! `redstart message tail`.

use std::collections::VecDeque;

use clap::Args;
use redstart_client::admin::{Expression, Message};

use super::{MessageView, Reader, Start, follow};
use crate::admin::{
    Session,
    time::{self, Moment},
};

/// Messages printed without --from and --limit.
const NEWEST: u32 = 10;

#[derive(Debug, Args)]
pub struct Tail {
    /// Topic to read
    topic: String,
    /// Start at: earliest, latest, a time (UTC), or how long ago, such as 10m [default: the newest 10; latest with --follow]
    #[arg(long, value_name = "WHERE", value_parser = time::moment)]
    from: Option<Moment>,
    /// Continue at the end and print messages as they arrive
    #[arg(short, long)]
    follow: bool,
    /// Only messages with this tag, or with one of several: 'a || b'
    #[arg(long, conflicts_with = "sql")]
    tag: Option<String>,
    /// Only messages whose properties match this SQL92 expression
    #[arg(long)]
    sql: Option<String>,
    /// Stop after this many messages
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Tail {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let newest = if self.from.is_none() && !self.follow {
            Some(self.limit.map_or(NEWEST, |limit| u32::try_from(limit).unwrap_or(u32::MAX)))
        } else {
            None
        };
        let expression = self.expression();
        let start = match (self.from, newest) {
            (Some(moment), _) => Start::At(moment),
            // Only reading all messages shows which of the newest match.
            (None, Some(_)) if expression != Expression::All => Start::At(Moment::Earliest),
            (None, Some(newest)) => Start::Last(newest),
            (None, None) => Start::At(Moment::Latest),
        };
        let mut reader = Reader::open(&session.admin, &self.topic, start, expression).await?;
        let mut printed = 0;
        let mut kept: VecDeque<Message> = VecDeque::new();
        while let Some(message) = reader.next(&session.admin).await? {
            match newest {
                Some(newest) => {
                    kept.push_back(message);
                    if kept.len() > newest as usize {
                        kept.pop_front();
                    }
                }
                None => {
                    if self.is_enough(printed) {
                        return Ok(());
                    }
                    session.output.next(&MessageView::new(&message))?;
                    printed += 1;
                }
            }
        }
        for message in kept {
            session.output.next(&MessageView::new(&message))?;
            printed += 1;
        }
        if !self.follow {
            if printed == 0 {
                eprintln!("no matching messages in topic {}", self.topic);
            }
            return Ok(());
        }
        let mut following = follow::Following::new(&session.admin, reader);
        while !self.is_enough(printed) {
            let Some(message) = following.next().await? else { break };
            session.output.next(&MessageView::new(&message))?;
            printed += 1;
        }
        Ok(())
    }

    fn is_enough(&self, printed: u64) -> bool {
        self.limit.is_some_and(|limit| printed >= limit)
    }

    fn expression(&self) -> Expression {
        match (&self.tag, &self.sql) {
            (Some(tags), _) => Expression::Tags(tags.clone()),
            (_, Some(sql)) => Expression::Sql(sql.clone()),
            (None, None) => Expression::All,
        }
    }
}
