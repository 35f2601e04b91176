//! Counts of checked pods and results, by kind of constraint. The counts reveal a kind without any placed pod, for which no
//! disagreement proves nothing.

use std::collections::BTreeMap;
use std::fmt;

use planner::{Plan, PodVerdict};
use serde_json::Value;
use snapshot::SnapshotResult;

use super::CaseResult;
use crate::clusters::{Cluster, Kind, Kinds};

/// Counts of one run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    clusters: usize,
    cases: usize,
    launches: usize,
    kinds: BTreeMap<Kind, Counts>,
    all: Counts,
    plugins: BTreeMap<String, usize>,
    ignored: BTreeMap<String, usize>,
}

/// Counts of pods with one kind of constraint.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Number of pending pods.
    pods: usize,
    /// Number of pods that were placed on existing nodes.
    existing: usize,
    /// Number of pods that were placed on launches.
    launched: usize,
    /// Number of pods that kube-scheduler rejects at their planned node, once per case.
    disagreements: usize,
    /// Number of unschedulable pods that kube-scheduler would place on an existing node.
    missed: usize,
    /// Number of unschedulable pods that kube-scheduler would place on a planned node.
    roomy: usize,
}

impl Tally {
    /// Counts the pods of a cluster and their verdicts in the plan.
    pub fn add_plan(&mut self, cluster: &Cluster, built: &SnapshotResult, plan: &Plan) {
        self.clusters += 1;
        self.launches += plan.launches.len();
        for it in &built.ignored {
            *self.ignored.entry(it.reason.to_string()).or_default() += 1;
        }
        for (pod, result) in built.snapshot.pods.iter().zip(&plan.report.pods) {
            self.count(cluster, &pod.name, |counts| {
                counts.pods += 1;
                match result {
                    PodVerdict::Existing { .. } => counts.existing += 1,
                    PodVerdict::Launch { .. } => counts.launched += 1,
                    _ => {}
                }
            });
        }
    }

    /// Counts the result of one case.
    pub fn add_result(&mut self, cluster: &Cluster, result: &CaseResult) {
        self.cases += 1;
        for it in &result.disagreements {
            *self.plugins.entry(it.plugin.clone()).or_default() += 1;
            self.count(cluster, &it.pod, |counts| counts.disagreements += 1);
        }
        for it in &result.missed {
            self.count(cluster, &it.pod, |counts| counts.missed += 1);
        }
        for it in &result.roomy {
            self.count(cluster, &it.pod, |counts| counts.roomy += 1);
        }
    }

    /// Returns the kinds of constraint of which no pod was placed, so that they were not tested.
    #[must_use]
    pub fn untested(&self) -> Vec<Kind> {
        let is_tested = |kind: &Kind| self.kinds.get(kind).is_some_and(|counts| counts.existing + counts.launched > 0);
        Kind::ALL.into_iter().filter(|kind| !is_tested(kind)).collect()
    }

    fn count(&mut self, cluster: &Cluster, pod: &str, add: impl Fn(&mut Counts)) {
        add(&mut self.all);
        for kind in kinds_of(cluster, pod).iter() {
            add(self.kinds.entry(kind).or_default());
        }
    }
}

/// Returns the kinds of constraint of a pending pod; DaemonSet pods count for their own kind.
fn kinds_of(cluster: &Cluster, pod: &str) -> Kinds {
    let named = |it: &&Value| {
        let text = |key: &str| it["metadata"][key].as_str().unwrap_or_default();
        pod.split_once('/') == Some((text("namespace"), text("name")))
    };
    let Some(object) = cluster.pending.iter().chain(&cluster.bound).find(named) else {
        let of_buffer = cluster.buffers.iter().filter_map(|it| it["metadata"]["name"].as_str());
        let buffers = of_buffer.into_iter().any(|name| pod.contains(name));
        return Kinds::from_iter([if buffers { Kind::Buffers } else { Kind::Daemons }]);
    };
    let spec = &object["spec"];
    let there = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    let affinity = |kind: &str| &spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"];
    let preferred = |kind: &str| there(&spec["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"]);
    let spread = |when: &str| {
        let all = spec["topologySpreadConstraints"].as_array();
        all.is_some_and(|all| all.iter().any(|it| it["whenUnsatisfiable"] == when))
    };
    let across = |kind: &str| {
        let terms = affinity(kind).as_array();
        terms.is_some_and(|all| all.iter().any(|it| !it["namespaces"].is_null() || !it["namespaceSelector"].is_null()))
    };
    let limits = spec["containers"][0]["resources"]["limits"].as_object();
    let asks = |resource: &str| limits.is_some_and(|it| it.contains_key(resource));
    let rows = [
        (Kind::Selectors, !spec["nodeSelector"].is_null()),
        (Kind::Affinity, !affinity("nodeAffinity").is_null()),
        (
            Kind::Preferences,
            ["nodeAffinity", "podAffinity", "podAntiAffinity"].into_iter().any(preferred) || spread("ScheduleAnyway"),
        ),
        (Kind::Taints, there(&spec["tolerations"])),
        (Kind::Near, there(affinity("podAffinity"))),
        (Kind::Apart, there(affinity("podAntiAffinity"))),
        (Kind::Spread, spread("DoNotSchedule")),
        (Kind::Namespaces, across("podAffinity") || across("podAntiAffinity")),
        (Kind::Ports, there(&spec["containers"][0]["ports"])),
        (Kind::Volumes, there(&spec["volumes"])),
        (Kind::Priorities, spec["priority"].as_i64().is_some_and(|it| it != 0)),
        (Kind::Extended, asks("nvidia.com/gpu")),
        (Kind::Devices, asks("aws.amazon.com/neuron") || asks("hugepages-2Mi")),
        (Kind::Requests, ["initContainers", "overhead", "resources"].iter().any(|key| !spec[*key].is_null())),
    ];
    let circumstances = cluster.kinds.iter().filter(|kind| !rows.iter().any(|(row, _)| row == kind));
    rows.iter().filter(|(_, there)| *there).map(|(kind, _)| *kind).chain(circumstances).collect()
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} clusters, {} launches, {} cases judged", self.clusters, self.launches, self.cases)?;
        writeln!(out, "pods with      seen  existing  launched  disagreements  missed  roomy")?;
        let rows = self.kinds.iter().map(|(kind, counts)| (kind.to_string(), counts));
        for (name, it) in rows.chain([("(all)".to_owned(), &self.all)]) {
            let Counts { pods, existing, launched, disagreements, missed, roomy } = it;
            writeln!(
                out,
                "{name:<12} {pods:>6} {existing:>9} {launched:>9} {disagreements:>14} {missed:>7} {roomy:>6}"
            )?;
        }
        for (plugin, count) in &self.plugins {
            writeln!(out, "refused by {plugin}: {count}")?;
        }
        for (reason, count) in &self.ignored {
            writeln!(out, "left out: {reason}: {count}")?;
        }
        Ok(())
    }
}
