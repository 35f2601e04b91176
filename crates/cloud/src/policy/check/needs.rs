//! Requests that stand for the permissions of [`STATEMENTS`] in one cluster.

use api::label;

use super::super::evaluation::{AccessRequest, PolicySet};
use super::super::{STATEMENTS, Statement};
use super::{ExtraTags, TaggingCall};
use crate::calls::Tags;
use crate::tags::{CLUSTER_TAG, NODE_CLAIM_TAG, NODE_CLAIM_UID_TAG, OWN_LAUNCH_TAGS};

/// Value of names and tags that any value may have.
const EXAMPLE: &str = "example";

/// Account of policies that name no account.
pub const ANY_ACCOUNT: &str = "*";

/// The cluster for which policies are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyScope {
    /// Name of the cluster.
    pub cluster: String,
    /// Region.
    pub region: String,
    /// Number of the account, or [`ANY_ACCOUNT`].
    pub account: String,
    /// Partition, such as `aws`.
    pub partition: String,
    /// Roles of the EC2NodeClasses, each with its path if the class has it.
    pub node_roles: Vec<String>,
    /// Name of the interruption queue, if there is one.
    pub queue: Option<String>,
    /// True if Kerf creates instance profiles: an EC2NodeClass has a role, and the VPC is not isolated.
    pub manages_profiles: bool,
    /// True if Kerf reads the EKS cluster.
    pub reads_cluster: bool,
    /// True if the Pricing API can be reached.
    pub reads_prices: bool,
    /// True if Kerf follows zonal shifts.
    pub follows_zonal_shifts: bool,
}

/// An action of a statement, with requests that need it.
pub(super) struct Permission {
    pub(super) statement: &'static Statement,
    pub(super) action: &'static str,
    /// Each request with its resource as the statement has it, without placeholders.
    pub(super) requests: Vec<(String, AccessRequest)>,
    pub(super) extra_tags: Option<ExtraTags>,
}

impl PolicyScope {
    /// Replaces the placeholders of a text.
    #[must_use]
    pub fn filled(&self, text: &str) -> String {
        let words = [
            ("${CLUSTER}", self.cluster.as_str()),
            ("${REGION}", &self.region),
            ("${ACCOUNT}", &self.account),
            ("${PARTITION}", &self.partition),
            ("${QUEUE}", self.queue.as_deref().unwrap_or_default()),
        ];
        words.iter().fold(text.to_owned(), |text, (placeholder, word)| text.replace(placeholder, word))
    }

    /// Returns the tags of everything that Karpenter and Kerf create for a NodePool.
    fn pool_tags(&self) -> Tags {
        let mut tags = self.owner_tags();
        tags.insert(label::NODEPOOL.to_owned(), EXAMPLE.to_owned());
        tags
    }

    /// Returns the tags of an instance profile.
    fn profile_tags(&self) -> Tags {
        let mut tags = self.owner_tags();
        tags.insert(label::REGION.to_owned(), self.region.clone());
        tags
    }

    fn owner_tags(&self) -> Tags {
        [
            (format!("kubernetes.io/cluster/{}", self.cluster), "owned".to_owned()),
            (CLUSTER_TAG.to_owned(), self.cluster.clone()),
            (label::EC2_NODE_CLASS.to_owned(), EXAMPLE.to_owned()),
        ]
        .into()
    }

    /// Reports whether Kerf makes calls that need the statement in this cluster.
    fn uses(&self, sid: &str) -> bool {
        match sid {
            "AllowAPIServerEndpointDiscovery" => self.reads_cluster,
            "AllowInterruptionQueueActions" => self.queue.is_some(),
            "AllowPricingReadActions" => self.reads_prices,
            "AllowZonalShiftStatusReadOnly" => self.follows_zonal_shifts,
            "AllowInstanceProfileReadActions" => self.manages_profiles,
            sid if sid.starts_with("AllowScopedInstanceProfile") => self.manages_profiles,
            _ => true,
        }
    }

    /// Returns the region in which a service serves the request.
    fn region_of(&self, action: &str) -> &str {
        let is_global = action.starts_with("iam:") || action.starts_with("pricing:");
        if is_global && self.partition == "aws" { "us-east-1" } else { &self.region }
    }
}

/// Returns all permissions that Kerf needs in a cluster.
pub(super) fn permissions(scope: &PolicyScope, policies: &PolicySet) -> Vec<Permission> {
    let used = STATEMENTS.iter().filter(|statement| scope.uses(statement.sid));
    used.flat_map(|statement| statement.actions.iter().map(|action| permission(statement, action, scope, policies)))
        .filter(|permission| !permission.requests.is_empty())
        .collect()
}

fn permission(
    statement: &'static Statement,
    action: &'static str,
    scope: &PolicyScope,
    policies: &PolicySet,
) -> Permission {
    let resources = statement.resources.iter().filter(|resource| takes(statement.sid, action, resource));
    let requests = resources.flat_map(|resource| match action {
        "iam:PassRole" => scope.node_roles.iter().map(|role| pass_role(resource, role, scope, policies)).collect(),
        _ => requests(statement.sid, action, resource, scope),
    });
    Permission { statement, action, requests: requests.collect(), extra_tags: extra_tags(statement.sid, scope) }
}

