//! Which operation a request asks for: its path, and nothing else.

use http::StatusCode;

use super::super::{call::Right, path::name, refusal::Refusal};

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Send { topic: String },
    Recall { topic: String },
    Consume { topic: String, group: String, step: Step },
}

/// What a consumer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Receive,
    Ack,
    Nack,
    Renew,
    DeadLetter,
}

impl Operation {
    /// Reads what follows `/v1` in a path.
    pub fn of(rest: &str) -> Result<Operation, Refusal> {
        let mut parts = rest.strip_prefix('/').unwrap_or(rest).split('/');
        let mut next = || parts.next();
        let operation = match (next(), next(), next(), next(), next(), next()) {
            (Some("topics"), Some(topic), Some("messages"), None, ..) => {
                Operation::Send { topic: name(topic)? }
            }
            (Some("topics"), Some(topic), Some("recall"), None, ..) => {
                Operation::Recall { topic: name(topic)? }
            }
            (Some("topics"), Some(topic), Some("groups"), Some(group), Some(step), None) => {
                let step = Step::of(step).ok_or_else(not_found)?;
                Operation::Consume { topic: name(topic)?, group: name(group)?, step }
            }
            _ => return Err(not_found()),
        };
        Ok(operation)
    }

    pub fn right(&self) -> Right {
        match self {
            Operation::Send { topic } | Operation::Recall { topic } => Right::Send { topic: topic.clone() },
            Operation::Consume { topic, group, .. } => {
                Right::Consume { topic: topic.clone(), group: group.clone() }
            }
        }
    }
}

impl Step {
    fn of(name: &str) -> Option<Step> {
        Some(match name {
            "receive" => Step::Receive,
            "ack" => Step::Ack,
            "nack" => Step::Nack,
            "renew" => Step::Renew,
            "dead-letter" => Step::DeadLetter,
            _ => return None,
        })
    }
}

fn not_found() -> Refusal {
    let why = "the path is not one of this API";
    Refusal::new(StatusCode::NOT_FOUND, "path_not_found", why).hint(
        "POST /v1/topics/TOPIC/messages, /v1/topics/TOPIC/recall, or \
         /v1/topics/TOPIC/groups/GROUP/ with receive, ack, nack, renew or dead-letter",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_an_operation_or_an_error() {
        let consume = |topic: &str, group: &str, step| Operation::Consume {
            topic: topic.to_owned(),
            group: group.to_owned(),
            step,
        };
        let good = [
            ("/topics/orders/messages", Operation::Send { topic: "orders".to_owned() }),
            ("/topics/orders/recall", Operation::Recall { topic: "orders".to_owned() }),
            ("/topics/a%7Cb/messages", Operation::Send { topic: "a|b".to_owned() }),
            ("/topics/%25DLQ%25g/groups/g/receive", consume("%DLQ%g", "g", Step::Receive)),
            ("/topics/t/groups/g/ack", consume("t", "g", Step::Ack)),
            ("/topics/t/groups/g/nack", consume("t", "g", Step::Nack)),
            ("/topics/t/groups/g/renew", consume("t", "g", Step::Renew)),
            ("/topics/t/groups/g/dead-letter", consume("t", "g", Step::DeadLetter)),
        ];
        for (path, expected) in good {
            assert_eq!(Operation::of(path), Ok(expected), "{path}");
        }
        let long = format!("/topics/{}/messages", "x".repeat(2000));
        let bad = [
            ("", "path_not_found"),
            ("/", "path_not_found"),
            ("/topics", "path_not_found"),
            ("/topics/t", "path_not_found"),
            ("/topics/t/messages/", "path_not_found"),
            ("/topics/t/messages/1", "path_not_found"),
            ("/topics/t/groups/g", "path_not_found"),
            ("/topics/t/groups/g/eat", "path_not_found"),
            ("/topics/t/groups/g/ack/1", "path_not_found"),
            ("//topics/t/messages", "path_not_found"),
            ("/topics/%/messages", "bad_path"),
            ("/topics/%2/messages", "bad_path"),
            ("/topics/%+1/messages", "bad_path"),
            ("/topics/%FF/messages", "bad_path"),
            (&long, "bad_path"),
        ];
        for (path, code) in bad {
            assert_eq!(Operation::of(path).map_err(|refusal| refusal.code), Err(code), "{path}");
        }
    }
}
