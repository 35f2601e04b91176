//! Facts that a NodeConfig lacks, from the machine, IMDS and EC2.

use machine::nodeconfig::{INSTANCE_ID_NODE_NAME, NodeConfig};

use super::Machine;
use super::cache::{Defaults, Enriched, Instance, Status};
use crate::aws::ec2::Ec2;
use crate::host::environment::Environment;

/// Gathers the facts about the machine that `config` needs.
///
/// # Errors
/// IMDS, EC2 or kubelet do not respond within the retry limits of the machine.
pub(super) async fn enrich(
    machine: &Machine,
    environment: &Environment,
    config: NodeConfig,
) -> anyhow::Result<Enriched> {
    let kubelet_version = machine.host.kubelet_version_text().await?;
    let identity = machine.metadata().identity().await?;
    let mac = machine.metadata().mac().await?;
    let private_dns_name = match config.gate(INSTANCE_ID_NODE_NAME) {
        true => String::new(),
        false => ec2(machine, environment, &identity.region).private_dns_name(&identity.instance_id).await?,
    };
    let instance = Instance {
        id: identity.instance_id,
        region: identity.region,
        instance_type: identity.instance_type,
        availability_zone: identity.availability_zone,
        mac,
        private_dns_name,
    };
    Ok(Enriched::new(config, Status { instance, default: Defaults::default(), kubelet_version }))
}

pub(super) fn ec2<'a>(machine: &'a Machine, environment: &'a Environment, region: &'a str) -> Ec2<'a> {
    Ec2::new(region, environment, &machine.host, machine.imds.clone(), machine.ec2)
}
