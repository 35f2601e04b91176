//! Programs of a cluster: the running Karpenter with its settings, and other programs that conflict with Kerf over nodes.

use daemon::flag::boolean;
use serde_json::Value;

use super::report::Finding;
use super::{is_of, named, text};

/// Name of the Lease that the active controller holds.
const LEADER_LEASE: &str = "karpenter-leader-election";

/// Variables that the controller reads; a test compares them with its settings.
const SUPPORTED_VARIABLES: [&str; 51] = [
    "AMI_REFRESH_INTERVAL",
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "BATCH_IDLE_DURATION",
    "BATCH_MAX_DURATION",
    "CLUSTER_CA_BUNDLE",
    "CLUSTER_CIDR",
    "CLUSTER_ENDPOINT",
    "CLUSTER_NAME",
    "COST_LABEL",
    "CPU_REQUESTS",
    "DEBUG_PORT",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY",
    "DISABLE_CONTROLLER_WARMUP",
    "DISABLE_DRY_RUN",
    "DISABLE_LEADER_ELECTION",
    "EKS_CONTROL_PLANE",
    "ENABLE_PROFILING",
    "ENABLE_ZONAL_SHIFT",
    "FEATURE_GATES",
    "HEALTH_PROBE_PORT",
    "IGNORE_DRA_REQUESTS",
    "INTERRUPTION_QUEUE",
    "ISOLATED_VPC",
    "KARPENTER_SERVICE",
    "KUBE_CLIENT_BURST",
    "KUBE_CLIENT_QPS",
    "LEADER_ELECTION_NAME",
    "LEADER_ELECTION_NAMESPACE",
    "LISTEN_ADDRESS",
    "LOG_ERROR_OUTPUT_PATHS",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "LOG_OUTPUT_PATHS",
    "MAX_COST_PER_HOUR",
    "MAX_VIEW_AGE",
    "MEMORY_LIMIT",
    "METRICS_DETAIL",
    "METRICS_PORT",
    "MIN_VALUES_POLICY",
    "OBSERVE",
    "PACKING",
    "PREFERENCE_POLICY",
    "PREFERENCE_PREMIUM",
    "PROVIDER",
    "RESERVED_ENIS",
    "RISK_PREMIUM",
    "SUBNET_REFRESH_INTERVAL",
    "SURGE",
    "SYSTEM_NAMESPACE",
    "VM_MEMORY_OVERHEAD_PERCENT",
];

/// Variables of Karpenter of which Kerf supports one value: name, supported value, and the effect of another value.
const ONE_VALUE: [(&str, &str, &str); 1] = [("IGNORE_DRA_REQUESTS", "true", "pods with ResourceClaims are ignored")];

/// Programs that do a part of Kerf's work: the last part of their image name, and the action to take.
const CONFLICTS: [(&str, &str); 3] = [
    (
        "cluster-autoscaler",
        "it would launch nodes for the same pods: scale it to 0, or keep it for node groups that no NodePool matches",
    ),
    (
        "descheduler",
        "it evicts pods, for which Kerf then launches nodes: check that both do not work against each other",
    ),
    (
        "aws-node-termination-handler",
        "it drains nodes for the same notices: remove it where Kerf's agent or queue receives them",
    ),
];

pub(super) fn findings(objects: &[&Value]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        objects.iter().filter_map(|object| lease_without_holder(object, objects)).collect();
    for object in objects {
        if is_of(object, "apps", "Deployment") || is_of(object, "apps", "DaemonSet") {
            findings.extend(conflicting(object));
        }
        if is_of(object, "apps", "Deployment") && text(object, "/metadata/name") != "kerf" {
            containers(object).filter(|container| is_karpenter(container)).for_each(|container| {
                findings.extend(running(object, container));
                findings.extend(settings(object, container));
            });
        }
    }
    findings
}

fn containers(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/spec/template/spec/containers").and_then(Value::as_array).into_iter().flatten()
}

