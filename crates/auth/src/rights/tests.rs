//! Which of several rules decides, and what a denial says.

use proptest::prelude::*;

use super::*;
use crate::user::Secret;

const HERE: &str = "10.0.0.1";

fn user(name: &str, standing: Standing, status: Status) -> User {
    let mut user = User::new(name, Secret::new("secret-of-a-test")).unwrap();
    (user.standing, user.status) = (standing, status);
    user
}

/// `Custom Allow Pub Topic:a [address]`, one rule in a line.
fn policies(lines: &[&str]) -> Vec<Policy> {
    let rule = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [tier, decision, actions, resource, sources @ ..] = &words[..] else { panic!("{line}") };
        let actions: Vec<&str> = actions.split(',').collect();
        let entry = Entry::read(resource, &actions, sources, decision).unwrap();
        Policy::new(Tier::read(tier).unwrap(), vec![entry])
    };
    lines.iter().map(rule).collect()
}

fn rights(lines: &[&str]) -> Rights {
    let users = [
        user("app", Standing::Normal, Status::Enabled),
        user("root", Standing::Super, Status::Enabled),
        user("gone", Standing::Super, Status::Disabled),
    ];
    let trace = Entry::read("Topic:TRACE", &["Pub"], &[], "Allow").unwrap();
    Rights::new(users, [("app", policies(lines))], vec![trace])
}

fn allowed(lines: &[&str], action: &str, resource: &str) -> bool {
    let need = Need::right(Resource::read(resource).unwrap(), Actions::of_request(action).unwrap());
    rights(lines).authorize("app", HERE.parse().unwrap(), [need]).is_allowed()
}

#[test]
fn the_most_exact_rule_of_the_first_policy_that_matches_decides() {
    let cases: &[(&[&str], &str, &str, bool)] = &[
        (&[], "Pub", "Topic:a", false),
        (&["Custom Allow Pub Topic:a"], "Pub", "Topic:a", true),
        (&["Custom Allow Pub Topic:a"], "Sub", "Topic:a", false),
        (&["Custom Allow Pub Topic:a"], "Pub", "Group:a", false),
        (&["Custom Allow All Topic:a"], "Delete", "Topic:a", true),
        (&["Custom Deny Pub Topic:ab", "Custom Allow Pub Topic:a*"], "Pub", "Topic:ab", false),
        (&["Custom Allow Pub Topic:ab", "Custom Deny Pub Topic:a*"], "Pub", "Topic:ab", true),
        (&["Custom Allow Pub Topic:abc*", "Custom Deny Pub Topic:ab*"], "Pub", "Topic:abcd", true),
        (&["Custom Deny Pub Topic:abc*", "Custom Allow Pub Topic:ab*"], "Pub", "Topic:abcd", false),
        (&["Custom Allow Pub Topic:a*", "Custom Deny Pub Topic:*"], "Pub", "Topic:ab", true),
        (&["Custom Allow Pub Topic:*", "Custom Deny All *"], "Pub", "Topic:ab", true),
        (&["Custom Allow All *"], "Update", "Cluster:c", true),
        // The tier comes before exactness.
        (&["Custom Allow Pub *", "Default Deny Pub Topic:a"], "Pub", "Topic:a", true),
        (&["Custom Allow Sub *", "Default Deny Pub Topic:a"], "Pub", "Topic:a", false),
        (&["Default Allow Pub Topic:*"], "Pub", "Topic:a", true),
        // At equal rank Deny wins; RocketMQ lets Allow win.
        (&["Custom Allow Pub Topic:a", "Custom Deny Pub Topic:a"], "Pub", "Topic:a", false),
        (&["Custom Deny Pub Topic:a*", "Custom Allow Pub Topic:a*"], "Pub", "Topic:ab", false),
        // A rule for other addresses or other actions does not match.
        (&["Custom Allow Pub Topic:a 192.0.2.0/24"], "Pub", "Topic:a", false),
        (&["Custom Allow Pub Topic:a 10.0.0.0/8"], "Pub", "Topic:a", true),
        (&["Custom Deny Pub Topic:a 192.0.2.1", "Custom Allow Pub Topic:a"], "Pub", "Topic:a", true),
        // One of several actions is enough, also if another is denied.
        (&["Custom Allow Get Topic:a"], "Any", "Topic:a", true),
        (&["Custom Deny Pub Topic:a", "Custom Allow Sub Topic:*"], "Any", "Topic:a", true),
        (&["Custom Deny All Topic:a", "Default Allow All *"], "Any", "Topic:a", false),
        // Built-in rules come last.
        (&[], "Pub", "Topic:TRACE", true),
        (&[], "Sub", "Topic:TRACE", false),
        (&["Default Deny Pub *"], "Pub", "Topic:TRACE", false),
        // Case and look-alikes.
        (&["Custom Allow Pub Topic:Orders"], "Pub", "Topic:orders", false),
    ];
    for (lines, action, resource, expected) in cases {
        assert_eq!(allowed(lines, action, resource), *expected, "{lines:?} {action} {resource}");
    }
}

