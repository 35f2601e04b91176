//! Renders user data: the settings for each image family, the resulting document, and what deserves a word. Each family has its form in a
//! file of its own below.

mod al2;
mod al2023;
mod arguments;
mod bottlerocket;
mod multipart;
mod windows;
mod wrong;

use std::collections::BTreeMap;

use api::nodeclass::{AmiFamily, KubeletConfiguration};
use api::{Taint, label, taint};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::LIMIT;
use crate::agent;

pub use wrong::{RenderError, Warning};

/// Settings for the instance of one NodeClaim, before they take the form of an image family.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bootstrap {
    /// Name of the EKS cluster.
    pub cluster_name: String,
    /// URL of the API server.
    pub cluster_endpoint: String,
    /// The cluster's CA bundle: base64 of PEM.
    pub cluster_ca: String,
    /// Service CIDR, IPv4 or IPv6; only Amazon Linux 2023 needs it.
    pub cluster_cidr: String,
    /// The NodeClaim's labels and its capacity type. Those in Kubernetes' restricted domains are left out when they are written:
    /// kubelet may not set them, they reach the Node at registration.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints` and then `spec.startupTaints` of the NodeClaim.
    pub taints: Vec<Taint>,
    /// Number of pods that kubelet admits; `None` leaves it to `kubelet.max_pods`, and without that to the image.
    pub max_pods: Option<u32>,
    /// Addresses of the cluster's DNS service where the class names none; empty leaves the choice to the machine.
    pub cluster_dns: Vec<String>,
    /// The class's `spec.kubelet`.
    pub kubelet: KubeletConfiguration,
    /// `instanceStorePolicy: RAID0`.
    pub raid0: bool,
    /// Release of the image, such as `1.46.0`, or `latest`; only Bottlerocket asks. `None` when it is not known.
    pub image_release: Option<String>,
    /// The class's `spec.userData`, in the form that its image family reads.
    pub user_data: Option<String>,
    /// Present when the class's machines run the agent: its settings, a YAML document of [`crate::agent::AgentSettings`], may be
    /// empty.
    pub agent: Option<String>,
}

/// User data as EC2 gets it, but for base64 (see [`encode`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// The document.
    pub text: String,
    /// What the class's owner should know; the document is of use all the same.
    pub warnings: Vec<Warning>,
}

/// Renders user data for machines of one image family. The same input always gives the same bytes.
///
/// # Errors
/// [`RenderError`], also for a document beyond [`LIMIT`].
pub fn render(family: AmiFamily, input: &Bootstrap) -> Result<Document, RenderError> {
    if let Some(settings) = input.agent_settings() {
        agent::parse(settings).map_err(RenderError::Agent)?;
    }
    let mut document = match family {
        AmiFamily::Al2 => al2::render(input)?.into(),
        AmiFamily::Al2023 => al2023::render(input)?.into(),
        AmiFamily::Bottlerocket => bottlerocket::render(input)?,
        AmiFamily::Custom if input.agent_settings().is_some() => return Err(RenderError::NoAgentPart),
        AmiFamily::Custom => input.user_data.clone().unwrap_or_default().into(),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => windows::render(input)?.into(),
    };
    let size = document.text.len();
    check_size(size)?;
    document.warnings.extend((size * 10 >= LIMIT * 9).then_some(Warning::NearLimit { size }));
    Ok(document)
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

impl From<String> for Document {
    fn from(text: String) -> Self {
        Self { text, warnings: Vec::new() }
    }
}

impl Bootstrap {
    /// Labels that kubelet may set on its own Node, by key.
    fn node_labels(&self) -> BTreeMap<&str, &str> {
        let mut labels: BTreeMap<&str, &str> =
            self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        labels.insert(label::DO_NOT_SYNC_TAINTS, "true");
        labels.retain(|key, _| !is_restricted(key));
        labels
    }

    /// Taints that the Node is born with: the claim's, and the one that stays until the controller has seen it.
    fn node_taints(&self) -> Vec<Taint> {
        let unregistered = Taint::new(taint::UNREGISTERED, taint::NO_EXECUTE);
        let mut all = self.taints.clone();
        if !all.iter().any(|taint| taint.matches(&unregistered)) {
            all.push(unregistered);
        }
        all
    }

    fn pods(&self) -> Option<u32> {
        self.max_pods.or_else(|| self.kubelet.max_pods.and_then(|pods| u32::try_from(pods).ok()))
    }

    /// Addresses of DNS: the class's, else the cluster's.
    fn dns(&self) -> &[String] {
        let own = self.kubelet.cluster_dns.as_deref().filter(|addresses| !addresses.is_empty());
        own.unwrap_or(&self.cluster_dns)
    }

    fn user_text(&self) -> &str {
        self.user_data.as_deref().unwrap_or_default()
    }

    /// The agent's settings, if there are any.
    fn agent_settings(&self) -> Option<&str> {
        self.agent.as_deref().filter(|settings| !settings.trim().is_empty())
    }
}

/// Whether kubelet may not set the label on its own Node (admission plugin NodeRestriction), by its domain.
fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"]
        .iter()
        .any(|restricted| domain.strip_suffix(restricted).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}
