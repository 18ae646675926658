//! Accounts as tools before 5.3 write them. An account is a user and what it may do, so that newer tools see it too.

use redstart_auth::{Secret, SourcePattern, Status, acl1::Account};
use redstart_engine::Engine;
use redstart_wire::remoting::code;
use serde_json::json;

use super::{acls, page, users};
use crate::{
    access::{StoredUser, write_policy},
    remoting::{
        refusal::Refusal,
        request::{Answer, Request},
    },
};

const WHITE: &str = "white";
const GLOBAL: &str = "global";
const ADDRESSES_MAX: usize = 1000;
const SECRET_LEN_MIN: usize = 6;

pub(crate) async fn put_account(request: &Request) -> Result<Answer, Refusal> {
    let name = request.required("accessKey")?;
    users::valid_name(name)?;
    let secret = request.field("secretKey").filter(|secret| !secret.is_empty() && !users::is_mask(secret));
    if secret.is_some_and(|secret| secret.len() < SECRET_LEN_MIN) {
        return Err(no_secret());
    }
    let given = |field| request.field(field).unwrap_or_default();
    let account = Account {
        admin: request.truth("admin").unwrap_or(false),
        topic_perms: given("topicPerms"),
        group_perms: given("groupPerms"),
        default_topic_perm: given("defaultTopicPerm"),
        default_group_perm: given("defaultGroupPerm"),
        white_addresses: given("whiteRemoteAddress"),
    };
    let policies: Vec<_> = account.policies().map_err(acls::invalid)?.iter().map(write_policy).collect();
    let mut user = StoredUser::new(name, account.standing(), Status::Enabled);
    if let Some(secret) = secret {
        user.seal(&Secret::new(secret), request.access().secrets())?;
    }
    let (changed, guarded) = (name.to_owned(), request.access().is_on());
    let secrets = request.access().secrets().clone();
    let change = move |engine: &mut Engine, _| {
        if !user.has_secret() {
            let old = users::find(engine, &changed).filter(StoredUser::has_secret).ok_or_else(no_secret)?;
            user.keep_secret_of(&old);
            user.seal_plain(&secrets)?;
        }
        let ticket = users::put(engine, &user, guarded)?;
        if policies.is_empty() {
            return Ok(ticket);
        }
        acls::put(engine, &acls::subject_of(&changed), policies)
    };
    request.change_access(change).await?;
    tracing::info!(user = name, "a user was created or changed");
    Ok(Answer::ok())
}

fn no_secret() -> Refusal {
    Refusal::invalid(format!("the secretKey must have at least {SECRET_LEN_MIN} characters"))
}

pub(crate) async fn delete_account(request: &Request) -> Result<Answer, Refusal> {
    let name = request.required("accessKey")?.to_owned();
    let (removed, guarded) = (name.clone(), request.access().is_on());
    let change = move |engine: &mut Engine, _| {
        users::find(engine, &removed).ok_or_else(|| users::unknown(&removed))?;
        users::remove(engine, &removed, guarded)
    };
    request.change_access(change).await?;
    tracing::info!(user = name, "a user was deleted");
    Ok(Answer::ok())
}

/// The version changes when an account does, but not when only a secret does, so that no answer depends on it.
pub(crate) async fn acl_version(request: &Request) -> Result<Answer, Refusal> {
    let version = page::version(&(users::all(request).await?, acls::all(request).await?));
    let config = &request.context.node.config;
    Ok(Answer::ok()
        .with("version", serde_json::to_string(&version)?)
        .with("brokerName", &request.context.name)
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
    for text in &addresses {
        SourcePattern::read(text).map_err(acls::invalid)?;
    }
    let text = addresses.join(",");
    request.change_first(move |engine, _| engine.put_setting(WHITE, GLOBAL, Some(&text))).await?;
    Ok(Answer::ok())
}

pub(crate) async fn acl_config(request: &Request) -> Result<Answer, Refusal> {
    let white = request.ask_first(|engine, _| engine.setting(WHITE, GLOBAL).map(str::to_owned)).await?;
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
