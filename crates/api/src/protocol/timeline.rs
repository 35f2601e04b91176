//! Timeline of a node's start: from the creation of the pod that needed it until that pod is ready. It joins the stages that the
//! controller saw with those that the agent wrote on the Node. The NodeClaim keeps the whole timeline in an annotation.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::objects::{Node, Pod};
use crate::status::{self, Conditioned as _};
use crate::{NodeClaim, annotation, condition};

/// First stage where a pod needed the node: the creation of that pod.
pub const POD_CREATED: &str = "pod-created";
/// Stage in which kube-scheduler found no node for the pod.
pub const POD_UNSCHEDULABLE: &str = "pod-unschedulable";
/// Stage in which the plan with the new node began.
pub const PLANNED: &str = "planned";
/// Stage in which the API server has the NodeClaim; the first one where no pod needed the node.
pub const CREATED: &str = "nodeclaim-created";
/// Stage in which EC2 has launched the instance.
pub const LAUNCHED: &str = "launched";
/// Stage in which the kernel of the instance starts.
pub const KERNEL: &str = "kernel-started";
/// Stage in which systemd starts.
pub const SYSTEMD: &str = "systemd-started";
/// Stage in which the agent starts.
pub const AGENT: &str = "agent-started";
/// Stage of the agent in which kubelet's unit is active.
pub const KUBELET: &str = "kubelet-up";
/// Stage in which the controller has accepted the Node.
pub const REGISTERED: &str = "registered";
/// Stage in which the node may receive pods.
pub const INITIALIZED: &str = "initialized";
/// Stage in which kube-scheduler has bound the pod to the node.
pub const POD_SCHEDULED: &str = "pod-scheduled";
/// Stage in which the images of the pod are pulled and its containers run.
pub const CONTAINERS_STARTED: &str = "containers-started";
/// Stage in which the pod is ready.
pub const POD_READY: &str = "pod-ready";

/// Stages that are measured, in their order.
const MILESTONES: [&str; 13] = [
    POD_UNSCHEDULABLE,
    PLANNED,
    CREATED,
    LAUNCHED,
    KERNEL,
    SYSTEMD,
    AGENT,
    KUBELET,
    REGISTERED,
    INITIALIZED,
    POD_SCHEDULED,
    CONTAINERS_STARTED,
    POD_READY,
];

/// Key of the first time in the annotations. The agent's annotation has only later stages and earlier ones of the same boot.
const START: &str = "start";
/// Key of the pod in the annotation of a NodeClaim.
const POD: &str = "pod";
/// Maximum number of stages that are read from a Node, which its machine writes.
const STAGES: usize = 32;
/// Maximum length of the name of a stage.
const NAME: usize = 64;
/// Longest start whose stages are read, and longest time between the start of the kernel and that of the agent.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// Stage of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartStage {
    /// Name.
    pub stage: String,
    /// Time at which it was reached. The times of the agent are by the clock of the node.
    pub at: Timestamp,
}

impl StartStage {
    fn new(stage: &str, at: Timestamp) -> Self {
        Self { stage: stage.to_owned(), at }
    }
}

/// Pod for which a NodeClaim was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedPod {
    /// Namespace and name, separated by a slash.
    pub name: String,
    created: Timestamp,
}

impl AwaitedPod {
    /// Returns the pod of a NodeClaim, or `None` where no pod needed the node.
    #[must_use]
    pub fn from_claim(claim: &NodeClaim) -> Option<Self> {
        let line = parse(claim.metadata.annotations.as_ref()?.get(annotation::TIMELINE)?)?;
        Some(Self { name: line.get(POD)?.as_str()?.to_owned(), created: start(&line)? })
    }

    /// Reports whether this is the pod, and not a later one of the same name.
    #[must_use]
    pub fn is(&self, pod: &Pod) -> bool {
        created(pod) == Some(self.created) && self.name == full_name(pod)
    }
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|created| created.0)
}

fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name())
}

/// Returns the annotation of a NodeClaim that is created for this pod by a plan of this time.
#[must_use]
pub fn of_new_claim(pod: &Pod, planned: Timestamp) -> Option<String> {
    let mut stages = vec![StartStage::new(POD_CREATED, created(pod)?)];
    let refused = pod.condition(condition::POD_SCHEDULED).filter(|found| found.status == condition::FALSE);
    let refused = refused.and_then(|found| found.last_transition_time.as_ref());
    stages.extend(refused.map(|refused| StartStage::new(POD_UNSCHEDULABLE, refused.0)));
    stages.push(StartStage::new(PLANNED, planned));
    text(&stages, Some(&full_name(pod)))
}

