//! CreateFleet of type instant, the only call that launches instances, and the dry runs of launches.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::types as ec2;
use cloud::{
    CloudError, FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetRequest, RunInstancesProbe,
};

use crate::ec2::tags;
use crate::failure::{failure, refused};

const CALL: &str = "CreateFleet";

/// Resources of a launch that can have tags.
const TAGGED: [ec2::ResourceType; 3] =
    [ec2::ResourceType::Instance, ec2::ResourceType::Volume, ec2::ResourceType::Fleet];
/// Resources of these that RunInstances creates itself.
const TAGGED_BY_RUN: [ec2::ResourceType; 2] = [ec2::ResourceType::Instance, ec2::ResourceType::Volume];

pub(crate) async fn create(client: &Client, request: &FleetRequest) -> Result<FleetAnswer, CloudError> {
    let call = call(client, request)?.customize().config_override(once());
    let answer = call.send().await.map_err(|error| failure(CALL, error))?;
    Ok(FleetAnswer {
        fleet_id: answer.fleet_id.unwrap_or_default(),
        instances: answer.instances.unwrap_or_default().into_iter().flat_map(launched).collect(),
        errors: answer.errors.unwrap_or_default().into_iter().map(unusable).collect(),
    })
}

/// Sends the same call as a dry run.
pub(crate) async fn rehearse(client: &Client, request: &FleetRequest) -> Result<(), CloudError> {
    const CALL: &str = "CreateFleet(DryRun)";
    let call = call(client, request)?.dry_run(true).customize().config_override(once());
    rehearsed(call.send().await.map(drop).map_err(|error| failure(CALL, error)))
}

/// Sends RunInstances for one instance of a launch template, as a dry run.
pub(crate) async fn probe(client: &Client, probe: &RunInstancesProbe) -> Result<(), CloudError> {
    const CALL: &str = "RunInstances(DryRun)";
    let template = ec2::LaunchTemplateSpecification::builder()
        .launch_template_name(&probe.launch_template)
        .version("$Latest")
        .build();
    // A subnet at the top of a request is refused together with interfaces in its template.
    let interface =
        ec2::InstanceNetworkInterfaceSpecification::builder().device_index(0).subnet_id(&probe.subnet_id).build();
    let call = client
        .run_instances()
        .dry_run(true)
        .min_count(1)
        .max_count(1)
        .launch_template(template)
        .instance_type(probe.instance_type.as_str().into())
        .network_interfaces(interface)
        .set_tag_specifications(tags::specifications(&TAGGED_BY_RUN, &probe.tags))
        .customize()
        .config_override(once());
    rehearsed(call.send().await.map(drop).map_err(|error| failure(CALL, error)))
}

/// Returns a configuration without retries. A dry run is repeated by its caller anyway. For a launch, the error of a second
/// attempt, such as a revoked permission, would hide that the first attempt may have launched instances.
fn once() -> aws_sdk_ec2::config::Builder {
    aws_sdk_ec2::Config::builder().retry_config(RetryConfig::disabled())
}

/// Converts the result of a dry run, in which EC2 reports success as an error.
fn rehearsed(answer: Result<(), CloudError>) -> Result<(), CloudError> {
    match answer {
        Err(error) if error.code == "DryRunOperation" => Ok(()),
        other => other,
    }
}

fn call(client: &Client, request: &FleetRequest) -> Result<CreateFleetFluentBuilder, CloudError> {
    let target = i32::try_from(request.target)
        .map_err(|_| refused(CALL, format!("{} instances are more than a fleet can have", request.target)))?;
    let kind = request.default_target_capacity_type.as_ref().unwrap_or(&request.capacity_type);
    let capacity = ec2::TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(target)
        .default_target_capacity_type(kind.as_str().into())
        .build();
    let call = client
        .create_fleet()
        .r#type(ec2::FleetType::Instant)
        .client_token(&request.client_token)
        .target_capacity_specification(capacity)
        .set_launch_template_configs(Some(request.configs.iter().map(config).collect()))
        .set_tag_specifications(tags::specifications(&TAGGED, &request.tags))
        .set_reserved_capacity_options(reserved_options(request))
        .set_context(request.context.clone());
    Ok(if request.default_target_capacity_type.is_some() { call } else { with_strategy(call, request) })
}

