//! Moment at which each pod, NodeClaim and Node reached each stage on the way to running pods. It shows where the time goes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, condition, taint};
use testbed::measure;

use crate::benchmark::seconds;
use crate::kubelets::is_running;

/// First line of the file.
const HEAD: &str = "stage,name,seconds";

/// Stage of a pod, a NodeClaim or a Node, in their usual order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The pod exists.
    Created,
    /// kube-scheduler found no node for the pod.
    Unschedulable,
    /// The NodeClaim exists.
    NodeClaim,
    /// EC2 has launched the instance of the NodeClaim.
    Launched,
    /// The Node is registered.
    Registered,
    /// The pod is nominated to a Node.
    Nominated,
    /// The Node is Ready, and no taint keeps pods away.
    Schedulable,
    /// The pod is bound.
    Bound,
    /// The pod runs.
    Running,
}

/// First moment of each stage by the name of the object.
#[derive(Debug, Default)]
pub struct Stages(BTreeMap<(Stage, String), Instant>);

impl Stage {
    const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Unschedulable => "unschedulable",
            Self::NodeClaim => "nodeclaim",
            Self::Launched => "launched",
            Self::Registered => "registered",
            Self::Nominated => "nominated",
            Self::Schedulable => "schedulable",
            Self::Bound => "bound",
            Self::Running => "running",
        }
    }
}

impl Stages {
    /// Notes the stages of a pod.
    pub fn pod(&mut self, pod: &Pod) {
        self.note(Stage::Created, pod.name(), true);
        self.note(Stage::Unschedulable, pod.name(), pod.is_unschedulable());
        self.note(Stage::Nominated, pod.name(), !pod.status.nominated_node_name.is_empty());
        self.note(Stage::Bound, pod.name(), pod.is_bound());
        self.note(Stage::Running, pod.name(), is_running(pod));
    }

    /// Notes the stages of a NodeClaim.
    pub fn claim(&mut self, claim: &NodeClaim) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        self.note(Stage::NodeClaim, name, true);
        self.note(Stage::Launched, name, claim.is_true(condition::LAUNCHED));
        self.note(Stage::Registered, name, claim.is_true(condition::REGISTERED));
    }

    /// Notes the stages of a Node.
    pub fn node(&mut self, node: &Node) {
        let tainted = node.spec.taints.iter().any(|found| found.effect != taint::PREFER_NO_SCHEDULE);
        self.note(Stage::Schedulable, node.name(), node.is_ready() && !tainted);
    }

    fn note(&mut self, stage: Stage, name: &str, reached: bool) {
        if reached {
            self.0.entry((stage, name.to_owned())).or_insert_with(Instant::now);
        }
    }

    /// Writes `target/peers/live-NAME-stages.csv`, with seconds since `start`.
    pub fn write(&self, name: &str, start: Instant) -> Result<()> {
        let path = measure::file(&format!("live-{name}-stages.csv"));
        path.parent().map_or(Ok(()), std::fs::create_dir_all).context("cannot make the folder of figures")?;
        std::fs::write(&path, self.table(start)).with_context(|| format!("cannot write {}", path.display()))
    }

    fn table(&self, start: Instant) -> String {
        let mut table = format!("{HEAD}\n");
        for ((stage, name), at) in &self.0 {
            // Writing to a String cannot fail.
            let _ = writeln!(table, "{},{name},{:.3}", stage.name(), seconds(start, *at));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use api::objects::{Node, Pod};
    use serde_json::json;

    use super::Stages;

    fn names(stages: &Stages) -> Vec<String> {
        let table = stages.table(Instant::now());
        table.lines().skip(1).map(|line| line.rsplit_once(',').unwrap().0.to_owned()).collect()
    }

    #[test]
    fn pod_keeps_the_first_moment_of_each_stage() {
        let pod = |status: serde_json::Value, node: &str| -> Pod {
            let spec = json!({"containers": [], "nodeName": node});
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec, "status": status})).unwrap()
        };
        let unschedulable =
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
        let mut stages = Stages::default();
        stages.pod(&pod(unschedulable.clone(), ""));
        assert_eq!(names(&stages), ["created,web", "unschedulable,web"]);
        let first = stages.0.clone();
        stages.pod(&pod(unschedulable, ""));
        assert_eq!(stages.0, first);
        stages.pod(&pod(json!({"phase": "Running"}), "node-1"));
        assert_eq!(names(&stages), ["created,web", "unschedulable,web", "bound,web", "running,web"]);
    }

    #[test]
    fn node_is_schedulable_when_ready_without_taints() {
        let node = |ready: &str, effect: &str| -> Node {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            let spec = json!({"taints": [{"key": "a", "effect": effect}]});
            serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": spec, "status": status})).unwrap()
        };
        for (ready, effect, schedulable) in [
            ("False", "PreferNoSchedule", 0),
            ("True", "NoSchedule", 0),
            ("True", "NoExecute", 0),
            ("True", "PreferNoSchedule", 1),
        ] {
            let mut stages = Stages::default();
            stages.node(&node(ready, effect));
            assert_eq!(names(&stages).len(), schedulable, "{ready} {effect}");
        }
    }
}