/// Returns the annotation that keeps all stages on the NodeClaim.
#[must_use]
pub fn of_started_claim(claim: &NodeClaim, stages: &[StartStage]) -> Option<String> {
    text(stages, AwaitedPod::from_claim(claim).map(|pod| pod.name).as_deref())
}

fn text(stages: &[StartStage], pod: Option<&str>) -> Option<String> {
    let first = stages.first()?.at;
    let mut line = json!({START: format!("{first:.3}")});
    for StartStage { stage, at } in stages {
        line[stage] = json!(i64::try_from(at.duration_since(first).as_millis()).ok()?);
    }
    if let Some(pod) = pod {
        line[POD] = json!(pod);
    }
    Some(line.to_string())
}

/// Returns the stages in the annotation of a NodeClaim; nothing without one.
fn stages_of_claim(claim: &NodeClaim) -> Vec<StartStage> {
    let text = claim.metadata.annotations.as_ref().and_then(|all| all.get(annotation::TIMELINE));
    let read = |line: Map<String, Value>| start(&line).map(|start| later(&line, start).collect());
    text.and_then(|text| parse(text)).and_then(read).unwrap_or_default()
}

/// Reports whether the NodeClaim keeps the whole timeline of its node.
#[must_use]
pub fn is_complete(claim: &NodeClaim) -> bool {
    stages_of_claim(claim).iter().any(|stage| stage.stage == INITIALIZED)
}

/// Returns the stages of the agent from its annotation, in the order of their times; nothing from an invalid one.
#[must_use]
pub fn stages_of_agent(text: &str) -> Vec<StartStage> {
    let Some(line) = parse(text) else { return Vec::new() };
    let Some(start) = start(&line) else { return Vec::new() };
    let mut stages = vec![StartStage::new(AGENT, start)];
    stages.extend(later(&line, start).take(STAGES));
    in_order(stages)
}

fn parse(text: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(line)) => Some(line),
        _ => None,
    }
}

fn start(line: &Map<String, Value>) -> Option<Timestamp> {
    line.get(START)?.as_str()?.parse().ok()
}

fn later(line: &Map<String, Value>, start: Timestamp) -> impl Iterator<Item = StartStage> {
    line.iter().filter(|(stage, _)| is_name(stage)).filter_map(move |(stage, after)| {
        let after = SignedDuration::from_millis(after.as_i64()?);
        (after.abs() <= LONGEST).then(|| StartStage::new(stage, start + after))
    })
}

fn is_name(stage: &str) -> bool {
    stage.len() <= NAME && stage.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte))
}

/// Sorts stages by their times, and those of the same time by the order of the milestones.
fn in_order(mut stages: Vec<StartStage>) -> Vec<StartStage> {
    let rank = |stage: &str| MILESTONES.iter().position(|name| *name == stage).map_or(0, |position| position + 1);
    stages.sort_by(|one, other| one.at.cmp(&other.at).then_with(|| rank(&one.stage).cmp(&rank(&other.stage))));
    stages
}

/// Returns the stages of the node of a NodeClaim, in the order of their times. `pod` is the pod for which the NodeClaim was
/// created, if it exists. Stages of a later boot do not count.
#[must_use]
pub fn stages(claim: &NodeClaim, node: Option<&Node>, pod: Option<&Pod>) -> Vec<StartStage> {
    let Some(created) = claim.metadata.creation_timestamp.as_ref().map(|created| created.0) else { return Vec::new() };
    let mut stages = stages_of_claim(claim);
    if stages.iter().any(|stage| stage.stage == INITIALIZED) {
        return in_order(stages);
    }
    let reached = |type_: &str| {
        let found = status::find(claim.conditions(), type_).filter(|found| found.is_true())?;
        Some(found.last_transition_time.0)
    };
    let own =
        [(LAUNCHED, condition::LAUNCHED), (REGISTERED, condition::REGISTERED), (INITIALIZED, condition::INITIALIZED)];
    stages.push(StartStage::new(CREATED, created));
    stages.extend(own.into_iter().filter_map(|(stage, type_)| Some(StartStage::new(stage, reached(type_)?))));
    let ends = reached(condition::INITIALIZED).unwrap_or(created + LONGEST);
    let agents = node.and_then(|node| node.annotation(annotation::TIMELINE)).map(stages_of_agent).unwrap_or_default();
    let is_of_this_boot = agents.iter().any(|stage| stage.stage == AGENT && created <= stage.at && stage.at <= ends);
    stages.extend(agents.into_iter().filter(|stage| is_of_this_boot && created <= stage.at));
    if let (Some(node), Some(pod)) = (node, pod) {
        stages.extend(stages_of_pod(pod, node));
    }
    in_order(stages)
}

