//! How many clients are connected, by group, language and version.

use std::collections::HashMap;

/// Combinations that are counted one by one; further ones count together as [`OTHERS`].
const KINDS_MAX: usize = 10_000;
/// Length of a language or version as the client gives it; the rest is cut off.
const TEXT_BYTES_MAX: usize = 64;
/// The label of everything that is not counted one by one. Names of topics and groups cannot contain parentheses.
pub const OTHERS: &str = "(others)";

/// What clients that are counted together have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientLabels {
    /// The consumer group; `None` for producers.
    pub group: Option<String>,
    /// How messages come to consumers: `push`, `pull` or `pop`, as RocketMQ calls it.
    pub mode: &'static str,
    pub language: String,
    pub version: String,
}

/// How many clients there are of each kind.
#[derive(Debug, Default)]
pub struct ClientCounts {
    kinds: HashMap<ClientLabels, usize>,
}

impl ClientCounts {
    pub fn add(&mut self, mut kind: ClientLabels, clients: usize) {
        for text in [&mut kind.language, &mut kind.version] {
            let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= TEXT_BYTES_MAX);
            text.truncate(end.unwrap_or(text.len()));
            text.make_ascii_lowercase();
        }
        if let Some(count) = self.kinds.get_mut(&kind) {
            *count += clients;
            return;
        }
        if self.kinds.len() >= KINDS_MAX {
            let others = || OTHERS.to_owned();
            kind = ClientLabels {
                group: kind.group.map(|_| others()),
                language: others(),
                version: others(),
                ..kind
            };
        }
        *self.kinds.entry(kind).or_default() += clients;
    }

    /// Adds the clients of other counts.
    pub fn merge(&mut self, other: ClientCounts) {
        other.kinds.into_iter().for_each(|(kind, clients)| self.add(kind, clients));
    }

    /// All kinds, sorted.
    pub fn kinds(self) -> Vec<(ClientLabels, usize)> {
        let mut kinds: Vec<_> = self.kinds.into_iter().collect();
        kinds.sort_unstable();
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(group: &str, version: &str) -> ClientLabels {
        ClientLabels {
            group: Some(group.to_owned()),
            mode: "push",
            language: "JAVA".to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn clients_are_counted_by_kind_and_none_is_left_out_past_the_bound() {
        let mut counts = ClientCounts::default();
        counts.add(client("g", &"ä".repeat(500)), 1);
        for n in 0..KINDS_MAX + 20 {
            counts.add(client("g", &n.to_string()), 1);
        }
        counts.add(client("g", "1"), 1);
        let kinds = counts.kinds();
        assert_eq!(kinds.iter().map(|(_, count)| count).sum::<usize>(), KINDS_MAX + 22);
        assert!(kinds.len() <= KINDS_MAX + 1);
        assert!(kinds.iter().all(|(kind, _)| kind.version.len() <= TEXT_BYTES_MAX + 1));
        assert!(kinds.iter().all(|(kind, _)| kind.language == "java" || kind.language == OTHERS));
        let one = kinds.iter().find(|(kind, _)| kind.version == "1");
        assert_eq!(one.map(|(_, count)| *count), Some(2));
    }
}
