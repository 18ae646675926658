//! TLS, the same for all ports: the certificate that the broker shows, and what a connection of each protocol is accepted with.
//!
//! TLS 1.2 and 1.3 with ephemeral keys and authenticated encryption, which is all that rustls offers: there is no setting for
//! less.

mod certificate;
mod client_certificate;
mod file_watch;
mod mode;
mod x509;

use std::{fmt, io, path::Path, sync::Arc};

use parking_lot::{Mutex, RwLock};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{self, ServerConfig, server::WebPkiClientVerifier},
    server::TlsStream,
};

use certificate::Certificate;
use file_watch::FileWatch;
use x509::Facts;

pub use certificate::CertificateFiles;
pub(crate) use client_certificate::ClientCertificate;
pub use client_certificate::{ClientCertificates, UserField};
pub use mode::{Mode, PortTls};

/// What TLS is set up with.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The operator's certificate; without one, a self-signed one is made in the data directory.
    pub certificate: Option<CertificateFiles>,
    /// Clients are asked for a certificate.
    pub clients: Option<ClientCertificates>,
}

/// TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{file}: {source}")]
    Io { file: String, source: io::Error },
    #[error("{file} holds no usable PEM data: {why}")]
    Pem { file: String, why: String },
    #[error("the authorities of client certificates: {0}")]
    Authorities(Box<TlsError>),
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("the certificate and its key do not work: {0}")]
    Rustls(#[from] rustls::Error),
}

impl TlsError {
    /// Whether a file is missing or its content cannot be used. On other errors the content is not known.
    fn is_unusable(&self) -> bool {
        match self {
            TlsError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            TlsError::Pem { .. } | TlsError::Rustls(_) => true,
            TlsError::Make(_) | TlsError::Authorities(_) => false,
        }
    }
}

/// What is spoken inside TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    Remoting,
    Http,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Grpc => "gRPC",
            Protocol::Remoting => "Remoting",
            Protocol::Http => "HTTP",
        }
    }

    fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            // The Go client refuses a server that does not negotiate h2.
            Protocol::Grpc => &[b"h2"],
            // Clients offer nothing. A client that does is served whatever it offers.
            Protocol::Remoting => &[],
            Protocol::Http => &[b"http/1.1"],
        }
    }
}

/// Accepts TLS on all ports. Clones are one.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    files: CertificateFiles,
    clients: Option<ClientCertificates>,
    /// Replaced when the files have changed; connections that are open keep what they were accepted with.
    accepts: RwLock<Arc<Accepts>>,
    watch: Mutex<FileWatch>,
}

/// What connections of each protocol are accepted with.
struct Accepts {
    /// When the certificate ends, in seconds of Unix time, if that can be read.
    not_after: Option<i64>,
    grpc: Arc<ServerConfig>,
    remoting: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads the operator's certificate, or the broker's own in `dir`. The broker's own is made if it does not exist or cannot be
    /// used; the operator's files are only read.
    pub fn open(config: &Config, dir: &Path) -> Result<Tls, TlsError> {
        let files = config.certificate.clone().unwrap_or_else(|| CertificateFiles::own(dir));
        if config.certificate.is_none() {
            make_if_unusable(&files)?;
        }
        let clients = config.clients.clone();
        let mut watched = vec![files.certificate.clone(), files.key.clone()];
        watched.extend(clients.as_ref().map(|clients| clients.authorities.clone()));
        let watch = Mutex::new(FileWatch::new(watched));
        let accepts = RwLock::new(Arc::new(Accepts::read(&files, clients.as_ref())?));
        Ok(Tls(Arc::new(Shared { files, clients, accepts, watch })))
    }

    /// Reads the files again if they have changed since they were last read. It waits for the disk.
    pub fn reload_if_changed(&self) {
        let due = self.0.watch.lock().is_due();
        if due {
            self.read_again();
        }
    }

    /// Reads the files again. It waits for the disk.
    pub fn reload(&self) {
        self.0.watch.lock().reading();
        self.read_again();
    }

    /// Files that cannot be used change nothing: new connections are accepted with what was read before.
    fn read_again(&self) {
        match Accepts::read(&self.0.files, self.0.clients.as_ref()) {
            Ok(accepts) => {
                let not_after = accepts.not_after;
                *self.0.accepts.write() = Arc::new(accepts);
                tracing::info!(certificate = %self.0.files.certificate.display(), not_after, "TLS certificate reloaded");
            }
            Err(error) => {
                tracing::error!(%error, "the TLS certificate cannot be reloaded; the one before stays in use");
            }
        }
    }

    /// Does the handshake of a server.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        protocol: Protocol,
    ) -> io::Result<(TlsStream<TcpStream>, Option<ClientCertificate>)> {
        let config = self.0.accepts.read().of(protocol).clone();
        let accepted = TlsAcceptor::from(config).accept(stream).await?;
        let shown = accepted.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let client = self.0.clients.as_ref().zip(shown).map(|(clients, shown)| clients.read(shown));
        Ok((accepted, client))
    }

    /// Whether clients need a certificate.
    pub(crate) fn requires_certificate(&self) -> bool {
        self.0.clients.as_ref().is_some_and(|clients| clients.required)
    }

    /// When the certificate in use ends, in seconds of Unix time.
    pub fn not_after(&self) -> Option<i64> {
        self.0.accepts.read().not_after
    }

    /// For a port with this mode.
    pub fn on_port(&self, mode: Mode) -> PortTls {
        match mode {
            Mode::Off => PortTls::Off,
            Mode::Permissive => PortTls::Permissive(self.clone()),
            Mode::Enforcing => PortTls::Enforcing(self.clone()),
        }
    }
}

/// Makes the broker's own certificate, unless there is one.
fn make_if_unusable(files: &CertificateFiles) -> Result<(), TlsError> {
    match Accepts::read(files, None) {
        Err(error) if error.is_unusable() => {
            if files.exist() {
                tracing::warn!(%error, "the broker's own certificate is unusable; making another");
            }
            files.make()
        }
        read => read.map(drop),
    }
}

impl Accepts {
    fn read(files: &CertificateFiles, clients: Option<&ClientCertificates>) -> Result<Accepts, TlsError> {
        let Certificate { chain, key } = files.read()?;
        let not_after = chain.first().and_then(Facts::of).map(|facts| facts.not_after);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of = |protocol: Protocol| {
            let verifier = match clients {
                None => WebPkiClientVerifier::no_client_auth(),
                Some(clients) => clients
                    .verifier(clients.required && protocol != Protocol::Http, &provider)
                    .map_err(|error| TlsError::Authorities(Box::new(error)))?,
            };
            let mut config = ServerConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()?
                .with_client_cert_verifier(verifier)
                .with_single_cert(chain.clone(), key.clone_key())?;
            config.alpn_protocols = protocol.alpn().iter().map(|name| name.to_vec()).collect();
            Ok::<_, TlsError>(Arc::new(config))
        };
        let (grpc, remoting, http) = (of(Protocol::Grpc)?, of(Protocol::Remoting)?, of(Protocol::Http)?);
        Ok(Accepts { not_after, grpc, remoting, http })
    }

    fn of(&self, protocol: Protocol) -> &Arc<ServerConfig> {
        match protocol {
            Protocol::Grpc => &self.grpc,
            Protocol::Remoting => &self.remoting,
            Protocol::Http => &self.http,
        }
    }
}
