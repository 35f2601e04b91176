//! The default machine, an m4.xlarge with two CPUs, and the differences that a case declares.

use std::net::IpAddr;

use agent::aws::imds::IdentityDocument;
use agent::bootstrap::facts::{Facts, Hardware, Software};
use agent::bootstrap::plan::credentials::DEFAULT_PROVIDER;
use agent::host::{ContainerdVersion, KubeletVersion};
use machine::pods::InterfaceLimits;
use machine::userdata;
use serde::Deserialize;

/// NodeConfig of the default cluster.
pub const CLUSTER: &str = include_str!("../minimal-nodeconfig.yaml");

/// Differences from the default machine, as written in `case.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Machine {
    pub kubelet: String,
    /// Version of containerd; `none` if it is not installed.
    pub containerd: String,
    pub instance_type: String,
    pub cpus: u32,
    pub memory_gib: u64,
    pub node_ip: String,
    /// Number of network interfaces, and number of IPv4 addresses of each, as EC2 reports them.
    pub limits: Option<(u32, u32)>,
    pub nvidia_device: bool,
    pub nvidia_runtime: bool,
    pub client_certificate: bool,
    pub sandbox_archive: bool,
    pub credential_provider: Option<String>,
    pub hosts: String,
    pub api_addresses: Vec<IpAddr>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            kubelet: "v1.36.0".to_owned(),
            containerd: "2.1.4".to_owned(),
            instance_type: "m4.xlarge".to_owned(),
            cpus: 2,
            memory_gib: 16,
            node_ip: "172.16.34.43".to_owned(),
            limits: None,
            nvidia_device: false,
            nvidia_runtime: false,
            client_certificate: false,
            sandbox_archive: true,
            credential_provider: Some(DEFAULT_PROVIDER.to_owned()),
            hosts: "127.0.0.1 localhost localhost.localdomain\n".to_owned(),
            api_addresses: Vec::new(),
        }
    }
}

impl Machine {
    /// Returns all facts of this machine with `user_data`.
    pub fn facts(&self, user_data: &str) -> Facts {
        let hardware = Hardware { cpus: self.cpus, memory_bytes: self.memory_gib << 30, nvidia: self.nvidia_device };
        Facts {
            identity: IdentityDocument {
                instance_id: "i-1234567890abcdef0".to_owned(),
                instance_type: self.instance_type.clone(),
                region: "us-west-2".to_owned(),
                availability_zone: "us-west-2f".to_owned(),
            },
            hostname: "ip-172-16-34-43.us-west-2.compute.internal".to_owned(),
            node_ip: self.node_ip.clone(),
            interface_limits: self
                .limits
                .map(|(interfaces, ipv4_per_interface)| InterfaceLimits { interfaces, ipv4_per_interface }),
            api_addresses: self.api_addresses.clone(),
            hardware,
            software: self.software(),
            user_data: userdata::parse(user_data.as_bytes()).unwrap(),
        }
    }

    fn software(&self) -> Software {
        Software {
            kubelet: KubeletVersion::parse(&self.kubelet).unwrap(),
            containerd: ContainerdVersion::parse(&self.containerd),
            nvidia_runtime: self.nvidia_runtime,
            client_certificate: self.client_certificate,
            sandbox_archive: self.sandbox_archive,
            credential_provider: self.credential_provider.clone(),
            hosts: self.hosts.clone(),
        }
    }
}
