//! Who makes a request, and whether it may be served: the same for every port.
//!
//! A front end asks twice. Where a request is read, [`Access`] finds out who signed it ([`Identity`]). Before its handler it
//! compares what the request needs ([`Needs`]) with the rights of that user. Both read a snapshot of users and policies; the
//! owner thread is not woken. Without authentication neither costs more than a branch.

mod certified;
mod changes;
mod needs;
mod proofs;
mod secrets;
mod snapshot;
mod stored_user;

use std::{
    fmt,
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::{Mutex, RwLock};
use redstart_auth::{
    Action, Rights, Status, User, Verdict,
    attempts::Attempts,
    date::{self, Zones},
    signature::{
        grpc::Authorization,
        remoting::{ACCESS_KEY, Content, SIGNATURE},
    },
};
use redstart_wire::remoting::Command;
use tokio::sync::watch;

pub use changes::{MakeUserError, SealStoredError};
pub(crate) use needs::{Needs, TooManyNames};
pub(crate) use proofs::Proofs;
pub use secrets::SealError;
pub(crate) use snapshot::{ACLS, USERS, read_policy, write_policy};
pub(crate) use stored_user::StoredUser;

use proofs::Checked;
use secrets::Secrets;

use crate::{
    audit::{AuditLog, Entry},
    shard::{Clock, SystemClock},
};

/// Users and their rights; with `auth` off, nothing. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `None` with `auth` off.
    guard: Option<Arc<Guard>>,
    store: Arc<Store>,
}

/// What changes users and policies, whether they decide or not.
#[derive(Debug, Default)]
struct Store {
    secrets: Secrets,
    /// Held while a change is made.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Guard {
    /// Name of the cluster, which is in the name of its topic for replies.
    cluster: String,
    /// The time zones of clients that sign local time.
    zones: Zones,
    rights: RwLock<Arc<Rights>>,
    /// Counts the snapshots. Every request reads it.
    version: AtomicU64,
    /// Tells of every new snapshot.
    renewed: watch::Sender<()>,
    /// Held while a snapshot is made, so that an older one does not take the place of a newer one.
    loading: tokio::sync::Mutex<()>,
    failures: Mutex<Failures>,
    /// There are failed attempts on record.
    wary: AtomicBool,
    /// Stands for a user who does not exist, so that the answer takes as long.
    nobody: User,
    began: Instant,
    /// Opened after the data directory, in which it may be.
    audit: OnceLock<AuditLog>,
}

#[derive(Debug, Default)]
struct Failures {
    attempts: Attempts,
    /// When those whose time is over were last forgotten.
    forgot_at: i64,
}

/// Who makes a request. Only [`Access`] makes one.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// `None` where nobody is asked to authenticate.
    user: Option<Arc<str>>,
    source: IpAddr,
}

impl Identity {
    pub fn is_same_user(&self, other: &Identity) -> bool {
        self.user == other.user
    }

    /// For tests of what is kept by user.
    #[cfg(test)]
    pub fn of(user: &str) -> Identity {
        Identity { user: Some(user.into()), source: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) }
    }

    pub fn user(&self) -> Option<&Arc<str>> {
        self.user.as_ref()
    }
}

/// Tells of new snapshots of rights. Where nobody is asked who it is there are none.
#[derive(Debug)]
pub(crate) struct Changes(Option<watch::Receiver<()>>);

impl Changes {
    /// Returns when there is a snapshot that this value has not told of. Dropping the future loses none.
    pub async fn next(&mut self) {
        if let Some(renewed) = &mut self.0
            && renewed.changed().await.is_ok()
        {
            return;
        }
        // An error means that the process ends.
        std::future::pending::<()>().await;
    }
}

/// The caller has not proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unauthenticated(String);

/// The user has no right to do what the request needs. What it says is what the user may be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denied(String);

impl fmt::Display for Unauthenticated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How often failed attempts are forgotten whose time is over.
const FORGET_INTERVAL_MS: i64 = 1000;

/// The words are the same for a user who does not exist and for a wrong key: a caller learns no names.
const MISMATCH: &str = "the signature does not match, or there is no such user";

impl Access {
    /// Nobody is asked who it is.
    pub fn off() -> Access {
        Access::default()
    }

