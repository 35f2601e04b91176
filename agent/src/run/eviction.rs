//! Adapter between Kubernetes' pods and the drain: converts a pod for the drain, and sends the requests of a drain.

use std::time::Duration;

use api::objects::Surged;
use api::{annotation, label, taint};
use drain::{Action, AwaitedCopy, BudgetPolicy, PodOnNode, Protection, Reply, Settings};
use machine::agent::drain::DrainSettings;

use crate::cluster::{Cluster, ClusterError, Pod};
use crate::host::clock::{ClockOffset, WallOffset};
use crate::notices::moment;

/// Maximum time for which the eviction of a pod waits for its copy, if the controller that has started it is silent.
const COPY_READY_WITHIN: Duration = Duration::from_mins(5);

/// Converts these pods for a drain; all times are by the agent's clock.
#[must_use]
pub fn pods_on_node(pods: &[Pod], wall: WallOffset) -> Vec<PodOnNode> {
    let protection = |protection| match protection {
        Protection::Until(end) => Protection::Until(wall.ours(end)),
        Protection::None | Protection::Always => protection,
    };
    let copy = |copy| match copy {
        AwaitedCopy::Starting(end) => AwaitedCopy::Starting(wall.ours(end)),
        AwaitedCopy::None | AwaitedCopy::Requested => copy,
    };
    let ours = |pod: PodOnNode| PodOnNode {
        deletion: pod.deletion.map(|at| wall.ours(at)),
        do_not_disrupt: protection(pod.do_not_disrupt),
        copy: copy(pod.copy),
        ..pod
    };
    pods.iter().map(|pod| ours(pod_on_node(pod))).collect()
}

/// Converts this pod for a drain; all times are by the wall clock.
#[must_use]
pub fn pod_on_node(pod: &Pod) -> PodOnNode {
    let bears = |effect| pod.spec.tolerations.iter().any(|it| it.bears(taint::DISRUPTED, effect));
    PodOnNode {
        uid: pod.metadata.uid.clone(),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        owner_kind: owner_kind(pod),
        critical: PodOnNode::is_critical(&pod.spec.priority_class_name, pod.spec.priority),
        priority: pod.spec.priority,
        size: PodOnNode::size(pod.spec.requested("cpu"), pod.spec.requested("memory")),
        claims: pod.spec.claims(),
        grace_seconds: pod.spec.termination_grace_period_seconds.unwrap_or(30),
        terminal: matches!(pod.status.phase.as_str(), "Succeeded" | "Failed"),
        deletion: pod.metadata.deletion_timestamp.map(moment),
        tolerates_disrupted: bears(taint::NO_SCHEDULE),
        mirror: pod.metadata.annotations.contains_key(annotation::MIRROR_POD),
        do_not_disrupt: protection(pod),
        copy: awaited_copy(pod),
    }
}

/// Returns the copy that the pod asks for by `kerf.sh/surge`, or that the controller has started. Only pods of Deployments without
/// claims have copies. Anything else that prevents a copy is known only to the controller, which starts none then.
fn awaited_copy(pod: &Pod) -> AwaitedCopy {
    let annotations = &pod.metadata.annotations;
    if let Some(surged) = annotations.get(annotation::SURGED).and_then(|text| Surged::parse(text)) {
        return AwaitedCopy::Starting(moment(surged.since) + COPY_READY_WITHIN);
    }
    let asks = annotations.get(annotation::SURGE).is_some_and(|value| value == annotation::TRUE);
    let is_of_deployment = pod.metadata.labels.contains_key(label::POD_TEMPLATE_HASH);
    if asks && is_of_deployment && pod.spec.claims() == 0 { AwaitedCopy::Requested } else { AwaitedCopy::None }
}

fn owner_kind(pod: &Pod) -> Option<String> {
    let managing = pod.metadata.owner_references.iter().find(|owner| owner.controller);
    managing.map(|owner| owner.kind.clone())
}

