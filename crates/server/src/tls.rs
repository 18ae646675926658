//! The TLS certificate: the operator's, or one that the broker makes at its first start. The official clients do not verify it by
//! default.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject},
        },
    },
};

use crate::durable_file::{self, Readable};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// A certificate chain and its private key, both PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
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

/// Accepts TLS with the operator's certificate, or with the broker's own in `dir`. The broker's own is made if it does not exist or
/// cannot be used; the operator's files are only read.
pub(crate) fn acceptor(operators: Option<&CertificateFiles>, dir: &Path) -> Result<TlsAcceptor, TlsError> {
    if let Some(files) = operators {
        return load(files);
    }
    let own = CertificateFiles { certificate: dir.join(CERTIFICATE), key: dir.join(KEY) };
    match load(&own) {
        Err(error) if error.is_unusable() => {
            if own.certificate.exists() || own.key.exists() {
                tracing::warn!(%error, "the broker's own certificate is unusable; making another");
            }
            make(&own)?;
            load(&own)
        }
        loaded => loaded,
    }
}

fn load(files: &CertificateFiles) -> Result<TlsAcceptor, TlsError> {
    let CertificateFiles { certificate, key } = files;
    let pem = |file: &Path, why: pem::Error| {
        let file = file.display().to_string();
        match why {
            pem::Error::Io(source) => TlsError::Io { file, source },
            why => TlsError::Pem { file, why: why.to_string() },
        }
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| pem(certificate, error))?;
    if chain.is_empty() {
        return Err(pem(certificate, pem::Error::NoItemsFound));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| pem(key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)?;
    // The Go client refuses a server that does not negotiate h2.
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Makes the broker's own certificate. A power cut between the two files leaves a pair that does not match, which the next start finds
/// unusable and makes again.
fn make(own: &CertificateFiles) -> Result<(), TlsError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    write(&own.key, &made.signing_key.serialize_pem(), Readable::ByOwner)?;
    write(&own.certificate, &made.cert.pem(), Readable::ByAll)
}

fn write(path: &Path, text: &str, readable: Readable) -> Result<(), TlsError> {
    durable_file::set_aside(path)
        .and_then(|()| durable_file::replace(path, text.as_bytes(), readable))
        .map_err(|source| TlsError::Io { file: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What a power cut may leave of a file.
    #[derive(Debug, Clone, Copy)]
    enum Cut {
        Missing,
        Empty,
        Short,
        Zeros,
        /// The file of another pair.
        Older,
    }

    const CUTS: [Cut; 5] = [Cut::Missing, Cut::Empty, Cut::Short, Cut::Zeros, Cut::Older];

    fn cut(path: &Path, cut: Cut, older: &Path) {
        let content = fs::read(path).unwrap();
        match cut {
            Cut::Missing => fs::remove_file(path).unwrap(),
            Cut::Empty => fs::write(path, "").unwrap(),
            Cut::Short => fs::write(path, &content[..content.len() / 2]).unwrap(),
            Cut::Zeros => fs::write(path, vec![0; content.len()]).unwrap(),
            Cut::Older => drop(fs::copy(older.join(path.file_name().unwrap()), path).unwrap()),
        }
    }

    #[test]
    fn a_certificate_that_a_power_cut_left_unusable_is_made_again() {
        let older = tempfile::TempDir::new().unwrap();
        acceptor(None, older.path()).unwrap();
        for file in [CERTIFICATE, KEY] {
            for kind in CUTS {
                let dir = tempfile::TempDir::new().unwrap();
                acceptor(None, dir.path()).unwrap();
                cut(&dir.path().join(file), kind, older.path());
                acceptor(None, dir.path()).unwrap_or_else(|error| panic!("{file} {kind:?}: {error}"));
                let made = fs::read(dir.path().join(CERTIFICATE)).unwrap();
                acceptor(None, dir.path()).unwrap();
                assert_eq!(fs::read(dir.path().join(CERTIFICATE)).unwrap(), made, "made once");
            }
        }
    }

    #[test]
    fn an_operators_files_are_never_written() {
        let dir = tempfile::TempDir::new().unwrap();
        acceptor(None, dir.path()).unwrap();
        let files = CertificateFiles { certificate: dir.path().join(CERTIFICATE), key: dir.path().join(KEY) };
        let older = tempfile::TempDir::new().unwrap();
        acceptor(None, older.path()).unwrap();
        for kind in CUTS {
            let whole = fs::read(&files.key).unwrap();
            cut(&files.key, kind, older.path());
            let left = fs::read(&files.key).ok();
            assert!(acceptor(Some(&files), dir.path()).is_err(), "{kind:?}");
            assert_eq!(fs::read(&files.key).ok(), left);
            fs::write(&files.key, whole).unwrap();
        }
    }
}
