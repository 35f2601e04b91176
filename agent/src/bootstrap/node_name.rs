//! Private DNS name of the instance, by which EKS knows its node.
//!
//! Metadata builds its host names from the domain names of the VPC's DHCP options. EC2 and EKS know only the name in the domain
//! of the region. Where metadata has that name, no call is necessary.

use std::sync::Arc;

use anyhow::Context as _;
use machine::nodeconfig::{INSTANCE_ID_NODE_NAME, NodeConfig};

use crate::aws::ec2::{Ec2, Ec2Retries};
use crate::aws::imds::{IdentityDocument, Imds};
use crate::host::Host;
use crate::host::environment::Environment;

/// Region whose domain does not have its name.
const FIRST_REGION: &str = "us-east-1";

/// Sources of the name.
#[derive(Debug, Clone, Copy)]
pub struct NameSources<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The instance metadata service.
    pub imds: &'a Arc<Imds>,
    /// Environment, for calls to EC2.
    pub environment: &'a Environment,
    /// Retry limits of calls to EC2.
    pub retries: Ec2Retries,
}

impl NameSources<'_> {
    /// Returns the private DNS name where it is the name of the node; else an empty string.
    ///
    /// # Errors
    /// IMDS does not answer, or EC2 does not answer where metadata lacks the name.
    pub async fn private_dns_name(&self, identity: &IdentityDocument, config: &NodeConfig) -> anyhow::Result<String> {
        if config.gate(INSTANCE_ID_NODE_NAME) {
            return Ok(String::new());
        }
        let names = self.imds.local_hostnames().await?;
        if let Some(name) = regional(&names, &identity.region) {
            return Ok(name.to_owned());
        }
        let environment = self.environment.of_node(config);
        let ec2 = Ec2::new(&identity.region, &environment, self.host, Arc::clone(self.imds), self.retries);
        let name = ec2.private_dns_name(&identity.instance_id).await.with_context(|| {
            format!(
                "metadata has the host name {}, which is not in the domain {} of EC2, and EC2 returned no private DNS name; \
                 allow ec2:DescribeInstances for the role of the node",
                names.join(" "),
                domain(&identity.region),
            )
        })?;
        log::info!(node = name.as_str(), hostname = names.join(" ").as_str(); "EC2 returned the private DNS name");
        Ok(name)
    }
}

/// Returns the host name in the domain of the region, if metadata has one.
#[must_use]
pub fn regional<'n>(names: &'n [String], region: &str) -> Option<&'n str> {
    let domain = domain(region);
    let is_regional = |name: &&String| name.split_once('.').is_some_and(|(_, rest)| rest == domain);
    names.iter().find(is_regional).map(String::as_str)
}

/// Returns the domain of private DNS names in a region.
fn domain(region: &str) -> String {
    if region == FIRST_REGION { "ec2.internal".to_owned() } else { format!("{region}.compute.internal") }
}

#[cfg(test)]
mod tests {
    use super::regional;

    #[test]
    fn regional_returns_only_names_in_the_domain_of_the_region() {
        let rows = [
            ("ip-10-176-27-215.ec2.internal", "us-east-1", true),
            ("i-0123456789abcdef0.ec2.internal", "us-east-1", true),
            ("ip-10-176-27-215.us-west-2.compute.internal", "us-west-2", true),
            ("i-0123456789abcdef0.cn-north-1.compute.internal", "cn-north-1", true),
            ("ip-10-176-27-215.corp.example", "us-east-1", false),
            ("i-0123456789abcdef0.corp.example", "us-east-1", false),
            ("ip-10-176-27-215", "us-east-1", false),
            ("i-0123456789abcdef0", "us-west-2", false),
            ("ip-10-176-27-215.ec2.internal", "us-west-2", false),
            ("ip-10-176-27-215.us-east-1.compute.internal", "us-east-1", false),
            ("ip-10-176-27-215.us-west-1.compute.internal", "us-west-2", false),
            ("ip-10-176-27-215.corp.ec2.internal", "us-east-1", false),
            ("ip-10-176-27-215.ec2.internal.corp.example", "us-east-1", false),
        ];
        for (name, region, expected) in rows {
            let names = [name.to_owned()];
            assert_eq!(regional(&names, region), expected.then_some(name), "{name} in {region}");
        }
        let several = ["ip-1.corp.example", "ip-1.ec2.internal"].map(str::to_owned);
        assert_eq!(regional(&several, "us-east-1"), Some("ip-1.ec2.internal"));
    }
}