/// Returns the protection by `karpenter.sh/do-not-disrupt`: `true`, or a positive duration from the pod's start. The duration of
/// a pod that has not started has not begun; the watch reports its start.
fn protection(pod: &Pod) -> Protection {
    let Some(value) = pod.metadata.annotations.get(annotation::DO_NOT_DISRUPT) else {
        return Protection::None;
    };
    if value == annotation::TRUE {
        return Protection::Always;
    }
    let nanos = api::duration::nanos(value).ok().and_then(|nanos| u64::try_from(nanos).ok()).filter(|nanos| *nanos > 0);
    match (nanos.map(Duration::from_nanos), pod.status.start_time.map(moment)) {
        (None, _) => Protection::None,
        (Some(lasts), Some(start)) => Protection::Until(start + lasts),
        (Some(_), None) => Protection::Always,
    }
}

/// Returns the settings of a drain of this machine. A termination by Karpenter follows Karpenter's rules and takes only the
/// pace from the agent's settings.
#[must_use]
pub fn rules(settings: &DrainSettings, seed: u64, termination: bool) -> Settings {
    let own = Settings {
        reserve: settings.margin.0,
        grace_cap: settings.least_grace.0,
        lead: settings.load_balancer_lead.0,
        do_not_disrupt: care(settings.do_not_disrupt),
        bare: care(settings.bare_pods),
        abreast: settings.abreast.0.into(),
        detach: settings.detach_volumes.0,
        ..Settings::for_machine(seed)
    };
    if termination { own.as_terminating() } else { own }
}

fn care(care: machine::agent::drain::Care) -> BudgetPolicy {
    match care {
        machine::agent::drain::Care::Evict => BudgetPolicy::Evict,
        machine::agent::drain::Care::Hold => BudgetPolicy::Hold,
        machine::agent::drain::Care::Leave => BudgetPolicy::Leave,
    }
}

/// Sends one request of a drain, if that is possible before `by`, and returns the pod's UID and the reply. [`Action::List`] is
/// no request for a pod and returns `None`.
pub async fn request(cluster: &Cluster, action: &Action, by: ClockOffset) -> Option<(String, Reply)> {
    let (uid, sent) = match action {
        Action::Evict { namespace, pod, uid, grace } => (uid, cluster.evict(namespace, pod, uid, *grace, by).await),
        Action::Delete { namespace, pod, uid, grace } => {
            (uid, cluster.delete_pod(namespace, pod, uid, *grace, by).await)
        }
        Action::List => return None,
    };
    let reply = sent.as_ref().err().map_or(Reply::Accepted, ClusterError::reply);
    log_result(action, sent);
    Some((uid.clone(), reply))
}

fn log_result(action: &Action, sent: Result<(), ClusterError>) {
    let (verb, namespace, pod) = match action {
        Action::Evict { namespace, pod, .. } => ("evict", namespace.as_str(), pod.as_str()),
        Action::Delete { namespace, pod, .. } => ("delete", namespace.as_str(), pod.as_str()),
        Action::List => return,
    };
    match sent {
        Ok(()) => {
            log::info!(verb = verb, namespace = namespace, pod = pod; "the API server accepts")
        }
        Err(error) => {
            let why = daemon::error::chain(&error);
            log::debug!(verb = verb, namespace = namespace, pod = pod, reason:% = why; "the API server refuses");
        }
    }
}

#[cfg(test)]
mod tests {
    use drain::Millis;
    use serde_json::{Value, json};

    use super::*;

    fn read(object: Value) -> PodOnNode {
        let pod: Pod = serde_json::from_value(object).unwrap_or_default();
        pod_on_node(&pod)
    }

