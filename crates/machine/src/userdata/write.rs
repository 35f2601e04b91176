//! Renderer of user data: settings for each image family, the resulting document, and warnings. Each module below renders the
//! format of one family.

mod al2;
mod al2023;
mod arguments;
mod bottlerocket;
mod error;
mod multipart;
mod user_text;
mod windows;

use std::collections::BTreeMap;

use api::nodeclass::{AmiFamily, KubeletConfiguration};
use api::{Taint, label, taint};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::LIMIT;
use crate::agent;
use crate::nodeconfig::labels;

pub use error::{RenderError, Warning};

/// Maximum size of a class's user data before it is parsed, in bytes. Comments and carriage returns that are left out count, so
/// the limit is far above that of the document.
const LONGEST_TEXT: usize = 4 * LIMIT;

/// Settings for the instance of one NodeClaim, independent of the image family.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bootstrap {
    /// Name of the EKS cluster.
    pub cluster_name: String,
    /// URL of the API server.
    pub cluster_endpoint: String,
    /// CA bundle of the cluster: base64 of PEM.
    pub cluster_ca: String,
    /// Service CIDR, IPv4 or IPv6; needed for Amazon Linux 2023, and for Amazon Linux 2 in an IPv6 cluster without an address of
    /// cluster DNS.
    pub cluster_cidr: String,
    /// Labels of the NodeClaim and its capacity type. Labels in Kubernetes' restricted domains are omitted in the output:
    /// kubelet may not set them, and the controller adds them to the Node at registration.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints` and then `spec.startupTaints` of the NodeClaim.
    pub taints: Vec<Taint>,
    /// Maximum number of pods for kubelet. The default is `kubelet.max_pods`, and without it the image's default.
    pub max_pods: Option<u32>,
    /// Addresses of cluster DNS, used unless the class has its own; if empty, the instance chooses.
    pub cluster_dns: Vec<String>,
    /// `spec.kubelet` of the class.
    pub kubelet: KubeletConfiguration,
    /// `instanceStorePolicy: RAID0`.
    pub raid0: bool,
    /// Release of the image, such as `1.46.0`, or `latest`; used only for Bottlerocket. `None` if it is unknown.
    pub image_release: Option<String>,
    /// `spec.userData` of the class, in the format of its image family.
    pub user_data: Option<String>,
    /// Settings of the agent, a YAML document of [`crate::agent::AgentSettings`] that may be empty. Present if the instances of
    /// the class run the agent.
    pub agent: Option<String>,
}

/// User data before its base64 encoding (see [`encode`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// The document.
    pub text: String,
    /// Warnings for the owner of the class; the document is valid nevertheless.
    pub warnings: Vec<Warning>,
}

/// Renders user data for instances of one image family. The same input always gives the same bytes.
///
/// # Errors
/// Returns a [`RenderError`], also for a document larger than [`LIMIT`].
pub fn render(family: AmiFamily, input: &Bootstrap) -> Result<Document, RenderError> {
    let size = input.user_text().len();
    if size > LONGEST_TEXT {
        return Err(RenderError::TooLarge { size });
    }
    if let Some(settings) = input.agent_settings() {
        agent::parse(settings).map_err(RenderError::Agent)?;
    }
    let (user_data, mut warnings) = user_text::without_unread(family, input.user_text());
    let mut document = of_family(family, &Bootstrap { user_data, ..input.clone() })?;
    document.warnings.append(&mut warnings);
    let size = document.text.len();
    check_size(size)?;
    document.warnings.extend((size * 10 >= LIMIT * 9).then_some(Warning::NearLimit { size }));
    Ok(document)
}

fn of_family(family: AmiFamily, input: &Bootstrap) -> Result<Document, RenderError> {
    match family {
        AmiFamily::Al2 => al2::render(input),
        AmiFamily::Al2023 => al2023::render(input),
        AmiFamily::Bottlerocket => bottlerocket::render(input),
        AmiFamily::Custom if input.agent_settings().is_some() => Err(RenderError::NoAgentPart),
        AmiFamily::Custom => Ok(input.user_text().to_owned().into()),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => windows::render(input),
    }
}

/// Encodes rendered user data in base64, as CreateLaunchTemplate requires.
#[must_use]
pub fn encode(user_data: &str) -> String {
    STANDARD.encode(user_data)
}

/// Validates that `size` bytes of user data (before base64) do not exceed EC2's limit.
///
/// # Errors
/// Returns [`RenderError::TooLarge`].
pub fn check_size(size: usize) -> Result<(), RenderError> {
    if size > LIMIT { Err(RenderError::TooLarge { size }) } else { Ok(()) }
}

impl From<String> for Document {
    fn from(text: String) -> Self {
        Self { text, warnings: Vec::new() }
    }
}

impl Bootstrap {
    /// Returns the labels that kubelet may set on its own Node, by key.
    fn node_labels(&self) -> BTreeMap<&str, &str> {
        let mut own: BTreeMap<&str, &str> =
            self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        own.insert(label::DO_NOT_SYNC_TAINTS, "true");
        own.retain(|key, _| !labels::is_of_kubernetes(key));
        own
    }

    /// Returns the initial taints of the Node: those of the NodeClaim, and the taint that the controller removes at
    /// registration.
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

    /// Returns the DNS addresses of the class, else those of the cluster.
    fn dns(&self) -> &[String] {
        let own = self.kubelet.cluster_dns.as_deref().filter(|addresses| !addresses.is_empty());
        own.unwrap_or(&self.cluster_dns)
    }

    /// Reports whether the cluster uses IPv6: by its DNS address, else by its service CIDR, else by the DNS address of the class.
    fn is_ipv6(&self) -> bool {
        let cidr = Some(&self.cluster_cidr).filter(|cidr| !cidr.is_empty());
        self.cluster_dns.first().or(cidr).or(self.dns().first()).is_some_and(|address| address.contains(':'))
    }

    fn user_text(&self) -> &str {
        self.user_data.as_deref().unwrap_or_default()
    }

    /// Returns the agent's settings, if there are any.
    fn agent_settings(&self) -> Option<&str> {
        self.agent.as_deref().filter(|settings| !settings.trim().is_empty())
    }
}
