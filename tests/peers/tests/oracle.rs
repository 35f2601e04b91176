//! Random clusters, planned by Kerf and checked by the real kube-scheduler: no placement may be one that kube-scheduler
//! rejects.
//!
//! `KERF_FIDELITY_CLUSTERS` is the number of clusters (300). `KERF_FIDELITY_SEED` is the first seed; alone, it replays one
//! cluster. `KERF_FIDELITY_REPORTED` is the number of printed failures (8). `KERF_FIDELITY_KINDS` limits the clusters to some kinds
//! of constraint (comma-separated names).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use peers::clusters::{Cluster, Kinds};
use peers::oracle::{Case, CaseResult, Place, SchedulerOracle, Tally, Variant};
use planner::{Plan, carried_out, check, plan};
use serde_json::{Value, json};
use snapshot::{Problem, SnapshotResult};

/// Number of clusters per process of the kube-scheduler program.
const BATCH: usize = 500;
/// Number of random choices of offerings that are checked in addition to the cheapest.
const CHOICES: u64 = 2;
/// Default number of printed failures.
const MAX_REPORTED: usize = 8;

/// Cluster with Kerf's plan.
struct Answered {
    cluster: Cluster,
    built: SnapshotResult,
    plan: Plan,
    /// Number of moved pods.
    moved: usize,
    /// Number of removed nodes.
    gone: usize,
    /// Findings of Kerf's own plan validation.
    findings: Vec<String>,
}

#[test]
fn plan_matches_kube_scheduler_in_random_clusters() {
    let oracle = SchedulerOracle::find().unwrap();
    let kinds = setting("KINDS").map_or_else(Kinds::all, |names| Kinds::parse(&names).unwrap());
    let number = |name| setting(name).map(|text| text.parse::<u64>().unwrap());
    let first = number("SEED");
    let count = number("CLUSTERS").unwrap_or(if first.is_some() { 1 } else { 300 });
    let max_reported = number("REPORTED").map_or(MAX_REPORTED, |count| usize::try_from(count).unwrap());
    let seeds: Vec<u64> = (first.unwrap_or(0)..).take(usize::try_from(count).unwrap()).collect();
    println!("seeds {} to {}", seeds[0], seeds[seeds.len() - 1]);
    let mut tally = Tally::default();
    let mut reported = Vec::new();
    let (mut failures, mut moved) = (0, 0);
    for batch in seeds.chunks(BATCH) {
        let answered: Vec<Answered> = batch.iter().map(|seed| answer(*seed, kinds)).collect();
        for (it, mut results) in answered.iter().zip(check_cases(&oracle, &answered)) {
            CaseResult::reconcile(results.iter_mut().map(|(_, result)| result).collect());
            moved += it.moved;
            tally.add_plan(&it.cluster, &it.built, &it.plan);
            let mut faults = Vec::from_iter(checked(it, &results[0]));
            for (case, result) in &results {
                tally.add_result(&it.cluster, result);
                // After the removal of nodes, pods may fit where constraints excluded them before.
                let missed = it.gone == 0 && !result.missed.is_empty();
                if !result.disagreements.is_empty() || missed {
                    faults.push(describe(it, case, result));
                }
            }
            failures += faults.len();
            reported.extend(faults);
            reported.truncate(max_reported);
        }
    }
    println!("{tally}\n{moved} pods moved");
    assert!(moved > 0 || seeds.len() < 300, "no pod was moved in any cluster");
    if seeds.len() >= 300 && kinds == Kinds::all() {
        assert_eq!(tally.untested(), [], "no pod with such a constraint was placed in any cluster");
    }
    assert!(failures == 0, "{failures} faults; the first of them:\n{}\n{tally}", reported.concat());
}

fn setting(name: &str) -> Option<String> {
    std::env::var(format!("KERF_FIDELITY_{name}")).ok()
}