    #[test]
    fn pod_on_node_reads_all_fields_of_a_pod() {
        let pod = read(json!({
            "metadata": {
                "name": "a", "namespace": "web", "uid": "u-1",
                "ownerReferences": [{"kind": "Node"}, {"kind": "DaemonSet", "controller": true}],
                "deletionTimestamp": "2026-01-01T12:00:30Z",
                "annotations": {"kubernetes.io/config.mirror": "x"},
            },
            "spec": {"priorityClassName": "system-node-critical", "priority": 2_000_001_000, "terminationGracePeriodSeconds": 5,
                     "containers": [{"resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}, {"resources": {"requests": {"cpu": "500m"}}}, {}],
                     "volumes": [{"name": "tmp", "emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "data"}}],
                     "tolerations": [{"operator": "Exists"}]},
            "status": {"phase": "Failed"},
        }));
        let expected = PodOnNode {
            uid: "u-1".into(),
            namespace: "web".into(),
            name: "a".into(),
            owner_kind: Some("DaemonSet".into()),
            critical: true,
            priority: 2_000_001_000,
            size: 1500,
            claims: 1,
            grace_seconds: 5,
            terminal: true,
            deletion: Some(Millis(1_767_268_830_000)),
            tolerates_disrupted: true,
            mirror: true,
            do_not_disrupt: Protection::None,
            copy: AwaitedCopy::None,
        };
        assert_eq!(pod, expected);
    }

    #[test]
    fn pod_on_node_reads_the_end_of_do_not_disrupt() {
        let noon = Some("2026-01-01T12:00:00Z");
        let rows = [
            ("true", noon, Protection::Always),
            ("false", noon, Protection::None),
            ("30m", noon, Protection::Until(Millis(1_767_268_800_000 + 1_800_000))),
            ("30m", None, Protection::Always),
            ("0s", noon, Protection::None),
            ("-5m", noon, Protection::None),
            ("soon", noon, Protection::None),
        ];
        for (value, start, protection) in rows {
            let pod = read(json!({
                "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}},
                "status": {"startTime": start},
            }));
            assert_eq!(pod.do_not_disrupt, protection, "{value} since {start:?}");
        }
    }

    #[test]
    fn pod_on_node_reads_the_copy_for_which_a_pod_waits() {
        let hash = json!({"pod-template-hash": "7d9"});
        let claim = json!({"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]});
        let surged = "rs web-7d9 2026-01-01T12:00:00Z";
        let started = AwaitedCopy::Starting(Millis(1_767_268_800_000 + 300_000));
        let rows = [
            ("nothing", json!({}), &hash, json!({}), AwaitedCopy::None),
            ("asks", json!({"kerf.sh/surge": "true"}), &hash, json!({}), AwaitedCopy::Requested),
            ("asks for none", json!({"kerf.sh/surge": "false"}), &hash, json!({}), AwaitedCopy::None),
            ("of no Deployment", json!({"kerf.sh/surge": "true"}), &json!({}), json!({}), AwaitedCopy::None),
            ("with a claim", json!({"kerf.sh/surge": "true"}), &hash, claim, AwaitedCopy::None),
            ("detached", json!({"kerf.sh/surge": "true", "kerf.sh/surged": surged}), &json!({}), json!({}), started),
            ("detached by default", json!({"kerf.sh/surged": surged}), &json!({}), json!({}), started),
            ("of another text", json!({"kerf.sh/surged": "rs"}), &hash, json!({}), AwaitedCopy::None),
        ];
        for (what, annotations, labels, spec, expected) in rows {
            let pod = read(json!({"metadata": {"annotations": annotations, "labels": labels}, "spec": spec}));
            assert_eq!(pod.copy, expected, "{what}");
        }
    }

    #[test]
    fn pods_on_node_converts_times_to_the_clock_of_the_agent() {
        let object = json!({
            "metadata": {
                "annotations": {
                    "karpenter.sh/do-not-disrupt": "1m", "kerf.sh/surged": "rs web-7d9 2026-01-01T12:00:00Z",
                },
                "deletionTimestamp": "2026-01-01T12:00:30Z",
            },
            "status": {"startTime": "2026-01-01T12:00:00Z"},
        });
        let pod: Pod = serde_json::from_value(object).unwrap_or_default();
        let [pod]: [PodOnNode; 1] = pods_on_node(&[pod], WallOffset(7000)).try_into().unwrap_or_default();
        assert_eq!(pod.deletion, Some(Millis(1_767_268_823_000)));
        assert_eq!(pod.do_not_disrupt, Protection::Until(Millis(1_767_268_853_000)));
        assert_eq!(pod.copy, AwaitedCopy::Starting(Millis(1_767_269_093_000)));
    }

    #[test]
    fn pod_on_node_reads_tolerations_of_the_disrupted_taint() {
        let rows = [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "karpenter.sh/disrupted", "operator": "Exists"}), true),
            (json!({"key": "karpenter.sh/disrupted", "operator": "Equal"}), true),
            (json!({"key": "karpenter.sh/disrupted", "value": "x"}), false),
            (json!({"key": "karpenter.sh/disrupted", "effect": "NoExecute", "operator": "Exists"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({}), false),
        ];
        for (toleration, bears) in rows {
            let pod = read(json!({"spec": {"tolerations": [toleration]}}));
            assert_eq!(pod.tolerates_disrupted, bears, "{toleration}");
        }
    }
}