    /// Every request has to be signed. Until [`load`](Access::load) there is no user, and every request is refused.
    pub fn on(cluster: &str) -> Access {
        Access::on_in(cluster, Zones::default())
    }

    /// The same for clients in these time zones.
    pub fn on_in(cluster: &str, zones: Zones) -> Access {
        let guard = Guard {
            cluster: cluster.to_owned(),
            zones,
            rights: RwLock::default(),
            version: AtomicU64::new(0),
            renewed: watch::Sender::new(()),
            loading: tokio::sync::Mutex::default(),
            failures: Mutex::default(),
            wary: AtomicBool::new(false),
            nobody: User::nobody(),
            began: Instant::now(),
            audit: OnceLock::new(),
        };
        Access { guard: Some(Arc::new(guard)), store: Arc::default() }
    }

    pub fn is_on(&self) -> bool {
        self.guard.is_some()
    }

    /// Gives the log of changes and denials. Only the first call counts, and none where nobody is asked who it is.
    pub fn install_audit(&self, log: AuditLog) {
        if let Some(guard) = &self.guard {
            // An error gives the second log back.
            drop(guard.audit.set(log));
        }
    }

    pub(crate) fn record(&self, entry: Entry<'_>) {
        if let Some(log) = self.guard.as_ref().and_then(|guard| guard.audit.get()) {
            log.record(entry);
        }
    }

    /// Finds out who signed a Remoting request.
    /// `proved` is who has signed a request of the same connection before.
    pub(crate) fn authenticate(
        &self,
        command: &Command,
        source: IpAddr,
        proved: Option<&Identity>,
    ) -> Result<Identity, Unauthenticated> {
        let Some(guard) = &self.guard else { return Ok(Identity { user: None, source }) };
        let name = command.field(ACCESS_KEY).unwrap_or_default();
        let signature = command.field(SIGNATURE).unwrap_or_default();
        if name.is_empty() || signature.is_empty() {
            return Err(Unauthenticated(
                "the request is not signed: AccessKey and Signature are needed".to_owned(),
            ));
        }
        guard.prove(name, source, proved, |user| {
            let content = Content::new(command.fields.iter(), &command.body);
            content.verify(user.key(), signature, command.version).map_err(|_| Disproof::mismatch())
        })
    }

    /// Finds out who signed a gRPC call; both are the last of their name among its headers. `proofs` are those of its
    /// connection.
    pub(crate) fn authenticate_call(
        &self,
        authorization: Option<&str>,
        date_time: Option<&str>,
        source: IpAddr,
        proofs: &Proofs,
    ) -> Result<Identity, Unauthenticated> {
        let Some(guard) = &self.guard else { return Ok(Identity { user: None, source }) };
        let unsigned =
            || Unauthenticated("the call is not signed: an authorization header is needed".to_owned());
        let authorization = authorization.ok_or_else(unsigned)?;
        let date_time = date_time.unwrap_or_default();
        let now = i64::try_from(SystemClock.now().0 / 1000).unwrap_or(i64::MAX);
        // The version before the snapshot: what an older one has proved must not be taken for proved by a newer one.
        let checked = Checked { authorization, date_time, version: self.version(), now };
        if let Some(identity) = proofs.get(checked) {
            return Ok(identity);
        }
        let authorization = Authorization::read(authorization);
        let authorization = authorization.map_err(|error| Unauthenticated(error.to_string()))?;
        let authorization = authorization.ok_or_else(unsigned)?;
        let identity = guard.prove(authorization.user, source, proofs.first.get(), |user| {
            authorization.verify(user.key(), date_time).map_err(|_| Disproof::mismatch())?;
            date::check(date_time, now, &guard.zones)
                .map_err(|error| Disproof::KnowsSecret(error.to_string()))
        })?;
        proofs.put(checked, &identity);
        Ok(identity)
    }

    /// Finds out who sends a name and its secret, as HTTP clients do.
    pub(crate) fn authenticate_secret(
        &self,
        credentials: Option<(&str, &str)>,
        source: IpAddr,
    ) -> Result<Identity, Unauthenticated> {
        let Some(guard) = &self.guard else { return Ok(Identity { user: None, source }) };
        let (name, secret) =
            credentials.ok_or_else(|| Unauthenticated("a user and its password are needed".to_owned()))?;
        let identity = guard.prove(name, source, None, |user| {
            if user.secret().is(secret) { Ok(()) } else { Err(Disproof::mismatch()) }
        })?;
        // Most clients make a connection for each request.
        self.remember(&identity);
        Ok(identity)
    }

