//! Containers of pods: their requests and limits, their ports, the resources that kubelet has allocated to them, and their
//! state.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::objects::ResourceList;
use crate::objects::meta::nullable;
use crate::units::quantity::{CPU, MEMORY};

/// Value of a resize policy that restarts the container.
const RESTART: &str = "RestartContainer";

/// Container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name of the container.
    pub name: String,
    /// Requests and limits of the container.
    pub resources: ResourceRequirements,
    /// Ports. A port with a host port occupies that port of the node.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// Restart policy of the container. `Always` on an init container makes it a sidecar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Resources whose change requires a restart of the container.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResizePolicy::is_empty")]
    pub resize_policy: ResizePolicy,
}

impl Container {
    /// Reports whether this init container keeps running beside the containers.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// Requests and limits of a container or pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRequirements {
    /// Requested amounts.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub requests: ResourceList,
    /// Maximum amounts. A limit is the default of an absent request.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub limits: ResourceList,
}

/// Port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Port of the pod.
    pub container_port: i32,
    /// Port of the node; 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub host_port: i32,
    /// Address of the node; empty for all.
    #[serde(rename = "hostIP", skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
    /// Protocol: `TCP`, `UDP` or `SCTP`. Empty means TCP.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

impl ContainerPort {
    /// Returns the port of the node that this port occupies, with the defaults of the API server. With the host network, every
    /// port of the pod is a port of the node.
    #[must_use]
    pub fn on_node(&self, host_network: bool) -> Option<HostPort> {
        let number = match self.host_port {
            0 if host_network => self.container_port,
            specified => specified,
        };
        let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
        (number > 0).then(|| HostPort {
            ip: or(&self.host_ip, "0.0.0.0"),
            protocol: or(&self.protocol, "TCP"),
            port: number,
        })
    }
}

/// Port that a pod occupies on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Address of the node; `0.0.0.0` for all.
    pub ip: String,
    /// Protocol: `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Port, 1 to 65535.
    pub port: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

/// Resources whose change restarts the container. The API server writes a policy into every container, so only these two flags
/// are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Vec<Policy>", into = "Vec<Policy>")]
pub struct ResizePolicy {
    /// True if a change of CPU restarts the container.
    pub cpu: bool,
    /// True if a change of memory restarts the container.
    pub memory: bool,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Policy {
    resource_name: String,
    restart_policy: String,
}

impl From<Vec<Policy>> for ResizePolicy {
    fn from(all: Vec<Policy>) -> Self {
        let restarts = |name: &str| all.iter().any(|it| it.resource_name == name && it.restart_policy == RESTART);
        Self { cpu: restarts(CPU), memory: restarts(MEMORY) }
    }
}

impl From<ResizePolicy> for Vec<Policy> {
    fn from(own: ResizePolicy) -> Self {
        let named = [(CPU, own.cpu), (MEMORY, own.memory)].into_iter().filter(|(_, restarts)| *restarts);
        named.map(|(name, _)| Policy { resource_name: name.to_owned(), restart_policy: RESTART.to_owned() }).collect()
    }
}

impl ResizePolicy {
    /// Reports whether no change restarts the container.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.cpu && !self.memory
    }
}

/// State of a container, if it is running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerState {
    /// Details of a running container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningContainer>,
}

/// Details of a running container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunningContainer {
    /// Time of the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
}

/// Resources that kubelet has allocated to a container, and the state of the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: String,
    /// Resources that kubelet has reserved for the container.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub allocated_resources: ResourceList,
    /// Resources with which the container runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// State of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ContainerState>,
}

/// Containers of a pod that are started again after their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RestartPolicy {
    /// All: the pod is a service.
    #[default]
    Always,
    /// Failed ones: the pod runs to its end.
    OnFailure,
    /// None: the pod runs to its end.
    Never,
}

impl RestartPolicy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) const fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resize_policy_keeps_only_restarts() {
        let policy = |cpu: &str, memory: &str| {
            let one = |name: &str, policy: &str| json!({"resourceName": name, "restartPolicy": policy});
            json!({"name": "web", "resizePolicy": [one("cpu", cpu), one("memory", memory)]})
        };
        let rows = [
            (policy("NotRequired", "NotRequired"), (false, false)),
            (policy("NotRequired", "RestartContainer"), (false, true)),
            (policy("RestartContainer", "NotRequired"), (true, false)),
            (json!({"name": "web", "resizePolicy": null}), (false, false)),
        ];
        for (value, expected) in rows {
            let read: Container = serde_json::from_value(value).unwrap();
            assert_eq!((read.resize_policy.cpu, read.resize_policy.memory), expected);
            let again: Container = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
            assert_eq!(again, read);
        }
    }
}
