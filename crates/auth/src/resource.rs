//! Topics, groups and clusters as rules and requests name them, and how exactly a pattern names one.

use std::{cmp::Ordering, fmt};

const NAME_LEN_MAX: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Cluster,
    Namespace,
    Topic,
    Group,
}

/// One thing that a request is about. Its name is what the peer sent and need not be a valid one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resource<'a> {
    pub kind: Kind,
    pub name: &'a str,
}

/// The resources that a rule is about: `*`, `Topic:*`, `Topic:prefix*` or `Topic:name`. Names are compared byte by byte:
/// case counts, and look-alikes differ.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    Any,
    Kind(Kind),
    Prefix(Kind, Box<str>),
    Literal(Kind, Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the resource {0:?} is neither * nor one of Cluster:name, Namespace:name, Topic:name, Group:name")]
pub struct InvalidResource(String);

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Cluster, Kind::Namespace, Kind::Topic, Kind::Group];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Cluster => "Cluster",
            Kind::Namespace => "Namespace",
            Kind::Topic => "Topic",
            Kind::Group => "Group",
        }
    }

    fn find(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(word))
    }
}

impl<'a> Resource<'a> {
    pub fn topic(name: &'a str) -> Resource<'a> {
        Resource { kind: Kind::Topic, name }
    }

    pub fn group(name: &'a str) -> Resource<'a> {
        Resource { kind: Kind::Group, name }
    }

    pub fn cluster(name: &'a str) -> Resource<'a> {
        Resource { kind: Kind::Cluster, name }
    }

    /// A resource as an operator writes it in a question: it names one thing.
    pub fn read(text: &'a str) -> Result<Resource<'a>, InvalidResource> {
        match Pattern::read(text)? {
            Pattern::Literal(kind, name) => {
                Ok(Resource { kind, name: &text[text.len().saturating_sub(name.len())..] })
            }
            _ => Err(InvalidResource(text.to_owned())),
        }
    }
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.name)
    }
}

impl Pattern {
    pub fn read(text: &str) -> Result<Pattern, InvalidResource> {
        if text == "*" {
            return Ok(Pattern::Any);
        }
        let bad = || InvalidResource(text.chars().take(2 * NAME_LEN_MAX).collect());
        let (kind, name) = text.split_once(':').ok_or_else(bad)?;
        let kind = Kind::find(kind).ok_or_else(bad)?;
        let prefix = name.strip_suffix('*');
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '|' | '_' | '-' | '.' | '+');
        if name.is_empty() || name.len() > NAME_LEN_MAX || !prefix.unwrap_or(name).chars().all(allowed) {
            return Err(bad());
        }
        Ok(match prefix {
            Some("") => Pattern::Kind(kind),
            Some(prefix) => Pattern::Prefix(kind, prefix.into()),
            None => Pattern::Literal(kind, name.into()),
        })
    }

    pub fn covers(&self, resource: Resource<'_>) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Kind(kind) => *kind == resource.kind,
            Pattern::Prefix(kind, prefix) => {
                *kind == resource.kind && resource.name.starts_with(prefix.as_ref())
            }
            Pattern::Literal(kind, name) => *kind == resource.kind && resource.name == name.as_ref(),
        }
    }

    /// The more exact pattern is the greater: a literal, then prefixes by length, then `Type:*`, then `*`.
    pub fn exactness(&self, other: &Pattern) -> Ordering {
        self.rank().cmp(&other.rank())
    }

    fn rank(&self) -> (u8, usize) {
        match self {
            Pattern::Any => (0, 0),
            Pattern::Kind(_) => (1, 0),
            Pattern::Prefix(_, prefix) => (2, prefix.len()),
            Pattern::Literal(..) => (3, 0),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Any => f.write_str("*"),
            Pattern::Kind(kind) => write!(f, "{}:*", kind.name()),
            Pattern::Prefix(kind, prefix) => write!(f, "{}:{prefix}*", kind.name()),
            Pattern::Literal(kind, name) => write!(f, "{}:{name}", kind.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pattern_has_one_of_four_forms() {
        let cases = [
            ("*", "*"),
            ("topic:*", "Topic:*"),
            ("topic:orders", "Topic:orders"),
            ("GROUP:a-*", "Group:a-*"),
            ("Cluster:DefaultCluster", "Cluster:DefaultCluster"),
            ("Namespace:n", "Namespace:n"),
            ("Group:%RETRY%g", "Group:%RETRY%g"),
        ];
        for (text, shown) in cases {
            assert_eq!(Pattern::read(text).unwrap().to_string(), shown);
        }
        let long = format!("Topic:{}", "x".repeat(NAME_LEN_MAX + 1));
        for bad in [
            "",
            "**",
            "Topic",
            "Topic:",
            "Queue:x",
            "Topic:a*b*",
            "Topic:*a",
            "Topic:../etc",
            "Topic:a b",
            &long,
        ] {
            assert!(Pattern::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pattern_covers_its_own_kind_and_exact_names() {
        let cases = [
            ("*", "Group:x", true),
            ("Topic:*", "Topic:x", true),
            ("Topic:*", "Group:x", false),
            ("Topic:ab*", "Topic:ab", true),
            ("Topic:ab*", "Topic:abc", true),
            ("Topic:ab*", "Topic:aB", false),
            ("Topic:ab*", "Topic:a", false),
            ("Topic:ab", "Topic:abc", false),
            ("Topic:ab", "Topic:Ab", false),
        ];
        for (pattern, resource, expected) in cases {
            let resource = Resource::read(resource).unwrap();
            assert_eq!(Pattern::read(pattern).unwrap().covers(resource), expected, "{pattern} {resource}");
        }
        let cyrillic = Resource::topic("orders-\u{0430}");
        assert!(!Pattern::read("Topic:orders-a").unwrap().covers(cyrillic));
    }

    #[test]
    fn a_question_names_one_thing() {
        assert_eq!(Resource::read("group:g").unwrap(), Resource::group("g"));
        for bad in ["*", "Topic:*", "Topic:a*", "orders"] {
            assert!(Resource::read(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(text in "(Topic|Group|Cluster|Namespace):[A-Za-z0-9_%-]{0,20}\\*?") {
            if let Ok(pattern) = Pattern::read(&text) {
                prop_assert_eq!(pattern.to_string(), text);
            }
        }
    }
}
