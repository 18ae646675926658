//! What users may do. It is kept and shown, and decides where callers are asked who they are.

use redstart_auth::{Pattern, Subject, Tier};
use redstart_engine::{Engine, Ticket};
use redstart_wire::remoting::{
    body::{Acl, Policy},
    code,
};

use super::{page, users};
use crate::{
    access::{ACLS, read_policy, write_policy},
    remoting::{
        refusal::Refusal,
        request::{Answer, Request},
    },
};

const ENTRIES_MAX: usize = 1000;

pub(super) fn subject_of(user: &str) -> String {
    Subject { user }.to_string()
}

/// The user that a subject names.
fn user_of(subject: &str) -> Result<&str, Refusal> {
    Ok(Subject::read(subject).map_err(invalid)?.user)
}

fn valid_resource(text: &str) -> Result<String, Refusal> {
    Ok(Pattern::read(text).map_err(invalid)?.to_string())
}

pub(super) fn invalid(error: impl std::fmt::Display) -> Refusal {
    Refusal::invalid(error.to_string())
}

fn valid(acl: &Acl) -> Result<Vec<Policy>, Refusal> {
    let policies = acl.policies.iter().map(read_policy).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    match policies.iter().map(|policy| policy.entries.len()).sum::<usize>() {
        0 => Err(Refusal::invalid("the request names no resource")),
        count if count > ENTRIES_MAX => {
            Err(Refusal::invalid(format!("{count} resources, the limit is {ENTRIES_MAX}")))
        }
        _ => Ok(policies.iter().map(write_policy).collect()),
    }
}

/// New entries replace those of the same resource.
fn merge(mut known: Vec<Policy>, new: Vec<Policy>) -> Vec<Policy> {
    for policy in new {
        let Some(known) = known.iter_mut().find(|known| known.policy_type == policy.policy_type) else {
            known.push(policy);
            continue;
        };
        for entry in policy.entries {
            match known.entries.iter_mut().find(|known| known.resource == entry.resource) {
                Some(known) => *known = entry,
                None => known.entries.push(entry),
            }
        }
    }
    known
}

fn find(engine: &Engine, subject: &str) -> Option<Acl> {
    serde_json::from_str(engine.setting(ACLS, subject)?).ok()
}

/// A step of a change: stores what a subject may do; nothing at all removes it.
pub(super) fn put(engine: &mut Engine, subject: &str, policies: Vec<Policy>) -> Result<Ticket, Refusal> {
    let acl = Acl { subject: Some(subject.to_owned()), policies };
    let text = (!acl.policies.is_empty()).then(|| serde_json::to_string(&acl)).transpose()?;
    Ok(engine.put_setting(ACLS, subject, text.as_deref())?)
}

/// Refuses a subject whose user does not exist.
fn check_user(engine: &Engine, subject: &str) -> Result<(), Refusal> {
    let user = user_of(subject)?;
    users::find(engine, user).map(drop).ok_or_else(|| users::unknown(user))
}

/// Creating and changing are the same: what is not named stays.
pub(crate) async fn create_acl(request: &Request) -> Result<Answer, Refusal> {
    let subject = request.required("subject")?.to_owned();
    user_of(&subject)?;
    let body = request.json();
    let changed = subject.clone();
    let change = move |engine: &mut Engine, _| {
        check_user(engine, &changed)?;
        let new = valid(&body?)?;
        let known = find(engine, &changed).map(|acl| acl.policies).unwrap_or_default();
        put(engine, &changed, merge(known, new))
    };
    request.change_access(change).await?;
    tracing::info!(subject, "rights were changed");
    Ok(Answer::ok())
}

pub(crate) async fn update_acl(request: &Request) -> Result<Answer, Refusal> {
    create_acl(request).await
}

