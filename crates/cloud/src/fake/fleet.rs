//! CreateFleet of type instant with EC2's behaviour. The cheapest pools with capacity launch, each pool without capacity
//! returns an error, and the same token returns the same answer.

use jiff::Timestamp;

use super::faults::refuse;
use super::placement;
use super::state::{FakeInstance, FakeState, Pool};
use crate::calls::{
    CloudError, ErrorKind, FleetAnswer, FleetError, FleetInstance, FleetOverride, FleetRequest, Instance,
    LaunchTemplateRequest, RunInstancesProbe, Tags,
};

const CALL: &str = "CreateFleet";

/// An override with its launch template.
struct Candidate<'a> {
    pool: Pool,
    choice: &'a FleetOverride,
    template: LaunchTemplateRequest,
}

/// Launches the available part of the fleet and stores the answer under the client token.
pub(super) fn create(state: &mut FakeState, request: &FleetRequest, now: Timestamp) -> Result<FleetAnswer, CloudError> {
    if let Some((before, answer, _)) = state.fleets.get(&request.client_token) {
        if before == request {
            return Ok(answer.clone());
        }
        let message = format!("the client token {} came with other parameters before", request.client_token);
        return Err(refuse(CALL, ErrorKind::IdempotencyMismatch, "IdempotentParameterMismatch", message));
    }
    let mut candidates = candidates(state, request)?;
    candidates.sort_by(|a, b| a.key().cmp(&b.key()));
    let mut answer = FleetAnswer { fleet_id: state.new_id("fleet"), ..FleetAnswer::default() };
    for candidate in &candidates {
        let left = request.target - u32::try_from(answer.instances.len()).unwrap_or(request.target);
        if left == 0 {
            break;
        }
        fill(state, request, candidate, left, now, &mut answer);
    }
    if !request.client_token.is_empty() {
        state.fleets.insert(request.client_token.clone(), (request.clone(), answer.clone(), now));
    }
    Ok(answer)
}

/// Launches one on-demand instance of a type in a subnet, without a launch template of the account; returns its id.
pub(super) fn run(
    state: &mut FakeState,
    instance_type: &str,
    subnet: &str,
    template: LaunchTemplateRequest,
    tags: Tags,
    now: Timestamp,
) -> Result<String, Box<FleetError>> {
    let zone = state.subnets.iter().find(|one| one.id == subnet).map(|one| one.zone.clone()).unwrap_or_default();
    let choice = FleetOverride {
        instance_type: instance_type.to_owned(),
        zone: zone.clone(),
        subnet_id: subnet.to_owned(),
        ..FleetOverride::default()
    };
    let pool = Pool::new("on-demand", instance_type, &zone);
    let candidate = Candidate { pool, choice: &choice, template };
    launchable(state, &candidate)?;
    let request = FleetRequest { capacity_type: "on-demand".to_owned(), tags, ..FleetRequest::default() };
    Ok(launch(state, &request, &candidate, now).id)
}

/// Validates a fleet request as EC2 does before a dry run reports the permission.
pub(super) fn rehearse(state: &FakeState, request: &FleetRequest) -> Result<(), CloudError> {
    candidates(state, request).map(drop)
}

/// Validates RunInstances with a launch template as EC2 does before a dry run reports the permission.
pub(super) fn probe(state: &FakeState, probe: &RunInstancesProbe) -> Result<(), CloudError> {
    const CALL: &str = "RunInstances(DryRun)";
    if !state.templates.contains_key(&probe.launch_template) {
        let name = &probe.launch_template;
        let message = format!("The specified launch template, with template name {name}, does not exist.");
        return Err(refuse(CALL, ErrorKind::NotFound, "InvalidLaunchTemplateName.NotFoundException", message));
    }
    if !state.subnets.iter().any(|subnet| subnet.id == probe.subnet_id) {
        let message = format!("The subnet ID '{}' does not exist", probe.subnet_id);
        return Err(refuse(CALL, ErrorKind::NotFound, "InvalidSubnetID.NotFound", message));
    }
    if !state.types.contains_key(&probe.instance_type) {
        let message = format!("Invalid value '{}' for InstanceType.", probe.instance_type);
        return Err(refuse(CALL, ErrorKind::Invalid, "InvalidParameterValue", message));
    }
    Ok(())
}

