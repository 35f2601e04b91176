//! Kubeconfig texts with everything embedded, and `kube` clients made from them, so that what a test hands to a program
//! is what it uses itself.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::pki::Credentials;

/// A kubeconfig (JSON, which is YAML) with one cluster, one user, one context, all called `kerf`, and no file references.
#[must_use]
pub fn render(url: &str, authority: &str, credentials: &Credentials) -> String {
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kerf", "cluster": {
            "server": url,
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": "kerf", "user": {
            "client-certificate-data": STANDARD.encode(&credentials.certificate),
            "client-key-data": STANDARD.encode(&credentials.key),
        }}],
        "contexts": [{"name": "kerf", "context": {"cluster": "kerf", "user": "kerf"}}],
        "current-context": "kerf",
    });
    format!("{document:#}\n")
}

/// The client configuration that a kubeconfig text describes, with proxies of the environment ignored.
///
/// # Errors
/// When the text is no kubeconfig, or refers to what does not exist.
pub async fn config(text: &str) -> Result<Config> {
    let kubeconfig = Kubeconfig::from_yaml(text).context("not a kubeconfig")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("a kubeconfig that no client can use")?;
    config.proxy_url = None;
    Ok(config)
}

/// A client for a kubeconfig text. It belongs to the tokio runtime it is made in: do not keep it in a `static`.
///
/// # Errors
/// As [`config`]; also when the certificates cannot be read.
pub async fn client(text: &str) -> Result<Client> {
    from_config(config(text).await?)
}

/// A client for a configuration, perhaps one with other time-outs or retries than [`config`] gives.
///
/// # Errors
/// When the certificates cannot be read.
pub fn from_config(config: Config) -> Result<Client> {
    install_tls();
    Client::try_from(config).context("cannot make a client for the control plane")
}

/// Chooses ring for all of rustls. With two providers in one graph rustls would refuse to choose by itself.
pub fn install_tls() {
    // An error means that a provider is installed already, which is all that is wanted.
    drop(rustls::crypto::ring::default_provider().install_default());
}