pub(crate) async fn delete_acl(request: &Request) -> Result<Answer, Refusal> {
    let subject = request.required("subject")?.to_owned();
    user_of(&subject)?;
    let resource = request.field("resource").filter(|resource| !resource.is_empty());
    let resource = resource.map(valid_resource).transpose()?;
    let kind = Tier::read(request.field("policyType").unwrap_or_default()).map_err(invalid)?.name();
    let changed = subject.clone();
    let change = move |engine: &mut Engine, _| {
        check_user(engine, &changed)?;
        let none = || Refusal::new(code::POLICY_NOT_EXIST, format!("{changed} has no rights of its own"));
        let mut policies = find(engine, &changed).ok_or_else(none)?.policies;
        match resource {
            Some(resource) => {
                for policy in policies.iter_mut().filter(|policy| policy.policy_type.as_deref() == Some(kind))
                {
                    policy.entries.retain(|entry| entry.resource != resource);
                }
                policies.retain(|policy| !policy.entries.is_empty());
            }
            None => policies.clear(),
        }
        put(engine, &changed, policies)
    };
    request.change_access(change).await?;
    tracing::info!(subject, "rights were taken away");
    Ok(Answer::ok())
}

pub(crate) async fn get_acl(request: &Request) -> Result<Answer, Refusal> {
    let subject = request.required("subject")?.to_owned();
    let found =
        request.ask_first(move |engine, _| check_user(engine, &subject).map(|()| find(engine, &subject)));
    Ok(found.await??.map_or_else(Answer::ok, |acl| Answer::json(&acl)))
}

pub(super) async fn all(request: &Request) -> Result<Vec<Acl>, Refusal> {
    let all = request.ask_first(|engine, _| engine.settings(ACLS)).await?;
    Ok(all.values().filter_map(|text| serde_json::from_str(text).ok()).collect())
}

pub(crate) async fn list_acls(request: &Request) -> Result<Answer, Refusal> {
    let (by_subject, by_resource) = (
        request.field("subjectFilter").unwrap_or_default(),
        request.field("resourceFilter").unwrap_or_default(),
    );
    let mut all = all(request).await?;
    all.retain_mut(|acl| {
        for policy in &mut acl.policies {
            policy.entries.retain(|entry| entry.resource.contains(by_resource));
        }
        acl.policies.retain(|policy| !policy.entries.is_empty());
        acl.subject.as_ref().is_some_and(|subject| subject.contains(by_subject)) && !acl.policies.is_empty()
    });
    if all.is_empty() { Ok(Answer::ok()) } else { page::json(&all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(resource: &str, decision: &str) -> Vec<Policy> {
        let text = format!(
            r#"{{"policies":[{{"entries":[{{"resource":"{resource}","actions":["pub"],"decision":"{decision}"}}]}}]}}"#
        );
        valid(&serde_json::from_str(&text).unwrap()).unwrap()
    }

    #[test]
    fn new_entries_replace_those_of_the_same_resource() {
        let known = merge(policies("Topic:a", "Allow"), policies("Topic:b", "allow"));
        let merged = merge(known, policies("Topic:a", "Deny"));
        let [policy] = &merged[..] else { panic!("{merged:?}") };
        let shown: Vec<_> =
            policy.entries.iter().map(|e| (e.resource.as_str(), e.decision.as_str())).collect();
        assert_eq!(shown, [("Topic:a", "Deny"), ("Topic:b", "Allow")]);
        assert_eq!(policy.entries[0].actions, ["Pub"]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for bad in [
            r#"{"policies":[]}"#,
            r#"{"policies":[{"entries":[]}]}"#,
            r#"{"policies":[{"entries":[{"resource":"*","actions":[],"decision":"Allow"}]}]}"#,
            r#"{"policies":[{"entries":[{"resource":"*","actions":["Any"],"decision":"Allow"}]}]}"#,
            r#"{"policies":[{"entries":[{"resource":"*","actions":["All"],"decision":"Maybe"}]}]}"#,
            r#"{"policies":[{"entries":[{"resource":"*","actions":["All"],"decision":"Deny","sourceIps":["x"]}]}]}"#,
            r#"{"policies":[{"policyType":"Odd","entries":[{"resource":"*","actions":["All"],"decision":"Deny"}]}]}"#,
        ] {
            assert!(valid(&serde_json::from_str(bad).unwrap()).is_err(), "{bad}");
        }
    }
}