/// Returns the stages of the pod on this node.
fn stages_of_pod(pod: &Pod, node: &Node) -> impl Iterator<Item = StartStage> {
    let became = |type_: &str| {
        let found = pod.condition(type_).filter(|found| found.status == condition::TRUE)?;
        found.last_transition_time.as_ref().map(|time| time.0)
    };
    let is_here = pod.spec.node_name == node.name();
    let all = [
        (POD_SCHEDULED, became(condition::POD_SCHEDULED)),
        (CONTAINERS_STARTED, pod.containers_started()),
        (POD_READY, became(condition::READY)),
    ];
    all.into_iter().filter(move |_| is_here).filter_map(|(stage, at)| Some(StartStage::new(stage, at?)))
}

/// Returns the stages as one line: the first one, then each later one with its seconds after it.
#[must_use]
pub fn line(stages: &[StartStage]) -> String {
    let Some((first, later)) = stages.split_first() else { return String::new() };
    let part = |stage: &StartStage| format!("{} {:.1} s", stage.stage, seconds(first.at, stage.at));
    let later: Vec<String> = later.iter().map(part).collect();
    format!("from {}: {}", first.stage, later.join(", "))
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_millis() as f64 / 1000.0
}

/// Returns the measured stages in their order, each with its seconds since the one before it.
#[must_use]
pub fn milestones(stages: &[StartStage]) -> Vec<(&'static str, f64)> {
    let Some(mut before) = at(stages, POD_CREATED).or_else(|| at(stages, CREATED)) else { return Vec::new() };
    let is_first = |name: &str| name == CREATED && at(stages, POD_CREATED).is_none();
    let mut found = Vec::new();
    for name in MILESTONES.into_iter().filter(|name| !is_first(name)) {
        let Some(reached) = at(stages, name) else { continue };
        found.push((name, seconds(before, reached).max(0.0)));
        before = reached.max(before);
    }
    found
}

/// Returns the time from the creation of the NodeClaim to the initialization of its node.
#[must_use]
pub fn node_start(stages: &[StartStage]) -> Option<SignedDuration> {
    Some(at(stages, INITIALIZED)?.duration_since(at(stages, CREATED)?))
}

