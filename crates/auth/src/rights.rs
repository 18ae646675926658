//! The decision: whether a user, from an address, may do what a request needs, and which rule said so.

use std::{fmt, net::IpAddr};

use rustc_hash::FxHashMap;

use crate::{
    action::{Action, Actions},
    policy::{Decision, Entry, Policy, Tier},
    resource::{Kind, Pattern, Resource},
    user::{Standing, Status, User},
};

/// Users and what they may do, as they are at one moment. It never changes; a new one takes its place.
#[derive(Debug, Default)]
pub struct Rights {
    users: FxHashMap<Box<str>, Member>,
    /// Rules for every user, looked at when neither tier of the user's own has one.
    built_in: Rules,
}

#[derive(Debug)]
struct Member {
    user: User,
    custom: Rules,
    default: Rules,
}

/// Something that a request must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need<'a> {
    /// One of the actions on the resource.
    Right { resource: Resource<'a>, actions: Actions },
    /// To be a super user.
    Super,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict<'a> {
    Allowed(Reason<'a>),
    Denied(Denial<'a>),
}

/// The first need that was not met, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Denial<'a> {
    pub user: &'a str,
    pub need: Option<Need<'a>>,
    pub reason: Reason<'a>,
}

/// What decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason<'a> {
    /// The user is a super user.
    Super,
    /// The request needs no right beyond being made by a known user.
    NothingNeeded,
    Rule {
        tier: Tier,
        entry: &'a Entry,
    },
    BuiltIn {
        entry: &'a Entry,
    },
    NoRule,
    UnknownUser,
    Disabled,
    NotSuper,
}

impl<'a> Need<'a> {
    pub fn right(resource: Resource<'a>, actions: impl Into<Actions>) -> Need<'a> {
        Need::Right { resource, actions: actions.into() }
    }
}

impl Verdict<'_> {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Allowed(_))
    }
}

impl Rights {
    /// Rules of users who do not exist are ignored. `built_in` are the rules of every user.
    pub fn new<'a>(
        users: impl IntoIterator<Item = User>,
        policies: impl IntoIterator<Item = (&'a str, Vec<Policy>)>,
        built_in: Vec<Entry>,
    ) -> Rights {
        let member = |user: User| {
            let name = user.name().into();
            (name, Member { user, custom: Rules::default(), default: Rules::default() })
        };
        let mut users: FxHashMap<Box<str>, Member> = users.into_iter().map(member).collect();
        for (name, policies) in policies {
            let Some(member) = users.get_mut(name) else { continue };
            for policy in policies {
                match policy.tier {
                    Tier::Custom => member.custom.add(policy.entries),
                    Tier::Default => member.default.add(policy.entries),
                }
            }
        }
        let mut rules = Rules::default();
        rules.add(built_in);
        Rights { users, built_in: rules }
    }

    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(|member| &member.user)
    }

    /// The super users who may authenticate, in no order.
    pub fn super_users(&self) -> impl Iterator<Item = &User> {
        let is_one = |user: &&User| user.standing == Standing::Super && user.status == Status::Enabled;
        self.users.values().map(|member| &member.user).filter(is_one)
    }

    /// All needs must be met.
    pub fn authorize<'a>(
        &'a self,
        user: &'a str,
        source: IpAddr,
        needs: impl IntoIterator<Item = Need<'a>>,
    ) -> Verdict<'a> {
        let denied = |need, reason| Verdict::Denied(Denial { user, need, reason });
        let Some(member) = self.users.get(user) else { return denied(None, Reason::UnknownUser) };
        if member.user.status == Status::Disabled {
            return denied(None, Reason::Disabled);
        }
        if member.user.standing == Standing::Super {
            return Verdict::Allowed(Reason::Super);
        }
        let mut last = Reason::NothingNeeded;
        for need in needs {
            let met = match need {
                Need::Super => Err(Reason::NotSuper),
                Need::Right { resource, actions } => self.decide_any(member, source, resource, actions),
            };
            match met {
                Ok(reason) => last = reason,
                Err(reason) => return denied(Some(need), reason),
            }
        }
        Verdict::Allowed(last)
    }

    /// Each action is decided for itself, so that a rule which denies one of them does not stand in the way of another.
    fn decide_any<'a>(
        &'a self,
        member: &'a Member,
        source: IpAddr,
        resource: Resource<'_>,
        actions: Actions,
    ) -> Result<Reason<'a>, Reason<'a>> {
        let mut denial = None;
        for action in actions.iter() {
            match self.decide(member, source, resource, action) {
                Some((Decision::Allow, reason)) => return Ok(reason),
                Some((Decision::Deny, reason)) => denial = denial.or(Some(reason)),
                None => {}
            }
        }
        Err(denial.unwrap_or(Reason::NoRule))
    }

    fn decide<'a>(
        &'a self,
        member: &'a Member,
        source: IpAddr,
        resource: Resource<'_>,
        action: Action,
    ) -> Option<(Decision, Reason<'a>)> {
        let find = |rules: &'a Rules| rules.find(resource, action, source);
        let own = |tier, entry: &'a Entry| (entry.decision, Reason::Rule { tier, entry });
        find(&member.custom)
            .map(|entry| own(Tier::Custom, entry))
            .or_else(|| find(&member.default).map(|entry| own(Tier::Default, entry)))
            .or_else(|| find(&self.built_in).map(|entry| (entry.decision, Reason::BuiltIn { entry })))
    }
}

