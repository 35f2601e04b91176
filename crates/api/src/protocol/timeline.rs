//! Timeline of a node's start: the stages that the controller saw, and those that the agent wrote on the Node.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::objects::Node;
use crate::status::{self, Conditioned as _};
use crate::{NodeClaim, annotation, condition};

/// First stage: the creation of the NodeClaim.
pub const CREATED: &str = "created";
/// Stage in which EC2 has launched the instance.
pub const LAUNCHED: &str = "launched";
/// Stage in which the agent starts.
pub const AGENT: &str = "agent-started";
/// Stage in which the controller has accepted the Node.
pub const REGISTERED: &str = "registered";
/// Stage in which the node may receive pods.
pub const INITIALIZED: &str = "initialized";

/// Stage of the agent in which kubelet's unit is active.
const KUBELET: &str = "kubelet-up";
/// Stages that every node with the agent has.
const MILESTONES: [&str; 5] = [LAUNCHED, AGENT, KUBELET, REGISTERED, INITIALIZED];

/// Key of the agent's start in its annotation.
const START: &str = "start";
/// Maximum number of stages that are read from a Node, which its machine writes.
const STAGES: usize = 32;
/// Maximum length of the name of a stage.
const NAME: usize = 64;
/// Longest start whose stages are read.
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

/// Returns the stages of the agent from its annotation, in the order of their times; nothing from an invalid one.
#[must_use]
pub fn stages_of_agent(text: &str) -> Vec<StartStage> {
    let Ok(Value::Object(line)) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let Some(start) = line.get(START).and_then(Value::as_str).and_then(|start| start.parse().ok()) else {
        return Vec::new();
    };
    let mut stages = vec![StartStage::new(AGENT, start)];
    stages.extend(later(&line, start).take(STAGES));
    stages.sort_by_key(|stage| stage.at);
    stages
}

fn later(line: &Map<String, Value>, start: Timestamp) -> impl Iterator<Item = StartStage> {
    line.iter().filter(|(stage, _)| is_name(stage)).filter_map(move |(stage, after)| {
        let after = SignedDuration::from_millis(i64::try_from(after.as_u64()?).ok()?);
        (after <= LONGEST).then(|| StartStage::new(stage, start + after))
    })
}

fn is_name(stage: &str) -> bool {
    stage.len() <= NAME && stage.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte))
}

/// Returns the stages of the node of a NodeClaim, in the order of their times. Stages of a later boot do not count.
#[must_use]
pub fn stages(claim: &NodeClaim, node: Option<&Node>) -> Vec<StartStage> {
    let Some(created) = claim.metadata.creation_timestamp.as_ref().map(|created| created.0) else { return Vec::new() };
    let reached = |type_: &str| {
        let found = status::find(claim.conditions(), type_).filter(|found| found.is_true())?;
        Some(found.last_transition_time.0)
    };
    let own =
        [(LAUNCHED, condition::LAUNCHED), (REGISTERED, condition::REGISTERED), (INITIALIZED, condition::INITIALIZED)];
    let mut stages = vec![StartStage::new(CREATED, created)];
    stages.extend(own.into_iter().filter_map(|(stage, type_)| Some(StartStage::new(stage, reached(type_)?))));
    let ends = reached(condition::INITIALIZED).unwrap_or(created + LONGEST);
    let agents = node.and_then(|node| node.annotation(annotation::TIMELINE)).map(stages_of_agent).unwrap_or_default();
    let is_of_this_boot = agents.iter().any(|stage| stage.stage == AGENT && created <= stage.at && stage.at <= ends);
    stages.extend(agents.into_iter().filter(|_| is_of_this_boot));
    stages.sort_by_key(|stage| stage.at);
    stages
}

/// Returns the stages as one line: each with its seconds after the first one.
#[must_use]
pub fn line(stages: &[StartStage]) -> String {
    let Some((first, later)) = stages.split_first() else { return String::new() };
    let seconds = |at: Timestamp| at.duration_since(first.at).as_millis() as f64 / 1000.0;
    let part = |stage: &StartStage| format!("{} {:.1} s", stage.stage, seconds(stage.at));
    later.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Returns those stages that every node has in this order, each with its seconds since the one before it.
#[must_use]
pub fn milestones(stages: &[StartStage]) -> Vec<(&'static str, f64)> {
    let at = |name: &str| stages.iter().find(|stage| stage.stage == name).map(|stage| stage.at);
    let Some(mut before) = at(CREATED) else { return Vec::new() };
    let mut found = Vec::new();
    for name in MILESTONES {
        let Some(reached) = at(name) else { continue };
        found.push((name, (reached.duration_since(before).as_millis() as f64 / 1000.0).max(0.0)));
        before = reached.max(before);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{line, milestones, stages, stages_of_agent};
    use crate::NodeClaim;
    use crate::objects::Node;

    fn claim() -> NodeClaim {
        let condition = |type_: &str, time: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": time});
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "general-1", "creationTimestamp": "2026-11-28T10:00:00Z"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"conditions": [
                condition("Initialized", "2026-11-28T10:00:41Z"), condition("Launched", "2026-11-28T10:00:02Z"),
                condition("Registered", "2026-11-28T10:00:30Z"),
            ]},
        });
        serde_json::from_value(claim).unwrap()
    }

    fn node(timeline: &Value) -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": "n", "annotations": {"kerf.sh/timeline": timeline.to_string()}}}),
        )
        .unwrap()
    }

    #[test]
    fn stages_join_those_of_controller_and_agent() {
        let claim = claim();
        let agents = node(&json!({"start": "2026-11-28T10:00:14.500Z", "kubelet-up": 1250, "gate-CNI": 23000}));
        let expected = "launched 2.0 s, agent-started 14.5 s, kubelet-up 15.8 s, registered 30.0 s, gate-CNI 37.5 s, initialized 41.0 s";
        assert_eq!(line(&stages(&claim, Some(&agents))), expected);
        let expected = [
            ("launched", 2.0),
            ("agent-started", 12.5),
            ("kubelet-up", 1.25),
            ("registered", 14.25),
            ("initialized", 11.0),
        ];
        assert_eq!(milestones(&stages(&claim, Some(&agents))), expected);
        let later = node(&json!({"start": "2026-11-28T12:00:00Z", "kubelet-up": 1250}));
        let own = "launched 2.0 s, registered 30.0 s, initialized 41.0 s";
        assert_eq!(line(&stages(&claim, Some(&later))), own, "another boot");
        assert_eq!(line(&stages(&claim, None)), own);
    }

    #[test]
    fn stages_of_agent_are_bounded() {
        let many: serde_json::Map<String, Value> =
            (0..1000).map(|number| (format!("stage-{number}"), json!(1))).collect();
        let mut many = Value::Object(many);
        many["start"] = json!("2026-11-28T10:00:00Z");
        assert_eq!(stages_of_agent(&many.to_string()).len(), 33);
        let invalid = [
            json!({"start": "2026-11-28T10:00:00Z", "a b": 1, "late": 3_600_001_u64, "negative": -1, "text": "1"}),
            json!({"start": "2026-11-28T10:00:00Z", "x".repeat(65): 1}),
        ];
        assert!(invalid.iter().all(|line| stages_of_agent(&line.to_string()).len() == 1));
        for text in ["", "[]", "{}", r#"{"start": 1}"#] {
            assert_eq!(stages_of_agent(text), [], "{text}");
        }
    }
}
