//! The configuration of the broker. Flags win over environment variables, these over the file, and the file over defaults.
//!
//! [`settings`] is the one table of settings; the other modules read values for it, check them or print them.

mod alias;
mod environment;
mod error;
mod file;
mod flags;
mod kind;
mod overrides;
mod settings;
mod show;
mod values;

use std::path::PathBuf;

pub use environment::{ADMIN_SECRET_VARIABLE, SECRETS_KEY_VARIABLE};
pub use error::Error;
pub use flags::Flags;
pub use kind::{AuditTarget, FlushMode, LogFormat};
pub use settings::{Config, SETTINGS, Setting};
pub use show::{Arguments, run};
pub use values::{Source, Values};

/// The configuration: parsed values, their sources, and the file that was read.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub values: Values,
    pub file: Option<PathBuf>,
}

/// Reads every source. An invalid value is an error even if a source of higher precedence overrides it.
pub fn load(flags: &Flags) -> Result<Loaded, Error> {
    let mut values = Values::default();
    values.add(flags.values()?);
    values.add(environment::read(std::env::vars_os())?);
    let file = file::choose(flags.file.as_deref());
    if let Some(file) = &file {
        values.add(file::load(file)?);
    }
    let config = Config::of(&values)?;
    check_together(&config)?;
    Ok(Loaded { config, values, file })
}

/// Checks that involve more than one setting.
fn check_together(config: &Config) -> Result<(), Error> {
    let missing = match (&config.tls_cert, &config.tls_key) {
        (Some(_), None) => Some(("tls_cert", "tls_key")),
        (None, Some(_)) => Some(("tls_key", "tls_cert")),
        _ => None,
    };
    if let Some((given, missing)) = missing {
        let ways = Setting::named(missing).map(Setting::ways).unwrap_or_default();
        return Err(Error::Together(format!("`{given}` is set and `{missing}` is not: set it with {ways}")));
    }
    if config.disk_clean_percent > config.disk_refuse_percent {
        return Err(Error::Together(format!(
            "`disk_clean_percent` is {} and `disk_refuse_percent` is {}: messages would be refused before any is deleted",
            config.disk_clean_percent, config.disk_refuse_percent
        )));
    }
    let ports = [
        ("namesrv_port", config.namesrv_port),
        ("broker_port", config.broker_port),
        ("grpc_port", config.grpc_port),
        ("http_port", config.http_port),
    ];
    for (at, (key, port)) in ports.iter().enumerate() {
        let same = ports[..at].iter().find(|(_, other)| other == port && *port != 0);
        if let Some((other, _)) = same {
            return Err(Error::Together(format!(
                "`{other}` and `{key}` are both {port}: use different ports"
            )));
        }
    }
    Ok(())
}
