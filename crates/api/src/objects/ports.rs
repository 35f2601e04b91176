//! Ports that a pod occupies on its node, with the defaults of the API server.

use super::pod::PodSpec;
use super::pod::container::{Container, ContainerPort};

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

impl PodSpec {
    /// Returns the ports that the pod occupies on its node, sorted and without duplicates. Ports of containers and sidecars
    /// count. Other init containers have ended before the pod serves. With the host network, every port of the pod is a port of
    /// the node.
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
