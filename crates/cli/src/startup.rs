//! Errors of the start as one line that says what is wrong and what to do.

use std::{
    io::{Error as IoError, ErrorKind},
    net::SocketAddr,
    path::Path,
};

use redstart_engine::OpenError;
use redstart_log::Error as LogError;
use redstart_server::{grpc, http, remoting, shard, tls::TlsError};

use crate::config::{Config, Setting};

/// The ways to set a setting, for the end of a sentence.
pub fn ways(key: &str) -> String {
    Setting::named(key).map(Setting::ways).unwrap_or_default()
}

pub fn grpc(error: &grpc::StartError, config: &Config) -> anyhow::Error {
    anyhow::Error::msg(match error {
        grpc::StartError::Listen { address, source } => listening(*address, source, config),
        grpc::StartError::Key(grpc::KeyError::File(source)) => data_file(
            &format!("cannot read the key of receipt handles: {source}"),
            source.kind(),
            &config.data_dir,
        ),
        grpc::StartError::Key(_) => error.to_string(),
    })
}

pub fn http(error: &http::StartError, config: &Config) -> anyhow::Error {
    anyhow::Error::msg(listening(error.address, &error.source, config))
}

pub fn remoting(error: &remoting::StartError, config: &Config) -> anyhow::Error {
    anyhow::Error::msg(match error {
        remoting::StartError::Listen { address, source, .. } => listening(*address, source, config),
        remoting::StartError::Names(remoting::NamesError::File(source)) => data_file(
            &format!("cannot read the name service's values: {source}"),
            source.kind(),
            &config.data_dir,
        ),
        remoting::StartError::Names(_) => format!("{error} (in {})", config.data_dir.display()),
        remoting::StartError::Settings(_) => error.to_string(),
    })
}

/// A port of a node with peers cannot be bound.
pub fn port(address: SocketAddr, error: &IoError, config: &Config) -> anyhow::Error {
    anyhow::Error::msg(listening(address, error, config))
}

/// A port cannot be bound. Its number tells the setting, because all ports are different.
fn listening(address: SocketAddr, error: &IoError, config: &Config) -> String {
    let (port, at) = (address.port(), address.ip());
    let key = match port {
        port if port == config.namesrv_port => "namesrv_port",
        port if port == config.broker_port => "broker_port",
        port if port == config.grpc_port => "grpc_port",
        port if port == config.http_port => "http_port",
        _ if config.peers.is_some() => "peers",
        // A further shard's port follows from the first's.
        _ => "broker_port",
    };
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "port {port} of {at} is in use: stop the process that uses it, or choose another port with {}",
            ways(key)
        ),
        ErrorKind::AddrNotAvailable => format!(
            "{at} is not an address of this machine: choose one, or 0.0.0.0 for all, with {}",
            ways("listen")
        ),
        ErrorKind::PermissionDenied => format!(
            "no permission to listen on port {port}: choose a port from 1024 on with {}, or give the process CAP_NET_BIND_SERVICE",
            ways(key)
        ),
        _ => format!("cannot listen on {address}: {error}: check {} and {}", ways(key), ways("listen")),
    }
}

/// TLS cannot be set up.
pub fn tls(error: &TlsError, config: &Config) -> anyhow::Error {
    anyhow::Error::msg(match (&config.tls_cert, error) {
        (_, TlsError::Authorities(_)) => format!("TLS: {error}: check {}", ways("tls_client_ca")),
        (Some(_), _) => {
            format!("TLS: {error}: check {} and {}", ways("tls_cert"), ways("tls_key"))
        }
        (None, TlsError::Io { source, .. }) => {
            data_file(&format!("TLS: {error}"), source.kind(), &config.data_dir)
        }
        (None, _) => format!(
            "TLS: {error}: remove tls.crt and tls.key from {} to have new ones created",
            config.data_dir.display()
        ),
    })
}

/// A file of the data directory that does not belong to the shard.
fn data_file(what: &str, kind: ErrorKind, dir: &Path) -> String {
    match kind {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => no_permission(dir),
        _ => format!("{what} (in {})", dir.display()),
    }
}

fn no_permission(dir: &Path) -> String {
    format!(
        "no permission to write to {}: grant it to user {}, or choose another directory with {}",
        dir.display(),
        rustix::process::geteuid().as_raw(),
        ways("data_dir")
    )
}

/// The directory of the shard cannot be opened.
pub fn directory(error: &IoError, dir: &Path) -> anyhow::Error {
    anyhow::Error::msg(match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => no_permission(dir),
        _ => format!("cannot open {}: {error}: check {}", dir.display(), ways("data_dir")),
    })
}

pub fn shard(error: &shard::StartError, dir: &Path) -> anyhow::Error {
    use shard::StartError;
    anyhow::Error::msg(match error {
        StartError::Log(error) | StartError::Engine(OpenError::Log(error)) => log(error, dir),
        StartError::Engine(error) if error.is_newer() => format!(
            "{}: {error}: start that release, or give another directory with {}",
            dir.display(),
            ways("data_dir")
        ),
        StartError::Engine(error) => damaged(&error.to_string(), dir),
        StartError::Thread(error) => {
            format!("cannot start a thread: {error}: check the limits of the process")
        }
        StartError::Replica(redstart_server::ReplicaFailure::Log(error)) => log(error, dir),
        StartError::Replica(error) => format!("{}: {error}", dir.display()),
        StartError::WasAlone => {
            format!("{}: {error}: give another directory with {}", dir.display(), ways("data_dir"))
        }
    })
}

fn log(error: &LogError, dir: &Path) -> String {
    match error {
        LogError::Locked { .. } => {
            format!("{error}: stop it, or choose another directory with {}", ways("data_dir"))
        }
        LogError::UnknownVersion { file, found, known } if found > known => format!(
            "{}: written by a newer release (format {found}, this release knows {known}): start that release, or choose another directory with {}",
            dir.join(file).display(),
            ways("data_dir")
        ),
        LogError::UnknownVersion { .. } | LogError::Corrupt { .. } => damaged(&error.to_string(), dir),
        LogError::Missing { .. } => {
            let data = dir.parent().unwrap_or(dir).display();
            format!(
                "{}: {error}: put the file back or restore a backup; `redstart check --accept-loss {data}` continues without it",
                dir.display()
            )
        }
        LogError::NoSpace(_) => {
            format!(
                "{error}: free space on the volume of {}, or choose another directory with {}",
                dir.display(),
                ways("data_dir")
            )
        }
        LogError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => no_permission(dir),
        LogError::Io { source, .. } if source.kind() == ErrorKind::ReadOnlyFilesystem => no_permission(dir),
        _ => format!("cannot open {}: {error}", dir.display()),
    }
}

fn damaged(what: &str, dir: &Path) -> String {
    let data = dir.parent().unwrap_or(dir).display();
    format!("{}: {what}: `redstart check {data}` lists all damage; restore a backup", dir.display())
}