impl Candidate<'_> {
    fn key(&self) -> (i64, &Pool, &str) {
        (self.choice.priority, &self.pool, &self.choice.image_id)
    }

    fn refused(&self, code: &str, message: &str) -> Box<FleetError> {
        Box::new(FleetError {
            code: code.to_owned(),
            message: message.to_owned(),
            instance_type: self.pool.instance_type.clone(),
            zone: self.pool.zone.clone(),
            subnet_id: self.choice.subnet_id.clone(),
            lifecycle: self.pool.capacity_type.clone(),
        })
    }
}

fn candidates<'a>(state: &FakeState, request: &'a FleetRequest) -> Result<Vec<Candidate<'a>>, CloudError> {
    let invalid = |message: &str| Err(refuse(CALL, ErrorKind::Invalid, "InvalidParameterValue", message.to_owned()));
    if request.target == 0 {
        return invalid("TotalTargetCapacity must be at least 1");
    }
    if !matches!(request.capacity_type.as_str(), "spot" | "on-demand") {
        return invalid("DefaultTargetCapacityType must be spot or on-demand");
    }
    if request.configs.iter().all(|config| config.overrides.is_empty()) {
        return invalid("at least one launch template with an override is needed");
    }
    let mut candidates = Vec::new();
    for config in &request.configs {
        let Some((_, template)) = state.templates.get(&config.launch_template) else {
            let message = format!(
                "The specified launch template, with template name {}, does not exist.",
                config.launch_template
            );
            return Err(refuse(CALL, ErrorKind::NotFound, "InvalidLaunchTemplateName.NotFoundException", message));
        };
        candidates.extend(config.overrides.iter().map(|choice| Candidate {
            pool: Pool::new(&request.capacity_type, &choice.instance_type, &choice.zone),
            choice,
            template: template.clone(),
        }));
    }
    Ok(candidates)
}

/// Launches up to `left` instances from one pool.
fn fill(
    state: &mut FakeState,
    request: &FleetRequest,
    candidate: &Candidate<'_>,
    left: u32,
    now: Timestamp,
    answer: &mut FleetAnswer,
) {
    let count = match launchable(state, candidate) {
        Ok(count) => count.min(left),
        Err(error) => {
            answer.errors.push(*error);
            return;
        }
    };
    if let Some(stock) = state.stock.get_mut(&candidate.pool) {
        *stock -= count;
    }
    if let Some(subnet) = state.subnets.iter_mut().find(|subnet| subnet.id == candidate.choice.subnet_id) {
        subnet.free_addresses -= count;
    }
    for _ in 0..count {
        answer.instances.push(launch(state, request, candidate, now));
    }
}

/// Returns the number of instances, at least one, that the pool and its subnet can launch, or EC2's error.
fn launchable(state: &FakeState, candidate: &Candidate<'_>) -> Result<u32, Box<FleetError>> {
    let pool = &candidate.pool;
    if !state.offered(&pool.instance_type, &pool.zone) {
        let message = format!(
            "Your requested instance type ({}) is not supported in your requested Availability Zone ({}).",
            pool.instance_type, pool.zone
        );
        return Err(candidate.refused("Unsupported", &message));
    }
    let info = state.types.get(&pool.instance_type);
    if info.is_some_and(|info| !info.usage_classes.contains(&pool.capacity_type)) {
        let message = format!("The instance type {} is not sold as {}.", pool.instance_type, pool.capacity_type);
        return Err(candidate.refused("Unsupported", &message));
    }
    let subnet = state.subnets.iter().find(|subnet| subnet.id == candidate.choice.subnet_id);
    let Some(subnet) = subnet.filter(|subnet| subnet.zone == pool.zone) else {
        let message = format!("The subnet ID '{}' does not exist in {}", candidate.choice.subnet_id, pool.zone);
        return Err(candidate.refused("InvalidSubnetID.NotFound", &message));
    };
    check_image(state, candidate)?;
    let placed = placement::grouped(state, &candidate.template, &pool.zone);
    let placed = placed.map_err(|(code, message)| candidate.refused(code, &message))?.unwrap_or(u32::MAX);
    let reserved = placement::reserved(state, &candidate.template, pool);
    if let Some(reserved) = reserved.map_err(|(code, message)| candidate.refused(code, &message))? {
        return Ok(reserved.min(placed).min(subnet.free_addresses));
    }
    if pool.capacity_type == "spot" && state.without_spot_role {
        let message =
            "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.";
        return Err(candidate.refused("AuthFailure.ServiceLinkedRoleCreationNotPermitted", message));
    }
    let quota = state.quota_of(pool).unwrap_or(u32::MAX);
    if quota == 0 {
        return Err(match pool.capacity_type.as_str() {
            "spot" => candidate.refused("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
            _ => {
                candidate.refused("VcpuLimitExceeded", "You have requested more vCPU capacity than your current limit.")
            }
        });
    }
    let stock = state.stock_of(pool).unwrap_or(u32::MAX).min(quota);
    if stock == 0 {
        return Err(candidate
            .refused("InsufficientInstanceCapacity", "There is no capacity available that matches your request."));
    }
    if subnet.free_addresses == 0 {
        let message = format!("There are not enough free addresses in subnet '{}'", subnet.id);
        return Err(candidate.refused("InsufficientFreeAddressesInSubnet", &message));
    }
    Ok(stock.min(subnet.free_addresses).min(placed))
}

fn check_image(state: &FakeState, candidate: &Candidate<'_>) -> Result<(), Box<FleetError>> {
    let id = candidate.image_id();
    let Some(image) = state.images.iter().find(|image| image.id == id) else {
        return Err(candidate.refused("InvalidAMIID.NotFound", &format!("The image id '[{id}]' does not exist")));
    };
    let info = state.types.get(&candidate.pool.instance_type);
    if info.is_some_and(|info| !info.architectures.contains(&image.architecture)) {
        let message = format!(
            "The architecture '{}' of the specified AMI does not match the instance type '{}'",
            image.architecture, candidate.pool.instance_type
        );
        return Err(candidate.refused("InvalidParameterValue", &message));
    }
    Ok(())
}

impl Candidate<'_> {
    fn image_id(&self) -> &str {
        if self.choice.image_id.is_empty() { &self.template.image_id } else { &self.choice.image_id }
    }
}

