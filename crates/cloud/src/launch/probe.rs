//! A check of the permissions to launch from an EC2NodeClass, by dry runs of the calls of a launch.

use api::{condition, reason};
use planner::{CapacityType, Operator, Requirement, Requirements};

use super::{ClaimId, LaunchChoice, LaunchOffer, LaunchRequest, Token, choose};
use crate::calls::{Cloud, CloudError, ErrorKind, FleetRequest, LaunchTemplateRequest, RunInstancesProbe, Subnet};
use crate::nodeclass::{Finding, Resolution, ResolvedClass};
use crate::tags::OWN_LAUNCH_TAGS;

/// The calls to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchProbe {
    template: LaunchTemplateRequest,
    fleet: FleetRequest,
    /// One dry run per subnet.
    runs: Vec<RunInstancesProbe>,
}

/// The call that AWS refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// CreateLaunchTemplate, which is executed without a dry run.
    Template,
    /// CreateFleet.
    Fleet,
    /// RunInstances.
    Run,
}

/// Tags with which AWS permits a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermittedTags {
    /// All tags.
    All,
    /// Only the tags that Karpenter writes too.
    WithoutOwn,
}

/// The failure of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    /// The failed call.
    pub stage: Stage,
    /// Error of the call.
    pub error: CloudError,
}

/// Returns the calls to check for an EC2NodeClass. The launch is that of one of its NodePools, else the cheapest on-demand
/// launch. Returns `None` if nothing can be launched, so that there is no call to check.
#[must_use]
pub fn probe(pools: &[LaunchRequest], offer: &LaunchOffer<'_>) -> Option<LaunchProbe> {
    let anything = LaunchRequest {
        // IAM policies require this tag on all launched resources.
        pool: offer.class.name.clone(),
        requirements: on_demand(),
        ..LaunchRequest::default()
    };
    let mut requests = pools.iter().chain([&anything]);
    let choice = requests.find_map(|request| choose(request, offer).ok())?;
    let template = choice.templates.first()?.clone();
    let instance_type = choice.configs.first()?.overrides.first()?.instance_type.clone();
    let fleet = fleet(choice, offer);
    let run = |subnet: &Subnet| RunInstancesProbe {
        launch_template: template.name.clone(),
        instance_type: instance_type.clone(),
        subnet_id: subnet.id.clone(),
        tags: fleet.tags.clone(),
    };
    let runs = offer.class.subnets.iter().map(run).collect();
    Some(LaunchProbe { fleet, runs, template })
}

fn on_demand() -> Requirements {
    let mut requirements = Requirements::default();
    requirements.add(&Requirement {
        key: api::label::CAPACITY_TYPE.to_owned(),
        operator: Operator::In,
        values: vec![CapacityType::OnDemand.as_str().to_owned()],
        min_values: None,
    });
    requirements
}

fn fleet(mut choice: LaunchChoice, offer: &LaunchOffer<'_>) -> FleetRequest {
    choice.configs.truncate(1);
    let claims = [ClaimId { name: "validation".to_owned(), uid: offer.class.name.clone() }];
    let token = Token::new(&choice, &claims, offer.now);
    choice.request(&token, &claims)
}

/// Executes the probe. If AWS does not permit the launch, the dry runs are repeated without the tags that Karpenter does not
/// write.
///
/// # Errors
/// When AWS refuses a call or does not answer.
pub async fn try_out(cloud: &dyn Cloud, probe: &LaunchProbe) -> Result<PermittedTags, ProbeFailure> {
    let failed = |stage| move |error| ProbeFailure { stage, error };
    match cloud.create_launch_template(&probe.template).await {
        Err(error) if error.kind == ErrorKind::AlreadyExists => {}
        made => drop(made.map_err(failed(Stage::Template))?),
    }
    let Err(failure) = rehearse(cloud, probe).await else { return Ok(PermittedTags::All) };
    let is_denied = failure.error.kind == ErrorKind::Unauthorized;
    if is_denied && rehearse(cloud, &probe.without_own_tags()).await.is_ok() {
        return Ok(PermittedTags::WithoutOwn);
    }
    Err(failure)
}

/// Executes the dry runs. One successful subnet is enough; if none succeeds, the result is the error of the first subnet.
async fn rehearse(cloud: &dyn Cloud, probe: &LaunchProbe) -> Result<(), ProbeFailure> {
    let failed = |stage| move |error| ProbeFailure { stage, error };
    cloud.dry_run_create_fleet(&probe.fleet).await.map_err(failed(Stage::Fleet))?;
    let mut first = None;
    for run in &probe.runs {
        match cloud.dry_run_run_instances(run).await {
            Ok(()) => return Ok(()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(()), |error| Err(failed(Stage::Run)(error)))
}

impl LaunchProbe {
    fn without_own_tags(&self) -> Self {
        let mut reduced = self.clone();
        let tags = reduced.runs.iter_mut().map(|run| &mut run.tags).chain([&mut reduced.fleet.tags]);
        tags.for_each(|tags| tags.retain(|key, _| !OWN_LAUNCH_TAGS.contains(&key.as_str())));
        reduced
    }
}

impl ProbeFailure {
    /// Records the failure in the resolution of the EC2NodeClass.
    pub fn record(self, resolution: &mut Resolution) {
        let finding = self.verdict(&resolution.class);
        resolution.launch_failed(finding.ok_or(self.error));
    }

    /// Returns the condition of the EC2NodeClass; `None` if a retry may give another result.
    #[must_use]
    pub fn verdict(&self, class: &ResolvedClass) -> Option<Finding> {
        let Self { stage, error } = self;
        let bad = |reason, message| Some(Finding::bad(condition::VALIDATION_SUCCEEDED, reason, message));
        if *stage == Stage::Template && error.message.contains("User data is limited to") {
            let message = format!("user data is larger than the EC2 limit ({error}); shorten spec.userData");
            return bad(reason::USER_DATA_SIZE_LIMIT_EXCEEDED, message);
        }
        if error.kind != ErrorKind::Unauthorized {
            return None;
        }
        let (reason, what) = match stage {
            Stage::Template => (reason::CREATE_LAUNCH_TEMPLATE_AUTH_CHECK_FAILED, "create launch templates"),
            Stage::Fleet => (reason::CREATE_FLEET_AUTH_CHECK_FAILED, "create fleets"),
            Stage::Run => (reason::RUN_INSTANCES_AUTH_CHECK_FAILED, "run instances"),
        };
        let message = format!(
            "the controller may not {what} for class {}: {error}; allow it in the IAM policy of the controller's role, and look \
             for a permissions boundary or a service control policy that forbids it",
            class.name
        );
        bad(reason, message)
    }
}
