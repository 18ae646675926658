//! Clients of the other protocol, for operators who ask this one.

use std::{fmt, future::Future, net::SocketAddr, pin::Pin, time::Duration};

use redstart_engine::TopicName;
use redstart_log::Position;

/// Who knows those clients. Answers come from the clients themselves, so they take their time.
pub trait Elsewhere: Send + Sync + fmt::Debug {
    fn clients(&self) -> Vec<OtherClient>;

    /// What the client's threads are doing.
    fn thread_dump<'a>(&'a self, client: &'a str) -> Asked<'a, String>;

    /// Lets the client's listener try a message; the error is what it said to it.
    fn try_message<'a>(&'a self, client: &'a str, message: OtherMessage) -> Asked<'a, Result<(), String>>;

    /// Takes the permission to write out of the routes that those clients are given, or puts it back.
    fn drain(&self, drained: bool);
}

pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unanswered>> + Send + 'a>>;

/// A question to which there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    #[error("the client did not answer in time")]
    Timeout,
    #[error("{0}")]
    Failed(String),
}

/// A client that is or was lately connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherClient {
    pub id: String,
    pub role: Role,
    pub language: String,
    /// Such as `5.1.4`.
    pub version: String,
    pub remote: Option<SocketAddr>,
    pub silent_for: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Producer { topics: Vec<String> },
    Consumer { group: String, takes: Takes, subscriptions: Vec<OtherSubscription> },
}

/// Whether messages come to the consumer or it goes to get them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Pushed,
    Fetched,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherSubscription {
    pub topic: String,
    pub expression: String,
    pub sql: bool,
}

/// A stored message and the topic under which it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherMessage {
    pub topic: TopicName,
    pub position: Position,
    pub size: u32,
}

/// RocketMQ's numbers of the releases 4.0.0 and 5.0.0, and of what comes after all that have one.
const RELEASE_4: i32 = 213;
const RELEASE_5: i32 = 413;
const HIGHER: i32 = i16::MAX as i32;

/// RocketMQ's name of a release, such as `V5_3_1`: the number before it is that of its snapshot.
pub(super) fn version_text(number: i32) -> String {
    let (major, first) = match number {
        _ if (RELEASE_4 - 1..RELEASE_5 - 1).contains(&number) => (4, RELEASE_4 - 1),
        _ if (RELEASE_5 - 1..RELEASE_5 + 199).contains(&number) => (5, RELEASE_5 - 1),
        _ if number > RELEASE_5 => return "HIGHER_VERSION".to_owned(),
        _ => return number.to_string(),
    };
    let (minor, rest) = ((number - first) / 20, (number - first) % 20);
    let snapshot = if rest % 2 == 0 { "_SNAPSHOT" } else { "" };
    format!("V{major}_{minor}_{}{snapshot}", rest / 2)
}

impl OtherClient {
    /// RocketMQ's number for a release: 20 for each minor one, 2 for each patch; `HIGHER_VERSION` when it is unknown.
    pub(super) fn version_number(&self) -> i32 {
        let mut numbers = self.version.split(['.', '-']).map_while(|part| part.parse::<i32>().ok());
        let (major, minor, patch) =
            (numbers.next(), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let first = match major {
            Some(4) => RELEASE_4,
            Some(5) => RELEASE_5,
            _ => return HIGHER,
        };
        if (0..10).contains(&minor) && (0..10).contains(&patch) {
            first + minor * 20 + patch * 2
        } else {
            HIGHER
        }
    }

    pub(super) fn address(&self) -> String {
        self.remote.map(|remote| remote.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_rocketmqs_numbers() {
        let number = |version: &str| {
            let client = OtherClient {
                id: String::new(),
                role: Role::Producer { topics: Vec::new() },
                language: String::new(),
                version: version.to_owned(),
                remote: None,
                silent_for: Duration::ZERO,
            };
            client.version_number()
        };
        let cases = [("5.0.0", 413), ("5.3.1", 475), ("4.9.4", 401), ("5.1.0-SNAPSHOT", 433), ("5.2", 453)];
        for (version, expected) in cases {
            assert_eq!(number(version), expected, "{version}");
        }
        for (number, text) in [
            (413, "V5_0_0"),
            (475, "V5_3_1"),
            (401, "V4_9_4"),
            (474, "V5_3_1_SNAPSHOT"),
            (32_767, "HIGHER_VERSION"),
        ] {
            assert_eq!(version_text(number), text);
        }
        for version in ["", "v5", "6.0.0", "5.99.0"] {
            assert_eq!(number(version), i32::from(i16::MAX), "{version}");
        }
    }
}
