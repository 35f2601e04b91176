//! What bootstrap has to know before it can decide: the only place of bootstrap that asks IMDS and looks at the machine.

use std::net::IpAddr;

use anyhow::Context as _;
use machine::nodeconfig::{INSTANCE_ID_NODE_NAME, NodeConfig};
use machine::pods::InterfaceLimits;
use machine::userdata::{self, UserData};

use super::{credentials, hosts};
use crate::host::{ContainerdVersion, Host, KubeletVersion, hardware};
use crate::imds::{IdentityDocument, Imds};

/// The client certificate of kubelet where the machine got one; `aws eks get-token` takes its place elsewhere.
pub const CLIENT_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/// The runtime that NVIDIA's tools install; where it is, it runs all containers.
pub const NVIDIA_RUNTIME: &str = "/usr/bin/nvidia-container-runtime";
/// The sandbox image as the machine image carries it.
pub const SANDBOX_ARCHIVE: &str = "/etc/eks/pause.tar";

/// Context of errors in a NodeConfig that can be read.
pub(super) const NOT_FOLLOWED: &str = "invalid NodeConfig in user data";
/// Why a node of an IPv6 cluster has no address to announce.
pub(crate) const NO_IPV6: &str = "the service CIDR of the cluster is IPv6 but the instance has no IPv6 address; \
                                  assign one";

/// Everything that the plan depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Who the instance is.
    pub identity: IdentityDocument,
    /// Its private DNS name; not used where nodes are named by instance id.
    pub hostname: String,
    /// The address that kubelet announces: IPv4, or IPv6 where the service CIDR is IPv6.
    pub node_ip: String,
    /// Interface limits as EC2 gave them, for an instance type that our own table lacks.
    pub interface_limits: Option<InterfaceLimits>,
    /// Addresses of the API server's host; asked for on Outposts only.
    pub api_addresses: Vec<IpAddr>,
    /// The machine's parts.
    pub hardware: Hardware,
    /// What its image carries.
    pub software: Software,
    /// What the machine received.
    pub user_data: UserData,
}

/// The machine's parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Online CPUs.
    pub cpus: u32,
    /// Online memory, bytes; 0 when the kernel does not say.
    pub memory_bytes: u64,
    /// Whether an NVIDIA device is attached.
    pub nvidia: bool,
}

/// What the machine's image carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Software {
    /// Which kubelet is installed.
    pub kubelet: KubeletVersion,
    /// Which containerd is installed, if one is.
    pub containerd: Option<ContainerdVersion>,
    /// Whether [`NVIDIA_RUNTIME`] exists.
    pub nvidia_runtime: bool,
    /// Whether [`CLIENT_CERTIFICATE`] exists.
    pub client_certificate: bool,
    /// Whether [`SANDBOX_ARCHIVE`] exists.
    pub sandbox_archive: bool,
    /// Absolute path of the credential provider for ECR, if there is one.
    pub credential_provider: Option<String>,
    /// What `/etc/hosts` says.
    pub hosts: String,
}

/// What metadata and EC2 say of the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Location {
    /// Who the instance is.
    pub identity: IdentityDocument,
    /// Its private DNS name; may be empty where nodes are named by instance id.
    pub hostname: String,
    /// The address that kubelet announces.
    pub node_ip: String,
}

/// Asks IMDS and looks at the machine, with its user data and the place where the credential provider may be.
///
/// # Errors
/// The first thing that is missing or wrong, with its cure.
pub async fn gather(host: &Host, imds: &Imds, provider: &str, user_data: UserData) -> anyhow::Result<Facts> {
    user_data.config.validate().context(NOT_FOLLOWED)?;
    let place = Location {
        identity: imds.identity().await?,
        hostname: hostname(imds, &user_data.config).await?,
        node_ip: node_ip(imds, &user_data.config).await?,
    };
    look(host, place, provider, user_data).await
}

/// Looks at the machine, knowing the rest.
///
/// # Errors
/// The first thing that is missing or wrong, with its cure.
pub async fn look(host: &Host, place: Location, provider: &str, user_data: UserData) -> anyhow::Result<Facts> {
    let config = &user_data.config;
    Ok(Facts {
        identity: place.identity,
        hostname: place.hostname,
        node_ip: place.node_ip,
        interface_limits: None,
        api_addresses: api_addresses(config).await?,
        hardware: hardware(host),
        software: software(host, credentials::named_by(config).unwrap_or(provider)).await?,
        user_data,
    })
}

/// Reads what the machine received from IMDS.
///
/// # Errors
/// IMDS does not answer, or what it has is no user data for a node.
pub async fn user_data(imds: &Imds) -> anyhow::Result<UserData> {
    let raw = imds.user_data().await?.context("the instance has no user data; launch it with a NodeConfig")?;
    Ok(userdata::parse(&raw)?)
}

/// The private DNS name, where it is the node's.
async fn hostname(imds: &Imds, config: &NodeConfig) -> anyhow::Result<String> {
    match config.gate(INSTANCE_ID_NODE_NAME) {
        true => Ok(String::new()),
        false => Ok(imds.local_hostname().await?),
    }
}

async fn node_ip(imds: &Imds, config: &NodeConfig) -> anyhow::Result<String> {
    if config.spec.cluster.dns_ip()?.is_ipv4() {
        return Ok(imds.local_ipv4().await?);
    }
    let address = imds.ipv6(&imds.mac().await?).await?;
    address.context(NO_IPV6)
}

async fn api_addresses(config: &NodeConfig) -> anyhow::Result<Vec<IpAddr>> {
    if !config.spec.cluster.on_outpost() {
        return Ok(Vec::new());
    }
    let name = hosts::api_host(&config.spec.cluster.api_server_endpoint)?;
    let found = tokio::net::lookup_host((name, 0)).await;
    let found =
        found.with_context(|| format!("cannot resolve the API server's name {name}; check the DNS of the VPC"))?;
    Ok(found.map(|address| address.ip()).collect())
}

fn hardware(host: &Host) -> Hardware {
    Hardware { cpus: host.cpus(), memory_bytes: host.memory_bytes(), nvidia: host.has_pci_vendor(hardware::NVIDIA) }
}

async fn software(host: &Host, provider: &str) -> anyhow::Result<Software> {
    Ok(Software {
        kubelet: host.kubelet_version().await?,
        containerd: host.containerd_version().await?,
        nvidia_runtime: host.exists(NVIDIA_RUNTIME),
        client_certificate: host.exists(CLIENT_CERTIFICATE),
        sandbox_archive: host.exists(SANDBOX_ARCHIVE),
        credential_provider: host.exists(provider).then(|| provider.to_owned()),
        hosts: host.read_text(hosts::PATH)?.unwrap_or_default(),
    })
}
