//! `spec.instance` of a NodeConfig: settings of the instance outside Kubernetes.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{or_default, or_defaults, texts};

/// Settings of the instance outside Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Instance store disks.
    #[serde(default, deserialize_with = "or_default")]
    pub local_storage: LocalStorage,
    /// EBS volumes.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "EbsStorage::is_empty")]
    pub storage: EbsStorage,
    /// Environment variables by service name (or `default` for the whole instance).
    #[serde(default, deserialize_with = "environment", skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, BTreeMap<String, String>>,
    /// Name resolution.
    #[serde(default, deserialize_with = "or_default")]
    pub network: Network,
}

/// Instance store disks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalStorage {
    /// `RAID0`, `RAID10` or `Mount`; without a strategy the disks are not changed.
    #[serde(default, deserialize_with = "strategy", skip_serializing_if = "Option::is_none")]
    pub strategy: Option<LocalStorageStrategy>,
    /// Mount point of the disks.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub mount_path: String,
    /// Folders that are not moved to the array; no effect if each disk is mounted separately. Unknown ones are ignored.
    #[serde(default, deserialize_with = "disabled_mounts", skip_serializing_if = "Vec::is_empty")]
    pub disabled_mounts: Vec<DisabledMount>,
}

/// A folder that remains on the root disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum DisabledMount {
    /// Images and containers of containerd.
    Containerd,
    /// Logs of pods.
    PodLogs,
    /// Layers of the SOCI snapshotter.
    #[serde(rename = "SOCI")]
    Soci,
}

/// Use of instance store disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum LocalStorageStrategy {
    /// One striped array for kubelet, containerd and pod logs.
    #[serde(rename = "RAID0")]
    Raid0,
    /// One striped and mirrored array.
    #[serde(rename = "RAID10")]
    Raid10,
    /// Each disk mounted separately.
    Mount,
}

/// EBS volumes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EbsStorage {
    /// Volumes to format and mount, in order.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<EbsVolume>,
}

/// An EBS volume, and the folders whose content it holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EbsVolume {
    /// Path of the device, such as `/dev/xvdb`.
    #[serde(default, deserialize_with = "or_default")]
    pub device: String,
    /// Folder on which the volume is mounted.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub mount_target: String,
    /// Several folders, each on a folder of the volume. The first release of nodeadm with volumes had this field.
    #[serde(default, deserialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub mount_targets: Vec<String>,
    /// Type of the file system; `xfs` by default.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub fs_type: String,
}

impl EbsStorage {
    /// Reports whether no setting is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

impl EbsVolume {
    /// Returns all folders, in order.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let single = Some(self.mount_target.as_str()).filter(|target| !target.is_empty());
        single.into_iter().chain(self.mount_targets.iter().map(String::as_str))
    }
}

/// Name resolution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Addresses of DNS servers.
    #[serde(default, deserialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// Search domains.
    #[serde(default, deserialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
}

impl Network {
    /// Reports whether no setting is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

impl DisabledMount {
    /// Names in a NodeConfig.
    pub(super) const NAMES: [&str; 3] = ["Containerd", "PodLogs", "SOCI"];

    fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Containerd, Self::PodLogs, Self::Soci];
        Self::NAMES.iter().zip(all).find(|(known, _)| **known == name).map(|(_, mount)| mount)
    }
}

/// Deserializes a strategy in any case, as the setup program of EKS images takes it; an empty text is no strategy.
fn strategy<'de, D: Deserializer<'de>>(input: D) -> Result<Option<LocalStorageStrategy>, D::Error> {
    let name: String = or_default(input)?;
    Ok(Some(match name.to_ascii_lowercase().as_str() {
        "" => return Ok(None),
        "raid0" => LocalStorageStrategy::Raid0,
        "raid10" => LocalStorageStrategy::Raid10,
        "mount" => LocalStorageStrategy::Mount,
        _ => return Err(D::Error::custom(format!("unknown strategy `{name}`; write RAID0, RAID10 or Mount"))),
    }))
}

fn disabled_mounts<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<DisabledMount>, D::Error> {
    Ok(texts(input)?.iter().filter_map(|name| DisabledMount::from_name(name)).collect())
}

fn environment<'de, D: Deserializer<'de>>(input: D) -> Result<BTreeMap<String, BTreeMap<String, String>>, D::Error> {
    let all: BTreeMap<String, BTreeMap<String, Option<String>>> = or_defaults(input)?;
    let or_empty = |(name, value): (String, Option<String>)| (name, value.unwrap_or_default());
    Ok(all.into_iter().map(|(service, variables)| (service, variables.into_iter().map(or_empty).collect())).collect())
}