/// Reports whether EC2 checks the action of a statement for resources of this kind.
fn takes(sid: &str, action: &str, resource: &str) -> bool {
    let is_one_of = |kinds: &[&str]| kinds.iter().any(|kind| resource.contains(&format!(":{kind}/")));
    // A launch does not create its launch templates.
    let creates = sid == "AllowScopedEC2InstanceActionsWithTags";
    match action {
        "ec2:CreateFleet" | "ec2:RunInstances" if creates && is_one_of(&["launch-template"]) => false,
        "ec2:CreateLaunchTemplate" | "ec2:DeleteLaunchTemplate" => is_one_of(&["launch-template"]),
        "ec2:TerminateInstances" => is_one_of(&["instance"]),
        "ec2:CreateFleet" => !is_one_of(&["spot-instances-request"]),
        "ec2:RunInstances" => !is_one_of(&["fleet"]),
        _ => true,
    }
}

/// Returns the calls that create resources of this kind with tags.
fn creators(resource: &str) -> &'static [&'static str] {
    match resource.rsplit(':').next().unwrap_or_default() {
        "fleet/*" => &["CreateFleet"],
        "launch-template/*" => &["CreateLaunchTemplate"],
        "instance/*" | "volume/*" => &["CreateFleet", "RunInstances"],
        _ => &["RunInstances"],
    }
}

/// Returns the requests for one resource of a statement.
fn requests(sid: &str, action: &str, resource: &str, scope: &PolicyScope) -> Vec<(String, AccessRequest)> {
    let pattern = scope.filled(resource);
    let plain = plain(action, &pattern, scope);
    let requests = match sid {
        "AllowScopedEC2LaunchTemplateAccessActions" | "AllowScopedDeletion" | "AllowScopedResourceTagging" => {
            vec![plain.with_resource_tags(&scope.pool_tags())]
        }
        "AllowScopedEC2InstanceActionsWithTags" => vec![plain.with_request_tags(&scope.pool_tags())],
        "AllowScopedResourceCreationTagging" => {
            let tagged = plain.with_request_tags(&scope.pool_tags());
            creators(resource).iter().map(|call| tagged.clone().with("ec2:CreateAction", call)).collect()
        }
        "AllowScopedInstanceProfileCreationActions" => vec![plain.with_request_tags(&scope.profile_tags())],
        // Karpenter's policies require the tags of the request and of the profile, and allow the same call.
        "AllowScopedInstanceProfileTagActions" => {
            vec![plain.with_request_tags(&scope.profile_tags()).with_resource_tags(&scope.profile_tags())]
        }
        "AllowScopedInstanceProfileActions" => vec![plain.with_resource_tags(&scope.profile_tags())],
        "AllowZonalShiftStatusReadOnly" => {
            let cluster = scope.filled("arn:${PARTITION}:eks:${REGION}:${ACCOUNT}:cluster/${CLUSTER}");
            vec![plain.with("arc-zonal-shift:ResourceIdentifier", &cluster)]
        }
        _ => vec![plain],
    };
    requests.into_iter().map(|request| (pattern.clone(), request)).collect()
}

/// Returns a request without tags for a resource that matches the pattern.
fn plain(action: &str, pattern: &str, scope: &PolicyScope) -> AccessRequest {
    let resource = match pattern {
        "*" => "*".to_owned(),
        pattern => pattern.replace(":*:", &format!(":{}:", scope.account)).replace('*', EXAMPLE),
    };
    let request = AccessRequest::new(action, resource)
        .with("aws:RequestedRegion", scope.region_of(action))
        .with("ec2:Region", &scope.region);
    match scope.account.as_str() {
        ANY_ACCOUNT => request,
        account => request.with("aws:PrincipalAccount", account).with("aws:ResourceAccount", account),
    }
}

/// Returns the request that passes a role. An EC2NodeClass may omit the path of its role, so the policies may name it.
fn pass_role(resource: &str, role: &str, scope: &PolicyScope, policies: &PolicySet) -> (String, AccessRequest) {
    let bare = scope.filled(&resource.replace("${NODE_ROLE}", role));
    let is_same = |arn: &&str| arn.contains(":role/") && arn.ends_with(&format!("/{role}"));
    let arn = policies.resources().find(is_same).map_or_else(|| bare.clone(), str::to_owned);
    let service = if scope.partition == "aws-cn" { "ec2.amazonaws.com.cn" } else { "ec2.amazonaws.com" };
    (bare, plain("iam:PassRole", &arn, scope).with("iam:PassedToService", service))
}

/// Returns the tags that Kerf writes in addition to those that the statement needs.
fn extra_tags(sid: &str, scope: &PolicyScope) -> Option<ExtraTags> {
    let tags = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), EXAMPLE.to_owned())).collect::<Tags>();
    match sid {
        "AllowScopedEC2InstanceActionsWithTags" | "AllowScopedResourceCreationTagging" => {
            Some(ExtraTags { call: TaggingCall::Launch, with: scope.pool_tags(), tags: tags(&OWN_LAUNCH_TAGS) })
        }
        "AllowScopedResourceTagging" => {
            let mut tags = tags(&["Name", NODE_CLAIM_TAG, NODE_CLAIM_UID_TAG]);
            tags.insert(CLUSTER_TAG.to_owned(), scope.cluster.clone());
            Some(ExtraTags { call: TaggingCall::CreateTags, with: Tags::new(), tags })
        }
        _ => None,
    }
}
