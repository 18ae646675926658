//! `redstart message trace`.

use clap::Args;
use redstart_client::admin::{Error, KeyQuery, TRACE_TOPIC, Trace as Step, TraceKind};
use serde::Serialize;

use crate::admin::{
    Session,
    output::{Style, View},
    table::Table,
    time::Time,
};

const MESSAGES_MAX: u32 = 64;

#[derive(Debug, Args)]
pub struct Trace {
    /// Message id that the producer got
    id: String,
    /// Topic that clients write their traces to
    #[arg(long, default_value = TRACE_TOPIC, value_name = "TOPIC")]
    trace_topic: String,
}

impl Trace {
    pub async fn run(&self, session: &Session) -> anyhow::Result<()> {
        let query = KeyQuery { max: MESSAGES_MAX, ..KeyQuery::new(&self.trace_topic, &self.id) };
        let traces = match session.admin.trace(query).await {
            // No client has written a trace yet.
            Err(Error::UnknownTopic { .. }) if self.trace_topic == TRACE_TOPIC => Vec::new(),
            other => other?,
        };
        session
            .output
            .show(&Steps { id: self.id.clone(), steps: traces.into_iter().map(Row::from).collect() })
    }
}

#[derive(Debug, Serialize)]
struct Steps {
    id: String,
    steps: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    step: &'static str,
    at: Time,
    group: String,
    client: String,
    took_ms: i64,
    success: Option<bool>,
    topic: String,
    tag: String,
    keys: String,
    retries: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    transaction_state: String,
}

impl From<Step> for Row {
    fn from(step: Step) -> Row {
        Row {
            step: match step.kind {
                TraceKind::Sent => "sent",
                TraceKind::TransactionEnded => "transaction ended",
                TraceKind::Recalled => "recalled",
                TraceKind::Received => "received",
                TraceKind::Consumed => "consumed",
            },
            at: Time(step.at),
            group: step.group,
            client: step.client,
            took_ms: step.took_ms,
            success: step.success,
            topic: step.topic,
            tag: step.tag,
            keys: step.keys,
            retries: step.retries,
            transaction_state: step.transaction_state,
        }
    }
}

impl View for Steps {
    fn text(&self, style: Style) -> String {
        if self.steps.is_empty() {
            return format!(
                "no trace of {}: its clients did not write one (4.x clients do when tracing is enabled), or it has expired",
                self.id
            );
        }
        let mut table =
            Table::new().left("STEP").left("AT").left("GROUP").left("CLIENT").right("TOOK").left("RESULT");
        for step in &self.steps {
            let result = match step.success {
                Some(true) => "success",
                Some(false) => "failed",
                None => &step.transaction_state,
            };
            table.row([
                step.step.to_owned(),
                style.time(step.at),
                step.group.clone(),
                step.client.clone(),
                format!("{} ms", step.took_ms),
                result.to_owned(),
            ]);
        }
        table.render(style)
    }
}

#[cfg(test)]
mod tests {
    use redstart_client::admin::read_trace;

    use super::*;

    #[test]
    fn steps_are_a_table_in_the_order_of_time() {
        let sent =
            ["Pub", "1769860800000", "r", "pg", "t", "ID", "", "", "h", "5", "7", "0", "OID", "true", "c"];
        let got = ["SubAfter", "q", "ID", "30", "false", "", "0", "1769860801000", "billing"];
        let text = format!("{}\u{2}{}\u{2}", sent.join("\u{1}"), got.join("\u{1}"));
        let steps = read_trace(&text, "10.0.0.1").into_iter().map(Row::from).collect();
        let expected = concat!(
            "STEP      AT                        GROUP    CLIENT     TOOK  RESULT\n",
            "sent      2026-01-31 12:00:00.000Z  pg       10.0.0.1   7 ms  success\n",
            "consumed  2026-01-31 12:00:01.000Z  billing  10.0.0.1  30 ms  failed\n",
        );
        assert_eq!(Steps { id: "ID".to_owned(), steps }.text(Style::default()), expected);
        let none = Steps { id: "ID".to_owned(), steps: vec![] }.text(Style::default());
        assert!(none.starts_with("no trace of ID"), "{none}");
    }
}
