/// Which messages of a topic a consumer wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Filter {
    /// All of them.
    #[default]
    All,
    /// Those with one of these tags: `a || b`.
    Tags(String),
    /// Those whose properties fulfil an SQL92 expression: `price > 10 AND region = 'eu'`. Apache's brokers need
    /// `enablePropertyFilter=true`.
    Sql(String),
}

impl Filter {
    /// All messages.
    pub fn all() -> Filter {
        Filter::All
    }

    /// Messages with one of these tags: `created` or `created || paid`.
    pub fn tags(tags: impl Into<String>) -> Filter {
        Filter::Tags(tags.into())
    }

    /// Messages whose properties fulfil this expression.
    pub fn sql(expression: impl Into<String>) -> Filter {
        Filter::Sql(expression.into())
    }

    /// Kind and text as Remoting has them.
    pub(crate) fn fields(&self) -> (&'static str, &str) {
        match self {
            Filter::All => ("TAG", "*"),
            Filter::Tags(tags) => ("TAG", tags),
            Filter::Sql(expression) => ("SQL92", expression),
        }
    }

    /// The tags, without blanks; none for all messages.
    pub(crate) fn tag_list(&self) -> Vec<&str> {
        match self {
            Filter::Tags(tags) if tags.trim() != "*" => {
                tags.split("||").map(str::trim).filter(|tag| !tag.is_empty()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a message with this tag is wanted. Brokers compare the hashes of tags, so a message with another tag may come.
    pub(crate) fn takes_tag(&self, tag: Option<&str>) -> bool {
        let tags = self.tag_list();
        tags.is_empty() || tag.is_some_and(|tag| tags.contains(&tag))
    }

    pub(crate) fn faults(&self, topic: &str, faults: &mut Vec<String>) {
        match self {
            Filter::Sql(expression) if expression.trim().is_empty() => {
                faults.push(format!("the SQL92 expression for topic {topic} is empty"));
            }
            Filter::Tags(tags) if tags.trim().is_empty() => {
                faults.push(format!("the tags for topic {topic} are empty; Filter::All takes all messages"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_as_they_are_written() {
        let filter = Filter::tags(" a ||b|| ");
        assert_eq!(filter.tag_list(), ["a", "b"]);
        assert!(filter.takes_tag(Some("a")) && filter.takes_tag(Some("b")));
        assert!(!filter.takes_tag(Some("A")) && !filter.takes_tag(None));
        for all in [Filter::all(), Filter::tags("*"), Filter::sql("a = 1")] {
            assert!(all.takes_tag(None) && all.takes_tag(Some("x")), "{all:?}");
        }
    }

    #[test]
    fn an_empty_expression_is_a_fault() {
        let mut faults = Vec::new();
        for filter in [Filter::sql(" "), Filter::tags(""), Filter::all(), Filter::tags("a")] {
            filter.faults("t", &mut faults);
        }
        assert_eq!(faults.len(), 2);
    }
}
