//! What a request must be allowed to do: the rights on topics, groups and clusters that it names, or to be a super user.

use std::borrow::Cow;

use redstart_auth::{Action, Actions, Kind, Need, Resource};
use redstart_engine::{DLQ_PREFIX, RETRY_PREFIX, TopicName};

/// Topics and groups that a request may name. No client comes near it; what rights are computed for is bounded by it.
const NAMES_MAX: usize = 10_000;

/// A request names too many topics and groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request names {0} topics and groups, the limit is {NAMES_MAX}")]
pub(crate) struct TooManyNames(usize);

/// What a request must be allowed to do, all of it.
///
/// The topics of a group's retries and dead letters need no rules of their own: what may be done with the group may be done
/// with them. The group is the one in the topic's name, never one that the request names beside it.
#[derive(Debug, Default)]
pub(crate) struct Needs<'a>(Vec<Wanted<'a>>);

#[derive(Debug)]
enum Wanted<'a> {
    Right { kind: Kind, name: Cow<'a, str>, actions: Actions },
    Super { changes: bool },
}

impl<'a> Needs<'a> {
    /// To be a known user is enough.
    pub fn nothing() -> Needs<'a> {
        Needs::default()
    }

    /// To be called before the names in a request are looked at one by one.
    pub fn bounded(names: usize) -> Result<(), TooManyNames> {
        if names > NAMES_MAX { Err(TooManyNames(names)) } else { Ok(()) }
    }

    pub fn super_user() -> Needs<'a> {
        Needs(vec![Wanted::Super { changes: true }])
    }

    /// The same for a request that changes nothing.
    pub fn super_user_asks() -> Needs<'a> {
        Needs(vec![Wanted::Super { changes: false }])
    }

    #[must_use]
    pub fn cluster(self, name: impl Into<Cow<'a, str>>, actions: impl Into<Actions>) -> Needs<'a> {
        self.with(Kind::Cluster, name.into(), actions.into())
    }

    #[must_use]
    pub fn group(self, name: impl Into<Cow<'a, str>>, actions: impl Into<Actions>) -> Needs<'a> {
        self.with(Kind::Group, name.into(), actions.into())
    }

    /// One of the actions on a topic.
    #[must_use]
    pub fn topic(self, name: impl Into<Cow<'a, str>>, actions: impl Into<Actions>) -> Needs<'a> {
        let (name, actions) = (name.into(), actions.into());
        // A lite topic has no rules of its own: it is a part of its parent.
        let parent = TopicName::parent_of_lite(&name);
        let name = parent.map_or(name, |parent| parent.to_string().into());
        match group_of(&name) {
            Some(group) => {
                let group = group.to_owned();
                self.with(Kind::Group, group.into(), on_group(actions))
            }
            None => self.with(Kind::Topic, name, actions),
        }
    }

    /// The same on a topic and on the group that consumes it.
    #[must_use]
    pub fn consume(
        self,
        topic: impl Into<Cow<'a, str>>,
        group: impl Into<Cow<'a, str>>,
        actions: impl Into<Actions>,
    ) -> Needs<'a> {
        let actions = actions.into();
        self.topic(topic, actions).group(group, actions)
    }

    fn with(mut self, kind: Kind, name: Cow<'a, str>, actions: Actions) -> Needs<'a> {
        self.0.push(Wanted::Right { kind, name, actions });
        self
    }

    /// Whether only super users may do it.
    pub fn is_for_super_users(&self) -> bool {
        self.0.iter().any(|wanted| matches!(wanted, Wanted::Super { .. }))
    }

    /// Whether it is what administrators do: only a super user may do it, or it needs a right that does nothing but make, change or
    /// delete.
    pub fn is_change(&self) -> bool {
        let changes = |action| matches!(action, Action::Create | Action::Update | Action::Delete);
        self.0.iter().any(|wanted| match wanted {
            Wanted::Super { changes } => *changes,
            Wanted::Right { actions, .. } => actions.iter().all(changes),
        })
    }

    /// The resources that it needs rights on, as rules name them.
    pub fn resources(&self) -> Vec<String> {
        let resource = |wanted: &Wanted<'_>| match wanted {
            Wanted::Right { kind, name, .. } => Some(Resource { kind: *kind, name }.to_string()),
            Wanted::Super { .. } => None,
        };
        self.0.iter().filter_map(resource).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Need<'_>> {
        self.0.iter().map(|wanted| match wanted {
            &Wanted::Right { kind, ref name, actions } => {
                Need::Right { resource: Resource { kind, name }, actions }
            }
            Wanted::Super { .. } => Need::Super,
        })
    }
}

/// The group that a topic of retries or dead letters belongs to.
fn group_of(topic: &str) -> Option<&str> {
    let rest = topic.strip_prefix(RETRY_PREFIX).or_else(|| topic.strip_prefix(DLQ_PREFIX))?;
    // Retries of consumers that pop have their topic after a plus.
    Some(rest.split('+').next().unwrap_or(rest))
}

/// A consumer hands its messages back by a send to the retry topic: that is a part of consuming.
fn on_group(actions: Actions) -> Actions {
    let action = |action| if action == Action::Pub { Action::Sub } else { action };
    actions.iter().map(action).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_of_a_group_need_what_the_group_needs() {
        let cases = [
            ("orders", "Pub on Topic:orders"),
            ("%RETRY%g", "Sub on Group:g"),
            ("%RETRY%g+orders", "Sub on Group:g"),
            ("%DLQ%g", "Sub on Group:g"),
            ("%retry%g", "Pub on Topic:%retry%g"),
            ("%LMQ%$orders$eu", "Pub on Topic:orders"),
        ];
        for (topic, expected) in cases {
            let needs = Needs::nothing().topic(topic, Action::Pub);
            let shown: Vec<_> = needs.iter().map(|need| need.to_string()).collect();
            assert_eq!(shown, [expected]);
        }
    }

    #[test]
    fn what_consumers_do_all_day_is_no_change() {
        let offset = Actions::of(&[Action::Sub, Action::Update]);
        assert!(!Needs::nothing().consume("t", "g", offset).is_change());
        assert!(!Needs::nothing().topic("t", Action::Pub).is_change() && !Needs::nothing().is_change());
        assert!(Needs::nothing().consume("t", "g", Action::Update).is_change());
        assert!(Needs::nothing().topic("t", Action::Create).is_change() && Needs::super_user().is_change());
        assert!(!Needs::super_user_asks().is_change() && Needs::super_user_asks().is_for_super_users());
        assert_eq!(Needs::nothing().consume("t", "g", Action::Sub).resources(), ["Topic:t", "Group:g"]);
    }

    #[test]
    fn a_retry_topic_of_another_group_needs_that_group() {
        let needs = Needs::nothing().consume("%RETRY%theirs", "mine", Action::Sub);
        let shown: Vec<_> = needs.iter().map(|need| need.to_string()).collect();
        assert_eq!(shown, ["Sub on Group:theirs", "Sub on Group:mine"]);
    }
}
