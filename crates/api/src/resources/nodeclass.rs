//! EC2NodeClass (`karpenter.k8s.aws/v1`): EC2 settings for the launch of nodes.

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
use serde_json::Value;

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

use super::schema_rules::{cel_rule, not_empty};
use super::status::{Condition, Conditioned};
use crate::names::{annotation, condition, label};
use crate::units::duration::{self, InvalidDuration};

/// EC2 settings for the launch of nodes: network, image, user data, disks and IAM role.
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
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Role","type":"string","jsonPath":".spec.role","priority":1}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct EC2NodeClassSpec {
    /// Terms that select subnets. A subnet is used if any term matches.
    #[schemars(extend("minItems" = 1, "maxItems" = 30, "x-kubernetes-validations" = selectors::subnet_rules()))]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Terms that select security groups. A security group is used if any term matches.
    #[schemars(extend("minItems" = 1, "maxItems" = 30, "x-kubernetes-validations" = selectors::security_group_rules()))]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Terms that select capacity reservations, which are used first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 30, "x-kubernetes-validations" = selectors::capacity_reservation_rules()))]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// Placement group for the launch of instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// True if instances receive a public IPv4 address. Absent: the setting of the subnet.
    #[serde(default, rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Number of IP prefixes of the primary network interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Terms that select images. An image is used if any term matches.
    #[schemars(extend("minItems" = 1, "maxItems" = 30, "x-kubernetes-validations" = selectors::ami_rules()))]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Image family, which defines the format of user data. Absent: the family of the alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// Custom part of the user data, in the format of the image family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// IAM role of the instances. An instance profile is created for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [not_empty("role cannot be empty")]))]
    pub role: Option<String>,
    /// Existing instance profile of the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [not_empty("instanceProfile cannot be empty")]))]
    pub instance_profile: Option<String>,
    /// Tags of all EC2 resources of a launch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = tag_rules()))]
    pub tags: BTreeMap<String, String>,
    /// Settings of kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfiguration>,
    /// Block devices. Absent: the defaults of the image family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-validations" = [cel_rule(
        "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
        "must have only one blockDeviceMappings with rootVolume",
    )]))]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// Network interfaces. Absent: one interface, or those that a request for EFA needs. An empty list is not the same as an
    /// absent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 150, "x-kubernetes-validations" = [
        cel_rule(
            "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
            "networkInterfaces must contain an 'interface' with networkCardIndex 0 and deviceIndex 0",
        ),
        cel_rule(
            "self.all(x, self.exists_one(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex))",
            "networkCardIndex and deviceIndex must be unique together",
        ),
        cel_rule(
            "self.all(x, x.interfaceType != 'efa-only' || self.exists_one(y, y.interfaceType == 'efa-only' && x.networkCardIndex == y.networkCardIndex))",
            "a network card may have at most one 'efa-only' interface",
        ),
    ]))]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// Policy for instance store disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// True if CloudWatch receives metrics every minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// Settings of the instance metadata service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = MetadataOptions::default()))]
    pub metadata_options: Option<MetadataOptions>,
    /// Timeouts of idle connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// CPU options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Context, which is passed to EC2 Fleet unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// Returns the rules for fields of the specification together.
fn spec_rules() -> Vec<Value> {
    let mut rules = vec![
        cel_rule(
            "has(self.role) != has(self.instanceProfile)",
            "exactly one of 'role' and 'instanceProfile' must be set",
        ),
        cel_rule(
            "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
            "must specify amiFamily if amiSelectorTerms does not contain an alias",
        ),
    ];
    rules.extend(AmiFamily::ALIASES.map(|(alias, family)| alias_rule(alias, family.as_str())));
    rules
}

fn alias_rule(alias: &str, family: &str) -> Value {
    cel_rule(
        format!(
            "!has(self.amiFamily) || self.amiFamily in ['{family}', 'Custom'] || !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.startsWith('{alias}@'))"
        ),
        format!("amiFamily must be '{family}' or 'Custom' when using the alias '{alias}'"),
    )
}