fn launch(state: &mut FakeState, request: &FleetRequest, candidate: &Candidate<'_>, now: Timestamp) -> FleetInstance {
    let id = state.new_id("i");
    let (network, host, net) = (u64::from(state.network), state.made % 256, state.made / 256 % 256);
    let image_id = candidate.image_id().to_owned();
    let instance = Instance {
        id: id.clone(),
        state: "pending".to_owned(),
        instance_type: candidate.pool.instance_type.clone(),
        zone: candidate.pool.zone.clone(),
        subnet_id: candidate.choice.subnet_id.clone(),
        image_id: image_id.clone(),
        spot: request.capacity_type == "spot",
        launched: now.to_string(),
        private_dns_name: private_dns_name(state, &candidate.choice.subnet_id, &id, [network, net, host]),
        private_ip: format!("10.{network}.{net}.{host}"),
        security_group_ids: candidate.template.security_group_ids.clone(),
        capacity_reservation_id: placement::occupy(state, &candidate.template, &candidate.pool),
        capacity_reservation_preference: preference(&candidate.template),
        placement_partition: placement::partition(state, &candidate.template),
        tags: request.tags.clone(),
    };
    let architecture = state.images.iter().find(|image| image.id == image_id).map(|image| image.architecture.clone());
    let machine = FakeInstance {
        instance,
        architecture: architecture.unwrap_or_default(),
        template: candidate.template.clone(),
        client_token: request.client_token.clone(),
        interruption: None,
        rebalance: None,
        launched: now,
        stopped: None,
        ended: None,
    };
    state.machines.insert(id.clone(), machine);
    state.changes += 1;
    FleetInstance {
        id,
        instance_type: candidate.pool.instance_type.clone(),
        zone: candidate.pool.zone.clone(),
        subnet_id: candidate.choice.subnet_id.clone(),
        image_id,
        lifecycle: request.capacity_type.clone(),
    }
}

/// Returns the private DNS name: from the id if the subnet says so, else from the address.
fn private_dns_name(state: &FakeState, subnet: &str, id: &str, [network, net, host]: [u64; 3]) -> String {
    let region = &state.region;
    match state.resource_names.contains(subnet) {
        true => format!("{id}.{region}.compute.internal"),
        false => format!("ip-10-{network}-{net}-{host}.{region}.compute.internal"),
    }
}

/// Returns the capacity reservation preference of the template. EC2 shows `open` if the template sets none.
fn preference(template: &LaunchTemplateRequest) -> Option<String> {
    let preference = template.capacity_reservation.as_ref().map(|wanted| wanted.preference.clone());
    preference.or_else(|| Some("open".to_owned()))
}
