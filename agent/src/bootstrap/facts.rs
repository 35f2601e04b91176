//! Facts on which bootstrap decides. Only this module of bootstrap requests data from IMDS and reads the machine.

use std::net::IpAddr;

use anyhow::Context as _;
use machine::nodeconfig::{INSTANCE_ID_NODE_NAME, NodeConfig, NodeConfigError};
use machine::pods::InterfaceLimits;
use machine::quote::quote;
use machine::userdata::{self, UserData};

use super::node_name::NameSources;
use crate::aws::imds::{IdentityDocument, Imds};
use crate::host::environment::WHOLE_MACHINE;
use crate::host::{ContainerdVersion, Host, KubeletVersion, hardware};

/// Client certificate of kubelet, on machines that have one; other machines use `aws eks get-token`.
pub const CLIENT_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/// Runtime that NVIDIA's tools install. Where the runtime exists, it runs all containers.
pub const NVIDIA_RUNTIME: &str = "/usr/bin/nvidia-container-runtime";
/// The hosts file.
pub const HOSTS_FILE: &str = "/etc/hosts";
/// Environment variable of a NodeConfig that names another credential provider.
pub const PROVIDER_VARIABLE: &str = "ECR_CREDENTIAL_PROVIDER_BIN_PATH";
/// Sandbox image in the machine image.
pub const SANDBOX_ARCHIVE: &str = "/etc/eks/pause.tar";

/// Context of errors in a NodeConfig that can be parsed.
pub(super) const NOT_FOLLOWED: &str = "invalid NodeConfig in user data";
/// Error for a node of an IPv6 cluster whose instance has no IPv6 address.
pub(crate) const NO_IPV6: &str = "the service CIDR of the cluster is IPv6 but the instance has no IPv6 address; \
                                  assign one";

/// All inputs of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Identity document of the instance.
    pub identity: IdentityDocument,
    /// Private DNS name of the instance; not used where nodes are named by instance id.
    pub hostname: String,
    /// The address that kubelet announces: IPv4, or IPv6 where the service CIDR is IPv6.
    pub node_ip: String,
    /// Interface limits from EC2, for an instance type that our own table lacks.
    pub interface_limits: Option<InterfaceLimits>,
    /// Addresses of the API server's host; resolved on Outposts only.
    pub api_addresses: Vec<IpAddr>,
    /// Hardware of the machine.
    pub hardware: Hardware,
    /// Software of the machine image.
    pub software: Software,
    /// Parsed user data.
    pub user_data: UserData,
}

/// Hardware of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Number of online CPUs.
    pub cpus: u32,
    /// Online memory in bytes; 0 when the kernel does not report it.
    pub memory_bytes: u64,
    /// Presence of an NVIDIA device.
    pub nvidia: bool,
}

/// Software of the machine image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Software {
    /// Installed version of kubelet.
    pub kubelet: KubeletVersion,
    /// Installed version of containerd, if any.
    pub containerd: Option<ContainerdVersion>,
    /// Existence of [`NVIDIA_RUNTIME`].
    pub nvidia_runtime: bool,
    /// Existence of [`CLIENT_CERTIFICATE`].
    pub client_certificate: bool,
    /// Existence of [`SANDBOX_ARCHIVE`].
    pub sandbox_archive: bool,
    /// Absolute path of the credential provider for ECR, if it exists.
    pub credential_provider: Option<String>,
    /// Content of `/etc/hosts`.
    pub hosts: String,
}

/// Facts about the machine from IMDS and EC2.
#[derive(Debug, Clone, PartialEq)]
pub struct Location {
    /// Identity document of the instance.
    pub identity: IdentityDocument,
    /// Private DNS name of the instance; may be empty where nodes are named by instance id.
    pub hostname: String,
    /// The address that kubelet announces.
    pub node_ip: String,
}

/// Gathers facts from IMDS and the machine, for its user data and the possible path of the credential provider.
///
/// # Errors
/// The first fact that is missing or wrong, with its remedy.
pub async fn gather(names: &NameSources<'_>, provider: &str, user_data: UserData) -> anyhow::Result<Facts> {
    let config = &user_data.config;
    config.validate().context(NOT_FOLLOWED)?;
    let identity = names.imds.identity().await?;
    let hostname = names.private_dns_name(&identity, config).await?;
    let place = Location { identity, hostname, node_ip: node_ip(names.imds, config).await? };
    gather_from_host(names.host, place, provider, user_data).await
}

/// Gathers the facts of the machine itself, and adds the given ones.
///
/// # Errors
/// The first fact that is missing or wrong, with its remedy.
pub async fn gather_from_host(
    host: &Host,
    place: Location,
    provider: &str,
    user_data: UserData,
) -> anyhow::Result<Facts> {
    let config = &user_data.config;
    Ok(Facts {
        identity: place.identity,
        hostname: place.hostname,
        node_ip: place.node_ip,
        interface_limits: None,
        api_addresses: api_addresses(config).await?,
        hardware: hardware(host),
        software: software(host, named_provider(config).unwrap_or(provider)).await?,
        user_data,
    })
}

/// Reads and parses the user data from IMDS.
///
/// # Errors
/// IMDS does not answer, or the user data is absent or not for a node.
pub async fn user_data(imds: &Imds) -> anyhow::Result<UserData> {
    let raw = imds.user_data().await?.context("the instance has no user data; launch it with a NodeConfig")?;
    Ok(userdata::parse(&raw)?)
}

/// Turns on the feature gates that are on by default in the distribution. On Amazon Linux 2027, nodes have the name of their
/// instance, because its resolver does not know private DNS names.
pub(crate) fn add_default_gates(host: &Host, config: &mut NodeConfig) {
    if host.is_amazon_linux("2027") {
        config.spec.feature_gates.entry(INSTANCE_ID_NODE_NAME.to_owned()).or_insert(true);
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
    let name = api_host(&config.spec.cluster.api_server_endpoint)?;
    let found = tokio::net::lookup_host((name, 0)).await;
    let found =
        found.with_context(|| format!("cannot resolve the API server's name {name}; check the DNS of the VPC"))?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Returns the host of a URL, without scheme, port and path.
///
/// # Errors
/// [`NodeConfigError::Invalid`] for text that is no URL of a host.
pub fn api_host(endpoint: &str) -> Result<&str, NodeConfigError> {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((address, _)) => address,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    if host.is_empty() || host.contains(char::is_whitespace) {
        let (field, cure) = ("spec.cluster.apiServerEndpoint", "write the URL of the API server, such as https://NAME");
        return Err(NodeConfigError::Invalid { field, value: quote(endpoint), cure });
    }
    Ok(host)
}

/// Returns the provider that the environment in the NodeConfig names.
fn named_provider(config: &NodeConfig) -> Option<&str> {
    let machine = config.spec.instance.environment.get(WHOLE_MACHINE)?;
    machine.get(PROVIDER_VARIABLE).map(String::as_str)
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
        hosts: host.read_text(HOSTS_FILE)?.unwrap_or_default(),
    })
}