    /// Remembers that a user has authenticated from its address, so that guessing from elsewhere does not slow it. To be
    /// called once for a connection.
    pub(crate) fn remember(&self, identity: &Identity) {
        if let (Some(guard), Some(user)) = (&self.guard, &identity.user) {
            guard.failures.lock().attempts.succeeded(user, identity.source, guard.now());
        }
    }

    /// The number of the snapshot that decides. A request that waits asks again if it has changed meanwhile.
    pub(crate) fn version(&self) -> u64 {
        self.guard.as_ref().map_or(0, |guard| guard.version.load(Ordering::Acquire))
    }

    /// Tells of every snapshot from now on.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.guard.as_ref().map(|guard| guard.renewed.subscribe()))
    }

    /// Whether the caller may look at the broker.
    pub(crate) fn may_observe(&self, identity: &Identity) -> Result<(), Denied> {
        let cluster = self.guard.as_ref().map_or("", |guard| &guard.cluster);
        self.authorize(identity, &Needs::nothing().cluster(cluster, Action::Get))
    }

    /// Whether the caller may change the cluster.
    pub(crate) fn may_manage(&self, identity: &Identity) -> Result<(), Denied> {
        let cluster = self.guard.as_ref().map_or("", |guard| &guard.cluster);
        self.authorize(identity, &Needs::nothing().cluster(cluster, Action::Update))
    }

    /// Whether the caller may do all that a request needs.
    pub(crate) fn authorize(&self, identity: &Identity, needs: &Needs<'_>) -> Result<(), Denied> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let Some(user) = &identity.user else {
            return Err(Denied("the request was read before users were asked who they are".to_owned()));
        };
        let rights = guard.rights.read().clone();
        match rights.authorize(user, identity.source, needs.iter()) {
            Verdict::Allowed(_) => Ok(()),
            Verdict::Denied(denial) => Err(Denied(denial.to_string())),
        }
    }
}

/// Why a caller has not proved who it is.
enum Disproof {
    /// It does not know the secret, or there is no such user: that counts as an attempt to guess.
    Guess(String),
    /// It knows the secret, and is refused for something else.
    KnowsSecret(String),
}

impl Disproof {
    fn mismatch() -> Disproof {
        Disproof::Guess(MISMATCH.to_owned())
    }
}

impl Guard {
    fn prove(
        &self,
        name: &str,
        source: IpAddr,
        proved: Option<&Identity>,
        verify: impl FnOnce(&User) -> Result<(), Disproof>,
    ) -> Result<Identity, Unauthenticated> {
        // A connection that has authenticated is no guess: others at its address do not slow it.
        let known = proved.and_then(Identity::user).filter(|user| ***user == *name);
        if known.is_none() && self.wary.load(Ordering::Relaxed) {
            let now = self.now();
            let mut failures = self.failures.lock();
            if now - failures.forgot_at >= FORGET_INTERVAL_MS {
                failures.forgot_at = now;
                failures.attempts.forget(now);
                self.wary.store(!failures.attempts.is_quiet(now), Ordering::Relaxed);
            }
            failures.attempts.check(name, source, now).map_err(|slow| Unauthenticated(slow.to_string()))?;
        }
        let rights = self.rights.read().clone();
        let user = rights.user(name);
        let outcome = match user {
            Some(user) => verify(user).and_then(|()| match user.status {
                Status::Enabled => Ok(()),
                Status::Disabled => Err(Disproof::KnowsSecret(format!("the user {name} is disabled"))),
            }),
            None => verify(&self.nobody).and(Err(Disproof::mismatch())),
        };
        match outcome {
            Ok(()) => {}
            Err(Disproof::KnowsSecret(why)) => return Err(Unauthenticated(why)),
            Err(Disproof::Guess(why)) => {
                self.failures.lock().attempts.failed(name, user.is_some(), source, self.now());
                self.wary.store(true, Ordering::Relaxed);
                return Err(Unauthenticated(why));
            }
        }
        let user = known.map_or_else(|| name.into(), Arc::clone);
        Ok(Identity { user: Some(user), source })
    }

    /// Milliseconds of a clock that does not go back.
    fn now(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}
