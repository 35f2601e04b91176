//! A throw-away certificate authority: the cluster's one root, the API server's certificate, a client certificate for
//! anyone a test wants to be, and the key pair that signs service account tokens.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The names under which the control plane is reached, from outside and (in certificates only) from pods.
pub const SERVER_NAMES: [&str; 7] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
];

/// A certificate and its private key, both PEM; the key is PKCS#8, ECDSA P-256.
#[derive(Clone)]
pub struct Credentials {
    /// `CERTIFICATE` block of the leaf.
    pub certificate: String,
    /// `PRIVATE KEY` block.
    pub key: String,
}

impl Credentials {
    /// Certificate and key in one text, as kubelet keeps them in `kubelet-client-current.pem`.
    #[must_use]
    pub fn bundle(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }
}

/// A certificate authority that lives as long as one test.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new root named `kerf-tests`.
    ///
    /// # Errors
    /// When no key can be generated.
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

    /// The root certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The root's private key, PEM; kube-controller-manager signs certificate requests with it.
    #[must_use]
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A server certificate for [`SERVER_NAMES`] (DNS names and IP addresses).
    ///
    /// # Errors
    /// When signing fails.
    pub fn server(&self) -> Result<Credentials> {
        let mut params = CertificateParams::new(SERVER_NAMES.map(String::from))
            .context("a server name is neither a DNS name nor an address")?;
        params.distinguished_name = name("kube-apiserver", None);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate: Kubernetes takes the common name as user and the organization as group; an empty group is none.
    ///
    /// # Errors
    /// When signing fails.
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

/// The key pair that signs and verifies service account tokens.
pub struct ServiceAccountKey {
    /// `PRIVATE KEY` block, PKCS#8, ECDSA P-256.
    pub private: String,
    /// `PUBLIC KEY` block.
    pub public: String,
}

impl ServiceAccountKey {
    /// Makes a new pair.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn generate() -> Result<Self> {
        let key = KeyPair::generate().context("cannot generate the service account key")?;
        Ok(Self { private: key.serialize_pem(), public: key.public_key_pem() })
    }
}

/// Writes a new file that only its owner may read. Refuses to replace one.
///
/// # Errors
/// When the file exists or cannot be written; names it.
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