/// Returns the last part of an image's name, without tag and digest.
fn program(container: &Value) -> &str {
    let image = text(container, "/image").split('@').next().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split(':').next().unwrap_or_default()
}

fn is_karpenter(container: &Value) -> bool {
    let image = text(container, "/image");
    image.contains("karpenter/controller")
        || !image.contains("kerf") && variable(container, "KARPENTER_SERVICE").is_some()
}

/// Returns the container of the controller of Karpenter or Kerf.
pub(super) fn controller<'a>(objects: &[&'a Value]) -> Option<&'a Value> {
    Some(deployment(objects)?.1)
}

/// Returns the namespace of the controller that publishes its market: one that only observes beside Karpenter, else the one that acts.
pub(super) fn namespace<'a>(objects: &[&'a Value]) -> Option<&'a str> {
    let observer = deployments(objects).find(|(_, container)| observes(container));
    observer.or_else(|| deployment(objects)).map(|(deployment, _)| text(deployment, "/metadata/namespace"))
}

/// Returns the Deployment of the controller with its container. One that only observes counts only without another.
fn deployment<'a>(objects: &[&'a Value]) -> Option<(&'a Value, &'a Value)> {
    let acting = deployments(objects).find(|(_, container)| !observes(container));
    acting.or_else(|| deployments(objects).next())
}

fn observes(container: &Value) -> bool {
    is_true(variable(container, "OBSERVE"))
}

fn deployments<'a>(objects: &[&'a Value]) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let is_controller = |one: &&Value| is_karpenter(one) || variable(one, "KARPENTER_SERVICE").is_some();
    let deployments = objects.iter().copied().filter(|object| is_of(object, "apps", "Deployment"));
    deployments.filter_map(move |deployment| Some((deployment, containers(deployment).find(is_controller)?)))
}

/// Returns a setting of the controller's Deployment.
pub(super) fn setting<'a>(objects: &[&'a Value], name: &str) -> Option<&'a str> {
    controller(objects).and_then(|container| variable(container, name)).filter(|value| !value.is_empty())
}

/// Reports whether the value of a boolean setting is true, in any form that the controller accepts.
pub(super) fn is_true(value: Option<&str>) -> bool {
    value.is_some_and(|value| boolean(value) == Ok(true))
}

