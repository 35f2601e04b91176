//! Writing user data for Amazon Linux 2023: the user's own content first, the generated NodeConfig last, so that
//! nodeadm and our agent let the generated values win and keep the user's flags.

use std::collections::BTreeMap;

use api::{Taint, label, taint};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{LIMIT, NODE_CONFIG_TYPE};
use crate::agent;
use crate::document;
use crate::json::sorted;
use crate::mime::{self, MimeError, Part};
use crate::nodeconfig::{API_VERSION, KIND};
use crate::quote::problem;

/// What an Amazon Linux 2023 machine of one NodeClaim is told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Al2023 {
    /// Name of the EKS cluster.
    pub cluster_name: String,
    /// URL of the API server.
    pub cluster_endpoint: String,
    /// The cluster's CA bundle: base64 of PEM.
    pub cluster_ca: String,
    /// Service CIDR, IPv4 or IPv6.
    pub cluster_cidr: String,
    /// The NodeClaim's labels and its capacity type. Those in Kubernetes' restricted domains are left out here:
    /// kubelet may not set them, they reach the Node at registration.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints` and then `spec.startupTaints` of the NodeClaim.
    pub taints: Vec<Taint>,
    /// Number of pods that kubelet admits.
    pub max_pods: Option<u32>,
    /// Addresses of the cluster's DNS service; empty leaves the choice to the node.
    pub cluster_dns: Vec<String>,
    /// Further fields of KubeletConfiguration from the class's `spec.kubelet`.
    pub kubelet: Map<String, Value>,
    /// `instanceStorePolicy: RAID0`.
    pub raid0: bool,
    /// The class's `spec.userData`: a MIME document, a NodeConfig, or a shell script.
    pub user_data: Option<String>,
    /// The agent's settings, a YAML document of [`crate::agent::AgentSettings`].
    pub agent: Option<String>,
}

/// Why user data could not be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenderError {
    /// The service CIDR is not known yet.
    #[error("the cluster's service CIDR is not known; wait for it, or set it")]
    NoCidr,
    /// The class's user data is a broken MIME document.
    #[error("spec.userData of the EC2NodeClass begins like MIME but is not readable multipart")]
    UserData(#[source] MimeError),
    /// A part could not be written.
    #[error("spec.userData of the EC2NodeClass cannot be put into a multipart document")]
    Part(#[source] MimeError),
    /// The generated NodeConfig could not be written as YAML.
    #[error("the generated NodeConfig cannot be written as YAML ({problem})")]
    Yaml {
        /// What the writer says.
        problem: String,
    },
    /// EC2 refuses user data of this size.
    #[error("user data would have {size} bytes, EC2 takes {LIMIT}; shorten spec.userData or compress it")]
    TooLarge {
        /// Bytes before base64.
        size: usize,
    },
}

/// Renders user data as a MIME document (not base64: see [`encode`]).
///
/// # Errors
/// [`RenderError`], also for a document beyond [`LIMIT`].
pub fn render_al2023(input: &Al2023) -> Result<String, RenderError> {
    let mut parts = user_parts(input.user_data.as_deref().unwrap_or_default())?;
    parts.extend(input.agent.as_deref().map(|settings| Part::new(agent::MEDIA_TYPE, settings)));
    parts.push(Part::new(NODE_CONFIG_TYPE, generated(input)?));
    let document = mime::render(&parts).map_err(RenderError::Part)?;
    check_size(document.len())?;
    Ok(String::from_utf8_lossy(&document).into_owned())
}

/// Base64 of rendered user data, as CreateLaunchTemplate wants it.
#[must_use]
pub fn encode(user_data: &str) -> String {
    STANDARD.encode(user_data)
}

/// Whether `size` bytes of user data (before base64) fit EC2's limit.
///
/// # Errors
/// [`RenderError::TooLarge`].
pub fn check_size(size: usize) -> Result<(), RenderError> {
    if size > LIMIT { Err(RenderError::TooLarge { size }) } else { Ok(()) }
}

fn user_parts(user_data: &str) -> Result<Vec<Part>, RenderError> {
    if user_data.trim().is_empty() {
        return Ok(Vec::new());
    }
    if mime::looks_like_mime(user_data.as_bytes()) {
        let parts = mime::parse(user_data.as_bytes()).map_err(RenderError::UserData)?;
        let plain = |part: Part| {
            let content_type = part.header("Content-Type").unwrap_or("text/plain").to_owned();
            Part::new(&content_type, part.body)
        };
        return Ok(parts.into_iter().map(plain).collect());
    }
    let is_mapping = !user_data.starts_with("#!") && document::read::<Map<String, Value>>(user_data).is_ok();
    let content_type = if is_mapping { NODE_CONFIG_TYPE } else { "text/x-shellscript; charset=\"us-ascii\"" };
    Ok(vec![Part::new(content_type, user_data)])
}

fn generated(input: &Al2023) -> Result<String, RenderError> {
    if input.cluster_cidr.is_empty() {
        return Err(RenderError::NoCidr);
    }
    let local_storage = if input.raid0 { json!({"strategy": "RAID0"}) } else { json!({}) };
    let document = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {},
        "spec": {
            "cluster": {
                "apiServerEndpoint": input.cluster_endpoint,
                "certificateAuthority": input.cluster_ca,
                "cidr": input.cluster_cidr,
                "name": input.cluster_name,
            },
            "containerd": {},
            "instance": {"localStorage": local_storage},
            "kubelet": {"config": kubelet_config(input), "flags": flags(&input.labels)},
        },
    });
    let yaml = serde_saphyr::to_string(&sorted(document))
        .map_err(|error| RenderError::Yaml { problem: problem(&error.to_string()) })?;
    Ok(format!("# Generated by Kerf; the parts above are the EC2NodeClass's own\n{yaml}"))
}

fn kubelet_config(input: &Al2023) -> Value {
    let mut config = input.kubelet.clone();
    if let Some(max_pods) = input.max_pods {
        config.insert("maxPods".to_owned(), json!(max_pods));
    }
    if !input.cluster_dns.is_empty() {
        config.insert("clusterDNS".to_owned(), json!(input.cluster_dns));
    }
    config.insert("registerWithTaints".to_owned(), json!(register_with_taints(&input.taints)));
    Value::Object(config)
}

fn register_with_taints(taints: &[Taint]) -> Vec<Taint> {
    let unregistered = Taint::new(taint::UNREGISTERED, taint::NO_EXECUTE);
    let mut all = taints.to_vec();
    if !all.iter().any(|taint| taint.matches(&unregistered)) {
        all.push(unregistered);
    }
    all
}

fn flags(labels: &BTreeMap<String, String>) -> Vec<String> {
    let mut labels = labels.clone();
    labels.insert(label::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    let pairs: Vec<String> =
        labels.iter().filter(|(key, _)| !is_restricted(key)).map(|(key, value)| format!("{key}={value}")).collect();
    vec![format!("--node-labels=\"{}\"", pairs.join(","))]
}

/// Whether kubelet may not set the label on its own Node (admission plugin NodeRestriction), by its domain.
fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"]
        .iter()
        .any(|restricted| domain.strip_suffix(restricted).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}
