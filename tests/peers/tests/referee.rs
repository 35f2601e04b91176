//! Random clusters, planned by us and judged by the real kube-scheduler: no placement may be one that it would not make.
//!
//! `KERF_FIDELITY_CLUSTERS` says how many (300), `KERF_FIDELITY_SEED` replays one, `KERF_FIDELITY_KINDS` narrows them to
//! some kinds of constraint (names with commas between them).

use std::fmt::Write;
use std::path::{Path, PathBuf};

use peers::clusters::{Cluster, Kinds};
use peers::referee::{Case, Referee, Tally, Variant, Verdict};
use planner::{Plan, plan};
use serde_json::json;
use snapshot::Built;

/// Clusters that one process of the referee gets at a time.
const BATCH: usize = 500;
/// What a launch may become is open; so many random choices are judged beside the cheapest.
const CHOICES: u64 = 2;
/// Failures that are told in full.
const TOLD: usize = 5;

/// A cluster with our answer.
struct Answered {
    cluster: Cluster,
    built: Built,
    plan: Plan,
}

#[test]
fn kube_scheduler_would_do_as_we_plan() {
    let referee = Referee::find().unwrap();
    let kinds = setting("KINDS").map_or_else(Kinds::all, |names| Kinds::parse(&names).unwrap());
    let number = |name| setting(name).map(|text| text.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..number("CLUSTERS").unwrap_or(300)).collect(),
    };
    println!("seeds {} to {}", seeds[0], seeds[seeds.len() - 1]);
    let mut tally = Tally::default();
    let mut told = String::new();
    let mut failures = 0;
    for batch in seeds.chunks(BATCH) {
        let answered: Vec<Answered> = batch.iter().map(|seed| answer(*seed, kinds)).collect();
        for (it, verdicts) in answered.iter().zip(judge(&referee, &answered)) {
            tally.add_plan(&it.cluster, &it.built, &it.plan);
            for (case, verdict) in &verdicts {
                tally.add_verdict(&it.cluster, verdict);
                if !verdict.disagreements.is_empty() || !verdict.missed.is_empty() {
                    failures += 1;
                    if failures <= TOLD {
                        tell(&mut told, it, case, verdict);
                    }
                }
            }
        }
    }
    println!("{tally}");
    assert!(failures == 0, "kube-scheduler disagrees in {failures} cases; the first of them:\n{told}\n{tally}");
}

fn setting(name: &str) -> Option<String> {
    std::env::var(format!("KERF_FIDELITY_{name}")).ok()
}

fn answer(seed: u64, kinds: Kinds) -> Answered {
    let cluster = Cluster::new(seed, kinds);
    let built = cluster.build().unwrap();
    assert!(built.problems.is_empty(), "seed {seed}: {:?}", built.problems);
    let plan = plan(&built.snapshot);
    Answered { cluster, built, plan }
}

/// The verdicts on each answer.
fn judge(referee: &Referee, answered: &[Answered]) -> Vec<Vec<(Case, Verdict)>> {
    let mut cases = Vec::new();
    for it in answered {
        // Without launches there is nothing to choose.
        let others = if it.plan.launches.is_empty() { 0 } else { CHOICES };
        for variant in [Variant::Cheapest].into_iter().chain((0..others).map(Variant::Any)) {
            let case = Case::new(&it.cluster, &it.built.snapshot, &it.plan, variant);
            cases.push(case.unwrap_or_else(|fault| panic!("seed {}: {fault:#}", it.cluster.seed)));
        }
    }
    let verdicts = referee.judge(&cases).unwrap();
    let mut judged = cases.into_iter().zip(verdicts).peekable();
    let mut all = Vec::new();
    for it in answered {
        let mut own = Vec::new();
        while let Some(next) = judged.next_if(|(case, _)| case.seed == it.cluster.seed) {
            own.push(next);
        }
        all.push(own);
    }
    all
}

fn tell(told: &mut String, it: &Answered, case: &Case, verdict: &Verdict) {
    let (seed, dump) = (case.seed, dump(it, case, verdict));
    for one in &verdict.disagreements {
        let (pod, node, plugin, reasons) = (&one.pod, &one.node, &one.plugin, one.reasons.join("; "));
        writeln!(told, "seed {seed} ({}): {pod} on {node}: {plugin}: {reasons}", case.variant).unwrap();
    }
    for one in &verdict.missed {
        writeln!(told, "seed {seed} ({}): {} has a place on {}", case.variant, one.pod, one.node).unwrap();
    }
    writeln!(told, "  replay with KERF_FIDELITY_SEED={seed}; all of it is in {}", dump.display()).unwrap();
}

/// Writes down the case and what it came from.
fn dump(it: &Answered, case: &Case, verdict: &Verdict) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("referee");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("seed-{}-{}.json", case.seed, case.variant));
    let whole = json!({"verdict": verdict, "plan": it.plan, "case": case.line(), "pools": it.cluster.pools, "snapshot": it.built.snapshot});
    std::fs::write(&path, serde_json::to_string_pretty(&whole).unwrap()).unwrap();
    path
}