fn reserved_options(request: &FleetRequest) -> Option<ec2::ReservedCapacityOptionsRequest> {
    let kinds: Vec<_> = request.reserved_capacity_types.iter().map(|kind| kind.as_str().into()).collect();
    let options = || ec2::ReservedCapacityOptionsRequest::builder().set_reservation_types(Some(kinds.clone())).build();
    (!kinds.is_empty()).then(options)
}

/// Sets the allocation strategy. Spot balances price and risk of interruption, and on-demand uses the lowest price. If
/// NodeOverlays affect prices, the order of the overrides decides.
fn with_strategy(call: CreateFleetFluentBuilder, request: &FleetRequest) -> CreateFleetFluentBuilder {
    if request.capacity_type == "spot" {
        let strategy = match request.prioritized {
            true => ec2::SpotAllocationStrategy::CapacityOptimizedPrioritized,
            false => ec2::SpotAllocationStrategy::PriceCapacityOptimized,
        };
        call.spot_options(ec2::SpotOptionsRequest::builder().allocation_strategy(strategy).build())
    } else {
        let strategy = match request.prioritized {
            true => ec2::FleetOnDemandAllocationStrategy::Prioritized,
            false => ec2::FleetOnDemandAllocationStrategy::LowestPrice,
        };
        call.on_demand_options(ec2::OnDemandOptionsRequest::builder().allocation_strategy(strategy).build())
    }
}

fn config(config: &FleetConfig) -> ec2::FleetLaunchTemplateConfigRequest {
    let template = ec2::FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&config.launch_template)
        .version("$Latest")
        .build();
    ec2::FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(config.overrides.iter().map(pool).collect()))
        .build()
}

fn pool(pool: &FleetOverride) -> ec2::FleetLaunchTemplateOverridesRequest {
    ec2::FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(pool.instance_type.as_str().into())
        .set_availability_zone(given(&pool.zone))
        .set_subnet_id(given(&pool.subnet_id))
        .set_image_id(given(&pool.image_id))
        .priority(pool.priority as f64)
        .build()
}

/// Returns `None` for an empty text, because EC2 refuses empty values and accepts absent ones.
fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Converts one entry of the response, which stands for all instances of one capacity pool.
fn launched(entry: ec2::CreateFleetInstance) -> Vec<FleetInstance> {
    let pool = used_pool(entry.launch_template_and_overrides);
    let instance_type = entry.instance_type.map(|name| name.as_str().to_owned());
    let one = FleetInstance {
        id: String::new(),
        instance_type: instance_type.unwrap_or(pool.instance_type),
        zone: entry.availability_zone.unwrap_or(pool.zone),
        subnet_id: entry.subnet_id.unwrap_or(pool.subnet_id),
        image_id: pool.image_id,
        lifecycle: lifecycle(entry.lifecycle),
    };
    let ids = entry.instance_ids.unwrap_or_default();
    ids.into_iter().map(|id| FleetInstance { id, ..one.clone() }).collect()
}

fn unusable(error: ec2::CreateFleetError) -> FleetError {
    let pool = used_pool(error.launch_template_and_overrides);
    FleetError {
        code: error.error_code.unwrap_or_default(),
        message: error.error_message.unwrap_or_default(),
        instance_type: pool.instance_type,
        zone: pool.zone,
        subnet_id: pool.subnet_id,
        lifecycle: lifecycle(error.lifecycle),
    }
}

fn used_pool(used: Option<ec2::LaunchTemplateAndOverridesResponse>) -> FleetOverride {
    let Some(pool) = used.and_then(|used| used.overrides) else { return FleetOverride::default() };
    FleetOverride {
        instance_type: pool.instance_type.map_or_else(String::new, |name| name.as_str().to_owned()),
        zone: pool.availability_zone.unwrap_or_default(),
        subnet_id: pool.subnet_id.unwrap_or_default(),
        image_id: pool.image_id.unwrap_or_default(),
        priority: pool.priority.unwrap_or_default() as i64,
    }
}

fn lifecycle(lifecycle: Option<ec2::InstanceLifecycle>) -> String {
    lifecycle.map_or_else(String::new, |name| name.as_str().to_owned())
}