#[test]
fn every_need_must_be_met() {
    let rights = rights(&["Custom Allow Sub Topic:a", "Custom Allow Sub Group:g"]);
    let source = HERE.parse().unwrap();
    let topic = Need::right(Resource::topic("a"), Action::Sub);
    let group = Need::right(Resource::group("g"), Action::Sub);
    let other = Need::right(Resource::group("h"), Action::Sub);
    assert!(rights.authorize("app", source, [topic, group]).is_allowed());
    assert_eq!(
        rights.authorize("app", source, [topic, other, group]),
        Verdict::Denied(Denial { user: "app", need: Some(other), reason: Reason::NoRule })
    );
    assert_eq!(rights.authorize("app", source, []), Verdict::Allowed(Reason::NothingNeeded));
    assert!(!rights.authorize("app", source, [Need::Super]).is_allowed());
}

#[test]
fn standing_and_status_come_before_rules() {
    let rights = rights(&["Custom Allow All *"]);
    let source = HERE.parse().unwrap();
    let reason = |user| match rights.authorize(user, source, [Need::Super]) {
        Verdict::Allowed(reason) | Verdict::Denied(Denial { reason, .. }) => reason,
    };
    assert_eq!(reason("root"), Reason::Super);
    assert_eq!(reason("gone"), Reason::Disabled);
    assert_eq!(rights.super_users().count(), 1);
    assert_eq!(reason("nobody"), Reason::UnknownUser);
    // A user named like a super user is another user.
    for name in ["Root", "ROOT", "root ", "r\u{043e}ot", "root\0", ""] {
        assert_eq!(reason(name), Reason::UnknownUser, "{name:?}");
    }
    assert_eq!(reason("app"), Reason::NotSuper);
}

#[test]
fn a_denial_names_user_need_and_rule_but_no_addresses() {
    let rights = rights(&["Custom Deny Pub Topic:a* 10.0.0.0/8"]);
    let need = Need::right(Resource::topic("ab"), Action::Pub);
    let Verdict::Denied(denial) = rights.authorize("app", HERE.parse().unwrap(), [need]) else {
        panic!("must be denied")
    };
    let text = "the user app has no right to Pub on Topic:ab: the Custom rule 'Deny Pub Topic:a*' decides";
    assert_eq!(denial.to_string(), text);
}

fn any_rule() -> impl Strategy<Value = String> {
    let tier = prop_oneof!["Custom", "Default"];
    let decision = prop_oneof!["Allow", "Deny"];
    let action = prop_oneof!["Pub", "Sub", "All"];
    let resource = prop_oneof![Just("*".to_owned()), "(Topic|Group):[ab]{1,3}", "(Topic|Group):[ab]{0,3}\\*"];
    let source = prop_oneof!["", "10\\.0\\.0\\.0/8", "192\\.0\\.2\\.1"];
    (tier, decision, action, resource, source).prop_map(|(t, d, a, r, s)| format!("{t} {d} {a} {r} {s}"))
}

/// The rule of precedence said again, by sorting every rule that matches.
fn model(lines: &[&str], resource: Resource<'_>, action: Action) -> bool {
    let source = HERE.parse().unwrap();
    let all = policies(lines);
    for tier in [Tier::Custom, Tier::Default] {
        let entries = all.iter().filter(|policy| policy.tier == tier).flat_map(|policy| &policy.entries);
        let matching: Vec<_> = entries.filter(|entry| entry.matches(resource, action, source)).collect();
        let best = matching.iter().map(|entry| &entry.resource).max_by(|a, b| a.exactness(b));
        let Some(best) = best else { continue };
        let at_top = matching.iter().filter(|entry| entry.resource.exactness(best).is_eq());
        return at_top.into_iter().all(|entry| entry.decision == Decision::Allow);
    }
    false
}

proptest! {
    #[test]
    fn the_search_agrees_with_the_rule_of_precedence(
        lines in proptest::collection::vec(any_rule(), 0..12),
        name in "[ab]{1,4}",
        is_topic: bool,
        is_pub: bool,
    ) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let resource = if is_topic { Resource::topic(&name) } else { Resource::group(&name) };
        let action = if is_pub { Action::Pub } else { Action::Sub };
        let rights = rights(&lines);
        let verdict = rights.authorize("app", HERE.parse().unwrap(), [Need::right(resource, action)]);
        prop_assert_eq!(verdict.is_allowed(), model(&lines, resource, action));
    }
}
