//! TLS, the same for all ports: the certificate that the broker shows, and what a connection of each protocol is accepted with.
//!
//! TLS 1.2 and 1.3 with ephemeral keys and authenticated encryption, which is all that rustls offers: there is no setting for
//! less.

mod certificate;
mod file_watch;
mod mode;
mod x509;

use std::{fmt, io, path::Path, sync::Arc};

use parking_lot::{Mutex, RwLock};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{self, ServerConfig},
};

use certificate::Certificate;
use file_watch::FileWatch;
use x509::Facts;

pub use certificate::CertificateFiles;
pub use mode::{Mode, PortTls};

/// What TLS is set up with.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The operator's certificate; without one, a self-signed one is made in the data directory.
    pub certificate: Option<CertificateFiles>,
}

/// TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{file}: {source}")]
    Io { file: String, source: io::Error },
    #[error("{file} holds no usable PEM data: {why}")]
    Pem { file: String, why: String },
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
            TlsError::Make(_) => false,
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
        let watch = Mutex::new(FileWatch::new(vec![files.certificate.clone(), files.key.clone()]));
        let accepts = RwLock::new(Arc::new(Accepts::read(&files)?));
        Ok(Tls(Arc::new(Shared { files, accepts, watch })))
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
        match Accepts::read(&self.0.files) {
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

    pub(crate) fn acceptor(&self, protocol: Protocol) -> TlsAcceptor {
        TlsAcceptor::from(self.0.accepts.read().of(protocol).clone())
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
    match Accepts::read(files) {
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
    fn read(files: &CertificateFiles) -> Result<Accepts, TlsError> {
        let Certificate { chain, key } = files.read()?;
        let not_after = chain.first().and_then(Facts::of).map(|facts| facts.not_after);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let of = |protocol: Protocol| {
            let mut config = config.clone();
            config.alpn_protocols = protocol.alpn().iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        let (grpc, remoting, http) = (of(Protocol::Grpc), of(Protocol::Remoting), of(Protocol::Http));
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
