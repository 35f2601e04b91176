//! IAM policies of the controller's role: actions that Kerf needs and the policies do not allow, and tags that they deny.

use std::io::Read;
use std::path::PathBuf;

use cloud::data::region_of_zone;
use cloud::policy::check::{ANY_ACCOUNT, DeniedTag, MissingAction, PolicyCheck, PolicyScope, TaggingCall, check};
use cloud::policy::evaluation::{Access, PolicySet};
use cloud::tags::NODE_CLAIM_UID_TAG;
use serde_json::Value;

use super::programs::{controller, is_true, setting};
use super::report::Finding;
use super::{is_of, text};
use crate::catalogue::DEFAULT_REGION;
use crate::failure::Failure;
use crate::input::{self, File, InputError, InputErrors, Place};

/// The policies of the controller's role.
#[derive(Clone, Debug, Default)]
pub struct RolePolicies {
    /// Statements of all policies.
    pub policies: PolicySet,
    /// Name of the cluster, if the objects do not contain it.
    pub cluster_name: Option<String>,
}

/// Reads policies from files, and from standard input for `-`: policy documents, or the answers of `aws iam get-policy-version`,
/// `aws iam get-role-policy` and `aws organizations describe-policy`, one after another.
///
/// # Errors
/// Returns every file or document that is no policy.
pub fn read_policies(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<PolicySet, InputErrors> {
    let (policies, errors) = policies(paths, stdin);
    if errors.is_empty() { Ok(policies) } else { Err(InputErrors::new(errors)) }
}

fn policies(paths: &[PathBuf], stdin: &mut dyn Read) -> (PolicySet, Vec<InputError>) {
    let (files, mut errors) = input::files(paths, stdin);
    let mut policies = PolicySet::default();
    for file in &files {
        errors.extend(add(&mut policies, file));
    }
    (policies, errors)
}

/// Adds each file as a limit of the policies, under the name of the file.
///
/// # Errors
/// Returns every file or document that is no policy.
pub fn add_limits(role: &mut PolicySet, paths: &[PathBuf], stdin: &mut dyn Read) -> Result<(), InputErrors> {
    let mut errors = Vec::new();
    for path in paths {
        let (limit, found) = policies(std::slice::from_ref(path), stdin);
        role.add_limit(&path.display().to_string(), limit);
        errors.extend(found);
    }
    if errors.is_empty() { Ok(()) } else { Err(InputErrors::new(errors)) }
}

/// Adds the documents of a file; returns the errors.
fn add(policies: &mut PolicySet, file: &File) -> Vec<InputError> {
    const CURE: &str = "use the JSON of a policy document, or of aws iam get-policy-version, get-role-policy or organizations \
        describe-policy";
    let mut errors = Vec::new();
    let mut documents = 0;
    for value in serde_json::Deserializer::from_str(&file.text).into_iter::<Value>() {
        documents += 1;
        let place = Place { file: file.name.clone(), document: documents, ..Place::default() };
        match value {
            Ok(value) => match document(&value).map(|document| policies.add(&document)) {
                Some(Ok(())) => {}
                Some(Err(error)) => errors.push(InputError::new(&place, error.to_string(), CURE)),
                None => errors.push(InputError::new(&place, "contains no policy document", CURE)),
            },
            Err(error) => {
                errors.push(InputError::new(&place, format!("is not JSON: {error}"), CURE));
                break;
            }
        }
    }
    if documents == 0 {
        let place = Place { file: file.name.clone(), ..Place::default() };
        errors.push(InputError::new(&place, "contains no policy document", CURE));
    }
    errors
}

/// Returns the policy document of an answer of the AWS CLI. A document may be a string with JSON.
fn document(value: &Value) -> Option<Value> {
    let places = ["/PolicyVersion/Document", "/PolicyDocument", "/Policy/Content"];
    let nested = places.iter().find_map(|place| value.pointer(place));
    let document = match nested.unwrap_or(value) {
        Value::String(text) => serde_json::from_str(text).ok()?,
        document => document.clone(),
    };
    document.get("Statement").is_some().then_some(document)
}

/// Returns the findings about the policies.
///
/// # Errors
/// Returns an error if the name of the cluster is unknown.
pub(super) fn findings(objects: &[&Value], role: &RolePolicies) -> Result<Vec<Finding>, Failure> {
    let scope = scope(objects, role).ok_or_else(|| {
        Failure::usage(
            "the IAM policies cannot be checked: no Deployment and no policy names the cluster; set --cluster-name",
        )
    })?;
    let result = check(&role.policies, &scope);
    let mut findings: Vec<Finding> = result.missing.iter().map(missing).collect();
    let tries_launches = !is_true(setting(objects, "DISABLE_DRY_RUN"));
    findings.extend(result.denied_tags.iter().map(|tag| denied(tag, tries_launches)));
    findings.extend(unevaluated(&role.policies, &result));
    if result.missing.is_empty() {
        let text = format!("all {} actions that Kerf needs in cluster {} are allowed", result.needed, scope.cluster);
        findings.push(Finding::change("IAM policies", text));
    }
    Ok(findings)
}

fn missing(missing: &MissingAction) -> Finding {
    let (consequence, statement) = (missing.consequence.text, &missing.statement);
    let text = match &missing.access {
        Access::Denied { statement } => {
            format!("is denied by statement {statement}: {consequence}; change that statement")
        }
        Access::Undecided { statement: name, condition } => format!(
            "depends on statement {name}, {condition}, which cannot be checked here: without the action {consequence}; check \
             it, or add {statement}"
        ),
        Access::Limited { limit } => {
            format!("is not allowed by {limit}, which limits the role: {consequence}; add {statement} there")
        }
        Access::NotAllowed | Access::Allowed => format!("is not allowed: {consequence}; add {statement}"),
    };
    let finding = if missing.consequence.is_vital { Finding::before_start } else { Finding::change };
    finding(format!("IAM action {}", missing.action), text)
}

/// Returns the finding about a tag. The dry runs of launches show that a launch must omit the tags of Kerf.
fn denied(tag: &DeniedTag, tries_launches: bool) -> Finding {
    let object = format!("IAM tag {}", tag.key);
    match tag.call {
        TaggingCall::Launch if tries_launches => Finding::change(
            object,
            "is denied in CreateFleet: launches omit the tags of Kerf, and an instance whose launch a crash of the controller \
             interrupts is terminated instead of used; to have it, allow it in AllowScopedEC2InstanceActionsWithTags and \
             AllowScopedResourceCreationTagging",
        ),
        TaggingCall::Launch => Finding::before_start(
            object,
            "is denied in CreateFleet: no node is launched; allow it in AllowScopedEC2InstanceActionsWithTags and \
             AllowScopedResourceCreationTagging, or unset DISABLE_DRY_RUN",
        ),
        TaggingCall::CreateTags if tag.key == NODE_CLAIM_UID_TAG => Finding::change(
            object,
            "is denied in CreateTags: left out on instances that are launched together, and nothing depends on it; to have \
             it, add it to aws:TagKeys of AllowScopedResourceTagging",
        ),
        TaggingCall::CreateTags => Finding::change(
            object,
            "is denied in CreateTags: left out, while the other tags are written; to have it, add it to aws:TagKeys of \
             AllowScopedResourceTagging",
        ),
    }
}

/// Returns the conditions that are not evaluated and on which no permission depends. The others are part of their permission.
fn unevaluated(policies: &PolicySet, result: &PolicyCheck) -> Vec<Finding> {
    let depends = |line: &String| {
        result.missing.iter().any(|missing| match &missing.access {
            Access::Undecided { statement, .. } => line.starts_with(&format!("statement {statement}: ")),
            _ => false,
        })
    };
    let lines = policies.unevaluated().into_iter().filter(|line| !depends(line));
    lines.map(|line| Finding::change("IAM policies", format!("{line}; no permission depends on it"))).collect()
}

/// Returns the cluster for which the policies are checked: from the objects, else from the policies themselves. Returns `None`
/// if neither names the cluster.
fn scope(objects: &[&Value], role: &RolePolicies) -> Option<PolicyScope> {
    let policies = &role.policies;
    let setting = |name: &str| setting(objects, name);
    let cluster =
        role.cluster_name.as_deref().or_else(|| setting("CLUSTER_NAME")).or_else(|| tagged_cluster(policies))?;
    let classes: Vec<&Value> =
        objects.iter().copied().filter(|object| is_of(object, super::pools::AWS, "EC2NodeClass")).collect();
    let mut node_roles: Vec<String> =
        classes.iter().map(|class| text(class, "/spec/role").to_owned()).filter(|role| !role.is_empty()).collect();
    if classes.is_empty() {
        node_roles.push(format!("KarpenterNodeRole-{cluster}"));
    }
    node_roles.sort();
    node_roles.dedup();
    let is_set = |name: &str| is_true(setting(name));
    let facts = ["CLUSTER_ENDPOINT", "CLUSTER_CA_BUNDLE", "CLUSTER_CIDR"];
    let named = || arn_part(policies, 5, |parts| parts[2] == "sqs").filter(|_| controller(objects).is_none());
    let queue = setting("INTERRUPTION_QUEUE").or_else(named);
    Some(PolicyScope {
        cluster: cluster.to_owned(),
        region: setting("AWS_REGION")
            .or_else(|| named_region(objects))
            .or_else(|| region(policies))
            .unwrap_or(DEFAULT_REGION)
            .to_owned(),
        account: arn_part(policies, 4, |parts| parts[4].bytes().all(|byte| byte.is_ascii_digit()))
            .unwrap_or(ANY_ACCOUNT)
            .to_owned(),
        partition: arn_part(policies, 1, |_| true).unwrap_or("aws").to_owned(),
        queue: queue.map(str::to_owned),
        manages_profiles: !node_roles.is_empty() && !is_set("ISOLATED_VPC"),
        reads_cluster: is_set("EKS_CONTROL_PLANE") || facts.iter().any(|name| setting(name).is_none()),
        reads_prices: !is_set("ISOLATED_VPC"),
        follows_zonal_shifts: is_set("ENABLE_ZONAL_SHIFT"),
        node_roles,
    })
}

/// Returns the cluster whose tag the conditions require.
fn tagged_cluster(policies: &PolicySet) -> Option<&str> {
    policies.conditions().find_map(|(key, _)| {
        let (_, cluster) = key.split_once("Tag/kubernetes.io/cluster/")?;
        Some(cluster).filter(|cluster| !cluster.contains('$'))
    })
}

/// Returns the region of nodes, or of the subnets of EC2NodeClasses.
fn named_region<'a>(objects: &[&'a Value]) -> Option<&'a str> {
    let label = |object: &&'a Value| object.pointer("/metadata/labels/topology.kubernetes.io~1region")?.as_str();
    let zone = |object: &&'a Value| object.pointer("/status/subnets/0/zone")?.as_str();
    let found = objects.iter().find_map(label);
    found.or_else(|| objects.iter().find_map(zone).map(region_of_zone)).filter(|region| !region.is_empty())
}

/// Returns the region of an ARN, or of a condition.
fn region(policies: &PolicySet) -> Option<&str> {
    let required = || {
        let mut conditions = policies.conditions();
        conditions.find_map(|(key, values)| {
            values.first().copied().filter(|_| key.eq_ignore_ascii_case("aws:RequestedRegion"))
        })
    };
    arn_part(policies, 3, |_| true).or_else(required)
}

/// Returns a part of the first ARN of this kind that names it without wildcards.
fn arn_part<'p>(policies: &'p PolicySet, index: usize, is_kind: impl Fn(&[&str]) -> bool) -> Option<&'p str> {
    let part = |arn: &'p str| {
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        let is_fixed = |part: &&str| !part.is_empty() && !part.contains(['*', '?', '$']);
        let is_arn = parts.len() == 6 && parts[0] == "arn" && is_kind(&parts);
        parts.get(index).copied().filter(|part| is_arn && is_fixed(part))
    };
    policies.resources().find_map(part)
}
