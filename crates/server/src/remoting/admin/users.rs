//! Users: kept in the log with everything else.
//!
//! The password is the key of the clients' signatures: it has to be there as it is. It is in the data directory, and in no log
//! line. Where callers are asked who they are, no answer shows it.

use redstart_engine::Engine;
use redstart_wire::remoting::{body::User, code};

use super::{acls, page};
use crate::{
    access::USERS,
    remoting::{
        refusal::Refusal,
        request::{Answer, Request},
    },
};

/// What is shown in place of a password.
const MASK: &str = "******";
const PASSWORD_LEN_MAX: usize = 256;

pub(super) fn valid_name(name: &str) -> Result<(), Refusal> {
    redstart_auth::User::valid_name(name).map_err(|error| Refusal::invalid(error.to_string()))
}

/// The word as RocketMQ writes it, whatever its case.
pub(super) fn one_of(what: &str, word: &str, words: &[&'static str]) -> Result<String, Refusal> {
    let found = words.iter().find(|known| known.eq_ignore_ascii_case(word));
    let why = || Refusal::invalid(format!("the {what} is {word:?}; there are {}", words.join(", ")));
    found.map(|word| (*word).to_owned()).ok_or_else(why)
}

/// What a request says about a user, checked.
fn wanted(request: &Request) -> Result<User, Refusal> {
    let mut user: User = if request.body.is_empty() { User::default() } else { request.json()? };
    request.required("username")?.clone_into(&mut user.username);
    valid_name(&user.username)?;
    let given = |value: Option<String>| value.filter(|value| !value.trim().is_empty());
    user.password = given(user.password).filter(|password| !is_mask(request, password));
    if let Some(len) = user.password.as_ref().map(String::len).filter(|len| *len > PASSWORD_LEN_MAX) {
        return Err(Refusal::invalid(format!(
            "the password has {len} bytes, the limit is {PASSWORD_LEN_MAX}"
        )));
    }
    let kind = given(user.user_type).map(|kind| one_of("user type", &kind, &["Super", "Normal"]));
    user.user_type = kind.transpose()?;
    let status = given(user.user_status).map(|status| one_of("user status", &status, &["enable", "disable"]));
    user.user_status = status.transpose()?;
    Ok(user)
}

pub(super) fn find(engine: &Engine, name: &str) -> Option<User> {
    serde_json::from_str(engine.setting(USERS, name)?).ok()
}

/// Stores a user as it is.
pub(super) async fn store(request: &Request, user: User) -> Result<(), Refusal> {
    let text = serde_json::to_string(&user)?;
    tracing::info!(user = user.username, "a user was created or changed");
    request.change_access(move |engine, _| engine.put_setting(USERS, &user.username, Some(&text))).await
}

pub(crate) async fn create_user(request: &Request) -> Result<Answer, Refusal> {
    let user = wanted(request)?;
    if user.password.is_none() {
        return Err(Refusal::invalid("the password must not be blank"));
    }
    if known(request, &user.username).await?.is_some() {
        return Err(Refusal::new(code::SYSTEM_ERROR, format!("the user {} exists already", user.username)));
    }
    let user = User {
        user_type: Some(user.user_type.unwrap_or_else(|| "Normal".to_owned())),
        user_status: Some(user.user_status.unwrap_or_else(|| "enable".to_owned())),
        ..user
    };
    store(request, user).await?;
    Ok(Answer::ok())
}

pub(crate) async fn update_user(request: &Request) -> Result<Answer, Refusal> {
    let user = wanted(request)?;
    let old = known(request, &user.username).await?.ok_or_else(|| unknown(&user.username))?;
    let user = User {
        username: user.username,
        password: user.password.or(old.password),
        user_type: user.user_type.or(old.user_type),
        user_status: user.user_status.or(old.user_status),
    };
    store(request, user).await?;
    Ok(Answer::ok())
}

pub(super) async fn known(request: &Request, name: &str) -> Result<Option<User>, Refusal> {
    let name = name.to_owned();
    request.ask(move |engine, _| find(engine, &name)).await
}

pub(super) fn unknown(name: &str) -> Refusal {
    Refusal::new(code::USER_NOT_EXIST, format!("the user {name} does not exist"))
}

/// What the user may do goes with the user.
pub(crate) async fn delete_user(request: &Request) -> Result<Answer, Refusal> {
    let name = request.required("username")?;
    remove(request, name).await?;
    Ok(Answer::ok())
}

pub(super) async fn remove(request: &Request, name: &str) -> Result<(), Refusal> {
    acls::remove(request, &acls::subject_of(name)).await?;
    let name = name.to_owned();
    tracing::info!(user = name, "a user was deleted");
    request.change_access(move |engine, _| engine.put_setting(USERS, &name, None)).await
}

pub(crate) async fn get_user(request: &Request) -> Result<Answer, Refusal> {
    let found = known(request, request.required("username")?).await?;
    Ok(found.map_or_else(Answer::ok, |user| Answer::json(&masked(request, user))))
}

/// Whether a password is the mask of [`masked`]: a tool that sends back what it was shown does not mean to change it.
pub(super) fn is_mask(request: &Request, password: &str) -> bool {
    password == MASK && request.context.config.resources.access.is_on()
}

/// A user without its password, where that is the key to something.
pub(super) fn masked(request: &Request, user: User) -> User {
    if request.context.config.resources.access.is_on() {
        User { password: Some(MASK.to_owned()), ..user }
    } else {
        user
    }
}

pub(super) async fn all(request: &Request) -> Result<Vec<User>, Refusal> {
    let all = request.ask(|engine, _| engine.settings(USERS)).await?;
    Ok(all.values().filter_map(|text| serde_json::from_str(text).ok()).collect())
}

pub(crate) async fn list_users(request: &Request) -> Result<Answer, Refusal> {
    let filter = request.field("filter").unwrap_or_default();
    let mut all = all(request).await?;
    all.retain(|user| user.username.contains(filter));
    let all: Vec<User> = all.into_iter().map(|user| masked(request, user)).collect();
    if all.is_empty() { Ok(Answer::ok()) } else { page::json(&all) }
}
