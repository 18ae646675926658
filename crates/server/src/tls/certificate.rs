//! The certificate that the broker shows: the operator's, or one that the broker makes at its first start. The official clients do
//! not verify it by default.

use std::path::{Path, PathBuf};

use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject},
};

use super::TlsError;
use crate::durable_file::{self, Readable};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// A certificate chain and its private key, both PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What the files hold.
pub(super) struct Certificate {
    /// The broker's own certificate is the first; there is at least one.
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

impl CertificateFiles {
    /// Where the broker keeps the one that it makes.
    pub(super) fn own(dir: &Path) -> CertificateFiles {
        CertificateFiles { certificate: dir.join(CERTIFICATE), key: dir.join(KEY) }
    }

    pub(super) fn exist(&self) -> bool {
        self.certificate.exists() || self.key.exists()
    }

    pub(super) fn read(&self) -> Result<Certificate, TlsError> {
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unreadable(&self.key, error))?;
        Ok(Certificate { chain: certificates(&self.certificate)?, key })
    }

    /// Makes the broker's own certificate. A power cut between the two files leaves a pair that does not match, which the next
    /// start finds unusable and makes again.
    pub(super) fn make(&self) -> Result<(), TlsError> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        write(&self.key, &made.signing_key.serialize_pem(), Readable::ByOwner)?;
        write(&self.certificate, &made.cert.pem(), Readable::ByAll)
    }
}

/// All certificates of a PEM file; at least one.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(file, error))?;
    if found.is_empty() {
        return Err(unreadable(file, pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn unreadable(file: &Path, why: pem::Error) -> TlsError {
    let file = file.display().to_string();
    match why {
        pem::Error::Io(source) => TlsError::Io { file, source },
        why => TlsError::Pem { file, why: why.to_string() },
    }
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
    use crate::tls::{Config, Tls};

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

    fn open(operators: Option<&CertificateFiles>, dir: &Path) -> Result<Tls, TlsError> {
        Tls::open(&Config { certificate: operators.cloned(), ..Config::default() }, dir)
    }

    #[test]
    fn a_certificate_that_a_power_cut_left_unusable_is_made_again() {
        let older = tempfile::TempDir::new().unwrap();
        open(None, older.path()).unwrap();
        for file in [CERTIFICATE, KEY] {
            for kind in CUTS {
                let dir = tempfile::TempDir::new().unwrap();
                open(None, dir.path()).unwrap();
                cut(&dir.path().join(file), kind, older.path());
                open(None, dir.path()).unwrap_or_else(|error| panic!("{file} {kind:?}: {error}"));
                let made = fs::read(dir.path().join(CERTIFICATE)).unwrap();
                open(None, dir.path()).unwrap();
                assert_eq!(fs::read(dir.path().join(CERTIFICATE)).unwrap(), made, "made once");
            }
        }
    }

    #[test]
    fn an_operators_files_are_never_written() {
        let dir = tempfile::TempDir::new().unwrap();
        open(None, dir.path()).unwrap();
        let files = CertificateFiles { certificate: dir.path().join(CERTIFICATE), key: dir.path().join(KEY) };
        let older = tempfile::TempDir::new().unwrap();
        open(None, older.path()).unwrap();
        for kind in CUTS {
            let whole = fs::read(&files.key).unwrap();
            cut(&files.key, kind, older.path());
            let left = fs::read(&files.key).ok();
            assert!(open(Some(&files), dir.path()).is_err(), "{kind:?}");
            assert_eq!(fs::read(&files.key).ok(), left);
            fs::write(&files.key, whole).unwrap();
        }
    }
}
