//! The smaller files of a node: kubelet's kubeconfig and the environment file that carries its command line.

use serde_json::{Value, json};

use super::facts::{CLIENT_CERTIFICATE, Facts};
use super::plan::{CA_BUNDLE, KUBECONFIG, KUBELET_CONFIG, KUBELET_CONFIG_DIR};

const KUBELET_ARGUMENTS: &str = "NODEADM_KUBELET_ARGS";

/// kubelet's kubeconfig, YAML: the client certificate where the machine has one, else tokens of the instance's role.
#[must_use]
pub fn kubeconfig(facts: &Facts) -> String {
    let cluster = &facts.user_data.config.spec.cluster;
    let user = if facts.has_client_certificate {
        json!({"client-certificate": CLIENT_CERTIFICATE, "client-key": CLIENT_CERTIFICATE})
    } else {
        json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "args": ["eks", "get-token", "--cluster-name", cluster.name, "--region", facts.identity.region],
            "command": "aws",
        }})
    };
    let document = json!({
        "apiVersion": "v1",
        "clusters": [{
            "cluster": {"certificate-authority": CA_BUNDLE, "server": cluster.api_server_endpoint},
            "name": "kubernetes",
        }],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "kubelet"}, "name": "kubelet"}],
        "current-context": "kubelet",
        "kind": "Config",
        "users": [{"name": "kubelet", "user": user}],
    });
    yaml(&document)
}

/// YAML, or JSON (which is YAML) in the case that the writer refuses.
fn yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).unwrap_or_else(|_| document.to_string())
}

/// The environment file of kubelet's unit: generated flags sorted by name, then the user's, so that these win.
#[must_use]
pub fn kubelet_environment(facts: &Facts, node_name: &str, has_drop_in: bool) -> String {
    let mut flags = vec![
        ("cloud-provider", "external"),
        ("config", KUBELET_CONFIG),
        ("hostname-override", node_name),
        ("kubeconfig", KUBECONFIG),
        ("node-ip", &facts.node_ip),
        ("runtime-cgroups", "/runtime.slice/containerd.service"),
    ];
    let mut variables = Vec::new();
    if has_drop_in {
        flags.push(("config-dir", KUBELET_CONFIG_DIR));
        if !facts.kubelet.at_least(30) {
            variables.push(("KUBELET_CONFIG_DROPIN_DIR_ALPHA", "on".to_owned()));
        }
    }
    flags.sort_unstable();
    let generated = flags.into_iter().map(|(name, value)| format!("--{name}={value}"));
    let user = facts.user_data.config.spec.kubelet.flags.iter().cloned();
    let arguments: Vec<String> = generated.chain(user).collect();
    variables.push((KUBELET_ARGUMENTS, arguments.join(" ")));
    variables.into_iter().map(|(name, value)| format!("{name}={}\n", quoted(&value))).collect()
}

/// A value in the double quotes of systemd's EnvironmentFile syntax, where a backslash protects `"` and itself.
fn quoted(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
    format!("\"{value}\"")
}
