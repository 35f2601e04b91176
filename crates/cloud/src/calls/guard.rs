//! A wrapper of [`Cloud`] with hooks before and after every call. Rate limits and the faults of tests use it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::annotation;

use super::{
    Call, CapacityReservation, Cloud, CloudError, ClusterDescription, ErrorKind, Filter, FleetAnswer, FleetRequest,
    Image, Instance, InstanceProfile, InstanceProfileRequest, InstanceStatus, InstanceTypeInfo, LaunchTemplate,
    LaunchTemplateRequest, OnDemandPrice, PlacementGroup, PlacementGroupQuery, QueueMessage, ReservationFilter,
    RunInstancesProbe, SecurityGroup, SpotPrice, Subnet, Tags, TypeOffering, ZonalShift,
};

/// Hooks around the calls of a cloud. Calls are named by AWS's action names.
pub trait Guard: Send + Sync {
    /// Waits until the call may start.
    ///
    /// # Errors
    /// When the call must not start. The error becomes the call's result.
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>>;

    /// Receives the result and duration of a call, and may replace the result with an error.
    fn after(&self, call: &'static str, took: Duration, error: Option<&CloudError>) -> Option<CloudError>;

    /// Receives the denial of a dry run with tags that Karpenter's policies deny. The caller repeats the dry run without them.
    fn after_expected_denial(&self, call: &'static str, took: Duration, error: &CloudError) -> Option<CloudError> {
        self.after(call, took, Some(error))
    }
}

/// A cloud with a guard around each call.
#[derive(Clone)]
pub struct Guarded<G> {
    inner: Arc<dyn Cloud>,
    guard: Arc<G>,
}

impl<G: Guard> Guarded<G> {
    /// Creates a cloud whose calls pass through the guard.
    #[must_use]
    pub fn new(inner: Arc<dyn Cloud>, guard: Arc<G>) -> Self {
        Self { inner, guard }
    }

    async fn through<T>(&self, name: &'static str, call: Call<'_, T>) -> Result<T, CloudError> {
        self.guard.before(name).await?;
        let begin = Instant::now();
        let answer = call.await;
        match self.guard.after(name, begin.elapsed(), answer.as_ref().err()) {
            Some(error) => Err(error),
            None => answer,
        }
    }

    async fn dry_run(&self, name: &'static str, tags: &Tags, call: Call<'_, ()>) -> Result<(), CloudError> {
        self.guard.before(name).await?;
        let begin = Instant::now();
        let answer = call.await;
        let took = begin.elapsed();
        let denied = |error: &&CloudError| error.kind == ErrorKind::Unauthorized && has_own_tags(tags);
        let replaced = match answer.as_ref().err().filter(denied) {
            Some(error) => self.guard.after_expected_denial(name, took, error),
            None => self.guard.after(name, took, answer.as_ref().err()),
        };
        replaced.map_or(answer, Err)
    }
}

/// Reports whether a launch has the tags that Karpenter does not write at launches.
fn has_own_tags(tags: &Tags) -> bool {
    tags.contains_key(annotation::LAUNCH_TOKEN)
}

/// Implements [`Cloud`]: each method calls the inner cloud through the guard with its AWS action name.
macro_rules! guarded {
    (
        calls { $($method:ident($($argument:ident: $kind:ty),*) -> $answer:ty = $action:literal;)* }
        dry_runs { $($dry_run:ident($request:ident: $probe:ty) = $checked:literal;)* }
    ) => {
        impl<G: Guard> Cloud for Guarded<G> {
            $(
                fn $method<'a>(&'a self, $($argument: &'a $kind),*) -> Call<'a, $answer> {
                    Box::pin(self.through($action, self.inner.$method($($argument),*)))
                }
            )*
            $(
                fn $dry_run<'a>(&'a self, $request: &'a $probe) -> Call<'a, ()> {
                    Box::pin(self.dry_run($checked, &$request.tags, self.inner.$dry_run($request)))
                }
            )*
        }
    };
}

guarded! {
    calls {
        instance_types() -> Vec<InstanceTypeInfo> = "DescribeInstanceTypes";
        type_offerings() -> Vec<TypeOffering> = "DescribeInstanceTypeOfferings";
        spot_prices() -> Vec<SpotPrice> = "DescribeSpotPriceHistory";
        on_demand_prices() -> Vec<OnDemandPrice> = "GetProducts";
        subnets(filter: Filter) -> Vec<Subnet> = "DescribeSubnets";
        security_groups(filter: Filter) -> Vec<SecurityGroup> = "DescribeSecurityGroups";
        images(filter: Filter) -> Vec<Image> = "DescribeImages";
        capacity_reservations(filter: ReservationFilter) -> Vec<CapacityReservation> = "DescribeCapacityReservations";
        placement_group(query: PlacementGroupQuery) -> Option<PlacementGroup> = "DescribePlacementGroups";
        parameter(name: str) -> Option<String> = "GetParameter";
        launch_templates(tags: Tags) -> Vec<LaunchTemplate> = "DescribeLaunchTemplates";
        create_launch_template(request: LaunchTemplateRequest) -> LaunchTemplate = "CreateLaunchTemplate";
        delete_launch_template(name: str) -> () = "DeleteLaunchTemplate";
        create_fleet(request: FleetRequest) -> FleetAnswer = "CreateFleet";
        instances(tags: Tags) -> Vec<Instance> = "DescribeInstances";
        instances_by_id(ids: [String]) -> Vec<Instance> = "DescribeInstances";
        instance_statuses() -> Vec<InstanceStatus> = "DescribeInstanceStatus";
        terminate_instances(ids: [String]) -> () = "TerminateInstances";
        create_tags(ids: [String], tags: Tags) -> () = "CreateTags";
        instance_profile(name: str) -> Option<InstanceProfile> = "GetInstanceProfile";
        instance_profiles(path_prefix: str) -> Vec<InstanceProfile> = "ListInstanceProfiles";
        create_instance_profile(request: InstanceProfileRequest) -> () = "CreateInstanceProfile";
        add_role_to_instance_profile(profile: str, role: str) -> () = "AddRoleToInstanceProfile";
        remove_role_from_instance_profile(profile: str, role: str) -> () = "RemoveRoleFromInstanceProfile";
        delete_instance_profile(name: str) -> () = "DeleteInstanceProfile";
        cluster(name: str) -> ClusterDescription = "DescribeCluster";
        zonal_shifts(cluster_arn: str) -> Vec<ZonalShift> = "GetManagedResource";
        queue_url(name: str) -> String = "GetQueueUrl";
        receive_messages(url: str) -> Vec<QueueMessage> = "ReceiveMessage";
        delete_messages(url: str, receipts: [String]) -> Vec<String> = "DeleteMessageBatch";
    }
    dry_runs {
        dry_run_create_fleet(request: FleetRequest) = "CreateFleet";
        dry_run_run_instances(probe: RunInstancesProbe) = "RunInstances";
    }
}
