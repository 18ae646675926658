//! Policies: the rules of one user, read from the texts of a request or a file and written as texts again.

use std::{fmt, net::IpAddr};

use crate::{
    action::{Action, Actions, InvalidAction},
    resource::{InvalidResource, Pattern, Resource},
    source::{InvalidSource, Sources},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny,
}

/// What RocketMQ calls the type of a policy: a custom one is looked at first, the default one if nothing in it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tier {
    #[default]
    Custom,
    Default,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub resource: Pattern,
    pub actions: Actions,
    pub sources: Sources,
    pub decision: Decision,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub tier: Tier,
    pub entries: Vec<Entry>,
}

/// A word that is none of those known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {what} is {given:?}; there are {allowed}")]
pub struct InvalidWord {
    what: &'static str,
    given: String,
    allowed: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntry {
    #[error(transparent)]
    Resource(#[from] InvalidResource),
    #[error(transparent)]
    Action(#[from] InvalidAction),
    #[error(transparent)]
    Source(#[from] InvalidSource),
    #[error(transparent)]
    Word(#[from] InvalidWord),
    #[error("the resource {0} has no actions")]
    NoActions(Pattern),
}

impl InvalidWord {
    pub(crate) fn or_find<T: Copy>(
        what: &'static str,
        given: &str,
        known: &[(&'static str, T)],
    ) -> Result<T, InvalidWord> {
        let found = known.iter().find(|(word, _)| word.eq_ignore_ascii_case(given));
        found.map(|(_, value)| *value).ok_or_else(|| InvalidWord {
            what,
            given: given.chars().take(100).collect(),
            allowed: known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
        })
    }
}

impl Decision {
    pub fn read(word: &str) -> Result<Decision, InvalidWord> {
        InvalidWord::or_find("decision", word, &[("Allow", Decision::Allow), ("Deny", Decision::Deny)])
    }

    pub fn name(self) -> &'static str {
        match self {
            Decision::Allow => "Allow",
            Decision::Deny => "Deny",
        }
    }
}

impl Tier {
    /// A blank word is a custom policy, as in RocketMQ.
    pub fn read(word: &str) -> Result<Tier, InvalidWord> {
        let word = if word.is_empty() { Tier::Custom.name() } else { word };
        InvalidWord::or_find("policy type", word, &[("Custom", Tier::Custom), ("Default", Tier::Default)])
    }

    pub fn name(self) -> &'static str {
        match self {
            Tier::Custom => "Custom",
            Tier::Default => "Default",
        }
    }
}

/// The texts of a rule: resource, actions, source addresses, decision.
pub type EntryTexts<'a> = (&'a str, &'a [String], &'a [String], &'a str);

impl Entry {
    /// A rule from the texts of the tools. Blanks around actions and addresses are ignored.
    pub fn read<S: AsRef<str>>(
        resource: &str,
        actions: &[S],
        sources: &[S],
        decision: &str,
    ) -> Result<Entry, InvalidEntry> {
        let resource = Pattern::read(resource)?;
        if actions.is_empty() {
            return Err(InvalidEntry::NoActions(resource));
        }
        let mut set = Actions::default();
        for word in actions {
            set = set.union(Actions::of_policy(word.as_ref().trim())?);
        }
        let sources = Sources::read(sources)?;
        Ok(Entry { resource, actions: set, sources, decision: Decision::read(decision)? })
    }

    pub(crate) fn matches(&self, resource: Resource<'_>, action: Action, source: IpAddr) -> bool {
        self.resource.covers(resource) && self.actions.contains(action) && self.sources.contain(source)
    }
}

/// The rule without its source addresses: what its own user may be told.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.decision.name(), self.actions, self.resource)
    }
}

impl Policy {
    pub fn new(tier: Tier, entries: Vec<Entry>) -> Policy {
        Policy { tier, entries }
    }

    /// Reads a policy as tools write it. No tier is that of policies that users make.
    pub fn read<'a>(
        tier: Option<&str>,
        entries: impl IntoIterator<Item = EntryTexts<'a>>,
    ) -> Result<Policy, InvalidEntry> {
        let tier = Tier::read(tier.unwrap_or_default())?;
        let entry = |(resource, actions, sources, decision): EntryTexts<'a>| {
            Entry::read(resource, actions, sources, decision)
        };
        Ok(Policy::new(tier, entries.into_iter().map(entry).collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_from_the_texts_of_the_tools() {
        let entry = Entry::read("topic:a*", &["pub", " Sub"], &["10.0.0.0/8"], "deny").unwrap();
        assert_eq!(entry.to_string(), "Deny Pub,Sub Topic:a*");
        assert_eq!(entry.sources.texts().collect::<Vec<_>>(), ["10.0.0.0/8"]);
    }

    #[test]
    fn a_rule_that_says_nothing_or_nonsense_is_refused() {
        let none: [&str; 0] = [];
        assert!(Entry::read("*", &none, &none, "Allow").is_err());
        for (resource, action, source, decision) in [
            ("", "Pub", "10.0.0.1", "Allow"),
            ("*", "Any", "10.0.0.1", "Allow"),
            ("*", "Pub", "localhost", "Allow"),
            ("*", "Pub", "10.0.0.1", "Maybe"),
        ] {
            assert!(Entry::read(resource, &[action], &[source], decision).is_err());
        }
    }

    #[test]
    fn a_policy_without_a_type_is_custom() {
        assert_eq!(Tier::read(""), Ok(Tier::Custom));
        assert_eq!(Tier::read("default"), Ok(Tier::Default));
        assert!(Tier::read("Odd").is_err());
    }
}
