//! What bootstrap has to know before it can decide: the only place of bootstrap that asks IMDS and looks at the machine.

use anyhow::Context as _;
use machine::nodeconfig::NodeConfig;
use machine::userdata::{self, UserData};

use crate::host::{Host, KubeletVersion};
use crate::imds::{IdentityDocument, Imds};

/// The client certificate of kubelet where the machine got one; `aws eks get-token` takes its place elsewhere.
pub const CLIENT_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// Context of errors in a NodeConfig that can be read.
pub(super) const NOT_FOLLOWED: &str = "the NodeConfig in user data cannot be followed";

/// Everything that the plan depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Who the instance is.
    pub identity: IdentityDocument,
    /// Its private DNS name.
    pub hostname: String,
    /// The address that kubelet announces: IPv4, or IPv6 where the service CIDR is IPv6.
    pub node_ip: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Which kubelet is installed.
    pub kubelet: KubeletVersion,
    /// Whether [`CLIENT_CERTIFICATE`] exists.
    pub has_client_certificate: bool,
    /// What the machine was told.
    pub user_data: UserData,
}

/// Asks IMDS and looks at the machine.
///
/// # Errors
/// The first thing that is missing or wrong, with its cure.
pub async fn gather(host: &Host, imds: &Imds) -> anyhow::Result<Facts> {
    let identity = imds.identity().await?;
    let user_data = read_user_data(imds).await?;
    Ok(Facts {
        identity,
        hostname: imds.local_hostname().await?,
        node_ip: node_ip(imds, &user_data.config).await?,
        cpus: host.cpus(),
        kubelet: host.kubelet_version().await?,
        has_client_certificate: host.exists(CLIENT_CERTIFICATE),
        user_data,
    })
}

async fn read_user_data(imds: &Imds) -> anyhow::Result<UserData> {
    let raw = imds.user_data().await?.context("the instance has no user data; launch it with a NodeConfig there")?;
    let user_data = userdata::parse(&raw)?;
    user_data.config.validate().context(NOT_FOLLOWED)?;
    Ok(user_data)
}

async fn node_ip(imds: &Imds, config: &NodeConfig) -> anyhow::Result<String> {
    if config.spec.cluster.dns_ip()?.is_ipv4() {
        return Ok(imds.local_ipv4().await?);
    }
    let address = imds.ipv6(&imds.mac().await?).await?;
    address.context("the cluster's service CIDR is IPv6 but the instance has no IPv6 address; assign one")
}
