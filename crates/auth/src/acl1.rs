//! Accounts of ACL 1.0 (RocketMQ before 5.3) as users and policies, so that both kinds of tools see the same.
//!
//! | account | here |
//! |---|---|
//! | `admin=true` | a super user |
//! | `topicPerms`, `groupPerms` | rules of the custom policy |
//! | `defaultTopicPerm`, `defaultGroupPerm` | rules of the default policy for `Topic:*` and `Group:*` |
//! | `whiteRemoteAddress` | rules of the custom policy that allow `Topic:*` and `Group:*` from these addresses; a signature is needed all the same, in RocketMQ it is not |

use crate::{
    action::{Action, Actions},
    policy::{Decision, Entry, Policy, Tier},
    resource::{InvalidResource, Kind, Pattern},
    source::{InvalidSource, Sources},
    user::Standing,
};

const ENTRIES_MAX: usize = 1000;

/// The texts of an account; what was not given is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Account<'a> {
    pub admin: bool,
    pub topic_perms: &'a str,
    pub group_perms: &'a str,
    pub default_topic_perm: &'a str,
    pub default_group_perm: &'a str,
    pub white_addresses: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAccount {
    #[error("the permission {0:?} is none of DENY, PUB, SUB and PUB|SUB")]
    Permission(String),
    #[error("{0:?} is not of the form name=permission")]
    Pair(String),
    #[error(transparent)]
    Resource(#[from] InvalidResource),
    #[error(transparent)]
    Source(#[from] InvalidSource),
    #[error("{0} permissions, the limit is {ENTRIES_MAX}")]
    TooMany(usize),
}

impl Account<'_> {
    pub fn standing(&self) -> Standing {
        if self.admin { Standing::Super } else { Standing::Normal }
    }

    /// Policies without a rule are left out.
    pub fn policies(&self) -> Result<Vec<Policy>, InvalidAccount> {
        let mut custom = pairs(Kind::Topic, self.topic_perms)?;
        custom.extend(pairs(Kind::Group, self.group_perms)?);
        custom.extend(white(self.white_addresses)?);
        let mut default = Vec::new();
        for (kind, text) in [(Kind::Topic, self.default_topic_perm), (Kind::Group, self.default_group_perm)] {
            if !text.trim().is_empty() {
                default.push(permission(Pattern::Kind(kind), text)?);
            }
        }
        if custom.len() > ENTRIES_MAX {
            return Err(InvalidAccount::TooMany(custom.len()));
        }
        let policies = [Policy::new(Tier::Custom, custom), Policy::new(Tier::Default, default)];
        Ok(policies.into_iter().filter(|policy| !policy.entries.is_empty()).collect())
    }
}

/// A list such as `a=PUB,b=SUB`.
fn pairs(kind: Kind, list: &str) -> Result<Vec<Entry>, InvalidAccount> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let read = |word: &str| {
        let pair = word.split_once('=');
        let (name, text) = pair.ok_or_else(|| InvalidAccount::Pair(word.chars().take(200).collect()))?;
        permission(Pattern::read(&format!("{}:{}", kind.name(), name.trim()))?, text)
    };
    words.map(read).collect()
}

fn permission(resource: Pattern, text: &str) -> Result<Entry, InvalidAccount> {
    let both = Actions::from(Action::Pub).with(Action::Sub);
    let (actions, decision) = match text.trim() {
        "DENY" => (both, Decision::Deny),
        "PUB" => (Action::Pub.into(), Decision::Allow),
        "SUB" => (Action::Sub.into(), Decision::Allow),
        "PUB|SUB" | "SUB|PUB" => (both, Decision::Allow),
        other => return Err(InvalidAccount::Permission(other.chars().take(100).collect())),
    };
    Ok(Entry { resource, actions, sources: Sources::default(), decision })
}

fn white(list: &str) -> Result<Vec<Entry>, InvalidAccount> {
    let texts = white_texts(list);
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let sources = Sources::read(&texts)?;
    let entry = |kind| Entry {
        resource: Pattern::Kind(kind),
        actions: Actions::from(Action::Pub).with(Action::Sub),
        sources: sources.clone(),
        decision: Decision::Allow,
    };
    Ok(vec![entry(Kind::Topic), entry(Kind::Group)])
}

/// Splits at commas and semicolons, but not inside braces: `10.0.0.{1,2},10.0.1.*` are two.
fn white_texts(list: &str) -> Vec<&str> {
    let mut inside = false;
    let texts = list.split(|c| {
        inside = (inside || c == '{') && c != '}';
        !inside && matches!(c, ',' | ';')
    });
    texts.map(str::trim).filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(policies: &[Policy]) -> Vec<String> {
        let line = |tier: Tier, entry: &Entry| {
            let sources: Vec<_> = entry.sources.texts().collect();
            format!("{} {entry} {}", tier.name(), sources.join(" ")).trim().to_owned()
        };
        policies
            .iter()
            .flat_map(|policy| policy.entries.iter().map(move |entry| line(policy.tier, entry)))
            .collect()
    }

    #[test]
    fn an_account_becomes_rules() {
        let account = Account {
            topic_perms: "a=PUB|SUB, b=DENY",
            group_perms: "g=SUB",
            default_topic_perm: "DENY",
            default_group_perm: "SUB",
            white_addresses: "10.0.0.{1,2};10.1.*",
            ..Account::default()
        };
        assert_eq!(
            shown(&account.policies().unwrap()),
            [
                "Custom Allow Pub,Sub Topic:a",
                "Custom Deny Pub,Sub Topic:b",
                "Custom Allow Sub Group:g",
                "Custom Allow Pub,Sub Topic:* 10.0.0.{1,2} 10.1.*",
                "Custom Allow Pub,Sub Group:* 10.0.0.{1,2} 10.1.*",
                "Default Deny Pub,Sub Topic:*",
                "Default Allow Sub Group:*",
            ]
        );
        assert_eq!(account.standing(), Standing::Normal);
        assert_eq!(Account { admin: true, ..account }.standing(), Standing::Super);
        assert_eq!(Account::default().policies(), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_permission_is_refused() {
        let many = "a=PUB,".repeat(1001);
        for bad in ["a", "a=ALL", "a=pub", "a=PUB,b", "=PUB", "a b=PUB", &many] {
            assert!(Account { topic_perms: bad, ..Account::default() }.policies().is_err(), "{bad:.40}");
        }
        assert!(Account { white_addresses: "host", ..Account::default() }.policies().is_err());
        assert!(Account { default_group_perm: "ANY", ..Account::default() }.policies().is_err());
    }
}
