//! An error as it is printed: one line for people, or one JSON object with `code`, `message` and `hint`. Both go to stderr.

use std::fmt;

use redstart_client::admin;
use serde::Serialize;

/// Why a command failed. `code` names the kind for scripts and does not change between releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub code: &'static str,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(code: &'static str, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The failure that `error` is, or one with its text.
    pub fn of(error: &anyhow::Error) -> Failure {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return failure.clone();
        }
        let code = error.downcast_ref::<admin::Error>().map_or("failed", admin_code);
        Failure::new(code, format!("{error:#}"))
    }

    /// A command line that clap did not understand.
    pub fn of_usage(error: &clap::Error) -> Failure {
        let text = error.render().to_string();
        let paragraph = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        let message: Vec<&str> = paragraph.lines().map(str::trim).collect();
        let tips: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
        let failure = Failure::new("usage", message.join(" "));
        match tips.is_empty() {
            true => failure.with_hint("see --help"),
            false => failure.with_hint(tips.join("; ")),
        }
    }

    pub fn print(&self, json: bool) {
        match serde_json::to_string(self) {
            Ok(object) if json => eprintln!("{object}"),
            _ => eprintln!("redstart: {self}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{}; {hint}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Failure {}

/// No `_` arm: a new error of the client gets its code here.
pub fn admin_code(error: &admin::Error) -> &'static str {
    use admin::Error;
    match error {
        Error::NoNameServer { .. } => "noNameServer",
        Error::NoBroker { .. } => "noBroker",
        Error::Connection(_) => "connectionLost",
        Error::Refused { .. } => "refused",
        Error::UnknownTopic { .. } => "unknownTopic",
        Error::UnknownGroup { .. } => "unknownGroup",
        Error::UnknownCluster { .. } => "unknownCluster",
        Error::UnknownBroker { .. } => "unknownBroker",
        Error::NoBrokers { .. } => "noBrokers",
        Error::NotOnline { .. } => "notOnline",
        Error::NotWritable { .. } => "notWritable",
        Error::MessageId { .. } => "invalidMessageId",
        Error::NoMessage { .. } => "unknownMessage",
        Error::Malformed { .. } => "malformedAnswer",
    }
}

/// Whether the command line asks for JSON. Looks at the words themselves: one that clap refuses is answered in JSON, too.
pub fn wants_json<'a>(words: impl IntoIterator<Item = &'a str>) -> bool {
    let mut words = words.into_iter().take_while(|word| *word != "--").peekable();
    while let Some(word) = words.next() {
        match word {
            "--json" | "-ojson" | "-o=json" | "--output=json" => return true,
            "-o" | "--output" if words.peek() == Some(&"json") => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_or_one_object() {
        let failure = Failure::new("unknownTopic", "there is no topic t").with_hint("did you mean t1?");
        assert_eq!(failure.to_string(), "there is no topic t; did you mean t1?");
        let object = r#"{"code":"unknownTopic","message":"there is no topic t","hint":"did you mean t1?"}"#;
        assert_eq!(serde_json::to_string(&failure).unwrap(), object);
        let refused = anyhow::Error::new(admin::Error::UnknownGroup { group: "g".to_owned() });
        assert_eq!(Failure::of(&refused).code, "unknownGroup");
        let context = refused.context("2 sent");
        assert_eq!(Failure::of(&context).message, "2 sent: there is no consumer group g");
        assert_eq!(Failure::of(&anyhow::anyhow!("x")), Failure::new("failed", "x"));
    }

    #[test]
    fn json_is_wanted_by_any_of_its_spellings() {
        for line in ["topic list --json", "topic -o json list", "topic list --output=json", "topic -ojson"] {
            assert!(wants_json(line.split(' ')), "{line}");
        }
        for line in
            ["topic list", "topic list -o table", "topic list -- --json", "message query t --key json"]
        {
            assert!(!wants_json(line.split(' ')), "{line}");
        }
    }
}
