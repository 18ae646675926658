//! The file of contexts: servers by name, each with the user and the TLS settings that commands use for it.
//!
//! ```toml
//! [production]
//! namesrv = "10.0.0.1:9876;10.0.0.2:9876"
//! grpc = "10.0.0.1:8081"
//! access_key = "operator"
//! secret_key_file = "/run/secrets/operator"
//! tls = true
//! tls_ca = "/etc/redstart/ca.pem"
//! ```

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use toml::de::{DeTable, DeValue};

/// Below the folder of the user's settings.
const FILE: &str = "redstart/contexts.toml";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    pub namesrv: Option<String>,
    pub grpc: Option<String>,
    pub access_key: Option<String>,
    pub secret_key_file: Option<PathBuf>,
    pub tls: Option<bool>,
    pub tls_ca: Option<PathBuf>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_insecure: Option<bool>,
}

/// The context of this name. Without a file of the caller's choice, the one among the user's settings is read.
pub fn find(name: &str, file: Option<&Path>) -> anyhow::Result<Context> {
    let file = match file {
        Some(file) => file.to_owned(),
        None => default_file().context("no home folder is known; --contexts-file names the file")?,
    };
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("there is no context {name}: {} does not exist", file.display())
        }
        text => text.with_context(|| format!("cannot read {}", file.display()))?,
    };
    choose(&text, name).with_context(|| file.display().to_string())
}

fn choose(text: &str, name: &str) -> anyhow::Result<Context> {
    let contexts = DeTable::parse(text)?;
    let found = contexts.get_ref().iter().find(|(key, _)| key.get_ref() == name);
    let Some((_, value)) = found else {
        let mut names: Vec<&str> = contexts.get_ref().keys().map(|key| key.get_ref().as_ref()).collect();
        names.sort_unstable();
        match names.as_slice() {
            [] => bail!("there is no context {name}, nor another"),
            names => bail!("there is no context {name}; there are {}", names.join(", ")),
        }
    };
    let DeValue::Table(settings) = value.get_ref() else { bail!("{name} is no table") };
    let mut context = Context::default();
    for (key, value) in settings {
        context.set(key.get_ref(), value.get_ref()).with_context(|| format!("context {name}"))?;
    }
    Ok(context)
}

impl Context {
    fn set(&mut self, key: &str, value: &DeValue<'_>) -> anyhow::Result<()> {
        let text = || match value {
            DeValue::String(text) => Ok(text.to_string()),
            _ => bail!("{key} must be a text"),
        };
        let file = || text().map(PathBuf::from);
        let flag = || match value {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => bail!("{key} must be true or false"),
        };
        match key {
            "namesrv" => self.namesrv = Some(text()?),
            "grpc" => self.grpc = Some(text()?),
            "access_key" => self.access_key = Some(text()?),
            "secret_key_file" => self.secret_key_file = Some(file()?),
            "tls" => self.tls = Some(flag()?),
            "tls_ca" => self.tls_ca = Some(file()?),
            "tls_cert" => self.tls_cert = Some(file()?),
            "tls_key" => self.tls_key = Some(file()?),
            "tls_insecure" => self.tls_insecure = Some(flag()?),
            _ => bail!("{key} is no setting of a context"),
        }
        Ok(())
    }
}

fn default_file() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let settings = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    settings.map(|settings| settings.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_found_by_its_name() {
        let text = "[a]\nnamesrv = \"h:1\"\ntls = true\n[b]\n";
        let found = choose(text, "a").unwrap();
        assert_eq!((found.namesrv.as_deref(), found.tls), (Some("h:1"), Some(true)));
        assert_eq!(choose(text, "b").unwrap(), Context::default());
        let unknown = choose(text, "c").unwrap_err().to_string();
        assert_eq!(unknown, "there is no context c; there are a, b");
        assert!(choose("[a]\nsecret_key = \"x\"\n", "a").is_err(), "secrets do not belong into the file");
    }
}
