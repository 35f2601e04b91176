//! Small valid objects for unit tests, changed by a JSON merge patch, and short texts for operations.

use std::sync::Arc;

use api::objects::{Node, Pod};
use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use cloud::fake::FakeCloud;
use cloud::nodeclass::{self, ProfileStep, Resolution};
use jiff::{SignedDuration, Timestamp};
pub use json_patch::merge;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::capacity::offerings::Offerings;
use crate::settings::Gates;
use crate::write::writer::{Operation, Target};

/// Provider id of the NodeClaim and the node.
pub const PROVIDER_ID: &str = "aws:///us-west-2a/i-1";
/// Creation time of the NodeClaim and the node.
const CREATED: &str = "2026-03-01T12:00:00Z";

/// Returns the time this many seconds after the creation of the NodeClaim.
pub fn at(seconds: i64) -> Timestamp {
    CREATED.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn made<K: DeserializeOwned>(mut base: Value, change: &Value) -> Arc<K> {
    merge(&mut base, change);
    Arc::new(serde_json::from_value(base).unwrap())
}

/// Timeline of a NodeClaim that keeps its whole timeline already.
const WHOLE_TIMELINE: &str = r#"{"initialized":0,"start":"2026-03-01T12:00:00.000Z"}"#;

/// Returns a NodeClaim that a plan just created.
pub fn claim(change: &Value) -> Arc<NodeClaim> {
    let base = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "default-1", "uid": "claim-uid", "resourceVersion": "7", "generation": 1,
            "creationTimestamp": CREATED,
            "finalizers": ["karpenter.sh/termination"],
            "labels": {"karpenter.sh/nodepool": "default", "team": "blue"},
            "annotations": {"kerf.sh/launch-token": "kerf-1-2", "kerf.sh/timeline": WHOLE_TIMELINE},
        },
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "expireAfter": "Never",
        },
    });
    made(base, change)
}

/// Returns a condition that has this status since this many seconds after the creation of the NodeClaim.
pub fn condition(type_: &str, status: &str, since: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": type_, "message": "", "observedGeneration": 1,
        "lastTransitionTime": at(since).to_string(),
    })
}

/// Returns the status of a NodeClaim with a running instance and these conditions.
pub fn status(conditions: &[Value]) -> Value {
    json!({"status": {"providerID": PROVIDER_ID, "nodeName": "node-1", "conditions": conditions}})
}

/// Returns a node of the NodeClaim with condition Ready.
pub fn node(change: &Value) -> Arc<Node> {
    let base = json!({
        "metadata": {"name": "node-1", "uid": "node-uid", "resourceVersion": "9", "creationTimestamp": CREATED},
        "spec": {"providerID": PROVIDER_ID},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    made(base, change)
}

/// Returns a pod on the node.
pub fn pod(change: &Value) -> Arc<Pod> {
    let base = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "pod-uid", "resourceVersion": "5"},
        "spec": {"nodeName": "node-1", "terminationGracePeriodSeconds": 30, "containers": [{"name": "web"}]},
        "status": {"phase": "Running"},
    });
    made(base, change)
}

/// Returns a NodePool of the EC2NodeClass `default`.
pub fn pool(change: &Value) -> Arc<NodePool> {
    let base = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {
            "name": "default", "uid": "pool-uid", "resourceVersion": "3", "generation": 1, "creationTimestamp": CREATED,
        },
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    made(base, change)
}

/// Returns an EC2NodeClass.
pub fn class(change: &Value) -> Arc<EC2NodeClass> {
    let base = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {
            "name": "default", "uid": "class-uid", "resourceVersion": "4", "generation": 1, "creationTimestamp": CREATED,
        },
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "instanceProfile": "nodes",
        },
    });
    made(base, change)
}

