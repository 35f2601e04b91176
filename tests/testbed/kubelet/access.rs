//! Client from the kubeconfig that the agent wrote, with paths relative to the machine's root. The machines have no AWS CLI:
//! where the kubeconfig runs `aws` for a token, the agent's own plugin runs with the same arguments.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode, KubeConfigOptions, Kubeconfig};

use super::Plugin;
use super::settings::below;
use crate::kubeconfig::from_config;

/// Returns a client with the identity of the kubeconfig at `path`, a path on the machine.
///
/// # Errors
/// Returns an error if the file is missing, is no kubeconfig, or contains neither a client certificate nor a token command of
/// EKS.
pub async fn client(root: &Path, path: &str, plugin: Option<&Plugin>) -> Result<Client> {
    let file = below(root, path);
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let kubeconfig = rooted(root, &text, plugin).with_context(|| format!("{} is no use", file.display()))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.with_context(|| format!("{} cannot be followed", file.display()))?;
    config.proxy_url = None;
    // A plugin runs synchronously, and its requests may be served by the same threads that would block.
    tokio::task::spawn_blocking(move || from_config(config)).await.context("the client was not created")?
}

/// Returns the kubeconfig with every path moved below `root`.
fn rooted(root: &Path, text: &str, plugin: Option<&Plugin>) -> Result<Kubeconfig> {
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
        provide_token(user, plugin)?;
        moved(&mut user.client_certificate);
        moved(&mut user.client_key);
    }
    Ok(kubeconfig)
}

/// Replaces the `aws` command by the plugin; a client certificate needs no change.
fn provide_token(user: &mut AuthInfo, plugin: Option<&Plugin>) -> Result<()> {
    if user.client_certificate.is_some() || user.client_certificate_data.is_some() {
        return Ok(());
    }
    match (user.exec.as_mut(), plugin) {
        (Some(exec), Some(plugin)) => replace(exec, plugin),
        _ => bail!("its user has no client certificate, and there is nothing that could make tokens"),
    }
}

fn replace(exec: &mut ExecConfig, plugin: &Plugin) -> Result<()> {
    let words = exec.args.take().unwrap_or_default();
    let Some(options) = words.strip_prefix(&["eks".to_owned(), "get-token".to_owned()]) else {
        bail!("its user's command is not `aws eks get-token`: {:?} {words:?}", exec.command);
    };
    exec.command = Some(plugin.program.display().to_string());
    exec.args = Some([&["token".to_owned()], options].concat());
    let pair =
        |name: &str, value: &str| [("name", name), ("value", value)].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    exec.interactive_mode = Some(ExecInteractiveMode::Never);
    exec.env = Some(vec![pair("AWS_EC2_METADATA_SERVICE_ENDPOINT", &plugin.endpoint), pair("KERF_LOG_LEVEL", "warn")]);
    Ok(())
}
