//! What can be done to a resource, and sets of it as rules and requests have them.

use std::fmt;

/// What is done to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Pub,
    Sub,
    Create,
    Update,
    Delete,
    Get,
    List,
}

/// A set of actions. A rule covers every action of its set; a request is served if one action of its set is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Actions(u8);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the action is {given:?}; there are {allowed}")]
pub struct InvalidAction {
    given: String,
    allowed: &'static str,
}

impl Action {
    pub const ALL: [Action; 7] =
        [Action::Pub, Action::Sub, Action::Create, Action::Update, Action::Delete, Action::Get, Action::List];

    pub fn name(self) -> &'static str {
        match self {
            Action::Pub => "Pub",
            Action::Sub => "Sub",
            Action::Create => "Create",
            Action::Update => "Update",
            Action::Delete => "Delete",
            Action::Get => "Get",
            Action::List => "List",
        }
    }

    fn find(word: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name().eq_ignore_ascii_case(word))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Actions {
    pub const ALL: Actions = Actions((1 << Action::ALL.len()) - 1);

    /// A word of a policy: `All` or one action. `Any` has no meaning in a policy; RocketMQ refuses it there, too.
    pub fn of_policy(word: &str) -> Result<Actions, InvalidAction> {
        let all = word.eq_ignore_ascii_case("All").then_some(Actions::ALL);
        all.or_else(|| Action::find(word).map(Actions::from)).ok_or_else(|| InvalidAction {
            given: word.to_owned(),
            allowed: "All, Pub, Sub, Create, Update, Delete, Get, List",
        })
    }

    /// A word of a question: one action, or `Any` for a request that any right on the resource allows.
    pub fn of_request(word: &str) -> Result<Actions, InvalidAction> {
        let any = word.eq_ignore_ascii_case("Any").then_some(Actions::ALL);
        any.or_else(|| Action::find(word).map(Actions::from)).ok_or_else(|| InvalidAction {
            given: word.to_owned(),
            allowed: "Any, Pub, Sub, Create, Update, Delete, Get, List",
        })
    }

    pub const fn of(actions: &[Action]) -> Actions {
        let (mut set, mut rest) = (Actions(0), actions);
        while let [first, others @ ..] = rest {
            set = set.with(*first);
            rest = others;
        }
        set
    }

    #[must_use]
    pub const fn with(self, action: Action) -> Actions {
        Actions(self.0 | 1 << action as u8)
    }

    #[must_use]
    pub fn union(self, other: Actions) -> Actions {
        Actions(self.0 | other.0)
    }

    pub fn contains(self, action: Action) -> bool {
        self.0 & 1 << action as u8 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.into_iter().filter(move |action| self.contains(*action))
    }

    /// The words of a policy for this set.
    pub fn words(self) -> Vec<&'static str> {
        if self == Actions::ALL { vec!["All"] } else { self.iter().map(Action::name).collect() }
    }
}

impl From<Action> for Actions {
    fn from(action: Action) -> Self {
        Actions::default().with(action)
    }
}

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        actions.into_iter().fold(Actions::default(), Actions::with)
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(","))
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_any_case_and_written_in_one() {
        for (word, shown) in [("pub", "Pub"), ("SUB", "Sub"), ("All", "All"), ("list", "List")] {
            assert_eq!(Actions::of_policy(word).unwrap().to_string(), shown);
        }
        for bad in ["", "Any", "Publish", "Pub,Sub", "Pub ", "ＰＵＢ"] {
            assert!(Actions::of_policy(bad).is_err(), "{bad}");
        }
        assert_eq!(Actions::of_request("any").unwrap(), Actions::ALL);
        let error = Actions::of_request("All").unwrap_err().to_string();
        assert!(error.starts_with("the action is \"All\"; there are Any, Pub"), "{error}");
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set: Actions = [Action::Get, Action::Pub].into_iter().collect();
        assert!(set.contains(Action::Pub) && set.contains(Action::Get) && !set.contains(Action::Sub));
        assert_eq!(set.to_string(), "Pub,Get");
        assert!(Action::ALL.into_iter().all(|action| Actions::ALL.contains(action)));
        assert!(Actions::default().is_empty());
    }
}
