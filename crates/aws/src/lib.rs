//! Implementation of [`cloud::Cloud`] with the AWS SDK. The SDK takes minutes to compile, so only this crate links it. Decides
//! nothing.

mod arc;
mod body_limit;
mod ec2;
mod eks;
mod failure;
mod iam;
mod pricing;
mod settings;
mod sqs;
mod ssm;

use aws_sdk_arczonalshift::Client as ArcZonalShift;
use aws_sdk_ec2::Client as Ec2;
use aws_sdk_eks::Client as Eks;
use aws_sdk_iam::Client as Iam;
use aws_sdk_pricing::Client as Pricing;
use aws_sdk_sqs::Client as Sqs;
use aws_sdk_ssm::Client as Ssm;
use cloud::{
    Call, CapacityReservation, Cloud, ClusterDescription, Filter, FleetAnswer, FleetRequest, Image, Instance,
    InstanceProfile, InstanceProfileRequest, InstanceStatus, InstanceTypeInfo, LaunchTemplate, LaunchTemplateRequest,
    OnDemandPrice, PlacementGroup, PlacementGroupQuery, QueueMessage, ReservationFilter, RunInstancesProbe,
    SecurityGroup, SpotPrice, Subnet, Tags, TypeOffering, ZonalShift,
};

use ec2::{describe, fleet, instances, launch_templates, places, statuses};

pub use settings::{Credentials, Settings};

/// Client of one AWS region, by the SDK. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct AwsCloud {
    arc: ArcZonalShift,
    ec2: Ec2,
    eks: Eks,
    iam: Iam,
    pricing: Pricing,
    sqs: Sqs,
    ssm: Ssm,
}

impl AwsCloud {
    /// Resolves region, endpoint and credentials as the SDK does (environment, profile, web identity, container and instance
    /// roles), unless `settings` contains them. Makes no call: a missing credential is an error of the first call.
    pub async fn connect(settings: &Settings) -> Self {
        let config = settings::load(settings).await;
        Self {
            arc: ArcZonalShift::new(&config),
            ec2: Ec2::new(&config),
            eks: Eks::new(&config),
            iam: Iam::new(&config),
            pricing: Pricing::from_conf(settings::for_pricing(&config)),
            sqs: Sqs::new(&config),
            ssm: Ssm::new(&config),
        }
    }

    /// Returns the region of the calls, or `None` if none is configured; calls fail then.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.ec2.config().region().map(AsRef::as_ref)
    }
}

impl Cloud for AwsCloud {
    fn instance_types(&self) -> Call<'_, Vec<InstanceTypeInfo>> {
        Box::pin(describe::instance_types(&self.ec2))
    }

    fn type_offerings(&self) -> Call<'_, Vec<TypeOffering>> {
        Box::pin(describe::type_offerings(&self.ec2))
    }

    fn spot_prices(&self) -> Call<'_, Vec<SpotPrice>> {
        Box::pin(describe::spot_prices(&self.ec2))
    }

    fn subnets<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Subnet>> {
        Box::pin(describe::subnets(&self.ec2, filter))
    }

    fn security_groups<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<SecurityGroup>> {
        Box::pin(describe::security_groups(&self.ec2, filter))
    }

    fn images<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Image>> {
        Box::pin(describe::images(&self.ec2, filter))
    }

    fn parameter<'a>(&'a self, name: &'a str) -> Call<'a, Option<String>> {
        Box::pin(ssm::parameter(&self.ssm, name))
    }

    fn launch_templates<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<LaunchTemplate>> {
        Box::pin(launch_templates::list(&self.ec2, tags))
    }

    fn create_launch_template<'a>(&'a self, request: &'a LaunchTemplateRequest) -> Call<'a, LaunchTemplate> {
        Box::pin(launch_templates::create(&self.ec2, request))
    }

    fn delete_launch_template<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        Box::pin(launch_templates::delete(&self.ec2, name))
    }

    fn create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, FleetAnswer> {
        Box::pin(fleet::create(&self.ec2, request))
    }

    fn instances<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<Instance>> {
        Box::pin(instances::list(&self.ec2, tags))
    }

    fn instances_by_id<'a>(&'a self, ids: &'a [String]) -> Call<'a, Vec<Instance>> {
        Box::pin(instances::by_id(&self.ec2, ids))
    }

    fn terminate_instances<'a>(&'a self, ids: &'a [String]) -> Call<'a, ()> {
        Box::pin(instances::terminate(&self.ec2, ids))
    }

    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        Box::pin(instances::create_tags(&self.ec2, ids, tags))
    }

    fn on_demand_prices(&self) -> Call<'_, Vec<OnDemandPrice>> {
        Box::pin(pricing::on_demand(&self.pricing, self.region()))
    }

    fn capacity_reservations<'a>(&'a self, filter: &'a ReservationFilter) -> Call<'a, Vec<CapacityReservation>> {
        Box::pin(places::reservations(&self.ec2, filter))
    }

    fn placement_group<'a>(&'a self, query: &'a PlacementGroupQuery) -> Call<'a, Option<PlacementGroup>> {
        Box::pin(places::group(&self.ec2, query))
    }

    fn dry_run_create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, ()> {
        Box::pin(fleet::rehearse(&self.ec2, request))
    }

    fn dry_run_run_instances<'a>(&'a self, probe: &'a RunInstancesProbe) -> Call<'a, ()> {
        Box::pin(fleet::probe(&self.ec2, probe))
    }

    fn instance_statuses(&self) -> Call<'_, Vec<InstanceStatus>> {
        Box::pin(statuses::unhealthy(&self.ec2))
    }

    fn instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, Option<InstanceProfile>> {
        Box::pin(iam::get(&self.iam, name))
    }

    fn instance_profiles<'a>(&'a self, path_prefix: &'a str) -> Call<'a, Vec<InstanceProfile>> {
        Box::pin(iam::list(&self.iam, path_prefix))
    }

    fn create_instance_profile<'a>(&'a self, request: &'a InstanceProfileRequest) -> Call<'a, ()> {
        Box::pin(iam::create(&self.iam, request))
    }

    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()> {
        Box::pin(iam::add_role(&self.iam, profile, role))
    }

    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()> {
        Box::pin(iam::remove_role(&self.iam, profile, role))
    }

    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        Box::pin(iam::delete(&self.iam, name))
    }

    fn cluster<'a>(&'a self, name: &'a str) -> Call<'a, ClusterDescription> {
        Box::pin(eks::describe(&self.eks, name))
    }

    fn zonal_shifts<'a>(&'a self, cluster_arn: &'a str) -> Call<'a, Vec<ZonalShift>> {
        Box::pin(arc::zonal_shifts(&self.arc, cluster_arn))
    }

    fn queue_url<'a>(&'a self, name: &'a str) -> Call<'a, String> {
        Box::pin(sqs::url(&self.sqs, name))
    }

    fn receive_messages<'a>(&'a self, url: &'a str) -> Call<'a, Vec<QueueMessage>> {
        Box::pin(sqs::receive(&self.sqs, url))
    }

    fn delete_messages<'a>(&'a self, url: &'a str, receipts: &'a [String]) -> Call<'a, Vec<String>> {
        Box::pin(sqs::delete(&self.sqs, url, receipts))
    }
}
