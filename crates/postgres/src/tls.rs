//! Encryption, as far as `sslmode` asks for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everloom_core::{Code, Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What is checked about the server, as libpq's `sslmode` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nothing: whoever answers is believed.
    Nothing,
    /// That a known authority vouches for it.
    Chain,
    /// That one does so for this very name.
    ChainAndName,
}

/// Who is believed to vouch for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Whom this machine believes.
    System,
    /// Whose certificates are in this file.
    File(PathBuf),
}

impl Roots {
    fn load(&self) -> Result<RootCertStore> {
        match self {
            Self::System => system_roots(),
            Self::File(path) => roots_in(path),
        }
    }
}

pub(crate) fn connector(verify: Verify, roots: &Roots) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::bug(format!("TLS can not be set up: {error}")))?;
    let config = match verify {
        Verify::ChainAndName => builder.with_root_certificates(roots.load()?),
        Verify::Chain | Verify::Nothing => {
            let authorities = match verify {
                Verify::Nothing => None,
                _ => Some(authorities(&provider, roots)?),
            };
            let lenient = Lenient { authorities, provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
        }
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn authorities(provider: &Arc<CryptoProvider>, roots: &Roots) -> Result<Arc<WebPkiServerVerifier>> {
    let roots = Arc::new(roots.load()?);
    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider))
        .build()
        .map_err(|error| Error::new(Code::Unavailable, format!("no certificates: {error}")))
}

fn system_roots() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Error::new(
            Code::Unavailable,
            "this machine has no certificates to check the server's against; install them, set \
             SSL_CERT_FILE, or name a file with sslrootcert",
        ));
    }
    Ok(roots)
}

fn roots_in(path: &Path) -> Result<RootCertStore> {
    let refused = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Error::invalid("url", format!("sslrootcert {path} is not a file of certificates ({why})"))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))? {
        let certificate = certificate.map_err(|error| refused(&error))?;
        roots.add(certificate).map_err(|error| refused(&error))?;
    }
    match roots.is_empty() {
        true => Err(refused(&"there is none in it")),
        false => Ok(roots),
    }
}

/// Why a server is not who it should be or can not be talked to in secret, if that is the error.
pub(crate) fn complaint(error: &tokio_postgres::Error) -> Option<String> {
    let inner = std::error::Error::source(error)?;
    if inner.to_string() == "server does not support TLS" {
        return Some(
            "offers no TLS, which sslmode asks for; turn on `ssl` at the server, or choose \
             sslmode=prefer where nobody can listen"
                .into(),
        );
    }
    let wrapped = inner.downcast_ref::<std::io::Error>()?.get_ref()?;
    let rustls::Error::InvalidCertificate(problem) = wrapped.downcast_ref::<rustls::Error>()?
    else {
        return None;
    };
    Some(match problem {
        // An authority of the same name with another key has not signed it either.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "shows a certificate that no known authority has signed; name the authority's with \
             sslrootcert"
                .into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("shows the certificate of another server; correct the host ({problem})")
        }
        _ => format!("shows a certificate that is not valid; replace it ({problem})"),
    })
}

/// Does not ask for the name, and without authorities not for anything.
#[derive(Debug)]
struct Lenient {
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        let checked = authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match checked {
            // Names are checked last: everything else is in order.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
