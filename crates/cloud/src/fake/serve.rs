//! Implementation of [`Cloud`] by the fake. Each call is logged, fails with a fault if one is due, and else acts on the fake's
//! state.

mod authorization;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::faults::refuse;
use super::state::FakeState;
use super::{FakeCloud, Input, filter, fleet, queue, resources};
use crate::calls::{
    Call, CapacityReservation, Cloud, CloudError, ClusterDescription, ErrorKind, Filter, FleetAnswer, FleetRequest,
    Image, Instance, InstanceProfile, InstanceProfileRequest, InstanceStatus, InstanceTypeInfo, LaunchTemplate,
    LaunchTemplateRequest, OnDemandPrice, PlacementGroup, PlacementGroupQuery, QueueMessage, ReservationFilter,
    RunInstancesProbe, SecurityGroup, SpotPrice, Subnet, Tags, TypeOffering, ZonalShift,
};

pub(super) use authorization::refusal;
pub use authorization::{KARPENTER_POLICIES, karpenter_policies};

impl Cloud for FakeCloud {
    fn instance_types(&self) -> Call<'_, Vec<InstanceTypeInfo>> {
        self.call("DescribeInstanceTypes", Input::Nothing, |state, _| Ok(state.types.values().cloned().collect()))
    }

    fn type_offerings(&self) -> Call<'_, Vec<TypeOffering>> {
        self.call("DescribeInstanceTypeOfferings", Input::Nothing, |state, _| Ok(state.offerings.clone()))
    }

    fn spot_prices(&self) -> Call<'_, Vec<SpotPrice>> {
        self.call("DescribeSpotPriceHistory", Input::Nothing, |state, _| Ok(state.spot_prices.clone()))
    }

    fn on_demand_prices(&self) -> Call<'_, Vec<OnDemandPrice>> {
        self.call("GetProducts", Input::Nothing, |state, _| Ok(state.on_demand()))
    }

    fn subnets<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Subnet>> {
        self.call("DescribeSubnets", Input::Filter(filter.clone()), |state, _| {
            let wanted = resources::selected_by(state, filter);
            Ok(state.subnets.iter().filter(|subnet| filter::subnet(&wanted, subnet)).cloned().collect())
        })
    }

    fn security_groups<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<SecurityGroup>> {
        self.call("DescribeSecurityGroups", Input::Filter(filter.clone()), |state, _| {
            let wanted = resources::selected_by(state, filter);
            Ok(state.security_groups.iter().filter(|group| filter::security_group(&wanted, group)).cloned().collect())
        })
    }

    fn images<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Image>> {
        self.call("DescribeImages", Input::Filter(filter.clone()), |state, _| {
            let wanted = resources::selected_by(state, filter);
            Ok(state.images.iter().filter(|image| filter::image(&wanted, image)).cloned().collect())
        })
    }

    fn capacity_reservations<'a>(&'a self, filter: &'a ReservationFilter) -> Call<'a, Vec<CapacityReservation>> {
        self.call("DescribeCapacityReservations", Input::Reservations(filter.clone()), |state, _| {
            let active = state.reservations.iter().filter(|one| one.state == "active");
            Ok(active.filter(|one| filter::reservation(filter, one)).cloned().collect())
        })
    }

    fn placement_group<'a>(&'a self, query: &'a PlacementGroupQuery) -> Call<'a, Option<PlacementGroup>> {
        self.call("DescribePlacementGroups", Input::PlacementGroup(query.clone()), |state, _| {
            Ok(state.placement_groups.iter().find(|group| filter::placement_group(query, group)).cloned())
        })
    }

    fn parameter<'a>(&'a self, name: &'a str) -> Call<'a, Option<String>> {
        // The call also takes the ARN of a parameter.
        let name = name.strip_prefix("arn:").and_then(|arn| Some(arn.split_once(":parameter")?.1)).unwrap_or(name);
        self.call("GetParameter", Input::Name(name.to_owned()), |state, _| Ok(resources::parameter(state, name)))
    }

    fn launch_templates<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<LaunchTemplate>> {
        self.call("DescribeLaunchTemplates", Input::Tags(tags.clone()), |state, _| {
            let all = state.templates.values().map(|(template, _)| template);
            Ok(all.filter(|template| filter::tagged(&template.tags, tags)).cloned().collect())
        })
    }

    fn create_launch_template<'a>(&'a self, request: &'a LaunchTemplateRequest) -> Call<'a, LaunchTemplate> {
        let input = Input::LaunchTemplate(Box::new(request.clone()));
        self.call("CreateLaunchTemplate", input, |state, _| create_template(state, request))
    }

    fn delete_launch_template<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        let call = "DeleteLaunchTemplate";
        self.call(call, Input::Name(name.to_owned()), move |state, _| {
            let message = format!("The specified launch template, with template name {name}, does not exist.");
            let missing = || refuse(call, ErrorKind::NotFound, "InvalidLaunchTemplateName.NotFoundException", message);
            state.templates.remove(name).map(|_| ()).ok_or_else(missing)
        })
    }

    fn create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, FleetAnswer> {
        let input = Input::Fleet(Box::new(request.clone()));
        self.call("CreateFleet", input, |state, now| fleet::create(state, request, now))
    }

    fn dry_run_create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, ()> {
        let input = Input::Fleet(Box::new(request.clone()));
        self.call("CreateFleet(DryRun)", input, |state, _| fleet::rehearse(state, request))
    }

    fn dry_run_run_instances<'a>(&'a self, probe: &'a RunInstancesProbe) -> Call<'a, ()> {
        self.call("RunInstances(DryRun)", Input::Probe(probe.clone()), |state, _| fleet::probe(state, probe))
    }

    fn instances<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<Instance>> {
        self.call("DescribeInstances", Input::Tags(tags.clone()), |state, now| Ok(state.instances(tags, now)))
    }

    fn instances_by_id<'a>(&'a self, ids: &'a [String]) -> Call<'a, Vec<Instance>> {
        self.call("DescribeInstances", Input::Ids(ids.to_vec()), |state, now| {
            let timing = state.timing;
            let machines = ids.iter().filter_map(|id| state.machines.get(id));
            let visible = machines.filter(|machine| machine.visible(now, timing));
            Ok(visible.map(|machine| machine.instance.clone()).collect())
        })
    }

    fn instance_statuses(&self) -> Call<'_, Vec<InstanceStatus>> {
        self.call("DescribeInstanceStatus", Input::Nothing, |state, _| Ok(state.unhealthy()))
    }

    fn terminate_instances<'a>(&'a self, ids: &'a [String]) -> Call<'a, ()> {
        let call = "TerminateInstances";
        self.call(call, Input::Ids(ids.to_vec()), move |state, now| {
            if let Some(unknown) = ids.iter().find(|id| !state.machines.contains_key(*id)) {
                let message = format!("The instance ID '{unknown}' does not exist");
                return Err(refuse(call, ErrorKind::NotFound, "InvalidInstanceID.NotFound", message));
            }
            for id in ids {
                state.shut_down(id, now);
            }
            Ok(())
        })
    }

    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()> {
        let call = "CreateTags";
        self.call(call, Input::CreateTags(ids.to_vec(), tags.clone()), |state, _| {
            state.tag(ids, tags).map_err(|unknown| {
                let code = if unknown.starts_with("i-") { "InvalidInstanceID.NotFound" } else { "InvalidID" };
                refuse(call, ErrorKind::NotFound, code, format!("The ID '{unknown}' does not exist"))
            })
        })
    }

    fn instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, Option<InstanceProfile>> {
        self.call("GetInstanceProfile", Input::Name(name.to_owned()), |state, _| Ok(state.profiles.get(name)))
    }

    fn instance_profiles<'a>(&'a self, path_prefix: &'a str) -> Call<'a, Vec<InstanceProfile>> {
        self.call("ListInstanceProfiles", Input::Name(path_prefix.to_owned()), |state, _| {
            Ok(state.profiles.under(path_prefix))
        })
    }

    fn create_instance_profile<'a>(&'a self, request: &'a InstanceProfileRequest) -> Call<'a, ()> {
        self.call("CreateInstanceProfile", Input::Profile(request.clone()), |state, now| {
            state.profiles.create(request, now)
        })
    }

    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()> {
        let input = Input::Role(profile.to_owned(), role.to_owned());
        self.call("AddRoleToInstanceProfile", input, |state, _| state.profiles.add_role(profile, role))
    }

    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()> {
        let input = Input::Role(profile.to_owned(), role.to_owned());
        self.call("RemoveRoleFromInstanceProfile", input, |state, _| state.profiles.remove_role(profile, role))
    }

    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        self.call("DeleteInstanceProfile", Input::Name(name.to_owned()), |state, _| state.profiles.delete(name))
    }

    fn cluster<'a>(&'a self, name: &'a str) -> Call<'a, ClusterDescription> {
        let call = "DescribeCluster";
        self.call(call, Input::Name(name.to_owned()), move |state, _| {
            let missing = || {
                refuse(
                    call,
                    ErrorKind::NotFound,
                    "ResourceNotFoundException",
                    format!("No cluster found for name: {name}."),
                )
            };
            state.clusters.get(name).cloned().ok_or_else(missing)
        })
    }

    fn zonal_shifts<'a>(&'a self, cluster_arn: &'a str) -> Call<'a, Vec<ZonalShift>> {
        let call = "GetManagedResource";
        self.call(call, Input::Name(cluster_arn.to_owned()), move |state, now| {
            let message = || format!("Resource {cluster_arn} is not registered for zonal shift.");
            let missing = || refuse(call, ErrorKind::NotFound, "ResourceNotFoundException", message());
            let shifts = state.zonal_shifts.get(cluster_arn).ok_or_else(missing)?;
            Ok(shifts.iter().filter(|shift| shift.expires.is_none_or(|end| end > now)).cloned().collect())
        })
    }

    fn queue_url<'a>(&'a self, name: &'a str) -> Call<'a, String> {
        self.call("GetQueueUrl", Input::Name(name.to_owned()), |state, _| state.queues.url(name))
    }

    fn receive_messages<'a>(&'a self, url: &'a str) -> Call<'a, Vec<QueueMessage>> {
        Box::pin(queue::receive(self, url))
    }

    fn delete_messages<'a>(&'a self, url: &'a str, receipts: &'a [String]) -> Call<'a, Vec<String>> {
        self.call("DeleteMessageBatch", Input::Ids(receipts.to_vec()), |state, _| state.queues.delete(url, receipts))
    }
}

