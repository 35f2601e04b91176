//! The way in: a client from the kubeconfig that the agent wrote, whose paths begin at the machine's root.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

use super::settings::below;
use crate::kubeconfig::from_config;

/// A client with the identity of the kubeconfig at `path`, a path on the machine.
///
/// # Errors
/// When the file is missing, is no kubeconfig, or names no client certificate.
pub async fn client(root: &Path, path: &str) -> Result<Client> {
    let file = below(root, path);
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let kubeconfig = rooted(root, &text).with_context(|| format!("{} is no use", file.display()))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.with_context(|| format!("{} cannot be followed", file.display()))?;
    config.proxy_url = None;
    from_config(config)
}

/// The kubeconfig with every path moved below `root`.
fn rooted(root: &Path, text: &str) -> Result<Kubeconfig> {
    let mut kubeconfig = Kubeconfig::from_yaml(text).context("it is not a kubeconfig")?;
    let moved = |path: &mut Option<String>| {
        if let Some(path) = path {
            *path = below(root, path).display().to_string();
        }
    };
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        moved(&mut cluster.certificate_authority);
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        require_certificate(user)?;
        moved(&mut user.client_certificate);
        moved(&mut user.client_key);
    }
    Ok(kubeconfig)
}

fn require_certificate(user: &AuthInfo) -> Result<()> {
    if user.client_certificate.is_none() && user.client_certificate_data.is_none() {
        bail!("its user has no client certificate, and the stand-in cannot run an exec plugin");
    }
    Ok(())
}
