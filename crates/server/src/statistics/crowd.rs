use std::collections::HashMap;

/// Kinds of clients told apart; the others count as one kind.
const KINDS_MAX: usize = 10_000;
/// Of what clients say about themselves.
const TEXT_BYTES_MAX: usize = 64;
/// Stands for everything that is not told apart. No name has such characters.
pub const OTHERS: &str = "(others)";

/// Clients that have everything in common but their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Alike {
    /// Of consumers.
    pub group: Option<String>,
    /// How messages come to consumers: `push`, `pull` or `pop`, as RocketMQ calls it.
    pub mode: &'static str,
    pub language: String,
    pub version: String,
}

/// How many clients there are of each kind.
#[derive(Debug, Default)]
pub struct Crowd {
    kinds: HashMap<Alike, usize>,
}

impl Crowd {
    pub fn add(&mut self, mut alike: Alike, clients: usize) {
        for text in [&mut alike.language, &mut alike.version] {
            let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= TEXT_BYTES_MAX);
            text.truncate(end.unwrap_or(text.len()));
            text.make_ascii_lowercase();
        }
        if let Some(count) = self.kinds.get_mut(&alike) {
            *count += clients;
            return;
        }
        if self.kinds.len() >= KINDS_MAX {
            let others = || OTHERS.to_owned();
            alike = Alike {
                group: alike.group.map(|_| others()),
                language: others(),
                version: others(),
                ..alike
            };
        }
        *self.kinds.entry(alike).or_default() += clients;
    }

    /// All kinds, sorted.
    pub fn kinds(self) -> Vec<(Alike, usize)> {
        let mut kinds: Vec<_> = self.kinds.into_iter().collect();
        kinds.sort_unstable();
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(group: &str, version: &str) -> Alike {
        Alike {
            group: Some(group.to_owned()),
            mode: "push",
            language: "JAVA".to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn clients_are_counted_by_kind_and_none_is_lost_in_the_crowd() {
        let mut crowd = Crowd::default();
        crowd.add(client("g", &"ä".repeat(500)), 1);
        for n in 0..KINDS_MAX + 20 {
            crowd.add(client("g", &n.to_string()), 1);
        }
        crowd.add(client("g", "1"), 1);
        let kinds = crowd.kinds();
        assert_eq!(kinds.iter().map(|(_, count)| count).sum::<usize>(), KINDS_MAX + 22);
        assert!(kinds.len() <= KINDS_MAX + 1);
        assert!(kinds.iter().all(|(alike, _)| alike.version.len() <= TEXT_BYTES_MAX + 1));
        assert!(kinds.iter().all(|(alike, _)| alike.language == "java" || alike.language == OTHERS));
        let one = kinds.iter().find(|(alike, _)| alike.version == "1");
        assert_eq!(one.map(|(_, count)| *count), Some(2));
    }
}
