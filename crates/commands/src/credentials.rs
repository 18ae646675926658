//! Where commands find the user they act as: flags, then variables, then the context, and for mqadmin RocketMQ's own file.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use clap::Args;
use redstart_client::Credentials;
use ring::rand::{SecureRandom as _, SystemRandom};

const USER_VARIABLE: &str = "REDSTART_ACCESS_KEY";
const SECRET_VARIABLE: &str = "REDSTART_SECRET_KEY";
/// Where RocketMQ's tools look for the file, and its place there.
const HOME_VARIABLE: &str = "ROCKETMQ_HOME";
const TOOLS_FILE: &str = "conf/tools.yml";

/// The user of a command. The secret itself is no flag: other users of the machine see those.
#[derive(Debug, Args, Clone, Default)]
pub struct Flags {
    /// The user that requests are signed by [default: $REDSTART_ACCESS_KEY]
    #[arg(long, global = true, value_name = "USER")]
    access_key: Option<String>,
    /// A file with the user's secret [default: the secret in $REDSTART_SECRET_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    secret_key_file: Option<PathBuf>,
}

impl Flags {
    /// The user, with what the context says where flags and variables say nothing; `None` when nothing names a user.
    pub fn find(&self, user: Option<&str>, file: Option<&Path>) -> anyhow::Result<Option<Credentials>> {
        let named = self.access_key.clone().or_else(|| variable(USER_VARIABLE));
        let Some(user) = named.or_else(|| user.map(str::to_owned)) else {
            if self.secret_key_file.is_some() {
                bail!("--secret-key-file needs --access-key or {USER_VARIABLE}");
            }
            return Ok(None);
        };
        let secret = match (&self.secret_key_file, variable(SECRET_VARIABLE), file) {
            (Some(file), _, _) => Some(read(file)?),
            (None, None, Some(file)) => Some(read(file)?),
            (None, variable, _) => variable,
        };
        let secret = secret.with_context(|| {
            format!("the user {user} has no secret: set {SECRET_VARIABLE} or --secret-key-file")
        })?;
        Ok(Some(Credentials::new(&user, &secret)))
    }
}

/// The user that RocketMQ's `tools.yml` names.
pub fn of_tools_file() -> anyhow::Result<Option<Credentials>> {
    let Some(home) = variable(HOME_VARIABLE) else { return Ok(None) };
    let file = Path::new(&home).join(TOOLS_FILE);
    match fs::read_to_string(&file) {
        Ok(text) => tools(&text).with_context(|| format!("{} cannot be understood", file.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// The first line of a file.
pub fn read(file: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    match text.lines().next().map(str::trim) {
        Some(secret) if !secret.is_empty() => Ok(secret.to_owned()),
        _ => bail!("{} holds no secret in its first line", file.display()),
    }
}

/// A new secret.
pub fn random_secret() -> anyhow::Result<String> {
    let mut bytes = [0; 24];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// `accessKey: …` and `secretKey: …`, each in a line of its own; other lines mean nothing here.
fn tools(text: &str) -> anyhow::Result<Option<Credentials>> {
    let value = |wanted: &str| {
        text.lines().filter_map(|line| line.split_once(':')).find_map(|(key, value)| {
            let value = value.trim();
            let quoted =
                ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.split(quote).next());
            let plain = value.split(" #").next().unwrap_or(value).trim();
            (key.trim() == wanted).then(|| quoted.unwrap_or(plain)).filter(|value| !value.is_empty())
        })
    };
    match (value("accessKey"), value("secretKey")) {
        (Some(user), Some(secret)) => Ok(Some(Credentials::new(user, secret))),
        (None, None) => Ok(None),
        _ => bail!("accessKey and secretKey must both be there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_rocketmq_is_read() {
        let cases = [
            ("accessKey: rocketmq2\nsecretKey: 12345678\n", Some("rocketmq2")),
            ("# users\naccessKey: \"a b\" # name\nsecretKey: '1#2'\n", Some("a b")),
            ("accessKey: admin # the operator\nsecretKey: x\n", Some("admin")),
            ("accessKey:\nsecretKey:\n", None),
            ("", None),
        ];
        for (text, user) in cases {
            let found = tools(text).unwrap();
            assert_eq!(found.as_ref().map(Credentials::user), user, "{text}");
        }
        assert!(tools("accessKey: a\n").is_err());
    }
}
