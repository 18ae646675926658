//! What users may do. It is kept and shown; nothing is refused by it yet.

use std::net::IpAddr;

use redstart_wire::remoting::{
    body::{Acl, Policy, PolicyEntry},
    code,
};

use super::{
    page,
    users::{self, one_of},
};
use crate::remoting::{
    refusal::Refusal,
    request::{Answer, Request},
};

const ACLS: &str = "acl";
const USER: &str = "User:";
const CUSTOM: &str = "Custom";
const POLICY_TYPES: [&str; 2] = [CUSTOM, "Default"];
const ACTIONS: [&str; 8] = ["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"];
const RESOURCES: [&str; 4] = ["Cluster", "Namespace", "Topic", "Group"];
const NAME_LEN_MAX: usize = 255;
const ENTRIES_MAX: usize = 1000;

pub(super) fn subject_of(user: &str) -> String {
    format!("{USER}{user}")
}

/// The user that a subject names.
fn user_of(subject: &str) -> Result<&str, Refusal> {
    let name = subject.strip_prefix(USER);
    let name = name
        .ok_or_else(|| Refusal::invalid(format!("the subject {subject:?} is not of the form User:name")))?;
    users::valid_name(name)?;
    Ok(name)
}

/// `*`, or a kind of thing and its name, `prefix*` or `*`.
fn valid_resource(text: &str) -> Result<String, Refusal> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    let why = || {
        let kinds = RESOURCES.map(|kind| format!("{kind}:name")).join(", ");
        Refusal::invalid(format!("the resource {text:?} is neither * nor one of {kinds}"))
    };
    let (kind, name) = text.split_once(':').ok_or_else(why)?;
    let kind = one_of("resource", kind, &RESOURCES).map_err(|_| why())?;
    let plain = name.strip_suffix('*').unwrap_or(name);
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '|' | '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_LEN_MAX || !plain.chars().all(allowed) {
        return Err(why());
    }
    Ok(format!("{kind}:{name}"))
}

/// An address, or a network such as `10.0.0.0/8`.
pub(super) fn valid_source(text: &str) -> Result<(), Refusal> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address = address.parse::<IpAddr>().ok();
    let max = if matches!(address, Some(IpAddr::V6(_))) { 128 } else { 32 };
    let fits = bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= max));
    if address.is_none() || !fits {
        return Err(Refusal::invalid(format!("{text:?} is no IP address and no network such as 10.0.0.0/8")));
    }
    Ok(())
}

fn valid_entry(entry: PolicyEntry) -> Result<PolicyEntry, Refusal> {
    if entry.actions.is_empty() {
        return Err(Refusal::invalid(format!("the resource {} has no actions", entry.resource)));
    }
    for source in entry.source_ips.iter().flatten() {
        valid_source(source)?;
    }
    let actions = entry.actions.iter().map(|action| one_of("action", action.trim(), &ACTIONS));
    Ok(PolicyEntry {
        resource: valid_resource(&entry.resource)?,
        actions: actions.collect::<Result<_, _>>()?,
        decision: one_of("decision", &entry.decision, &["Allow", "Deny"])?,
        source_ips: entry.source_ips.filter(|sources| !sources.is_empty()),
    })
}

