//! What a NodeConfig does not say and only machine, metadata and EC2 know.

use machine::nodeconfig::{INSTANCE_ID_NODE_NAME, NodeConfig};
use machine::pods::{self, InterfaceLimits};

use super::Machine;
use super::cache::{Defaults, Enriched, Instance, Status};
use crate::ec2::Ec2;
use crate::environment::Environment;

/// Finds out about the machine what `config` needs to be followed.
///
/// # Errors
/// Metadata, EC2 or kubelet do not answer within the patience of the machine's description.
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

/// The limits of an instance type that our own table lacks; `None` where it has it, or EC2 does not say.
pub(super) async fn unknown_limits(
    machine: &Machine,
    environment: &Environment,
    instance: &Instance,
) -> Option<InterfaceLimits> {
    if pods::interface_limits(&instance.instance_type).is_some() {
        return None;
    }
    let asked = ec2(machine, environment, &instance.region).interface_limits(&instance.instance_type).await;
    let refused = |error: &crate::ec2::Ec2Error| {
        let (name, most, why) = (&instance.instance_type, pods::DEFAULT_MAX_PODS, daemon::error::chain(error));
        log::warn!("{name} is no known instance type, so the node takes {most} pods: {why}");
    };
    asked.inspect_err(refused).ok()
}

fn ec2<'a>(machine: &'a Machine, environment: &'a Environment, region: &'a str) -> Ec2<'a> {
    Ec2::new(region, environment, &machine.host, machine.imds.clone(), machine.ec2)
}
