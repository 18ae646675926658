//! Accounts as tools before 5.3 write them. An account is a user and what it may do, so that newer tools see it too.

use redstart_wire::remoting::{
    body::{Acl, Policy, PolicyEntry, User},
    code,
};
use serde_json::json;

use super::{acls, page, users};
use crate::remoting::{
    refusal::Refusal,
    request::{Answer, Request},
};

const WHITE: &str = "white";
const GLOBAL: &str = "global";
const ADDRESSES_MAX: usize = 1000;
const SECRET_LEN_MIN: usize = 6;

/// Actions of an old permission, and whether they are allowed.
fn permission(text: &str) -> Result<(Vec<String>, &'static str), Refusal> {
    let (actions, decision) = match text.trim() {
        "DENY" => (&["Pub", "Sub"][..], "Deny"),
        "PUB" => (&["Pub"][..], "Allow"),
        "SUB" => (&["Sub"][..], "Allow"),
        "PUB|SUB" | "SUB|PUB" => (&["Pub", "Sub"][..], "Allow"),
        other => {
            let why = format!("the permission {other:?} is none of DENY, PUB, SUB and PUB|SUB");
            return Err(Refusal::invalid(why));
        }
    };
    Ok((actions.iter().map(|action| (*action).to_owned()).collect(), decision))
}

fn entry(resource: String, text: &str) -> Result<PolicyEntry, Refusal> {
    let (actions, decision) = permission(text)?;
    Ok(PolicyEntry { resource, actions, source_ips: None, decision: decision.to_owned() })
}

/// Entries of a list such as `a=PUB,b=SUB`.
fn entries(kind: &str, list: &str) -> Result<Vec<PolicyEntry>, Refusal> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let read = |word: &str| {
        let (name, text) = word
            .split_once('=')
            .ok_or_else(|| Refusal::invalid(format!("{word:?} is not of the form name=permission")))?;
        entry(format!("{kind}:{name}"), text)
    };
    words.map(read).collect()
}

pub(crate) async fn put_account(request: &Request) -> Result<Answer, Refusal> {
    let name = request.required("accessKey")?;
    users::valid_name(name)?;
    let old = users::known(request, name).await?;
    let secret = request.field("secretKey").filter(|secret| !secret.is_empty()).map(str::to_owned);
    let password = secret.or_else(|| old.as_ref()?.password.clone());
    let Some(password) = password.filter(|password| password.len() >= SECRET_LEN_MIN) else {
        let why = format!("the secretKey must have at least {SECRET_LEN_MIN} characters");
        return Err(Refusal::invalid(why));
    };
    let given = |field| request.field(field).unwrap_or_default();
    let mut custom = entries("Topic", given("topicPerms"))?;
    custom.extend(entries("Group", given("groupPerms"))?);
    let mut default = Vec::new();
    for (kind, field) in [("Topic", "defaultTopicPerm"), ("Group", "defaultGroupPerm")] {
        if !given(field).is_empty() {
            default.push(entry(format!("{kind}:*"), given(field))?);
        }
    }
    let policy = |kind: &str, entries| Policy { policy_type: Some(kind.to_owned()), entries };
    let policies = vec![policy("Custom", custom), policy("Default", default)];
    let policies: Vec<Policy> = policies.into_iter().filter(|policy| !policy.entries.is_empty()).collect();
    let policies = if policies.is_empty() { policies } else { acls::valid(Acl { subject: None, policies })? };
    let admin = request.truth("admin").unwrap_or(false);
    let user = User {
        username: name.to_owned(),
        password: Some(password),
        user_type: Some(if admin { "Super" } else { "Normal" }.to_owned()),
        user_status: Some("enable".to_owned()),
    };
    users::store(request, user).await?;
    if !policies.is_empty() {
        acls::store(request, &acls::subject_of(name), policies).await?;
    }
    Ok(Answer::ok())
}

pub(crate) async fn delete_account(request: &Request) -> Result<Answer, Refusal> {
    let name = request.required("accessKey")?;
    users::known(request, name).await?.ok_or_else(|| users::unknown(name))?;
    users::remove(request, name).await?;
    Ok(Answer::ok())
}

/// The version changes when an account does.
pub(crate) async fn acl_version(request: &Request) -> Result<Answer, Refusal> {
    let version = page::version(&(users::all(request).await?, acls::all(request).await?));
    let config = &request.context.config;
    Ok(Answer::ok()
        .with("version", serde_json::to_string(&version)?)
        .with("brokerName", &config.broker)
        .with("brokerAddr", request.broker_address())
        .with("clusterName", &config.cluster))
}

/// Addresses whose requests would not be looked at.
pub(crate) async fn put_white_addresses(request: &Request) -> Result<Answer, Refusal> {
    let list = request.required("globalWhiteAddrs")?;
    let addresses: Vec<&str> =
        list.split([',', ';']).map(str::trim).filter(|word| !word.is_empty()).collect();
    if addresses.len() > ADDRESSES_MAX {
        let why = format!("{} addresses, the limit is {ADDRESSES_MAX}", addresses.len());
        return Err(Refusal::invalid(why));
    }
    let pattern =
        |text: &str| text.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '*' | '-'));
    if let Some(bad) = addresses.iter().find(|text| acls::valid_source(text).is_err() && !pattern(text)) {
        return Err(Refusal::invalid(format!("{bad:?} is no address and no pattern of addresses")));
    }
    let text = addresses.join(",");
    request.change(move |engine, _| engine.put_setting(WHITE, GLOBAL, Some(&text))).await?;
    Ok(Answer::ok())
}

pub(crate) async fn acl_config(request: &Request) -> Result<Answer, Refusal> {
    let white = request.ask(|engine, _| engine.setting(WHITE, GLOBAL).map(str::to_owned)).await?;
    let white: Vec<String> = white.iter().flat_map(|text| text.split(',')).map(str::to_owned).collect();
    let accounts: Vec<_> = users::all(request)
        .await?
        .into_iter()
        .map(|user| {
            json!({
                "accessKey": user.username,
                "secretKey": user.password,
                "admin": user.user_type.as_deref() == Some("Super"),
            })
        })
        .collect();
    if accounts.is_empty() && white.is_empty() {
        return Err(Refusal::new(code::SYSTEM_ERROR, "no accounts are configured"));
    }
    page::json(&json!({ "globalWhiteAddrs": white, "plainAccessConfigs": accounts }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_permissions_become_entries() {
        let read = entries("Topic", "a=PUB|SUB, b=DENY").unwrap();
        let shown: Vec<_> =
            read.iter().map(|e| format!("{} {} {}", e.resource, e.actions.join("+"), e.decision)).collect();
        assert_eq!(shown, ["Topic:a Pub+Sub Allow", "Topic:b Pub+Sub Deny"]);
        for bad in ["a", "a=ALL", "a=PUB,b"] {
            assert!(entries("Topic", bad).is_err(), "{bad}");
        }
    }
}
