//! How commands reach a server: its address, the user that signs, and TLS. Flags come before variables, and those before the
//! context that is chosen.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use redstart_client::{ClientCertificate, Credentials, Tls, Trust};

use crate::{
    contexts::{self, Context},
    credentials,
};

const CONTEXT_VARIABLE: &str = "REDSTART_CONTEXT";
const TLS_VARIABLE: &str = "REDSTART_TLS";
const CA_VARIABLE: &str = "REDSTART_TLS_CA";
const CERT_VARIABLE: &str = "REDSTART_TLS_CERT";
const KEY_VARIABLE: &str = "REDSTART_TLS_KEY";
/// Where systems keep the roots they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[derive(Debug, Args, Clone, Default)]
// The flags of credentials have the name already.
#[group(skip)]
pub struct Flags {
    /// The context of the file of contexts to use [default: $REDSTART_CONTEXT]
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// The file of contexts [default: ~/.config/redstart/contexts.toml]
    #[arg(long, global = true, value_name = "FILE")]
    contexts_file: Option<PathBuf>,
    #[command(flatten)]
    credentials: credentials::Flags,
    /// Use TLS, and verify the server's certificate with the roots of the system [default: $REDSTART_TLS]
    #[arg(long, global = true)]
    tls: bool,
    /// Use TLS, and verify the server's certificate with those in this PEM file [default: $REDSTART_TLS_CA]
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate to show to the server, PEM [default: $REDSTART_TLS_CERT]
    #[arg(long, global = true, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Key of that certificate, PEM [default: $REDSTART_TLS_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Use TLS without verifying the server: an attacker on the way can read and change everything
    #[arg(long, global = true)]
    tls_insecure: bool,
}

/// What flags, variables and the context say together.
#[derive(Debug, Default)]
pub struct Access {
    /// Addresses of the context.
    pub namesrv: Option<String>,
    pub grpc: Option<String>,
    pub credentials: Option<Credentials>,
    pub tls: Option<Tls>,
}

impl Flags {
    pub fn resolve(&self) -> anyhow::Result<Access> {
        let context = match self.context.clone().or_else(|| variable(CONTEXT_VARIABLE)) {
            Some(name) => contexts::find(&name, self.contexts_file.as_deref())?,
            None if self.contexts_file.is_some() => {
                bail!("--contexts-file needs --context or {CONTEXT_VARIABLE}")
            }
            None => Context::default(),
        };
        let credentials =
            self.credentials.find(context.access_key.as_deref(), context.secret_key_file.as_deref())?;
        let tls = self.tls(&context)?;
        Ok(Access { namesrv: context.namesrv, grpc: context.grpc, credentials, tls })
    }

    fn tls(&self, context: &Context) -> anyhow::Result<Option<Tls>> {
        let file = |flag: &Option<PathBuf>, name, of_context: &Option<PathBuf>| {
            flag.clone().or_else(|| variable(name).map(PathBuf::from)).or_else(|| of_context.clone())
        };
        let roots = file(&self.tls_ca, CA_VARIABLE, &context.tls_ca);
        let is_insecure = self.tls_insecure || context.tls_insecure == Some(true) && self.tls_ca.is_none();
        let is_on = if self.tls || self.tls_ca.is_some() || self.tls_insecure {
            true
        } else {
            match variable(TLS_VARIABLE) {
                Some(word) => is_yes(&word)?,
                None => context.tls.unwrap_or(roots.is_some() || is_insecure),
            }
        };
        if !is_on {
            return Ok(None);
        }
        let certificate = file(&self.tls_cert, CERT_VARIABLE, &context.tls_cert);
        let key = file(&self.tls_key, KEY_VARIABLE, &context.tls_key);
        let own = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((read(&certificate)?, read(&key)?)),
            (None, None) => None,
            _ => bail!("--tls-cert and --tls-key belong together"),
        };
        let own = own.as_ref().map(|(chain, key)| ClientCertificate { chain, key });
        if is_insecure {
            eprintln!(
                "redstart: TLS without verification: an attacker on the way can read and change everything"
            );
            return Ok(Some(Tls::new(Trust::Anyone, own)?));
        }
        let roots = match roots {
            Some(file) => file,
            None => system_roots().context("no roots of the system were found; --tls-ca names a file")?,
        };
        let pem = read(&roots)?;
        Ok(Some(Tls::new(Trust::Roots(&pem), own).with_context(|| roots.display().to_string())?))
    }
}

/// What variables say; mqadmin has flags of its own. Without a user there, RocketMQ's file may name one.
pub fn of_mqadmin() -> anyhow::Result<Access> {
    let mut access = Flags::default().resolve()?;
    if access.credentials.is_none() {
        access.credentials = credentials::of_tools_file()?;
    }
    Ok(access)
}

fn system_roots() -> Option<PathBuf> {
    let own = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    own.into_iter().chain(SYSTEM_ROOTS.map(PathBuf::from)).find(|file| file.is_file())
}

fn is_yes(word: &str) -> anyhow::Result<bool> {
    match word.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => bail!("{TLS_VARIABLE} is {word:?}; it must be true or false"),
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}