fn at(stages: &[StartStage], name: &str) -> Option<Timestamp> {
    stages.iter().find(|stage| stage.stage == name).map(|stage| stage.at)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        AwaitedPod, is_complete, line, milestones, node_start, of_new_claim, of_started_claim, stages, stages_of_agent,
    };
    use crate::NodeClaim;
    use crate::objects::{Node, Pod};

    fn claim(timeline: Option<&str>) -> NodeClaim {
        let condition = |type_: &str, time: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": time});
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "general-1", "creationTimestamp": "2026-11-28T10:00:00Z"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"conditions": [
                condition("Initialized", "2026-11-28T10:00:41Z"), condition("Launched", "2026-11-28T10:00:02Z"),
                condition("Registered", "2026-11-28T10:00:30Z"),
            ]},
        });
        if let Some(timeline) = timeline {
            claim["metadata"]["annotations"] = json!({"kerf.sh/timeline": timeline});
        }
        serde_json::from_value(claim).unwrap()
    }

    fn node(timeline: &Value) -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": "n", "annotations": {"kerf.sh/timeline": timeline.to_string()}}}),
        )
        .unwrap()
    }

    /// Returns a pod of this node, which is ready; without a node it is unschedulable.
    fn pod(node: &str) -> Pod {
        let condition = |type_: &str, status: &str, time: &str| json!({"type": type_, "status": status, "lastTransitionTime": time});
        let started = json!({"name": "a", "state": {"running": {"startedAt": "2026-11-28T10:00:50Z"}}});
        let (conditions, statuses) = match node {
            "" => (json!([condition("PodScheduled", "False", "2026-11-28T09:59:59Z")]), json!([])),
            _ => (
                json!([
                    condition("PodScheduled", "True", "2026-11-28T10:00:41Z"),
                    condition("Ready", "True", "2026-11-28T10:00:53Z")
                ]),
                json!([started]),
            ),
        };
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2026-11-28T09:59:58Z"},
            "spec": {"nodeName": node, "containers": [{"name": "a"}]},
            "status": {"conditions": conditions, "containerStatuses": statuses},
        });
        serde_json::from_value(pod).unwrap()
    }

    const AGENT_LINE: &str = "from nodeclaim-created: launched 2.0 s, kernel-started 8.5 s, agent-started 14.5 s, kubelet-up 15.8 s, \
        registered 30.0 s, gate-CNI 37.5 s, initialized 41.0 s";

    #[test]
    fn stages_join_those_of_controller_and_agent() {
        let claim = claim(None);
        let agents = node(
            &json!({"start": "2026-11-28T10:00:14.500Z", "kernel-started": -6000, "kubelet-up": 1250, "gate-CNI": 23000}),
        );
        let found = stages(&claim, Some(&agents), None);
        assert_eq!(line(&found), AGENT_LINE);
        let expected = [
            ("launched", 2.0),
            ("kernel-started", 6.5),
            ("agent-started", 6.0),
            ("kubelet-up", 1.25),
            ("registered", 14.25),
            ("initialized", 11.0),
        ];
        assert_eq!(milestones(&found), expected);
        assert_eq!(node_start(&found).map(|duration| duration.as_secs()), Some(41));
        let later = node(&json!({"start": "2026-11-28T12:00:00Z", "kubelet-up": 1250}));
        let own = "from nodeclaim-created: launched 2.0 s, registered 30.0 s, initialized 41.0 s";
        assert_eq!(line(&stages(&claim, Some(&later), None)), own, "another boot");
        let long_ago = node(&json!({"start": "2026-11-28T10:00:20Z", "kernel-started": -40_000}));
        assert!(!line(&stages(&claim, Some(&long_ago), None)).contains("kernel"), "before the NodeClaim");
        assert_eq!(line(&stages(&claim, None, None)), own);
    }

    #[test]
    fn stages_begin_with_the_pod_and_end_when_it_is_ready() {
        let planned = "2026-11-28T09:59:59.250Z".parse().unwrap();
        let text = of_new_claim(&pod(""), planned).unwrap();
        assert_eq!(
            text,
            r#"{"planned":1250,"pod":"shop/web","pod-created":0,"pod-unschedulable":1000,"start":"2026-11-28T09:59:58.000Z"}"#
        );
        let (claim, agents) = (claim(Some(&text)), node(&json!({"start": "2026-11-28T10:00:14Z"})));
        assert!(!is_complete(&claim));
        let awaited = AwaitedPod::from_claim(&claim).unwrap();
        assert!(awaited.name == "shop/web" && awaited.is(&pod("n")));
        let mut other = pod("n");
        other.metadata.creation_timestamp = claim.metadata.creation_timestamp.clone();
        assert!(!awaited.is(&other), "a later pod of the same name");

        let elsewhere = stages(&claim, Some(&agents), Some(&pod("m")));
        assert_eq!(elsewhere.last().map(|stage| stage.stage.as_str()), Some("initialized"));
        let found = stages(&claim, Some(&agents), Some(&pod("n")));
        let expected = "from pod-created: pod-unschedulable 1.0 s, planned 1.2 s, nodeclaim-created 2.0 s, launched 4.0 s, \
            agent-started 16.0 s, registered 32.0 s, initialized 43.0 s, pod-scheduled 43.0 s, containers-started 52.0 s, pod-ready 55.0 s";
        assert_eq!(line(&found), expected);
        let waits: f64 = milestones(&found).into_iter().map(|(_, seconds)| seconds).sum();
        assert!((waits - 55.0).abs() < 1e-9, "the stages are the whole time: {waits}");

        let copied = self::claim(of_started_claim(&claim, &found).as_deref());
        assert!(is_complete(&copied));
        assert_eq!(stages(&copied, None, None), found, "the NodeClaim needs neither node nor pod");
        assert_eq!(AwaitedPod::from_claim(&copied), Some(awaited));
    }

    #[test]
    fn stages_of_agent_are_bounded() {
        let many: serde_json::Map<String, Value> =
            (0..1000).map(|number| (format!("stage-{number}"), json!(1))).collect();
        let mut many = Value::Object(many);
        many["start"] = json!("2026-11-28T10:00:00Z");
        assert_eq!(stages_of_agent(&many.to_string()).len(), 33);
        let invalid = [
            json!({"start": "2026-11-28T10:00:00Z", "a b": 1, "late": 3_600_001_u64, "early": -3_600_001, "text": "1"}),
            json!({"start": "2026-11-28T10:00:00Z", "x".repeat(65): 1, "far": u64::MAX, "least": i64::MIN}),
        ];
        assert!(invalid.iter().all(|line| stages_of_agent(&line.to_string()).len() == 1));
        for text in ["", "[]", "{}", r#"{"start": 1}"#] {
            assert_eq!(stages_of_agent(text), [], "{text}");
        }
    }
}