/// Returns a variable's value; empty for a value from `valueFrom`.
pub(super) fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a str> {
    variables(container).find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn variables(container: &Value) -> impl Iterator<Item = (&str, &str)> {
    let list = container["env"].as_array().into_iter().flatten();
    list.map(|one| (text(one, "/name"), text(one, "/value")))
}

fn conflicting(object: &Value) -> Option<Finding> {
    if object["spec"]["replicas"] == 0 {
        return None;
    }
    let (_, why) =
        CONFLICTS.iter().find(|(name, _)| containers(object).any(|container| program(container) == *name))?;
    Some(Finding::before_start(named(object), *why))
}

/// Reports a Lease whose holder is not among the objects. Kerf would wait for the Lease without a visible reason.
fn lease_without_holder(lease: &Value, objects: &[&Value]) -> Option<Finding> {
    let holder = text(lease, "/spec/holderIdentity");
    if !is_of(lease, "coordination.k8s.io", "Lease")
        || text(lease, "/metadata/name") != LEADER_LEASE
        || holder.is_empty()
    {
        return None;
    }
    let runs_karpenter = |object: &&Value| {
        is_of(object, "apps", "Deployment")
            && text(object, "/metadata/namespace") == text(lease, "/metadata/namespace")
            && object["spec"]["replicas"] != 0
            && containers(object).any(is_karpenter)
    };
    let text = format!(
        "was last held by {holder}, renewed {}, and no Deployment of its namespace runs Karpenter: Kerf waits \
         while it is renewed",
        text(lease, "/spec/renewTime")
    );
    (!objects.iter().any(runs_karpenter)).then(|| Finding::change(named(lease), text))
}

/// Reports a running Karpenter. Two controllers must not run at once; a common Lease prevents this.
fn running(object: &Value, container: &Value) -> Option<Finding> {
    if object["spec"]["replicas"] == 0 {
        return None;
    }
    let lease = variable(container, "LEADER_ELECTION_NAME").filter(|name| !name.is_empty()).unwrap_or(LEADER_LEASE);
    let alone = is_true(variable(container, "DISABLE_LEADER_ELECTION"));
    let text = if alone || lease != LEADER_LEASE {
        "it runs without the Lease of Kerf, so both would be active: scale it to 0 first".to_owned()
    } else {
        let namespace = variable(container, "LEADER_ELECTION_NAMESPACE").filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or_else(|| text(object, "/metadata/namespace"));
        return Some(Finding::change(
            named(object),
            format!(
                "holds Lease {namespace}/{LEADER_LEASE}: Kerf in that namespace waits until it ends, upgrade in place or \
                 scale it to 0; in another namespace both would be active"
            ),
        ));
    };
    Some(Finding::before_start(named(object), text))
}

/// Reports settings that Kerf does not support, or of which it supports one value.
fn settings(object: &Value, container: &Value) -> Vec<Finding> {
    /// Variables that Karpenter's chart sets in addition to settings.
    const CHART: [&str; 2] = ["KUBERNETES_MIN_VERSION", "GOMAXPROCS"];
    let mut findings = Vec::new();
    for (name, value) in variables(container) {
        if let Some((_, _, why)) =
            ONE_VALUE.iter().find(|(known, only, _)| *known == name && *only != value && !value.is_empty())
        {
            findings.push(Finding::before_start(named(object), format!("{name}={value}: {why}")));
        } else if !SUPPORTED_VARIABLES.contains(&name) && !CHART.contains(&name) && !name.starts_with("AWS_") {
            findings.push(Finding::before_start(named(object), format!("{name}={value}: unknown setting; remove it")));
        }
    }
    if let Some(gates) = variable(container, "AWS_FEATURE_GATES").filter(|gates| gates.contains("=true")) {
        findings
            .push(Finding::before_start(named(object), format!("AWS_FEATURE_GATES={gates}: unknown feature gates")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deployment_prefers_a_controller_that_acts_and_namespace_one_that_observes() {
        let deployment = |namespace: &str, observes: &str| {
            let variables =
                json!([{"name": "KARPENTER_SERVICE", "value": "it"}, {"name": "OBSERVE", "value": observes}]);
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "it", "namespace": namespace},
                "spec": {"template": {"spec": {"containers": [{"name": "controller", "env": variables}]}}},
            })
        };
        let (observer, acting) = (deployment("kerf-observer", "True"), deployment("kube-system", "false"));
        let of = |objects: &[&Value]| {
            let found =
                super::deployment(objects).map(|(deployment, _)| text(deployment, "/metadata/namespace").to_owned());
            (found, namespace(objects).map(str::to_owned))
        };
        let names = |one: &str, other: &str| (Some(one.to_owned()), Some(other.to_owned()));
        assert_eq!(of(&[&observer, &acting]), names("kube-system", "kerf-observer"));
        assert_eq!(of(&[&observer]), names("kerf-observer", "kerf-observer"));
        assert_eq!(of(&[&acting]), names("kube-system", "kube-system"));
    }

    /// The controller links the EC2 SDK, so its settings are read from its source files.
    #[test]
    fn supported_variables_equal_those_of_the_controller() {
        let mut files = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../controller/src").into()];
        let mut read = std::collections::BTreeSet::new();
        while let Some(path) = files.pop() {
            let path: std::path::PathBuf = path;
            if path.is_dir() {
                files.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                read.extend(text.split("env = \"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
        assert_eq!(read.iter().map(String::as_str).collect::<Vec<_>>(), SUPPORTED_VARIABLES);
    }
}
