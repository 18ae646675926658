//! Certificates of clients: which are trusted, and which user one stands for.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use tokio_rustls::rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::CertificateDer,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use super::{TlsError, certificate::certificates, x509::Facts};

/// What clients are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities whose certificates are trusted (PEM).
    pub authorities: PathBuf,
    /// Whether a client without a certificate is refused. The HTTP port never refuses one in the handshake, for health checks
    /// have none; there the pages that are not open to everybody ask for it.
    pub required: bool,
    pub user_field: UserField,
}

/// Where a certificate has the name of its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserField {
    /// The common name of its subject, if there is one and no other.
    CommonName,
    /// The first DNS name among its alternative names.
    Dns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the user of a certificate is its cn or its dns name")]
pub struct UnknownField;

impl FromStr for UserField {
    type Err = UnknownField;

    fn from_str(text: &str) -> Result<UserField, UnknownField> {
        match text {
            "cn" => Ok(UserField::CommonName),
            "dns" => Ok(UserField::Dns),
            _ => Err(UnknownField),
        }
    }
}

/// The verified certificate of a connection's client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// The user that it stands for; `None` if the field for that is empty or ambiguous.
    pub user: Option<Arc<str>>,
}

impl ClientCertificates {
    pub(super) fn verifier(
        &self,
        required: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let unusable = |why: String| TlsError::Pem { file: self.authorities.display().to_string(), why };
        let roots = Arc::new(roots(&self.authorities)?);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let builder = if required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| unusable(error.to_string()))
    }

    /// Of a certificate that was verified.
    pub(super) fn read(&self, certificate: &CertificateDer<'_>) -> ClientCertificate {
        let facts = Facts::of(certificate);
        let user = facts.and_then(|facts| match self.user_field {
            // Which of several is meant cannot be known.
            UserField::CommonName => <[String; 1]>::try_from(facts.common_names).ok().map(|[name]| name),
            UserField::Dns => facts.dns_names.into_iter().next(),
        });
        ClientCertificate { user: user.filter(|name| !name.is_empty()).map(Arc::from) }
    }
}

fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::Pem { file: file.display().to_string(), why: error.to_string() })?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn user(common_names: &[&str], dns_names: &[&str], user_field: UserField) -> Option<String> {
        let names = dns_names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for name in common_names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let clients = ClientCertificates { authorities: PathBuf::new(), required: true, user_field };
        clients.read(certificate.der()).user.map(|user| user.to_string())
    }

    #[test]
    fn a_certificate_stands_for_the_user_in_the_chosen_field() {
        use UserField::{CommonName, Dns};
        assert_eq!(user(&["app"], &["a.example", "b.example"], CommonName).as_deref(), Some("app"));
        assert_eq!(user(&["app"], &["a.example", "b.example"], Dns).as_deref(), Some("a.example"));
        assert_eq!(user(&[], &["a.example"], CommonName), None);
        assert_eq!(user(&[""], &[], CommonName), None);
        assert_eq!(user(&["app"], &[], Dns), None);
    }

    #[test]
    fn authorities_that_are_none_are_named() {
        let dir = tempfile::TempDir::new().unwrap();
        let authorities = dir.path().join("ca.pem");
        let clients = ClientCertificates { authorities, required: true, user_field: UserField::CommonName };
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        for content in
            [None, Some(""), Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")]
        {
            if let Some(content) = content {
                std::fs::write(&clients.authorities, content).unwrap();
            }
            let error = clients.verifier(true, &provider).err().unwrap().to_string();
            assert!(error.contains("ca.pem"), "{error}");
        }
    }
}
