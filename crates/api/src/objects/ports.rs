//! Ports that a pod takes on its node, with the defaults that the API server would write.

use super::pod::{Container, ContainerPort, PodSpec};

/// A port that a pod takes on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Address on the node; `0.0.0.0` for all.
    pub ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Port, 1 to 65535.
    pub port: i32,
}

impl PodSpec {
    /// Ports that the pod takes on its node, sorted, each once. Those of containers and sidecars count; init containers
    /// have ended when the pod serves. On the host's network every port is one of the node's.
    #[must_use]
    pub fn host_ports(&self) -> Vec<HostPort> {
        let sidecars = self.init_containers.iter().filter(|container| container.is_sidecar());
        let ports = self.containers.iter().chain(sidecars).flat_map(|container: &Container| &container.ports);
        let mut taken: Vec<_> = ports.filter_map(|port| self.host_port(port)).collect();
        taken.sort();
        taken.dedup();
        taken
    }

    fn host_port(&self, port: &ContainerPort) -> Option<HostPort> {
        let number = match port.host_port {
            0 if self.host_network => port.container_port,
            stated => stated,
        };
        let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
        (number > 0).then(|| HostPort {
            ip: or(&port.host_ip, "0.0.0.0"),
            protocol: or(&port.protocol, "TCP"),
            port: number,
        })
    }
}
