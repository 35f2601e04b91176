//! Garbage collection of instance profiles. An EC2NodeClass with a new role leaves its old profile behind, because instances
//! still use it.

use std::collections::BTreeSet;
use std::time::Duration;

use api::annotation;
use cloud::CloudError;
use cloud::nodeclass::{self, Unused};

use crate::capacity::offerings::Offerings;
use crate::gc::periodic::{PeriodicTask, TaskContext};
use crate::state::index::Index;
use crate::write::writer::Operation;

const EVERY: Duration = Duration::from_secs(30 * 60);

/// Periodic deletion of unused instance profiles. Does nothing in an isolated VPC, where IAM cannot be reached.
#[derive(Default)]
pub struct ProfileCollection {
    unused: Unused,
}

impl PeriodicTask for ProfileCollection {
    const NAME: &'static str = "collection of instance profiles";
    const FIRST_PAUSE: Duration = EVERY;
    const REMOVES: bool = true;

    async fn run(&mut self, context: &TaskContext) -> Result<Duration, CloudError> {
        let TaskContext { cluster, offerings, writer, .. } = context;
        if offerings.settings().isolated_vpc {
            return Ok(EVERY);
        }
        let path = nodeclass::cluster_path(offerings.settings());
        let found = offerings.cloud().instance_profiles(&path).await?;
        let used = cluster.read(|index| used(index, offerings));
        for profile in self.unused.sweep(&found, &used, cluster.now()) {
            let name = profile.name.clone();
            tracing::info!(profile = name.as_str(), "deleting unused instance profile");
            let steps = nodeclass::removal(profile).into_iter().map(Operation::Profile).collect();
            if let Err(error) = writer.run_all(steps).await {
                let error = daemon::error::chain(&error);
                tracing::warn!(
                    profile = name.as_str(),
                    error = error.as_str(),
                    "failed to delete orphaned resource, retrying"
                );
            }
        }
        Ok(EVERY)
    }
}

/// Returns the profiles that an EC2NodeClass has or will have, or that an instance was launched with.
fn used(index: &Index, offerings: &Offerings) -> BTreeSet<String> {
    let classes = index.classes.values().flat_map(|class| {
        let current = class.status.as_ref().map(|status| status.instance_profile.clone());
        [current, nodeclass::own_name(class, offerings.settings())]
    });
    let claims = index
        .claims
        .values()
        .map(|claim| claim.metadata.annotations.as_ref()?.get(annotation::INSTANCE_PROFILE_NAME).cloned());
    classes.chain(claims).flatten().collect()
}
