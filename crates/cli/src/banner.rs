//! The lines that `redstart serve` prints when it is ready.

use std::{fmt::Write as _, io::Write as _, net::SocketAddr, path::Path};

use redstart_server::tls::Mode;

/// The addresses of the broker, for the operator who has started it.
#[derive(Debug)]
pub struct Banner<'a> {
    pub grpc: SocketAddr,
    pub grpc_tls: Mode,
    pub namesrv: SocketAddr,
    /// By shard.
    pub brokers: &'a [SocketAddr],
    pub http: SocketAddr,
    pub http_tls: Mode,
    pub data: &'a Path,
}

impl Banner<'_> {
    pub fn print(&self) {
        let mut out = format!("redstart {} is ready\n", env!("CARGO_PKG_VERSION"));
        let grpc = match self.grpc_tls {
            Mode::Off => "5.x clients (gRPC, plaintext)",
            Mode::Permissive => "5.x clients (gRPC, plaintext and TLS)",
            Mode::Enforcing => "5.x clients (gRPC, TLS)",
        };
        let scheme = if self.http_tls == Mode::Enforcing { "https" } else { "http" };
        let brokers = self.brokers.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" ");
        let rows = [
            (grpc, self.grpc.to_string()),
            ("4.x clients and mqadmin (Remoting)", format!("-n {}", self.namesrv)),
            ("broker (Remoting)", brokers),
            ("operators (HTTP)", format!("{scheme}://{}/metrics", self.http)),
            ("data", self.data.display().to_string()),
        ];
        for (what, at) in rows {
            let _ = writeln!(out, "  {what:<40}{at}");
        }
        let _ = writeln!(
            out,
            "  try: redstart topic create orders         more: README.md, docs/configuration.md"
        );
        // Standard output may be closed.
        drop(std::io::stdout().write_all(out.as_bytes()));
    }
}
