//! What the calls of a gRPC connection have proofs. The date that clients sign has whole seconds, so all calls of a user within a
//! second carry the same two headers: they are checked once, and compared after that.

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::Identity;

/// What a check of signed headers depends on; equal values need no second check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checked<'a> {
    pub authorization: &'a str,
    pub date_time: &'a str,
    /// The snapshot of users.
    pub version: u64,
    /// In seconds since 1970.
    pub now: i64,
}

/// Of one connection.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// The user of the first call.
    pub first: OnceLock<Identity>,
    /// The last signed headers that were found to be right.
    last: Mutex<Option<Last>>,
}

#[derive(Debug)]
struct Last {
    authorization: Box<str>,
    date_time: Box<str>,
    version: u64,
    now: i64,
    identity: Identity,
}

impl Proofs {
    /// The user whose headers these are, if they were the last to be checked.
    pub(super) fn get(&self, checked: Checked<'_>) -> Option<Identity> {
        let last = self.last.lock();
        last.as_ref().filter(|last| last.checked() == checked).map(|last| last.identity.clone())
    }

    pub(super) fn put(&self, checked: Checked<'_>, identity: &Identity) {
        *self.last.lock() = Some(Last {
            authorization: checked.authorization.into(),
            date_time: checked.date_time.into(),
            version: checked.version,
            now: checked.now,
            identity: identity.clone(),
        });
    }
}

impl Last {
    fn checked(&self) -> Checked<'_> {
        Checked {
            authorization: &self.authorization,
            date_time: &self.date_time,
            version: self.version,
            now: self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_stand_for_a_user_while_nothing_has_changed() {
        let proofs = Proofs::default();
        let checked = Checked { authorization: "a", date_time: "d", version: 1, now: 10 };
        assert!(proofs.get(checked).is_none());
        proofs.put(checked, &Identity::of("app"));
        assert_eq!(proofs.get(checked).unwrap().user().map(|user| &**user), Some("app"));
        let others = [
            Checked { authorization: "b", ..checked },
            Checked { date_time: "e", ..checked },
            Checked { version: 2, ..checked },
            Checked { now: 11, ..checked },
        ];
        for other in others {
            assert!(proofs.get(other).is_none(), "{other:?}");
        }
    }
}