fn answer(seed: u64, kinds: Kinds) -> Answered {
    let cluster = Cluster::new(seed, kinds).restless();
    let mut built = cluster.build().unwrap();
    // Some new nodes have taints that their NodePool does not declare.
    built.problems.retain(|problem| !matches!(problem, Problem::UndeclaredTaint { .. }));
    assert!(built.problems.is_empty(), "seed {seed}: {:?}", built.problems);
    let plan = plan(&built.snapshot);
    let findings = check(&built.snapshot, &plan).iter().map(ToString::to_string).collect();
    // kube-scheduler receives moved pods when their nodes are leaving.
    let (cluster, (snapshot, done)) = (cluster.after(&plan), carried_out(&built.snapshot, &plan));
    built.snapshot = snapshot;
    let (moved, gone) =
        plan.moves.iter().fold((0, 0), |(pods, nodes), it| (pods + it.pods.len(), nodes + it.nodes.len()));
    Answered { cluster, built, plan: done, moved, gone, findings }
}

/// Returns the results of each plan.
fn check_cases(oracle: &SchedulerOracle, answered: &[Answered]) -> Vec<Vec<(Case, CaseResult)>> {
    let mut cases = Vec::new();
    for it in answered {
        // Without launches and open NodeClaims there is no choice.
        let settled = it.plan.launches.is_empty() && it.cluster.open.is_empty();
        let others = if settled { 0 } else { CHOICES };
        for variant in [Variant::Cheapest].into_iter().chain((0..others).map(Variant::Any)) {
            let case = Case::new(&it.cluster, &it.built.snapshot, &it.plan, variant);
            cases.push(case.unwrap_or_else(|fault| panic!("seed {}: {fault:#}", it.cluster.seed)));
        }
    }
    let results = oracle.check(&cases).unwrap();
    let mut checked_cases = cases.into_iter().zip(results).peekable();
    let mut all = Vec::new();
    for it in answered {
        let mut own = Vec::new();
        while let Some(next) = checked_cases.next_if(|(case, _)| case.seed == it.cluster.seed) {
            own.push(next);
        }
        all.push(own);
    }
    all
}

/// Returns the findings of Kerf's own plan validation.
fn checked(it: &Answered, (case, result): &(Case, CaseResult)) -> Option<String> {
    (!it.findings.is_empty()).then(|| {
        let (found, dump) = (it.findings.join("; "), dump(it, case, result));
        format!("seed {}: our own checker: {found}; all of it is in {}\n", it.cluster.seed, dump.display())
    })
}

/// Describes a failure completely.
fn describe(it: &Answered, case: &Case, result: &CaseResult) -> String {
    let mut text = String::new();
    let (seed, dump) = (case.seed, dump(it, case, result));
    for one in &result.disagreements {
        let (pod, node, plugin, reasons) = (&one.pod, &one.node, &one.plugin, one.reasons.join("; "));
        writeln!(text, "seed {seed} ({}): {pod} on {node}: {plugin}: {reasons}", case.variant).unwrap();
    }
    for one in &result.missed {
        writeln!(text, "seed {seed} ({}): {} has a place on {}", case.variant, one.pod, one.node).unwrap();
    }
    writeln!(text, "  replay with KERF_FIDELITY_SEED={seed}; all of it is in {}", dump.display()).unwrap();
    text
}

/// Writes the case and its input to a file.
fn dump(it: &Answered, case: &Case, result: &CaseResult) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oracle");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("seed-{}-{}.json", case.seed, case.variant));
    let whole = json!({"result": result, "plan": it.plan, "case": case.line(), "pools": it.cluster.pools, "snapshot": it.built.snapshot});
    std::fs::write(&path, serde_json::to_string_pretty(&whole).unwrap()).unwrap();
    path
}

#[test]
fn cluster_is_the_same_when_the_seed_is_the_same() {
    let all = |seed| {
        let Cluster { kinds, nodes, bound, pending, pools, volume_claims, catalogue, .. } =
            Cluster::new(seed, Kinds::all());
        (kinds, json!([nodes, bound, pending, pools, volume_claims, catalogue]))
    };
    assert_eq!(all(7), all(7));
    assert_ne!(all(7), all(8));
}

