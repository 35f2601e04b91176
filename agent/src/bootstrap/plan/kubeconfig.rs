//! kubeconfig of kubelet: with the client certificate where the machine has one, else with tokens of the instance's role. On an
//! Outpost kubelet exchanges the token for a certificate once, so that it works while the region is unreachable.

use super::{BootstrapPlan, CA_BUNDLE, PlanPart};
use crate::bootstrap::facts::{CLIENT_CERTIFICATE, Facts};

/// kubeconfig of kubelet.
pub const KUBECONFIG: &str = "/var/lib/kubelet/kubeconfig";
/// kubeconfig with which kubelet requests its certificate; on Outposts only.
pub const BOOTSTRAP_KUBECONFIG: &str = "/var/lib/kubelet/bootstrap-kubeconfig";

pub(super) fn add(plan: &mut BootstrapPlan, facts: &Facts) {
    let on_outpost = facts.user_data.config.spec.cluster.on_outpost();
    let path = if on_outpost { BOOTSTRAP_KUBECONFIG } else { KUBECONFIG };
    plan.put(PlanPart::Kubelet, path, render(facts));
}

fn render(facts: &Facts) -> String {
    let server = scalar(&facts.user_data.config.spec.cluster.api_server_endpoint);
    let user = if facts.software.client_certificate { certificate() } else { token(facts) };
    format!(
        "---
apiVersion: v1
kind: Config
clusters:
  - name: kubernetes
    cluster:
      certificate-authority: {CA_BUNDLE}
      server: {server}
current-context: kubelet
contexts:
  - name: kubelet
    context:
      cluster: kubernetes
      user: kubelet
users:
  - name: kubelet
    user:
{user}"
    )
}

fn certificate() -> String {
    format!("      client-certificate: {CLIENT_CERTIFICATE}\n      client-key: {CLIENT_CERTIFICATE}\n")
}

fn token(facts: &Facts) -> String {
    let cluster = &facts.user_data.config.spec.cluster;
    let name = if cluster.on_outpost() { &cluster.id } else { &cluster.name };
    let arguments = ["eks", "get-token", "--cluster-name", name, "--region", &facts.identity.region];
    let arguments: String = arguments.iter().map(|argument| format!("          - {}\n", json(argument))).collect();
    format!(
        "      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        command: aws
        args:
{arguments}"
    )
}

/// Returns a plain YAML scalar where the text is an unambiguous URL, a quoted scalar otherwise.
fn scalar(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":/.-_[]".contains(&byte));
    let is_url = text.starts_with("http") && text.contains("://") && !text.ends_with(':');
    if is_plain && is_url { text.to_owned() } else { json(text) }
}

/// Returns a JSON string, which is a double-quoted YAML scalar.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
