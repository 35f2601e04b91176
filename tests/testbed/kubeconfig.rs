//! Kubeconfigs with all data embedded, and `kube` clients from them: a test uses the same kubeconfig as the programs that it
//! starts.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::pki::Credentials;

/// Returns a kubeconfig (JSON, which is YAML) with one cluster, one user and one context, all called `kerf`, and no file
/// references.
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

/// Returns the client configuration of a kubeconfig, without the proxies of the environment.
///
/// # Errors
/// Returns an error if the text is no kubeconfig, or if it has a reference to a missing entry.
pub async fn config(text: &str) -> Result<Config> {
    let kubeconfig = Kubeconfig::from_yaml(text).context("not a kubeconfig")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("a kubeconfig that no client can use")?;
    config.proxy_url = None;
    Ok(config)
}

/// Returns a client for a kubeconfig. The client belongs to the tokio runtime that created it: do not store it in a `static`.
///
/// # Errors
/// Returns the errors of [`config`], or an error if the certificates cannot be read.
pub async fn client(text: &str) -> Result<Client> {
    from_config(config(text).await?)
}

/// Returns a client for a configuration, which may have other timeouts or retries than that of [`config`].
///
/// # Errors
/// Returns an error if the certificates cannot be read.
pub fn from_config(config: Config) -> Result<Client> {
    install_tls();
    Client::try_from(config).context("cannot make a client for the control plane")
}

/// Installs ring as the crypto provider of rustls. With two providers in the build, rustls would not select one by itself.
pub fn install_tls() {
    // An error means that a provider is already installed, which is sufficient.
    drop(rustls::crypto::ring::default_provider().install_default());
}