/// Returns the change by which an EC2NodeClass selects the subnets and security groups of the fake EC2.
pub fn discovered() -> Value {
    let terms = json!([{"tags": {"karpenter.sh/discovery": "kerf"}}]);
    json!({"spec": {"subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms}})
}

/// Returns offerings of the fake EC2, with loaded instance types.
pub async fn offerings(fake: &FakeCloud) -> Offerings {
    let settings = cloud::Settings {
        cluster_name: "kerf".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        kubernetes: "1.36".to_owned(),
        region: "us-west-2".to_owned(),
        ..cloud::Settings::default()
    };
    let offerings = Offerings::new(Arc::new(fake.clone()), settings, Gates::default());
    offerings.refresh().await.unwrap();
    offerings
}

/// Resolves an EC2NodeClass with these offerings.
pub async fn resolution(class: &EC2NodeClass, offerings: &Offerings) -> Resolution {
    let queries = nodeclass::queries(class, offerings.settings());
    let answers = nodeclass::fetch(offerings.cloud(), &queries, offerings.memory(), at(60)).await;
    nodeclass::resolve(class, answers, offerings.settings(), at(60))
}

/// Returns a NodeOverlay with a high price for every instance type.
pub fn overlay(change: &Value) -> Arc<NodeOverlay> {
    let base = json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {
            "name": "dear", "uid": "overlay-uid", "resourceVersion": "6", "generation": 1, "creationTimestamp": CREATED,
        },
        "spec": {"requirements": [], "price": "5"},
    });
    made(base, change)
}

/// Returns a CapacityBuffer for two pods of the PodTemplate `web`.
pub fn buffer(change: &Value) -> Arc<CapacityBuffer> {
    let base = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {
            "name": "spare", "namespace": "default", "uid": "buffer-uid", "resourceVersion": "8", "generation": 1,
            "creationTimestamp": CREATED,
        },
        "spec": {"podTemplateRef": {"name": "web"}, "replicas": 2},
    });
    made(base, change)
}

/// Returns a short text for each operation, such as `patch node node-1`.
pub fn words(steps: &[Operation]) -> Vec<String> {
    steps.iter().map(word).collect()
}

fn word(step: &Operation) -> String {
    let of = |target: &Target| match target {
        Target::Claim(name) => format!("claim {name}"),
        Target::Pool(name) => format!("pool {name}"),
        Target::Class(name) => format!("class {name}"),
        Target::Node(name) => format!("node {name}"),
        Target::Overlay(name) => format!("overlay {name}"),
        Target::Buffer { namespace, name } => format!("buffer {namespace}/{name}"),
        Target::Request { namespace, name } => format!("request {namespace}/{name}"),
        Target::SpendPolicy(name) => format!("spend policy {name}"),
        Target::Commitment(name) => format!("commitment {name}"),
        Target::Usage(name) => format!("usage {name}"),
    };
    match step {
        Operation::CreateClaim(_) => "create".to_owned(),
        Operation::Patch(target, _) => format!("patch {}", of(target)),
        Operation::PatchStatus(target, _) => format!("status of {}", of(target)),
        Operation::Delete(target, uid) => format!("delete {} ({uid})", of(target)),
        Operation::PatchPod(pod, _) => format!("patch pod {}", pod.name),
        Operation::ResizePod(pod, _) => format!("resize pod {}", pod.name),
        Operation::Expect(pods, node) => {
            let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
            format!("expect {} on {node}", names.join(" "))
        }
        Operation::Evict(pod, _) => format!("evict {}", pod.name),
        Operation::DeletePod(pod, _) => format!("delete pod {}", pod.name),
        Operation::Terminate(id) => format!("terminate {id}"),
        Operation::Tag(id, _) => format!("tag {id}"),
        Operation::DeleteLaunchTemplate(name) => format!("delete template {name}"),
        Operation::Profile(step) => profile_word(step),
        Operation::Note(note) => format!("event {}", note.reason()),
        Operation::Record(decision) => format!("record {}", decision.kind.as_str()),
    }
}

fn profile_word(step: &ProfileStep) -> String {
    match step {
        ProfileStep::Create(request) => format!("create profile {}", request.name),
        ProfileStep::AddRole { profile, role } => format!("add role {role} to profile {profile}"),
        ProfileStep::RemoveRole { profile, role } => format!("remove role {role} from profile {profile}"),
        ProfileStep::Delete(profile) => format!("delete profile {profile}"),
    }
}

/// Returns the body of the first patch or status patch.
pub fn body(steps: &[Operation]) -> Value {
    let bodies = steps.iter().filter_map(|step| match step {
        Operation::Patch(_, body) | Operation::PatchStatus(_, body) | Operation::PatchPod(_, body) => {
            Some(body.clone())
        }
        _ => None,
    });
    bodies.into_iter().next().unwrap_or_default()
}

/// Returns status, reason and message of a condition in the first status patch.
pub fn written(steps: &[Operation], type_: &str) -> Option<(String, String, String)> {
    let body = steps.iter().find_map(|step| match step {
        Operation::PatchStatus(_, body) => Some(body),
        _ => None,
    })?;
    let found = body["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == type_)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}
