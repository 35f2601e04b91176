//! EC2NodeClass (`karpenter.k8s.aws/v1`): how machines are launched on EC2.

mod ami;
mod kubelet;
mod launch;
mod selectors;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ami::{Alias, AmiFamily};
pub use kubelet::KubeletConfiguration;
pub use launch::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, InstanceStorePolicy, InterfaceType,
    MetadataOptions, NetworkInterface, Toggle, TokensRequirement, VolumeType,
};
pub use selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, PlacementGroupSelector, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};
pub use status::{Ami, CapacityReservation, EC2NodeClassStatus, SecurityGroup, Subnet};

use crate::duration::InvalidDuration;
use crate::status::{Condition, Conditioned};
use crate::{annotation, condition, duration};

/// How machines are launched: network, image, user data, disks and the identity that they run as.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    plural = "ec2nodeclasses",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    category = "karpenter",
    status = "EC2NodeClassStatus",
    derive = "PartialEq",
    doc = "EC2 settings for the launch of nodes.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassSpec {
    /// Subnets to launch into; a subnet that any term selects is used.
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Security groups of the machines; a group that any term selects is used.
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Capacity reservations to launch into first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// Placement group to launch into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Whether machines get a public IPv4 address. Absent: what the subnet says.
    #[serde(default, rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Number of address prefixes that the first interface starts with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_prefix_count: Option<i32>,
    /// Images to launch; an image that any term selects is used.
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// How the images get the settings to join the cluster. Absent: what the alias says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// The user's own part of the user data, in the form that the image family reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Role of the machines; an instance profile is made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Instance profile of the machines, made by others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Tags of everything that a launch makes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Settings of kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfiguration>,
    /// Disks. Absent: what the image family usually has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// Network interfaces. Absent: one, or what a request for EFA needs; empty is not absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// What becomes of the machine's own disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Whether CloudWatch gets figures every minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// How the instance metadata service answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_options: Option<MetadataOptions>,
    /// How long idle connections are tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Settings of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Passed to EC2 Fleet as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

impl EC2NodeClassSpec {
    /// The alias that selects the images, if one does and it can be read.
    #[must_use]
    pub fn alias(&self) -> Option<Alias> {
        self.ami_selector_terms.iter().find_map(|term| Alias::parse(term.alias.as_deref()?))
    }

    /// The image family: as said, else the alias's, else Custom.
    #[must_use]
    pub fn resolved_ami_family(&self) -> AmiFamily {
        self.ami_family.or_else(|| self.alias().map(|alias| alias.family)).unwrap_or(AmiFamily::Custom)
    }
}

impl EC2NodeClass {
    /// Whether the images of this class carry the Kerf agent.
    #[must_use]
    pub fn has_agent(&self) -> bool {
        self.annotation(annotation::AGENT) == Some(annotation::AGENT_ENABLED)
    }

    /// The agent's settings, a YAML document.
    #[must_use]
    pub fn agent_settings(&self) -> Option<&str> {
        self.annotation(annotation::AGENT_SETTINGS)
    }

    /// How long the gates of a registered node may stay closed; for ever without it.
    ///
    /// # Errors
    /// When the annotation is no duration.
    pub fn gate_timeout(&self) -> Result<Option<std::time::Duration>, InvalidDuration> {
        let text = self.annotation(annotation::GATE_TIMEOUT).filter(|text| *text != duration::NEVER);
        let read = |text: &str| {
            let nanos = duration::nanos(text)?;
            let positive = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0);
            positive.map(std::time::Duration::from_nanos).ok_or_else(|| InvalidDuration { text: text.to_owned() })
        };
        text.map(read).transpose()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

impl Conditioned for EC2NodeClass {
    const DEPENDENTS: &'static [&'static str] = &[
        condition::AMIS_READY,
        condition::SUBNETS_READY,
        condition::SECURITY_GROUPS_READY,
        condition::INSTANCE_PROFILE_READY,
        condition::PLACEMENT_GROUP_READY,
        condition::VALIDATION_SUCCEEDED,
    ];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |s| &s.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}
