//! Fixture of a case: the cloud, its own resource names, and the cleanup of all that it created.

use std::time::Duration;

use super::{Abilities, check, ok};
use crate::calls::{
    Cloud, ErrorKind, Filter, FleetAnswer, FleetConfig, FleetOverride, FleetRequest, Instance, LaunchTemplateRequest,
    Subnet, Tags,
};

/// Number of polls, and pause between them, before a case fails because an expected state did not appear.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// The resources of one case in the cloud.
pub struct Fixture<'a> {
    pub(super) cloud: &'a dyn Cloud,
    pub(super) abilities: &'a Abilities,
    /// Name prefix of the case's resources.
    pub(super) name: String,
}

impl<'a> Fixture<'a> {
    pub(super) fn new(cloud: &'a dyn Cloud, abilities: &'a Abilities, number: usize) -> Self {
        Self { cloud, abilities, name: format!("{}-{number}", abilities.name) }
    }

    /// Returns the tags of all resources of this case.
    pub(super) fn tags(&self) -> Tags {
        [("kerf.sh/contract".to_owned(), self.name.clone())].into()
    }

    pub(super) async fn subnet(&self) -> Result<Subnet, String> {
        let filter = Filter { tags: self.abilities.network_tags.clone(), ..Filter::default() };
        let found = ok(self.cloud.subnets(&filter)).await?;
        found.into_iter().min_by(|a, b| a.id.cmp(&b.id)).ok_or_else(|| "no subnet with the network tags".to_owned())
    }

    /// Returns a request for a launch template with the case's name.
    pub(super) async fn template(&self) -> Result<LaunchTemplateRequest, String> {
        let filter = Filter { tags: self.abilities.network_tags.clone(), ..Filter::default() };
        let groups = ok(self.cloud.security_groups(&filter)).await?;
        Ok(LaunchTemplateRequest {
            name: self.name.clone(),
            image_id: self.abilities.image_id.clone(),
            instance_profile: "kerf-contract".to_owned(),
            security_group_ids: groups.into_iter().map(|group| group.id).collect(),
            user_data: "IyEvYmluL3NoCg==".to_owned(),
            tags: self.tags(),
            ..LaunchTemplateRequest::default()
        })
    }

    pub(super) fn over(&self, instance_type: &str, subnet: &Subnet, priority: i64) -> FleetOverride {
        FleetOverride {
            instance_type: instance_type.to_owned(),
            zone: subnet.zone.clone(),
            subnet_id: subnet.id.clone(),
            image_id: self.abilities.image_id.clone(),
            priority,
        }
    }

    /// Creates the case's launch template and returns a request for a fleet of these overrides.
    pub(super) async fn fleet(
        &self,
        capacity_type: &str,
        overrides: Vec<FleetOverride>,
    ) -> Result<FleetRequest, String> {
        ok(self.cloud.create_launch_template(&self.template().await?)).await?;
        Ok(FleetRequest {
            client_token: self.name.clone(),
            target: 1,
            capacity_type: capacity_type.to_owned(),
            configs: vec![FleetConfig { launch_template: self.name.clone(), overrides }],
            tags: self.tags(),
            context: None,
            prioritized: true,
            ..FleetRequest::default()
        })
    }

    /// Launches a fleet and checks that it has `count` instances.
    pub(super) async fn launch(&self, request: &FleetRequest, count: usize) -> Result<FleetAnswer, String> {
        let answer = ok(self.cloud.create_fleet(request)).await?;
        check(answer.instances.len() == count, || format!("expected {count} instances: {answer:?}"))?;
        Ok(answer)
    }

    /// Polls until exactly `count` instances of the case satisfy `wanted`, and returns them.
    pub(super) async fn see(&self, count: usize, wanted: impl Fn(&Instance) -> bool) -> Result<Vec<Instance>, String> {
        let mut found = Vec::new();
        for _ in 0..LOOKS {
            found = ok(self.cloud.instances(&self.tags())).await?;
            found.retain(|instance| wanted(instance));
            if found.len() == count {
                return Ok(found);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(format!("expected {count} instances, found {found:?}"))
    }

    /// Terminates the case's instances and deletes its launch template.
    pub(super) async fn clear(&self) -> Result<(), String> {
        let left = ok(self.cloud.instances(&self.tags())).await?;
        let ids: Vec<String> = left.into_iter().filter(|one| !one.is_ending()).map(|one| one.id).collect();
        if !ids.is_empty() {
            ok(self.cloud.terminate_instances(&ids)).await?;
        }
        match self.cloud.delete_launch_template(&self.name).await {
            Err(error) if error.kind != ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}