/// The rules of one policy, so that the first match of a search is the one that decides: literals are found by name, the
/// others are sorted by how exact they are, those that deny first.
#[derive(Debug, Default)]
struct Rules {
    literals: FxHashMap<Box<str>, Vec<(Kind, Entry)>>,
    wide: Vec<Entry>,
}

impl Rules {
    fn add(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            if let Pattern::Literal(kind, name) = &entry.resource {
                self.literals.entry(name.clone()).or_default().push((*kind, entry));
            } else {
                self.wide.push(entry);
            }
        }
        let deny_first = |entry: &Entry| entry.decision != Decision::Deny;
        for same_name in self.literals.values_mut() {
            same_name.sort_by_key(|(_, entry)| deny_first(entry));
        }
        self.wide.sort_by(|a, b| {
            b.resource.exactness(&a.resource).then_with(|| deny_first(a).cmp(&deny_first(b)))
        });
    }

    fn find(&self, resource: Resource<'_>, action: Action, source: IpAddr) -> Option<&Entry> {
        let literals = self.literals.get(resource.name).into_iter().flatten();
        let literals = literals.filter(|(kind, _)| *kind == resource.kind).map(|(_, entry)| entry);
        literals.chain(&self.wide).find(|entry| entry.matches(resource, action, source))
    }
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Super => f.write_str("be a super user"),
            Need::Right { resource, actions } => {
                let words: Vec<_> = actions.iter().map(Action::name).collect();
                write!(f, "{} on {resource}", words.join(" or "))
            }
        }
    }
}

/// What the denied user may be told: its own rules, without the addresses they are for.
impl fmt::Display for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.need {
            Some(Need::Super) => write!(f, "the user {} is no super user", self.user),
            Some(need) => write!(f, "the user {} has no right to {need}: {}", self.user, self.reason),
            None => write!(f, "the user {}: {}", self.user, self.reason),
        }
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Super => f.write_str("a super user may do everything"),
            Reason::NothingNeeded => f.write_str("every known user may do this"),
            Reason::Rule { tier, entry } => write!(f, "the {} rule '{entry}' decides", tier.name()),
            Reason::BuiltIn { entry } => write!(f, "the built-in rule '{entry}' decides"),
            Reason::NoRule => f.write_str("no rule allows it"),
            Reason::UnknownUser => f.write_str("there is no such user"),
            Reason::Disabled => f.write_str("the user is disabled"),
            Reason::NotSuper => f.write_str("only a super user may do this"),
        }
    }
}

#[cfg(test)]
mod tests;
