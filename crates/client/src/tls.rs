//! TLS on the side that connects.
//!
//! A server's certificate is verified against roots, unless the caller says aloud that any is accepted; that keeps listeners
//! out and lets impostors in.

use std::{fmt, io, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    },
};

/// How a client uses TLS.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

/// Which servers are believed to be who they say.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Those with a certificate that one of these signed, or that is one of these: PEM.
    Roots(&'a [u8]),
    /// Every certificate, unverified. For tests.
    Anyone,
}

/// Who the client is, for servers that ask: a certificate chain and its key, both PEM.
#[derive(Clone, Copy)]
pub struct ClientCertificate<'a> {
    /// The certificate and those that signed it.
    pub chain: &'a [u8],
    /// Its private key.
    pub key: &'a [u8],
}

/// Without the key, which must not end up in a log.
impl fmt::Debug for ClientCertificate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// TLS cannot be set up from what was given.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTls {
    /// No certificate could be read.
    #[error("the roots hold no usable certificate: {0}")]
    Roots(String),
    /// The client's own certificate or key could not be read.
    #[error("the client's certificate or key cannot be used: {0}")]
    Certificate(String),
    /// The TLS library refused the settings.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

impl Tls {
    /// Checks servers as `trust` says, and shows a certificate if one is given.
    pub fn new(trust: Trust<'_>, certificate: Option<ClientCertificate<'_>>) -> Result<Tls, InvalidTls> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match trust {
            Trust::Roots(pem) => builder.with_root_certificates(roots(pem)?),
            Trust::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
            }
        };
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(ClientCertificate { chain, key }) => {
                let unusable = |why: &dyn fmt::Display| InvalidTls::Certificate(why.to_string());
                let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(&error))?;
                builder.with_client_auth_cert(chain.map_err(|error| unusable(&error))?, key)?
            }
        };
        Ok(Tls(Arc::new(config)))
    }

    /// The same for HTTP/2, which servers want to be told of.
    #[must_use]
    pub fn for_http2(&self) -> Tls {
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Tls(Arc::new(config))
    }

    /// The settings, for a connection that is not tokio's.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.0.clone()
    }

    /// Begins TLS on a connection to `address`, `host:port`.
    pub async fn connect(&self, address: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        TlsConnector::from(self.0.clone()).connect(name, stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, InvalidTls> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| InvalidTls::Roots(error.to_string()))?;
        // A bundle of a system holds old certificates that cannot be read; the others count.
        drop(roots.add(certificate));
    }
    if roots.is_empty() { Err(InvalidTls::Roots("there is none".to_owned())) } else { Ok(roots) }
}

/// Believes every certificate; the handshake's signatures are checked all the same.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_must_hold_a_certificate() {
        assert!(Tls::new(Trust::Anyone, None).is_ok());
        for pem in [&b""[..], b"no PEM"] {
            assert!(matches!(Tls::new(Trust::Roots(pem), None), Err(InvalidTls::Roots(_))));
        }
        let certificate = ClientCertificate { chain: b"", key: b"" };
        assert!(matches!(Tls::new(Trust::Anyone, Some(certificate)), Err(InvalidTls::Certificate(_))));
    }
}
