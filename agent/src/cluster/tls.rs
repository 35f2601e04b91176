//! TLS to the API server. Certificates are read for each new connection, because kubelet rotates its certificate at run time.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::access::{Access, Credentials};
use super::error::ClusterError;
use crate::host::transport::{self, Transport};

/// Completes a TLS handshake.
pub(super) async fn handshake(access: &Access, wire: Transport) -> Result<Transport, ClusterError> {
    let name = ServerName::try_from(access.host.clone());
    let name = name.map_err(|error| unusable("server name", error))?;
    let connected = transport::secure(config(access)?, name, wire).await;
    connected.map_err(|source| ClusterError::Connect { server: access.server(), source })
}

fn config(access: &Access) -> Result<ClientConfig, ClusterError> {
    let mut roots = RootCertStore::empty();
    if let Some(authority) = &access.authority {
        for certificate in certificates("certificate-authority", &authority.read()?)? {
            roots.add(certificate).map_err(|error| unusable("certificate-authority", error))?;
        }
    }
    let builder =
        ClientConfig::builder_with_provider(transport::cryptography::provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable("protocol versions", error))?;
    let builder = builder.with_root_certificates(roots);
    let Credentials::Certificate { certificate, key } = &access.credentials else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates("client-certificate", &certificate.read()?)?;
    let key = PrivateKeyDer::from_pem_slice(&key.read()?).map_err(|error| unusable("client-key", error))?;
    let config = builder.with_client_auth_cert(chain, key);
    config.map_err(|error| unusable("client-certificate", error))
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ClusterError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let parsed = parsed.map_err(|error| unusable(what, error))?;
    if parsed.is_empty() {
        return Err(unusable(what, "no certificate found"));
    }
    Ok(parsed)
}

fn unusable(what: &'static str, problem: impl std::fmt::Display) -> ClusterError {
    ClusterError::Tls { what, problem: problem.to_string() }
}
