//! User data of an instance: conversion of an EC2NodeClass and the registration of a node into the document of crate `machine`, which the
//! instance reads.

use std::collections::BTreeMap;

use api::nodeclass::{AmiFamily, EC2NodeClassSpec, InstanceStorePolicy};
use api::{EC2NodeClass, Taint, label, taint};
use machine::userdata::{self, Bootstrap, Document, RenderError};

use super::ResolvedClass;
use crate::settings::Settings;

/// Properties of an instance that are known before its launch.
#[derive(Clone, Copy, Debug)]
pub struct NodeUserData<'a> {
    /// Capacity type: `spot`, `on-demand` or `reserved`.
    pub capacity_type: &'a str,
    /// Image id, one of the EC2NodeClass's images.
    pub image_id: &'a str,
    /// Maximum number of pods of kubelet.
    pub max_pods: u32,
}

/// Labels and taints with which a node registers.
#[derive(Clone, Copy, Debug)]
pub struct NodeRegistration<'a> {
    /// Labels of the NodeClaim.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints, `spec.taints`.
    pub taints: &'a [Taint],
    /// Startup taints, `spec.startupTaints`.
    pub startup_taints: &'a [Taint],
}

impl Default for NodeRegistration<'_> {
    /// Returns a registration without labels and taints.
    fn default() -> Self {
        Self { labels: const { &BTreeMap::new() }, taints: &[], startup_taints: &[] }
    }
}

/// Renders the user data before base64. Images of the Custom family receive the EC2NodeClass's user data unchanged.
///
/// # Errors
/// When the EC2NodeClass's user data cannot be merged, or the result is too large for EC2.
pub fn render(
    class: &ResolvedClass,
    settings: &Settings,
    registration: NodeRegistration<'_>,
    machine: NodeUserData<'_>,
) -> Result<String, RenderError> {
    document(class, settings, registration, machine).map(|document| document.text)
}

/// Renders the user data together with notes for the owner of the EC2NodeClass.
///
/// # Errors
/// As [`render`].
pub fn document(
    class: &ResolvedClass,
    settings: &Settings,
    registration: NodeRegistration<'_>,
    machine: NodeUserData<'_>,
) -> Result<Document, RenderError> {
    let image = class.images.iter().map(|image| &image.image).find(|image| image.id == machine.image_id);
    let values = ClusterValues {
        spec: &class.spec,
        agent: class.agent,
        agent_settings: class.agent_settings.as_deref(),
        image: image.map_or("", |image| &image.name),
        capacity_type: machine.capacity_type,
        max_pods: Some(machine.max_pods),
    };
    values.document(settings, registration)
}

/// Renders the user data of an EC2NodeClass from the object alone, without EC2 calls. Uses the first image of its status.
/// Without `max_pods`, the limit is that of the EC2NodeClass, or else of the image.
///
/// # Errors
/// As [`render`].
pub fn of_class(
    class: &EC2NodeClass,
    settings: &Settings,
    registration: NodeRegistration<'_>,
    capacity_type: &str,
    max_pods: Option<u32>,
) -> Result<Document, RenderError> {
    let image = class.status.as_ref().and_then(|status| status.amis.first());
    let values = ClusterValues {
        spec: &class.spec,
        agent: class.has_agent(),
        agent_settings: class.agent_settings(),
        image: image.map_or("", |image| &image.name),
        capacity_type,
        max_pods,
    };
    values.document(settings, registration)
}

/// All values of EC2NodeClass and instance that the document depends on.
struct ClusterValues<'a> {
    spec: &'a EC2NodeClassSpec,
    agent: bool,
    agent_settings: Option<&'a str>,
    /// Name of the image.
    image: &'a str,
    capacity_type: &'a str,
    max_pods: Option<u32>,
}

impl ClusterValues<'_> {
    /// Renders the document. If the images contain the agent, the node registers with the agent's startup taint, because
    /// kubelet sets taints only at registration.
    fn document(&self, settings: &Settings, registration: NodeRegistration<'_>) -> Result<Document, RenderError> {
        let mut labels = registration.labels.clone();
        labels.insert(label::CAPACITY_TYPE.to_owned(), self.capacity_type.to_owned());
        let bootstrap = Bootstrap {
            cluster_name: settings.cluster_name.clone(),
            cluster_endpoint: settings.cluster_endpoint.clone(),
            cluster_ca: settings.cluster_ca.clone(),
            cluster_cidr: settings.cluster_cidr.clone(),
            labels,
            taints: taints(self.agent, registration),
            max_pods: self.max_pods,
            cluster_dns: settings.cluster_dns.clone(),
            kubelet: self.spec.kubelet.clone().unwrap_or_default(),
            raid0: self.spec.instance_store_policy == Some(InstanceStorePolicy::Raid0),
            image_release: image_release(self.spec, self.image),
            user_data: self.spec.user_data.clone(),
            agent: self.agent_settings.map(str::to_owned).or_else(|| self.agent.then(String::new)),
        };
        userdata::render(self.spec.resolved_ami_family(), &bootstrap)
    }
}

fn taints(with_agent: bool, registration: NodeRegistration<'_>) -> Vec<Taint> {
    let mut all: Vec<Taint> = registration.taints.iter().chain(registration.startup_taints).cloned().collect();
    let agent = Taint::new(taint::AGENT_NOT_READY, taint::NO_EXECUTE);
    if with_agent && !all.iter().any(|one| one.matches(&agent)) {
        all.push(agent);
    }
    all
}

/// Returns the Bottlerocket release of the image: from the alias, else from the image's name.
fn image_release(spec: &EC2NodeClassSpec, image: &str) -> Option<String> {
    let alias = spec.alias().filter(|alias| alias.family == AmiFamily::Bottlerocket);
    alias.map_or_else(|| release_in(image), |alias| Some(alias.version))
}

/// Returns the release in a name such as `bottlerocket-aws-k8s-1.36-x86_64-v1.46.0-6db9a3e8`.
fn release_in(name: &str) -> Option<String> {
    let release = |word: &&str| {
        let digits = word.strip_prefix('v').unwrap_or_default();
        digits.split('.').count() == 3 && digits.split('.').all(|number| number.parse::<u64>().is_ok())
    };
    let word = name.split('-').rfind(release)?;
    word.strip_prefix('v').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_in_reads_the_release_from_an_image_name() {
        for (name, release) in [
            ("bottlerocket-aws-k8s-1.36-x86_64-v1.46.0-6db9a3e8", Some("1.46.0")),
            ("bottlerocket-aws-k8s-1.32-nvidia-aarch64-v1.9.2-a1b2c3d4", Some("1.9.2")),
            ("bottlerocket-aws-k8s-1.36-x86_64", None),
            ("mine-v2", None),
            ("", None),
        ] {
            assert_eq!(release_in(name).as_deref(), release, "{name}");
        }
    }
}