/// Returns the rules against tags that the controller sets itself.
fn tag_rules() -> Vec<Value> {
    let mut rules = vec![
        cel_rule("self.all(k, k != '')", "empty tag keys are not supported"),
        cel_rule(
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "tag contains a restricted tag matching kubernetes.io/cluster/",
        ),
    ];
    rules.extend(["eks:eks-cluster-name", label::NODEPOOL, "karpenter.sh/nodeclaim", label::EC2_NODE_CLASS].map(
        |key| cel_rule(format!("self.all(k, k != '{key}')"), format!("tag contains a restricted tag matching {key}")),
    ));
    rules
}

impl EC2NodeClassSpec {
    /// Returns the alias that selects the images, if there is one and it is valid.
    #[must_use]
    pub fn alias(&self) -> Option<Alias> {
        self.ami_selector_terms.iter().find_map(|term| Alias::parse(term.alias.as_deref()?))
    }

    /// Returns the image family: the explicit one, otherwise that of the alias, otherwise Custom.
    #[must_use]
    pub fn resolved_ami_family(&self) -> AmiFamily {
        self.ami_family.or_else(|| self.alias().map(|alias| alias.family)).unwrap_or(AmiFamily::Custom)
    }
}

impl EC2NodeClass {
    /// Reports whether the images of this EC2NodeClass contain the Kerf agent.
    #[must_use]
    pub fn has_agent(&self) -> bool {
        self.annotation(annotation::AGENT) == Some(annotation::AGENT_ENABLED)
    }

    /// Returns the settings of the agent, a YAML document.
    #[must_use]
    pub fn agent_settings(&self) -> Option<&str> {
        self.annotation(annotation::AGENT_SETTINGS)
    }

    /// Returns how long the gates of a registered node may stay closed while its agent reports. `None` means without limit.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a positive duration or `Never`.
    pub fn gate_timeout(&self) -> Result<Option<std::time::Duration>, InvalidDuration> {
        let text = self.annotation(annotation::GATE_TIMEOUT).filter(|text| *text != duration::NEVER);
        text.map(positive).transpose()
    }

    /// Returns how long startup taints that nothing removes may stay on a registered node; `None` means without limit. An invalid
    /// annotation counts as none, because the EC2NodeClass reports it.
    #[must_use]
    pub fn startup_timeout(&self) -> Option<std::time::Duration> {
        let is_unlimited = self.annotation(annotation::GATE_TIMEOUT) == Some(duration::NEVER);
        (!is_unlimited).then(|| self.gate_timeout().ok().flatten().unwrap_or(STARTUP_TIMEOUT))
    }

    /// Returns how long a node may take to return from a reboot, if the EC2NodeClass says so.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a positive duration.
    pub fn reboot_timeout(&self) -> Result<Option<std::time::Duration>, InvalidDuration> {
        self.annotation(annotation::REBOOT_TIMEOUT).map(positive).transpose()
    }

    /// Returns the first annotation with an invalid time limit, and the error.
    #[must_use]
    pub fn invalid_timeout(&self) -> Option<(&'static str, InvalidDuration)> {
        let gates = self.gate_timeout().err().map(|error| (annotation::GATE_TIMEOUT, error));
        gates.or_else(|| self.reboot_timeout().err().map(|error| (annotation::REBOOT_TIMEOUT, error)))
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// Time limit of startup taints by default, equal to that of a registration.
pub const STARTUP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// Parses a duration of more than zero.
fn positive(text: &str) -> Result<std::time::Duration, InvalidDuration> {
    let nanos = u64::try_from(duration::nanos(text)?).ok().filter(|nanos| *nanos > 0);
    nanos.map(std::time::Duration::from_nanos).ok_or_else(|| InvalidDuration { text: text.to_owned() })
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
