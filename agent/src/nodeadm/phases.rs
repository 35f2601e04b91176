//! The two phases of `init`, which carry out the plan of bootstrap: files first, then disks and daemons.

use anyhow::Context as _;
use machine::agent::AgentSettings;
use machine::nodeconfig::NodeConfig;
use machine::userdata::UserData;

use super::cache::Enriched;
use super::{Machine, enrich, units};
use crate::aws::imds::IdentityDocument;
use crate::bootstrap::facts::{self, Facts, Location, NO_IPV6};
use crate::bootstrap::plan::{self, BootstrapPlan, PlanPart, PlannedFile};
use crate::bootstrap::prepare::prepare;
use crate::host::environment::Environment;

/// File that cloud-init writes at its end.
const CLOUD_INIT_RESULT: &str = "/run/cloud-init/result.json";

/// Inputs of the phases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phases<'a> {
    pub(super) machine: &'a Machine,
    pub(super) environment: &'a Environment,
    pub(super) enriched: &'a Enriched,
    pub(super) daemons: &'a [String],
}

impl Phases<'_> {
    /// Writes files: those of the system, then those of each requested daemon.
    pub(super) async fn config(&self) -> anyhow::Result<()> {
        let mut facts = self.facts().await?;
        let instance = &self.enriched.status.instance;
        let ec2 = enrich::ec2(self.machine, self.environment, &instance.region);
        facts.interface_limits = ec2.unknown_limits(&instance.instance_type).await;
        let plan = self.plan(&facts)?;
        for warning in &plan.warnings {
            log::warn!("{warning}");
        }
        let mut system_changed = false;
        for file in plan.files.iter().filter(|file| self.concerns(file.part)) {
            system_changed |= self.put(file)? && file.part == PlanPart::System;
        }
        for path in &plan.absent {
            self.machine.host.remove(path)?;
        }
        if system_changed {
            units::restart(self.machine, &plan.system_units).await?;
        }
        Ok(())
    }

    fn put(&self, file: &PlannedFile) -> anyhow::Result<bool> {
        let changed = self.machine.host.write(&file.path, &file.content, file.mode)?;
        if changed {
            log::info!(path = file.path.as_str(); "wrote file");
        }
        Ok(changed)
    }

    /// Prepares disks and starts each requested daemon.
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        if !self.machine.host.exists(CLOUD_INIT_RESULT) {
            log::warn!("cloud-init has not finished; later changes by its scripts have no effect");
        }
        let plan = self.plan(&self.facts().await?)?;
        prepare(&self.machine.host, &plan).await?;
        Ok(units::start(self.machine, &plan, self.daemons).await?)
    }

    async fn facts(&self) -> anyhow::Result<Facts> {
        let config = self.enriched.config();
        let instance = self.enriched.status.instance.clone();
        let place = Location {
            hostname: instance.private_dns_name,
            node_ip: self.node_ip(&config).await?,
            identity: IdentityDocument {
                instance_id: instance.id,
                instance_type: instance.instance_type,
                region: instance.region,
                availability_zone: instance.availability_zone,
            },
        };
        let user_data = UserData { config, agent: AgentSettings::default(), warnings: Vec::new() };
        facts::gather_from_host(&self.machine.host, place, &self.machine.credential_provider, user_data).await
    }

    async fn node_ip(&self, config: &NodeConfig) -> anyhow::Result<String> {
        let metadata = self.machine.metadata();
        if config.spec.cluster.dns_ip()?.is_ipv4() {
            return Ok(metadata.local_ipv4().await?);
        }
        metadata.ipv6(&self.enriched.status.instance.mac).await?.context(NO_IPV6)
    }

    fn plan(&self, facts: &Facts) -> anyhow::Result<BootstrapPlan> {
        plan::plan(facts).context("invalid NodeConfig")
    }

    fn concerns(&self, part: PlanPart) -> bool {
        let named = |daemon: &str| self.daemons.iter().any(|name| name == daemon);
        match part {
            PlanPart::System => true,
            PlanPart::Containerd => named("containerd"),
            PlanPart::Kubelet => named("kubelet"),
        }
    }
}
