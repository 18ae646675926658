//! Subscriptions, and what they let through by a second reckoning.

use redstart_engine::{Filter, Message};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterKind {
    All,
    TagA,
    TagsAOrB,
    SizeOverFive,
    NotTagC,
}

impl FilterKind {
    pub fn filter(self) -> Filter {
        let filter = match self {
            FilterKind::All => Ok(Filter::All),
            FilterKind::TagA => Filter::tags("A"),
            FilterKind::TagsAOrB => Filter::tags("A || B"),
            FilterKind::SizeOverFive => Filter::sql("size > 5"),
            FilterKind::NotTagC => Filter::sql("TAGS IS NOT NULL AND TAGS <> 'C'"),
        };
        filter.expect("the expressions above are well formed")
    }

    pub fn accepts(self, message: &Message) -> bool {
        let tag = message.tag.as_deref();
        let size = message.properties.iter().find(|(name, _)| name == "size");
        match self {
            FilterKind::All => true,
            FilterKind::TagA => tag == Some("A"),
            FilterKind::TagsAOrB => matches!(tag, Some("A" | "B")),
            FilterKind::SizeOverFive => {
                size.and_then(|(_, value)| value.parse::<u64>().ok()).is_some_and(|size| size > 5)
            }
            FilterKind::NotTagC => tag.is_some_and(|tag| tag != "C"),
        }
    }
}
