//! Pods that workloads expand to, in addition to the ReplicaSets and pods of the input.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use cli::input::{Objects, read_text};
use cli::plan::workload::expand;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}
";
const REPLICA_SET: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-5f
  labels: {pod-template-hash: 5f}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]
spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}
";
const STATEFUL_SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  ordinals: {start: 1}
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c}], volumes: [{name: data}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast}}]
";
const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec: {parallelism: 3, completions: 4, template: {spec: {containers: [{name: c}]}}}
";

/// Returns a pod of an owner; `more` is added to its document.
fn pod(name: &str, owner: &str, more: &str) -> String {
    let (kind, of) = owner.split_once('/').unwrap_or_default();
    let owners = format!("ownerReferences: [{{apiVersion: v1, kind: {kind}, name: {of}, uid: u, controller: true}}]");
    let owners = if kind.is_empty() { "labels: {app: web}".to_owned() } else { owners };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  {owners}\nspec: {{containers: [{{name: c}}]}}\n{more}\n"
    )
}

fn expanded(documents: &[&str]) -> Objects {
    let manifests = read_text("test", &documents.join("\n---\n")).unwrap();
    let mut objects = manifests.objects;
    expand(&mut objects);
    objects
}

fn names(documents: &[&str]) -> Vec<String> {
    expanded(documents).pods.iter().map(|pod| pod.name().to_owned()).collect()
}

#[test]
fn expand_creates_only_pods_that_the_input_lacks() {
    let of_set = pod("web-5f-a", "ReplicaSet/web-5f", "");
    let of_set_ended = pod("web-5f-a", "ReplicaSet/web-5f", "status: {phase: Failed}");
    let of_unknown_set = pod("web-7c-a", "ReplicaSet/web-7c", "");
    let of_other_deployment = pod("web-api-7c-a", "ReplicaSet/web-api-7c", "");
    let orphan = pod("web-free", "", "");
    let same_name = pod("web-1", "ReplicaSet/other-1", "");
    let of_db = pod("db-2", "StatefulSet/db", "");
    let of_job = pod("sum-x", "Job/sum", "");
    let of_job_done = pod("sum-y", "Job/sum", "status: {phase: Succeeded}");
    let suspended = JOB.replace("{parallelism", "{suspend: true, parallelism");
    let none = DEPLOYMENT.replace("replicas: 3", "replicas: 0");
    let rows: &[(&str, &[&str], &[&str])] = &[
        ("a deployment alone", &[DEPLOYMENT], &["web-0", "web-1", "web-2"]),
        ("no replicas", &[&none], &[]),
        ("its set covers two", &[DEPLOYMENT, REPLICA_SET], &["web-0", "web-5f-0", "web-5f-1"]),
        ("a pod covers one of the set", &[DEPLOYMENT, REPLICA_SET, &of_set], &["web-0", "web-5f-0", "web-5f-a"]),
        ("an ended pod covers none", &[REPLICA_SET, &of_set_ended], &["web-5f-0", "web-5f-1", "web-5f-a"]),
        ("the set of a pod is not given", &[DEPLOYMENT, &of_unknown_set], &["web-0", "web-1", "web-7c-a"]),
        (
            "a deployment with a longer name",
            &[DEPLOYMENT, &of_other_deployment],
            &["web-0", "web-1", "web-2", "web-api-7c-a"],
        ),
        (
            "a set adopts orphans, a deployment none",
            &[DEPLOYMENT, REPLICA_SET, &orphan],
            &["web-0", "web-5f-0", "web-free"],
        ),
        ("a name that is taken", &[DEPLOYMENT, &same_name], &["web-0", "web-1", "web-2", "web-3"]),
        ("ordinals", &[STATEFUL_SET, &of_db], &["db-1", "db-2", "db-3"]),
        ("a job", &[JOB], &["sum-0", "sum-1", "sum-2"]),
        ("a job half done", &[JOB, &of_job, &of_job_done], &["sum-0", "sum-1", "sum-x", "sum-y"]),
        ("a suspended job", &[&suspended], &[]),
    ];
    for (what, documents, expected) in rows {
        assert_eq!(names(documents), *expected, "{what}");
    }
}

#[test]
fn expand_adds_labels_and_claims_of_the_owner() {
    let objects = expanded(&[DEPLOYMENT, REPLICA_SET, STATEFUL_SET, JOB]);
    let pod = |name: &str| objects.pods.iter().find(|pod| pod.name() == name).unwrap();
    let label = |name: &str, key: &str| pod(name).metadata.labels.as_ref().unwrap().get(key).cloned();
    assert_eq!(label("web-0", "pod-template-hash").as_deref(), Some("5f"));
    assert_eq!(label("db-2", "apps.kubernetes.io/pod-index").as_deref(), Some("2"));
    assert_eq!(label("sum-0", "batch.kubernetes.io/job-name").as_deref(), Some("sum"));
    assert!(pod("web-0").is_unschedulable() && pod("db-1").is_stateful());
    let claims: Vec<_> = objects.volume_claims.iter().map(|claim| claim.metadata.name.clone().unwrap()).collect();
    assert_eq!(claims, ["data-db-1", "data-db-2", "data-db-3"]);
    let volumes = &pod("db-3").spec.volumes;
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    assert_eq!(volumes[0].persistent_volume_claim.as_ref().unwrap().claim_name, "data-db-3");
}

#[test]
fn expand_sets_priority_from_priority_classes() {
    let class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n";
    let named = pod("a", "", "").replace("spec: {", "spec: {priorityClassName: high, ");
    let system = pod("b", "", "").replace("spec: {", "spec: {priorityClassName: system-node-critical, ");
    let unknown = pod("c", "", "").replace("spec: {", "spec: {priorityClassName: lost, ");
    let manifests = read_text("test", &[class, &named, &system, &unknown].join("---\n")).unwrap();
    let mut objects = manifests.objects;
    let warnings = expand(&mut objects).warnings;
    let found: Vec<_> = objects.pods.iter().map(|pod| pod.spec.priority.unwrap()).collect();
    assert_eq!(found, [1000, 2_000_001_000, 0]);
    assert!(matches!(warnings.as_slice(), [one] if one.contains("PriorityClass lost")), "{warnings:?}");
}

#[test]
fn expand_marks_pods_unschedulable_unless_gated_or_bound() {
    let gated = pod("g", "", "").replace("spec: {", "spec: {schedulingGates: [{name: x}], ");
    let bound = pod("h", "", "").replace("spec: {", "spec: {nodeName: n1, ");
    let objects = expanded(&[&pod("f", "", ""), &gated, &bound]);
    let refused: Vec<_> = objects.pods.iter().map(|pod| pod.is_unschedulable()).collect();
    assert_eq!(refused, [true, false, false]);
    assert!(objects.pods[2].status.conditions.is_empty());
}
