//! The certificate: the operator's, or one made at the first start. Official clients do not verify it by default.

use std::{
    fs, io,
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

/// Accepts TLS with the operator's certificate, or with the one in `dir`, which is made when there is none.
pub(crate) fn acceptor(operators: Option<&CertificateFiles>, dir: &Path) -> Result<TlsAcceptor, TlsError> {
    let CertificateFiles { certificate, key } = match operators {
        Some(files) => files.clone(),
        None => own(dir)?,
    };
    let pem = |file: &Path, why: pem::Error| {
        let file = file.display().to_string();
        match why {
            pem::Error::Io(source) => TlsError::Io { file, source },
            why => TlsError::Pem { file, why: why.to_string() },
        }
    };
    let chain = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect)
        .map_err(|error| pem(&certificate, error))?;
    let private = PrivateKeyDer::from_pem_file(&key).map_err(|error| pem(&key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)?;
    // The Go client insists on it.
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The broker's own certificate.
fn own(dir: &Path) -> Result<CertificateFiles, TlsError> {
    let (certificate, key) = (dir.join(CERTIFICATE), dir.join(KEY));
    if !certificate.exists() || !key.exists() {
        make(&certificate, &key)?;
    }
    Ok(CertificateFiles { certificate, key })
}

fn make(certificate: &Path, key: &Path) -> Result<(), TlsError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    write(key, &made.signing_key.serialize_pem(), true)?;
    write(certificate, &made.cert.pem(), false)
}

fn write(path: &Path, text: &str, secret: bool) -> Result<(), TlsError> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mode = if secret { 0o600 } else { 0o644 };
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| TlsError::Io { file: path.display().to_string(), source })
}
