//! How the connections of each port begin, from the settings.

use redstart_log::create_dir_durably;
use redstart_server::{
    Transport,
    tls::{self, CertificateFiles, Mode, PortTls, Tls},
};

use crate::{config::Config, startup};

/// The TLS of all ports; each port has a mode of its own.
#[derive(Debug)]
pub struct Transports {
    /// `None` if it is off on every port.
    tls: Option<Tls>,
}

impl Transports {
    /// Reads the certificate, or makes one in the data directory.
    pub fn open(config: &Config) -> anyhow::Result<Transports> {
        if [config.remoting_tls, config.grpc_tls, config.http_tls].iter().all(|mode| *mode == Mode::Off) {
            return Ok(Transports { tls: None });
        }
        let dir = &config.data_dir;
        create_dir_durably(dir).map_err(|error| startup::directory(&error, dir))?;
        let tls = Tls::open(&tls_config(config), dir).map_err(|error| startup::tls(&error, config))?;
        Ok(Transports { tls: Some(tls) })
    }

    pub fn with(&self, mode: Mode) -> Transport {
        let tls = self.tls.as_ref().map_or(PortTls::Off, |tls| tls.on_port(mode));
        Transport { tls }
    }
}

fn tls_config(config: &Config) -> tls::Config {
    let certificate = match (config.tls_cert.clone(), config.tls_key.clone()) {
        (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
        _ => None,
    };
    tls::Config { certificate }
}
