//! Authorization of calls by IAM policies: the requests that AWS evaluates for each call, with their resources and tags.

use super::super::faults::{Fault, Input};
use super::super::state::FakeState;
use super::super::{ACCOUNT, AMAZON};
use crate::calls::{ErrorKind, FleetOverride, FleetRequest, LaunchTemplateRequest, RunInstancesProbe, Tags};
use crate::policy::check::PolicyScope;
use crate::policy::evaluation::{Access, AccessRequest, PolicySet};

/// The controller policies of Karpenter 1.14 as `aws iam get-role-policy` prints them, with the placeholders of
/// [`PLACEHOLDERS`](crate::policy::PLACEHOLDERS).
pub const KARPENTER_POLICIES: &str = include_str!("karpenter-1.14.json");

/// Returns the controller policies of Karpenter 1.14 for a cluster. The nodes' role is `KarpenterNodeRole-` and the cluster's
/// name.
#[must_use]
pub fn karpenter_policies(cluster: &str, region: &str, queue: &str) -> PolicySet {
    let scope = PolicyScope {
        cluster: cluster.to_owned(),
        region: region.to_owned(),
        account: ACCOUNT.to_owned(),
        partition: "aws".to_owned(),
        queue: Some(queue.to_owned()),
        ..PolicyScope::default()
    };
    let text = scope.filled(&KARPENTER_POLICIES.replace("${NODE_ROLE}", "KarpenterNodeRole-${CLUSTER}"));
    let mut policies = PolicySet::default();
    let printed = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    for answer in printed.flatten() {
        // The file is valid, as tests of the check prove.
        drop(policies.add(&answer["PolicyDocument"]));
    }
    policies
}

/// Resources that a launch creates and tags with the tags of its request.
const TAGGED: [&str; 2] = ["instance/*", "volume/*"];

/// Returns the error if the policies do not allow a call.
pub(in super::super) fn refusal(state: &FakeState, call: &str, input: &Input) -> Option<Fault> {
    let policies = state.policies.as_ref()?;
    let asked = Caller { state }.requests(call, input);
    let refused = asked.iter().find(|request| policies.evaluate(request) != Access::Allowed)?;
    let message = format!(
        "You are not authorized to perform this operation. User: arn:aws:sts::{ACCOUNT}:assumed-role/controller is not \
         authorized to perform: {} on resource: {} because no identity-based policy allows the {0} action",
        refused.action(),
        refused.resource()
    );
    let code = if refused.action().starts_with("ec2:") { "UnauthorizedOperation" } else { "AccessDenied" };
    Some(Fault::error(ErrorKind::Unauthorized, code, &message))
}

/// Resources and tags of a launch.
struct Launch<'a> {
    call: &'static str,
    tags: &'a Tags,
    template: &'a str,
    spot: bool,
    subnets: Vec<&'a str>,
    images: Vec<&'a str>,
}

struct Caller<'a> {
    state: &'a FakeState,
}