/// Returns a node of zone `a` with two CPUs.
fn node(name: &str, planned: bool) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
        "planned": planned,
    })
}

/// Returns a pod of app `web`, with additional fields of its spec.
fn pod(name: &str, cpu: &str, more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "main", "image": "image", "resources": {"requests": {"cpu": cpu}}}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": spec})
}

fn placed(pod: Value, node: &str) -> Value {
    json!({"pod": pod, "node": node})
}

/// Returns the result for a planned node (`new`), an existing one (`old`), and these placements.
fn result(placements: Value, others: Value) -> CaseResult {
    let mut line = json!({
        "seed": 1, "nodes": [node("old", false), node("new", true)], "pods": placements,
        "namespaces": [{"metadata": {"name": "default"}}],
    });
    for (key, value) in others.as_object().into_iter().flatten() {
        line[key] = value.clone();
    }
    SchedulerOracle::find().unwrap().check(&[Case::from_line(line)]).unwrap().remove(0)
}

/// Returns the rejections as `POD NODE PLUGIN`.
fn refusals(result: &CaseResult) -> Vec<String> {
    result.disagreements.iter().map(|it| format!("{} {} {}", it.pod, it.node, it.plugin)).collect()
}

#[test]
fn oracle_reports_the_plugin_when_a_placement_is_invalid() {
    let term = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    let spread = json!({"topologySpreadConstraints": [{
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    let port =
        json!({"containers": [{"name": "main", "image": "image", "ports": [{"containerPort": 1, "hostPort": 80}]}]});
    let selector = json!({"nodeSelector": {"topology.kubernetes.io/zone": "b"}});
    let rows = [
        ("room", json!({}), "3", "NodeResourcesFit"),
        ("labels", selector, "1", "NodeAffinity"),
        ("anti-affinity", apart, "1", "InterPodAffinity"),
        ("spread", spread, "1", "PodTopologySpread"),
        ("ports", port, "1", "NodePorts"),
    ];
    for (fault, more, cpu, plugin) in rows {
        let placements = json!([placed(pod("one", "100m", more.clone()), "new"), placed(pod("two", cpu, more), "new")]);
        let refused = refusals(&result(placements, json!({})));
        assert!(refused.contains(&format!("default/two new {plugin}")), "{fault}: {refused:?}");
    }
}

#[test]
fn oracle_reports_missed_places_when_a_pending_pod_fits() {
    let pending = json!([pod("small", "1", json!({})), pod("large", "3", json!({}))]);
    let found = result(json!([]), json!({"pending": pending}));
    let places = |list: &[Place]| list.iter().map(|it| format!("{} {}", it.pod, it.node)).collect::<Vec<_>>();
    assert_eq!(places(&found.missed), ["default/small old"]);
    assert_eq!(places(&found.roomy), ["default/small new"]);
    assert_eq!(refusals(&found), [""; 0]);
}

#[test]
fn oracle_subtracts_daemonset_pods_when_a_node_is_planned() {
    let template = json!({"metadata": {"labels": {"app": "log"}}, "spec": pod("", "1500m", json!({}))["spec"]});
    let set = json!({
        "metadata": {"name": "log", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template},
    });
    let placements = json!([placed(pod("web", "1", json!({})), "new")]);
    let found = result(placements, json!({"daemonSets": [set]}));
    assert_eq!(refusals(&found), ["default/web new NodeResourcesFit"]);
}

#[test]
fn oracle_binds_a_volume_when_its_first_pod_is_placed() {
    let class = json!({
        "metadata": {"name": "disk"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let claim = json!({
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "disk", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let volume = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    let mut far = node("far", true);
    far["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("b");
    let nodes = json!([node("near", true), far]);
    let placements = json!([placed(pod("one", "1", volume.clone()), "near"), placed(pod("two", "1", volume), "far"),]);
    let found =
        result(placements, json!({"nodes": nodes, "storageClasses": [class], "persistentVolumeClaims": [claim]}));
    assert_eq!(refusals(&found), ["default/two far VolumeBinding"]);
}
