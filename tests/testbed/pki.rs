//! Temporary certificate authority: the cluster's only root, the API server's certificate, client certificates for any user,
//! and the key pair that signs service account tokens.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Names of the API server, from outside and (in certificates only) from pods.
pub const SERVER_NAMES: [&str; 7] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
];

/// Certificate and its private key, both PEM; the key is PKCS#8, ECDSA P-256.
#[derive(Clone)]
pub struct Credentials {
    /// `CERTIFICATE` block of the leaf.
    pub certificate: String,
    /// `PRIVATE KEY` block.
    pub key: String,
}

impl Credentials {
    /// Returns certificate and key in one text, as kubelet stores them in `kubelet-client-current.pem`.
    #[must_use]
    pub fn bundle(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }
}

/// Certificate authority for the duration of one test.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a new root named `kerf-tests`.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn create() -> Result<Self> {
        let key = KeyPair::generate().context("cannot generate the authority's key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("kerf-tests", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).context("cannot sign the authority's certificate")?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// Returns the root certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the root's private key, PEM; kube-controller-manager signs certificate requests with it.
    #[must_use]
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Returns a server certificate for [`SERVER_NAMES`] (DNS names and IP addresses).
    ///
    /// # Errors
    /// Returns an error if signing fails.
    pub fn server(&self) -> Result<Credentials> {
        let mut params = CertificateParams::new(SERVER_NAMES.map(String::from))
            .context("a server name is neither a DNS name nor an address")?;
        params.distinguished_name = name("kube-apiserver", None);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Returns a client certificate. Kubernetes uses the common name as user and the organization as group; an empty group is
    /// omitted.
    ///
    /// # Errors
    /// Returns an error if signing fails.
    pub fn client(&self, user: &str, group: &str) -> Result<Credentials> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, Some(group));
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, mut params: CertificateParams, purpose: ExtendedKeyUsagePurpose) -> Result<Credentials> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("cannot generate a key")?;
        let certificate = params.signed_by(&key, &self.issuer).context("cannot sign a certificate")?.pem();
        Ok(Credentials { certificate, key: key.serialize_pem() })
    }
}

/// Key pair that signs and verifies service account tokens.
pub struct ServiceAccountKey {
    /// `PRIVATE KEY` block, PKCS#8, ECDSA P-256.
    pub private: String,
    /// `PUBLIC KEY` block.
    pub public: String,
}

impl ServiceAccountKey {
    /// Generates a new pair.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn generate() -> Result<Self> {
        let key = KeyPair::generate().context("cannot generate the service account key")?;
        Ok(Self { private: key.serialize_pem(), public: key.public_key_pem() })
    }
}

/// Writes a new file that only its owner may read; never replaces an existing file.
///
/// # Errors
/// Returns an error with the file's name if it exists or cannot be written.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    let write = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes());
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn name(common: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization.filter(|text| !text.is_empty()) {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common);
    name
}
