//! Message traces. Clients send them to a topic of its own, many lines in one message: a line ends with 0x02, its words are
//! separated by 0x01.

use super::{Admin, Error, KeyQuery};

const WORD: char = '\u{1}';
const LINE: char = '\u{2}';

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceKind {
    Sent,
    TransactionEnded,
    Recalled,
    /// A consumer got it.
    Received,
    /// A consumer was done with it.
    Consumed,
}

/// One thing that happened to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub kind: TraceKind,
    pub message_id: String,
    /// Of producers or consumers; empty where old consumers did not say.
    pub group: String,
    /// Address of the client.
    pub client: String,
    /// Milliseconds since 1970; 0 where old consumers did not say.
    pub at: i64,
    pub took_ms: i64,
    /// `None` where nothing is said of it.
    pub success: Option<bool>,
    pub topic: String,
    pub tag: String,
    pub keys: String,
    /// How often the message had come before.
    pub retries: i64,
    /// Of a transaction: COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW.
    pub transaction_state: String,
}

impl Admin {
    /// The trace of a message in the order of time, from the trace topic.
    pub async fn trace(&self, query: KeyQuery<'_>) -> Result<Vec<Trace>, Error> {
        let mut traces = Vec::new();
        for message in self.messages_by_key(query).await? {
            let Ok(body) = message.body() else { continue };
            let client = message.stored.born_host.ip().to_string();
            traces.extend(read_trace(&String::from_utf8_lossy(&body), &client));
        }
        traces.retain(|trace| trace.message_id == query.key);
        traces.sort_by_key(|trace| (trace.at, trace.kind));
        Ok(traces)
    }
}

/// The lines of a trace message. Unknown lines are left out: clients of other versions write other lines.
pub fn read_trace(text: &str, client: &str) -> Vec<Trace> {
    text.split(LINE).filter_map(|line| read_line(line, client)).collect()
}

fn read_line(line: &str, client: &str) -> Option<Trace> {
    let words: Vec<&str> = line.split(WORD).collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let number = |at: usize| word(at).parse::<i64>().unwrap_or(0);
    let truth = |at: usize| Some(word(at) == "true");
    let at = |index: usize| words.get(index)?.parse::<i64>().ok();
    let trace = |kind, message_id: &str| Trace {
        kind,
        message_id: message_id.to_owned(),
        group: String::new(),
        client: client.to_owned(),
        at: 0,
        took_ms: 0,
        success: None,
        topic: String::new(),
        tag: String::new(),
        keys: String::new(),
        retries: 0,
        transaction_state: String::new(),
    };
    let sent = |kind| {
        Some(Trace {
            at: at(1)?,
            group: word(3).to_owned(),
            topic: word(4).to_owned(),
            ..trace(kind, words.get(5)?)
        })
    };
    Some(match words[0] {
        // Old clients wrote no address of the message before the last word.
        "Pub" => Trace {
            tag: word(6).to_owned(),
            keys: word(7).to_owned(),
            took_ms: number(10),
            success: truth(if words.len() == 13 { 12 } else { 13 }),
            ..sent(TraceKind::Sent)?
        },
        "EndTransaction" => Trace {
            tag: word(6).to_owned(),
            keys: word(7).to_owned(),
            transaction_state: word(11).to_owned(),
            ..sent(TraceKind::TransactionEnded)?
        },
        "Recall" => Trace { success: truth(6), ..sent(TraceKind::Recalled)? },
        "SubBefore" => Trace {
            at: at(1)?,
            group: word(3).to_owned(),
            retries: number(6),
            keys: word(7).to_owned(),
            ..trace(TraceKind::Received, words.get(5)?)
        },
        "SubAfter" => Trace {
            took_ms: number(3),
            success: truth(4),
            keys: word(5).to_owned(),
            at: number(7),
            group: word(8).to_owned(),
            ..trace(TraceKind::Consumed, words.get(2)?)
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> String {
        words.join("\u{1}") + "\u{2}"
    }

    #[test]
    fn the_way_of_a_message_is_read_line_by_line() {
        let text = [
            line(&["Pub", "1000", "r", "pg", "t", "ID", "tag", "k", "h", "5", "7", "0", "OID", "true", "c"]),
            line(&["SubBefore", "2000", "r", "cg", "req", "ID", "2", "k"]),
            line(&["SubAfter", "req", "ID", "30", "false", "k", "0", "2030", "cg"]),
            line(&[
                "EndTransaction",
                "1500",
                "r",
                "pg",
                "t",
                "ID",
                "",
                "",
                "h",
                "2",
                "TX",
                "COMMIT_MESSAGE",
                "false",
            ]),
            line(&["Unheard", "of"]),
            line(&["Pub", "no number"]),
            String::new(),
        ];
        let traces = read_trace(&text.concat(), "10.0.0.1");
        let kinds: Vec<TraceKind> = traces.iter().map(|trace| trace.kind).collect();
        assert_eq!(
            kinds,
            [TraceKind::Sent, TraceKind::Received, TraceKind::Consumed, TraceKind::TransactionEnded]
        );
        assert!(traces.iter().all(|trace| trace.message_id == "ID" && trace.client == "10.0.0.1"));
        assert_eq!((traces[0].at, traces[0].took_ms, traces[0].success), (1000, 7, Some(true)));
        assert_eq!((traces[1].retries, traces[1].success), (2, None));
        assert_eq!((traces[2].at, traces[2].success, traces[2].group.as_str()), (2030, Some(false), "cg"));
        assert_eq!(traces[3].transaction_state, "COMMIT_MESSAGE");
    }
}
