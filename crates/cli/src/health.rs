//! `redstart health`: asks a running broker whether it is ready. The container image has no other tool for that.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use redstart_server::tls::Mode;

use crate::{
    config::{self, Flags},
    unverified_tls,
};

const TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_BYTES_MAX: u64 = 4 << 10;

pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let config = config::load(flags)?.config;
    let address = SocketAddr::new(reachable(config.listen), config.http_port);
    let status = ask(address, config.http_tls).with_context(|| format!("no answer from {address}"))?;
    if status != "200" {
        bail!("not ready: {address} answered {status}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The address to dial for a server that listens on `listen`, which may be "all addresses".
pub fn reachable(listen: IpAddr) -> IpAddr {
    match listen {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        one => one,
    }
}

/// The HTTP status of `/readyz`.
fn ask(address: SocketAddr, tls: Mode) -> anyhow::Result<String> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    match tls {
        Mode::Off | Mode::Permissive => exchange(stream, address),
        Mode::Enforcing => exchange(unverified_tls::connect(stream, address.ip())?, address),
    }
}

fn exchange(mut stream: impl Read + Write, address: SocketAddr) -> anyhow::Result<String> {
    stream.write_all(
        format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        // The status line was read before the end, whatever that was.
        Err(error) if is_end(error.kind()) && !answer.is_empty() => {}
        read => drop(read?),
    }
    let line = String::from_utf8_lossy(&answer);
    let mut words = line.split_whitespace();
    match (words.next(), words.next()) {
        (Some(version), Some(status)) if version.starts_with("HTTP/1.") => Ok(status.to_owned()),
        _ => bail!("the answer is not HTTP"),
    }
}

fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
}
