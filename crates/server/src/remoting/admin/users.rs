//! Users: kept in the log with everything else.
//!
//! The password is the key of the clients' signatures: it has to be recoverable. It is stored sealed, and in no log line and no
//! answer. A change reads and writes in one step ([`Request::change_access`]).

use redstart_auth::{Secret, Standing, Status};
use redstart_engine::{Engine, Ticket};
use redstart_wire::remoting::{body::User, code, from_slice};

use super::{acls, page};
use crate::{
    access::{ACLS, SealError, StoredUser, USERS},
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

/// What a request says about a user, checked. What it does not say stays as it is.
struct Wanted {
    name: String,
    secret: Option<Secret>,
    standing: Option<Standing>,
    status: Option<Status>,
}

impl Wanted {
    fn of(request: &Request) -> Result<Wanted, Refusal> {
        let body = &request.body;
        // The parser's error may quote what stands there, which may be the password.
        let unreadable = |_| Refusal::invalid("the body is not that of a user");
        let user: User =
            if body.is_empty() { User::default() } else { from_slice(body).map_err(unreadable)? };
        let name = request.required("username")?.to_owned();
        valid_name(&name)?;
        let given = |value: Option<String>| value.filter(|value| !value.trim().is_empty());
        let password = given(user.password).filter(|password| !is_mask(password));
        if let Some(len) = password.as_ref().map(String::len).filter(|len| *len > PASSWORD_LEN_MAX) {
            return Err(Refusal::invalid(format!(
                "the password has {len} bytes, the limit is {PASSWORD_LEN_MAX}"
            )));
        }
        let standing = given(user.user_type).map(|word| Standing::read(&word)).transpose();
        let status = given(user.user_status).map(|word| Status::read(&word)).transpose();
        Ok(Wanted {
            name,
            secret: password.map(Secret::new),
            standing: standing.map_err(acls::invalid)?,
            status: status.map_err(acls::invalid)?,
        })
    }
}

pub(super) fn find(engine: &Engine, name: &str) -> Option<StoredUser> {
    StoredUser::read(engine.setting(USERS, name)?).ok()
}

/// A step of a change: stores a user as it is. `guarded` is whether callers are asked who they are.
pub(super) fn put(engine: &mut Engine, user: &StoredUser, guarded: bool) -> Result<Ticket, Refusal> {
    if guarded && !user.is_super() {
        keep_a_super_user(engine, &user.username)?;
    }
    Ok(engine.put_setting(USERS, &user.username, Some(&user.text()))?)
}

/// A step of a change: removes a user, and with it what it may do.
pub(super) fn remove(engine: &mut Engine, name: &str, guarded: bool) -> Result<Ticket, Refusal> {
    if guarded {
        keep_a_super_user(engine, name)?;
    }
    engine.put_setting(ACLS, &acls::subject_of(name), None)?;
    Ok(engine.put_setting(USERS, name, None)?)
}

/// Refuses to lose the last super user who may authenticate: nobody could make another one.
fn keep_a_super_user(engine: &Engine, lost: &str) -> Result<(), Refusal> {
    if !find(engine, lost).is_some_and(|user| user.is_super()) {
        return Ok(());
    }
    let is_another = |(name, text): (&String, &String)| {
        name != lost && StoredUser::read(text).is_ok_and(|user| user.is_super() && user.has_secret())
    };
    if engine.settings(USERS).iter().any(is_another) {
        return Ok(());
    }
    let why = "is the last super user that is enabled; make another one first";
    Err(Refusal::invalid(format!("the user {lost} {why}")))
}

pub(crate) async fn create_user(request: &Request) -> Result<Answer, Refusal> {
    let wanted = Wanted::of(request)?;
    let secret = wanted.secret.ok_or_else(|| Refusal::invalid("the password must not be blank"))?;
    let (standing, status) = (wanted.standing.unwrap_or_default(), wanted.status.unwrap_or_default());
    let mut user = StoredUser::new(&wanted.name, standing, status);
    user.seal(&secret, request.access().secrets())?;
    let change = move |engine: &mut Engine, _| {
        if engine.setting(USERS, &user.username).is_some() {
            let why = format!("the user {} exists already", user.username);
            return Err(Refusal::new(code::SYSTEM_ERROR, why));
        }
        put(engine, &user, false)
    };
    request.change_access(change).await?;
    tracing::info!(user = wanted.name, "a user was created");
    Ok(Answer::ok())
}

pub(crate) async fn update_user(request: &Request) -> Result<Answer, Refusal> {
    let wanted = Wanted::of(request)?;
    let (secrets, guarded) = (request.access().secrets().clone(), request.access().is_on());
    let name = wanted.name.clone();
    let change = move |engine: &mut Engine, _| {
        let mut user = find(engine, &wanted.name).ok_or_else(|| unknown(&wanted.name))?;
        if let Some(standing) = wanted.standing {
            user.user_type = Some(standing.name().to_owned());
        }
        if let Some(status) = wanted.status {
            user.user_status = Some(status.name().to_owned());
        }
        match &wanted.secret {
            Some(secret) => user.seal(secret, &secrets)?,
            None => user.seal_plain(&secrets)?,
        }
        put(engine, &user, guarded)
    };
    request.change_access(change).await?;
    tracing::info!(user = name, "a user was changed");
    Ok(Answer::ok())
}

pub(super) fn unknown(name: &str) -> Refusal {
    Refusal::new(code::USER_NOT_EXIST, format!("the user {name} does not exist"))
}

pub(crate) async fn delete_user(request: &Request) -> Result<Answer, Refusal> {
    let name = request.required("username")?.to_owned();
    let (removed, guarded) = (name.clone(), request.access().is_on());
    request.change_access(move |engine, _| remove(engine, &removed, guarded)).await?;
    tracing::info!(user = name, "a user was deleted");
    Ok(Answer::ok())
}

pub(crate) async fn get_user(request: &Request) -> Result<Answer, Refusal> {
    let name = request.required("username")?.to_owned();
    let found = request.ask_first(move |engine, _| find(engine, &name)).await?;
    Ok(found.map_or_else(Answer::ok, |user| Answer::json(&shown(user))))
}

/// Whether a password is the mask of [`shown`]: a tool that sends back what it was shown does not mean to change it.
pub(super) fn is_mask(password: &str) -> bool {
    password == MASK
}

/// A user for an answer. RocketMQ shows the password; here nobody is told.
fn shown(user: StoredUser) -> User {
    let StoredUser { username, user_type, user_status, .. } = user;
    User { username, password: Some(MASK.to_owned()), user_type, user_status }
}

/// All users, as they are shown.
pub(super) async fn all(request: &Request) -> Result<Vec<User>, Refusal> {
    let all = request.ask_first(|engine, _| engine.settings(USERS)).await?;
    Ok(all.values().filter_map(|text| StoredUser::read(text).ok()).map(shown).collect())
}

pub(crate) async fn list_users(request: &Request) -> Result<Answer, Refusal> {
    let filter = request.field("filter").unwrap_or_default();
    let mut all = all(request).await?;
    all.retain(|user| user.username.contains(filter));
    if all.is_empty() { Ok(Answer::ok()) } else { page::json(&all) }
}

impl From<SealError> for Refusal {
    fn from(error: SealError) -> Self {
        Refusal::new(code::SYSTEM_ERROR, error.to_string())
    }
}
