//! Users: names, secrets, standing and status, with the rules for each.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::{policy::InvalidWord, signature::SigningKey};

pub(crate) const NAME_LEN_MAX: usize = 64;
const SECRET_LEN_MAX: usize = 256;
const SUBJECT_PREFIX: &str = "User:";

/// The key of a user's signatures. `Debug` shows that there is one and nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    pub fn new(text: impl Into<Box<str>>) -> Secret {
        Secret(text.into())
    }

    /// Takes as long for a text that differs in its first byte as for one that differs in its last.
    pub fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }

    /// For signing and sealing; the text must go nowhere else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What RocketMQ calls the type of a user. Super users need no rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    Super,
    #[default]
    Normal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    #[default]
    Enabled,
    Disabled,
}

impl Standing {
    pub fn read(word: &str) -> Result<Standing, InvalidWord> {
        let known = [("Super", Standing::Super), ("Normal", Standing::Normal)];
        InvalidWord::or_find("user type", word, &known)
    }

    pub fn name(self) -> &'static str {
        match self {
            Standing::Super => "Super",
            Standing::Normal => "Normal",
        }
    }
}

impl Status {
    pub fn read(word: &str) -> Result<Status, InvalidWord> {
        let known = [("enable", Status::Enabled), ("disable", Status::Disabled)];
        InvalidWord::or_find("user status", word, &known)
    }

    pub fn name(self) -> &'static str {
        match self {
            Status::Enabled => "enable",
            Status::Disabled => "disable",
        }
    }
}

#[derive(Debug, Clone)]
pub struct User {
    name: Box<str>,
    secret: Secret,
    key: SigningKey,
    pub standing: Standing,
    pub status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUser {
    #[error("the user name has {0} bytes; it must have 1 to {NAME_LEN_MAX}")]
    NameLength(usize),
    #[error("the user name has the character {0:?}")]
    NameCharacter(char),
    #[error("the password has {0} bytes; it must have 1 to {SECRET_LEN_MAX}")]
    SecretLength(usize),
    #[error("the subject {0:?} is not of the form User:name")]
    Subject(String),
}

impl User {
    /// A normal user who may authenticate.
    pub fn new(name: &str, secret: Secret) -> Result<User, InvalidUser> {
        User::valid_name(name)?;
        match secret.reveal().len() {
            1..=SECRET_LEN_MAX => {}
            length => return Err(InvalidUser::SecretLength(length)),
        }
        let key = SigningKey::new(&secret);
        let (standing, status) = (Standing::default(), Status::default());
        Ok(User { name: name.into(), secret, key, standing, status })
    }

    /// Stands for a user who does not exist: it has no name, so that none can be it.
    pub fn nobody() -> User {
        let secret = Secret::new("");
        let key = SigningKey::new(&secret);
        User { name: "".into(), secret, key, standing: Standing::Normal, status: Status::Disabled }
    }

    /// Names are compared byte by byte; `Admin` and `admin` are two users.
    pub fn valid_name(name: &str) -> Result<(), InvalidUser> {
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            return Err(InvalidUser::NameLength(name.len()));
        }
        let bad = |c: &char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '/' | ',' | '=');
        name.chars().find(bad).map_or(Ok(()), |bad| Err(InvalidUser::NameCharacter(bad)))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    pub fn key(&self) -> &SigningKey {
        &self.key
    }
}

/// Whom a policy is about. RocketMQ has users only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    pub user: &'a str,
}

impl<'a> Subject<'a> {
    pub fn read(text: &'a str) -> Result<Subject<'a>, InvalidUser> {
        let user = text
            .strip_prefix(SUBJECT_PREFIX)
            .ok_or_else(|| InvalidUser::Subject(text.chars().take(2 * NAME_LEN_MAX).collect()))?;
        User::valid_name(user)?;
        Ok(Subject { user })
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SUBJECT_PREFIX}{}", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let user = User::new("u", Secret::new("hunter2-hunter2")).unwrap();
        let shown = format!("{user:?} {:#?} {:?}", user, user.secret());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(user.secret().reveal(), "hunter2-hunter2");
        assert!(user.secret().is("hunter2-hunter2"));
        assert!(!user.secret().is("hunter2") && !user.secret().is(""));
    }

    #[test]
    fn names_that_could_be_read_as_something_else_are_refused() {
        for good in ["a", "admin", "Admin", "app-1.eu", "用户", &"n".repeat(64)] {
            assert_eq!(User::valid_name(good), Ok(()), "{good}");
        }
        // The credential of a gRPC call ends at `/` and `,`; a subject has one `:`.
        for bad in ["", "a b", "a\n", "a:b", "a/b", "a,b", "a=b", "\u{a0}", &"n".repeat(65)] {
            assert!(User::valid_name(bad).is_err(), "{bad:?}");
        }
        assert!(User::new("u", Secret::new("")).is_err());
        assert!(User::new("u", Secret::new("x".repeat(257))).is_err());
    }

    #[test]
    fn a_subject_is_a_user() {
        assert_eq!(Subject::read("User:app").unwrap(), Subject { user: "app" });
        assert_eq!(Subject { user: "app" }.to_string(), "User:app");
        for bad in ["app", "User:", "Role:app", "user:app", "User:a:b"] {
            assert!(Subject::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_of_the_tools_are_read_in_any_case() {
        assert_eq!(Standing::read("super"), Ok(Standing::Super));
        assert_eq!(Status::read("DISABLE").unwrap().name(), "disable");
        let error = Standing::read("root").unwrap_err().to_string();
        assert_eq!(error, "the user type is \"root\"; there are Super, Normal");
    }
}