/// Maximum size of user data in EC2 before base64, in bytes.
const USER_DATA_LIMIT: usize = 16_384;

fn create_template(state: &mut FakeState, request: &LaunchTemplateRequest) -> Result<LaunchTemplate, CloudError> {
    let call = "CreateLaunchTemplate";
    if state.templates.contains_key(&request.name) {
        let message = "Launch template name already in use.".to_owned();
        return Err(refuse(
            call,
            ErrorKind::AlreadyExists,
            "InvalidLaunchTemplateName.AlreadyExistsException",
            message,
        ));
    }
    let legal = |letter: char| letter.is_ascii_alphanumeric() || "()./_-".contains(letter);
    if !(3..=128).contains(&request.name.len()) || !request.name.chars().all(legal) {
        let message = format!("The launch template name {:?} is malformed", request.name);
        return Err(refuse(call, ErrorKind::Invalid, "InvalidLaunchTemplateName.MalformedException", message));
    }
    let problem = match STANDARD.decode(&request.user_data) {
        Err(_) => Some("Invalid BASE64 encoding of user data".to_owned()),
        Ok(raw) if raw.len() > USER_DATA_LIMIT => Some(format!("User data is limited to {USER_DATA_LIMIT} bytes")),
        Ok(_) => None,
    };
    if let Some(message) = problem {
        return Err(refuse(call, ErrorKind::Invalid, "InvalidUserData.Malformed", message));
    }
    let template = LaunchTemplate { id: state.new_id("lt"), name: request.name.clone(), tags: request.tags.clone() };
    state.templates.insert(request.name.clone(), (template.clone(), request.clone()));
    Ok(template)
}
