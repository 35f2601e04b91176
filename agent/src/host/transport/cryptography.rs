//! Cryptography of TLS: AES and NIST's curves. Every EC2 machine has them in hardware or nearly so, and every API server of
//! Kubernetes and every endpoint of AWS supports them. ring's alternative, ChaCha20 and Curve25519, would add a thirtieth to
//! the size of the program.

use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::crypto::ring::sign::{RsaSigningKey, any_ecdsa_type};
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::{PrivateKeyDer, SignatureVerificationAlgorithm};
use rustls::sign::SigningKey;
use rustls::{Error, SignatureScheme, SupportedCipherSuite};
use webpki::ring as algorithm;

const SUITES: [SupportedCipherSuite; 6] = [
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// Algorithms of signatures in certificates.
const CERTIFICATES: &[&dyn SignatureVerificationAlgorithm] = &[
    algorithm::ECDSA_P256_SHA256,
    algorithm::ECDSA_P256_SHA384,
    algorithm::ECDSA_P384_SHA256,
    algorithm::ECDSA_P384_SHA384,
    algorithm::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    algorithm::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    algorithm::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
    algorithm::RSA_PKCS1_2048_8192_SHA256,
    algorithm::RSA_PKCS1_2048_8192_SHA384,
    algorithm::RSA_PKCS1_2048_8192_SHA512,
    algorithm::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
    algorithm::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
    algorithm::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
];

/// Algorithms by which a server proves that a certificate is its own. TLS 1.2 does not fix the curve.
const HANDSHAKES: &[(SignatureScheme, &[&dyn SignatureVerificationAlgorithm])] = &[
    (SignatureScheme::ECDSA_NISTP384_SHA384, &[algorithm::ECDSA_P384_SHA384, algorithm::ECDSA_P256_SHA384]),
    (SignatureScheme::ECDSA_NISTP256_SHA256, &[algorithm::ECDSA_P256_SHA256, algorithm::ECDSA_P384_SHA256]),
    (SignatureScheme::RSA_PSS_SHA512, &[algorithm::RSA_PSS_2048_8192_SHA512_LEGACY_KEY]),
    (SignatureScheme::RSA_PSS_SHA384, &[algorithm::RSA_PSS_2048_8192_SHA384_LEGACY_KEY]),
    (SignatureScheme::RSA_PSS_SHA256, &[algorithm::RSA_PSS_2048_8192_SHA256_LEGACY_KEY]),
    (SignatureScheme::RSA_PKCS1_SHA512, &[algorithm::RSA_PKCS1_2048_8192_SHA512]),
    (SignatureScheme::RSA_PKCS1_SHA384, &[algorithm::RSA_PKCS1_2048_8192_SHA384]),
    (SignatureScheme::RSA_PKCS1_SHA256, &[algorithm::RSA_PKCS1_2048_8192_SHA256]),
];

/// Returns the provider of all connections.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: SUITES.to_vec(),
        kx_groups: vec![kx_group::SECP256R1, kx_group::SECP384R1],
        signature_verification_algorithms: WebPkiSupportedAlgorithms { all: CERTIFICATES, mapping: HANDSHAKES },
        secure_random: &Ring,
        key_provider: &Ring,
    })
}

#[derive(Debug)]
struct Ring;

impl SecureRandom for Ring {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        SystemRandom::new().fill(bytes).map_err(|_| GetRandomFailed)
    }
}

impl KeyProvider for Ring {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        match RsaSigningKey::new(&key) {
            Ok(rsa) => Ok(Arc::new(rsa)),
            Err(_) => any_ecdsa_type(&key),
        }
    }
}