impl Caller<'_> {
    fn requests(&self, call: &str, input: &Input) -> Vec<AccessRequest> {
        match (call, input) {
            ("CreateLaunchTemplate", Input::LaunchTemplate(request)) => {
                self.creation(call, &["launch-template/*"], &request.tags)
            }
            ("DeleteLaunchTemplate", Input::Name(name)) => self.template(call, name),
            ("CreateFleet", Input::Fleet(request)) => self.fleet(request),
            // Karpenter's suite shows that EC2 authorizes the RunInstances of a fleet only when it launches.
            ("CreateFleet(DryRun)", Input::Fleet(request)) => {
                let mut requests = self.fleet(request);
                requests.retain(|request| request.action() == "ec2:CreateFleet");
                requests
            }
            ("RunInstances(DryRun)", Input::Probe(probe)) => self.probe(probe),
            ("TerminateInstances", Input::Ids(ids)) => ids.iter().map(|id| self.instance(call, id)).collect(),
            ("CreateTags", Input::CreateTags(ids, tags)) => {
                ids.iter().map(|id| self.instance(call, id).with_request_tags(tags)).collect()
            }
            ("GetProducts", _) => vec![self.request("pricing:GetProducts", "*")],
            ("GetParameter", Input::Name(name)) => {
                vec![self.request("ssm:GetParameter", &format!("arn:aws:ssm:{}::parameter{name}", self.state.region))]
            }
            ("DescribeCluster", Input::Name(name)) => {
                vec![self.request("eks:DescribeCluster", &self.arn("eks", &format!("cluster/{name}")))]
            }
            ("GetManagedResource", Input::Name(arn)) => {
                vec![
                    self.request("arc-zonal-shift:GetManagedResource", "*")
                        .with("arc-zonal-shift:ResourceIdentifier", arn),
                ]
            }
            // A name or URL. A deletion names only receipts.
            ("GetQueueUrl" | "ReceiveMessage" | "DeleteMessageBatch", input) => {
                let named = match input {
                    Input::Name(name) => name.rsplit('/').next(),
                    _ => self.state.queues.first(),
                };
                let action = format!("sqs:{}", call.trim_end_matches("Batch"));
                vec![self.request(&action, &self.arn("sqs", named.unwrap_or_default()))]
            }
            (_, input) if call.contains("Profile") => self.profile(call, input),
            _ => vec![self.request(&format!("ec2:{call}"), "*")],
        }
    }

    fn request(&self, action: &str, resource: &str) -> AccessRequest {
        AccessRequest::new(action, resource).with("aws:RequestedRegion", &self.state.region)
    }

    fn arn(&self, service: &str, resource: &str) -> String {
        format!("arn:aws:{service}:{}:{ACCOUNT}:{resource}", self.state.region)
    }

    /// Returns the requests that create resources with tags, and tag them.
    fn creation(&self, call: &str, resources: &[&str], tags: &Tags) -> Vec<AccessRequest> {
        let create = |resource: &&str| {
            let arn = self.arn("ec2", resource);
            let create = self.request(&format!("ec2:{call}"), &arn).with_request_tags(tags);
            let tag = self.request("ec2:CreateTags", &arn).with_request_tags(tags).with("ec2:CreateAction", call);
            [Some(create), (!tags.is_empty()).then_some(tag)]
        };
        resources.iter().flat_map(create).flatten().collect()
    }

    fn instance(&self, call: &str, id: &str) -> AccessRequest {
        let tags = self.state.machines.get(id).map(|machine| machine.instance.tags.clone()).unwrap_or_default();
        self.request(&format!("ec2:{call}"), &self.arn("ec2", &format!("instance/{id}"))).with_resource_tags(&tags)
    }

    /// Returns the request for an existing launch template; nothing if it does not exist.
    fn template(&self, call: &str, name: &str) -> Vec<AccessRequest> {
        let found = self.state.templates.get(name).map(|(template, _)| template);
        let request = found.map(|template| {
            let arn = self.arn("ec2", &format!("launch-template/{}", template.id));
            self.request(&format!("ec2:{call}"), &arn).with_resource_tags(&template.tags)
        });
        request.into_iter().collect()
    }

    fn fleet(&self, request: &FleetRequest) -> Vec<AccessRequest> {
        let mut requests = self.creation("CreateFleet", &["fleet/*"], &request.tags);
        for config in &request.configs {
            let ids = |id: fn(&FleetOverride) -> &String| config.overrides.iter().map(|one| id(one).as_str()).collect();
            let launch = Launch {
                call: "CreateFleet",
                tags: &request.tags,
                template: &config.launch_template,
                spot: request.capacity_type == "spot",
                subnets: ids(|one| &one.subnet_id),
                images: ids(|one| &one.image_id),
            };
            requests.extend(self.launch(&launch));
        }
        requests
    }

    fn probe(&self, probe: &RunInstancesProbe) -> Vec<AccessRequest> {
        self.launch(&Launch {
            call: "RunInstances",
            tags: &probe.tags,
            template: &probe.launch_template,
            spot: false,
            subnets: vec![&probe.subnet_id],
            images: Vec::new(),
        })
    }

    /// Returns the requests of a launch from one template; nothing if the template does not exist. CreateFleet calls
    /// RunInstances on the caller's behalf.
    fn launch(&self, launch: &Launch<'_>) -> Vec<AccessRequest> {
        let Some((_, template)) = self.state.templates.get(launch.template) else { return Vec::new() };
        let mut calls = vec![launch.call];
        calls.extend((launch.call == "CreateFleet").then_some("RunInstances"));
        let mut requests = Vec::new();
        for call in calls {
            requests.extend(self.template(call, launch.template));
            requests.extend(self.creation(call, &TAGGED, launch.tags));
            requests.extend(self.used(launch, template).iter().map(|arn| self.request(&format!("ec2:{call}"), arn)));
        }
        let mut with_template = vec!["network-interface/*"];
        with_template.extend(launch.spot.then_some("spot-instances-request/*"));
        requests.extend(self.creation("RunInstances", &with_template, &template.tags));
        let profile = self.state.profiles.get(&template.instance_profile);
        requests.extend(profile.iter().flat_map(|profile| &profile.roles).map(|role| self.pass_role(role)));
        requests
    }

    /// Returns the ARNs of resources that a launch uses and does not create.
    fn used(&self, launch: &Launch<'_>, template: &LaunchTemplateRequest) -> Vec<String> {
        let region = &self.state.region;
        let images = launch.images.iter().copied().chain([template.image_id.as_str()]).filter(|id| !id.is_empty());
        let image = |id: &str| format!("arn:aws:ec2:{region}::image/{id}");
        let snapshot = format!("arn:aws:ec2:{region}::snapshot/snap-{AMAZON}");
        let groups = template.security_group_ids.iter().map(|id| format!("security-group/{id}"));
        let subnets = launch.subnets.iter().map(|id| format!("subnet/{id}"));
        let placement = template.placement.group_id.iter().map(|id| format!("placement-group/{id}"));
        let reservation = template.capacity_reservation.iter().filter_map(|wanted| wanted.id.as_ref());
        let reservations = reservation.map(|id| format!("capacity-reservation/{id}"));
        let regional = groups.chain(subnets).chain(placement).chain(reservations).map(|name| self.arn("ec2", &name));
        images.map(image).chain([snapshot]).chain(regional).collect()
    }

    fn pass_role(&self, role: &str) -> AccessRequest {
        self.request("iam:PassRole", &format!("arn:aws:iam::{ACCOUNT}:role/{role}"))
            .with("iam:PassedToService", "ec2.amazonaws.com")
    }

    fn profile(&self, call: &str, input: &Input) -> Vec<AccessRequest> {
        let on = |action: &str, path: &str, name: &str| {
            let arn = format!("arn:aws:iam::{ACCOUNT}:instance-profile{path}{name}");
            AccessRequest::new(&format!("iam:{action}"), arn).with("aws:RequestedRegion", "us-east-1")
        };
        let existing = |name: &str| {
            let profile = self.state.profiles.get(name).unwrap_or_default();
            let path = if profile.path.is_empty() { "/" } else { &profile.path };
            on(call, path, name).with_resource_tags(&profile.tags)
        };
        match input {
            Input::Profile(request) => {
                let create = on(call, &request.path, &request.name).with_request_tags(&request.tags);
                // A new profile is evaluated with the tags that it gets.
                let tag = on("TagInstanceProfile", &request.path, &request.name);
                vec![create, tag.with_request_tags(&request.tags).with_resource_tags(&request.tags)]
            }
            Input::Role(profile, role) if call == "AddRoleToInstanceProfile" => {
                vec![existing(profile), self.pass_role(role)]
            }
            Input::Name(prefix) if call == "ListInstanceProfiles" => vec![on(call, prefix, "")],
            Input::Role(name, _) | Input::Name(name) => vec![existing(name)],
            _ => Vec::new(),
        }
    }
}
