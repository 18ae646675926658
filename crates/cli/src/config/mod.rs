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
mod peers;
mod settings;
mod show;
mod values;

use std::path::PathBuf;

use redstart_server::{remoting, tls::Mode};

pub use environment::{ADMIN_SECRET_VARIABLE, SECRETS_KEY_VARIABLE};
pub use error::Error;
pub use flags::Flags;
pub use kind::{AuditTarget, ClientAuth, FlushMode, LogFormat};
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
    check_client_certificates(config)?;
    if config.disk_clean_percent > config.disk_refuse_percent {
        return Err(Error::Together(format!(
            "`disk_clean_percent` is {} and `disk_refuse_percent` is {}: messages would be refused before any is deleted",
            config.disk_clean_percent, config.disk_refuse_percent
        )));
    }
    let step = remoting::PORT_STEP;
    let last = usize::from(config.broker_port) + (config.shards - 1) * usize::from(step);
    if last > usize::from(u16::MAX) {
        return Err(Error::Together(format!(
            "`broker_port` is {} and `shards` is {}: the last shard's port would be {last}",
            config.broker_port, config.shards
        )));
    }
    if config.broker_port != 0 {
        let others = [
            ("namesrv_port", config.namesrv_port),
            ("grpc_port", config.grpc_port),
            ("http_port", config.http_port),
        ];
        let of_shard = |port: u16| {
            let distance = port.checked_sub(config.broker_port).filter(|distance| *distance > 0);
            distance.is_some_and(|distance| distance % step == 0 && usize::from(port) <= last)
        };
        if let Some((key, port)) = others.iter().find(|(_, port)| of_shard(*port)) {
            return Err(Error::Together(format!(
                "`{key}` is {port}, which is the broker port of a shard: use another port"
            )));
        }
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

/// A setting that says that clients are verified must not leave a way around it.
fn check_client_certificates(config: &Config) -> Result<(), Error> {
    let why = match (config.tls_client_auth, &config.tls_client_ca) {
        (ClientAuth::None, None) => return Ok(()),
        (ClientAuth::None, Some(_)) => {
            "`tls_client_ca` is set and `tls_client_auth` is none: set it to optional or required".to_owned()
        }
        (ClientAuth::Optional | ClientAuth::Required, None) => {
            let ways = Setting::named("tls_client_ca").map(Setting::ways).unwrap_or_default();
            format!("`tls_client_auth` needs the authorities of client certificates: set them with {ways}")
        }
        (ClientAuth::Optional, Some(_)) => return Ok(()),
        (ClientAuth::Required, Some(_)) => {
            let ports = [
                ("remoting_tls", config.remoting_tls),
                ("grpc_tls", config.grpc_tls),
                ("http_tls", config.http_tls),
            ];
            // A port without TLS is a decision; one that takes both would be an oversight.
            let Some((key, _)) = ports.iter().find(|(_, mode)| *mode == Mode::Permissive) else {
                return Ok(());
            };
            format!(
                "`tls_client_auth` is required and `{key}` is permissive: plaintext clients would be asked for none; set it to enforcing or off"
            )
        }
    };
    Err(Error::Together(why))
}