pub(super) fn valid(acl: Acl) -> Result<Vec<Policy>, Refusal> {
    let policy = |policy: Policy| {
        let kind = policy.policy_type.as_deref().filter(|kind| !kind.is_empty()).unwrap_or(CUSTOM);
        Ok(Policy {
            policy_type: Some(one_of("policy type", kind, &POLICY_TYPES)?),
            entries: policy.entries.into_iter().map(valid_entry).collect::<Result<_, _>>()?,
        })
    };
    let policies = acl.policies.into_iter().map(policy).collect::<Result<Vec<_>, Refusal>>()?;
    match policies.iter().map(|policy| policy.entries.len()).sum::<usize>() {
        0 => Err(Refusal::invalid("the request names no resource")),
        count if count > ENTRIES_MAX => {
            Err(Refusal::invalid(format!("{count} resources, the limit is {ENTRIES_MAX}")))
        }
        _ => Ok(policies),
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

async fn find(request: &Request, subject: &str) -> Result<Option<Acl>, Refusal> {
    let subject = subject.to_owned();
    let text = request.ask(move |engine, _| engine.setting(ACLS, &subject).map(str::to_owned)).await?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

pub(super) async fn store(request: &Request, subject: &str, policies: Vec<Policy>) -> Result<(), Refusal> {
    let acl = Acl { subject: Some(subject.to_owned()), policies };
    let (subject, text) = (subject.to_owned(), serde_json::to_string(&acl)?);
    tracing::info!(subject, "rights were changed");
    request.change(move |engine, _| engine.put_setting(ACLS, &subject, Some(&text))).await
}

pub(super) async fn remove(request: &Request, subject: &str) -> Result<(), Refusal> {
    let subject = subject.to_owned();
    request.change(move |engine, _| engine.put_setting(ACLS, &subject, None)).await
}

/// The subject of a request, whose user must exist.
async fn subject(request: &Request) -> Result<String, Refusal> {
    let subject = request.required("subject")?;
    let user = user_of(subject)?;
    users::known(request, user).await?.ok_or_else(|| users::unknown(user))?;
    Ok(subject.to_owned())
}

/// Creating and changing are the same: what is not named stays.
pub(crate) async fn create_acl(request: &Request) -> Result<Answer, Refusal> {
    let subject = subject(request).await?;
    let new = valid(request.json()?)?;
    let known = find(request, &subject).await?.map(|acl| acl.policies).unwrap_or_default();
    store(request, &subject, merge(known, new)).await?;
    Ok(Answer::ok())
}

pub(crate) async fn update_acl(request: &Request) -> Result<Answer, Refusal> {
    create_acl(request).await
}

pub(crate) async fn delete_acl(request: &Request) -> Result<Answer, Refusal> {
    let subject = subject(request).await?;
    let known = find(request, &subject).await?;
    let mut policies = known
        .ok_or_else(|| Refusal::new(code::POLICY_NOT_EXIST, format!("{subject} has no rights of its own")))?
        .policies;
    let resource = request.field("resource").filter(|resource| !resource.is_empty());
    let kind = request.field("policyType").filter(|kind| !kind.is_empty()).unwrap_or(CUSTOM);
    let kind = one_of("policy type", kind, &POLICY_TYPES)?;
    match resource {
        Some(resource) => {
            let resource = valid_resource(resource)?;
            for policy in policies.iter_mut().filter(|policy| policy.policy_type.as_ref() == Some(&kind)) {
                policy.entries.retain(|entry| entry.resource != resource);
            }
            policies.retain(|policy| !policy.entries.is_empty());
        }
        None => policies.clear(),
    }
    if policies.is_empty() {
        remove(request, &subject).await?;
    } else {
        store(request, &subject, policies).await?;
    }
    Ok(Answer::ok())
}

pub(crate) async fn get_acl(request: &Request) -> Result<Answer, Refusal> {
    let subject = subject(request).await?;
    Ok(find(request, &subject).await?.map_or_else(Answer::ok, |acl| Answer::json(&acl)))
}

pub(super) async fn all(request: &Request) -> Result<Vec<Acl>, Refusal> {
    let all = request.ask(|engine, _| engine.settings(ACLS)).await?;
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

    #[test]
    fn resources_and_sources_have_their_form() {
        for good in ["*", "Topic:*", "topic:orders", "Group:a-*", "Cluster:DefaultCluster", "Group:%RETRY%g"]
        {
            assert!(valid_resource(good).is_ok(), "{good}");
        }
        assert_eq!(valid_resource("topic:orders").unwrap(), "Topic:orders");
        for bad in ["", "Topic", "Topic:", "Queue:x", "Topic:a*b*", "Topic:../etc", "Topic:a b"] {
            assert!(valid_resource(bad).is_err(), "{bad}");
        }
        for good in ["10.0.0.1", "10.0.0.0/8", "fe80::1/64", "::1"] {
            assert!(valid_source(good).is_ok(), "{good}");
        }
        for bad in ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/x", "host", "fe80::1/129"] {
            assert!(valid_source(bad).is_err(), "{bad}");
        }
    }

    fn policies(resource: &str, decision: &str) -> Vec<Policy> {
        let text = format!(
            r#"{{"policies":[{{"entries":[{{"resource":"{resource}","actions":["pub"],"decision":"{decision}"}}]}}]}}"#
        );
        valid(serde_json::from_str(&text).unwrap()).unwrap()
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
            assert!(valid(serde_json::from_str(bad).unwrap()).is_err(), "{bad}");
        }
    }
}
