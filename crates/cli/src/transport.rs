//! How the connections of each port begin, from the settings; and when the certificate is read again.

use std::time::Duration;

use anyhow::Context as _;
use redstart_log::create_dir_durably;
use redstart_server::{
    Proxies, Transport,
    tls::{self, CertificateFiles, ClientCertificates, Mode, PortTls, Tls},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

use crate::{
    config::{ClientAuth, Config},
    startup,
};

/// How often the files of the certificate are looked at. A change is read when two looks in a row see the same.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The TLS of all ports; each port has a mode of its own.
#[derive(Debug, Default)]
pub struct Transports {
    /// `None` if it is off on every port.
    tls: Option<Tls>,
    proxies: Option<Proxies>,
}

impl Transports {
    /// Reads the certificate, or makes one in the data directory.
    pub fn open(config: &Config) -> anyhow::Result<Transports> {
        let proxies = config.proxy_protocol_from.clone();
        if [config.remoting_tls, config.grpc_tls, config.http_tls].iter().all(|mode| *mode == Mode::Off) {
            return Ok(Transports { tls: None, proxies });
        }
        let dir = &config.data_dir;
        create_dir_durably(dir).map_err(|error| startup::directory(&error, dir))?;
        let tls = Tls::open(&tls_config(config), dir).map_err(|error| startup::tls(&error, config))?;
        Ok(Transports { tls: Some(tls), proxies })
    }

    pub fn with(&self, mode: Mode) -> Transport {
        let tls = self.tls.as_ref().map_or(PortTls::Off, |tls| tls.on_port(mode));
        Transport { tls, proxies: self.proxies.clone() }
    }

    pub fn tls(&self) -> Option<Tls> {
        self.tls.clone()
    }

    /// Reads the certificate again when its files have changed, and on SIGHUP. The task runs until it is aborted.
    pub fn watch(&self) -> anyhow::Result<JoinHandle<()>> {
        // Also without TLS: a SIGHUP that nothing listens to would end the process.
        let mut hangup = signal(SignalKind::hangup()).context("cannot listen for signals")?;
        let (tls, mut look) = (self.tls.clone(), tokio::time::interval(LOOK_INTERVAL));
        Ok(tokio::spawn(async move {
            loop {
                let reload: fn(&Tls) = tokio::select! {
                    _ = hangup.recv() => Tls::reload,
                    _ = look.tick() => Tls::reload_if_changed,
                };
                let Some(tls) = tls.clone() else { continue };
                // An error is a panic, which was logged already.
                drop(tokio::task::spawn_blocking(move || reload(&tls)).await);
            }
        }))
    }
}

fn tls_config(config: &Config) -> tls::Config {
    let certificate = match (config.tls_cert.clone(), config.tls_key.clone()) {
        (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
        _ => None,
    };
    let clients = match (config.tls_client_auth, config.tls_client_ca.clone()) {
        (ClientAuth::None, _) | (_, None) => None,
        (auth, Some(authorities)) => Some(ClientCertificates {
            authorities,
            required: auth == ClientAuth::Required,
            user_field: config.tls_client_user,
        }),
    };
    tls::Config { certificate, clients }
}
