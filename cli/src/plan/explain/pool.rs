//! Explanation why a pod does not go to a new node of a NodePool: the rules that exclude it, or the price.

use std::sync::Arc;

use planner::{Launch, PodVerdict, Snapshot};

use super::super::{PlanAnswer, view};
use super::{Explanation, node_row, similar, unknown};
use crate::failure::{Failure, PLACED};
use crate::output::money::rounded;

/// Returns the explanation with the exit code.
///
/// # Errors
/// Returns an error if the input has no such NodePool, or no pod of this name that needs a node.
pub fn why_not(answer: &PlanAnswer, pool: &str, pod: &str, colours: bool) -> Result<(String, u8), Failure> {
    let snapshot = &answer.built.snapshot;
    let full_name = super::full_name(pod);
    let Some(position) = snapshot.pods.iter().position(|pod| pod.name == full_name) else {
        return Err(match view::object(answer, &full_name) {
            Some(_) => {
                Failure::usage(format!("pod {full_name} needs no node; `kerf why pod {full_name}` has the reason"))
            }
            None => unknown(answer, &full_name),
        });
    };
    let mut explanation = Explanation::new(colours);
    explanation.title(&format!("Pod {full_name} and NodePool {pool}"));
    explanation.heading("ANSWER");
    if !snapshot.pools.iter().any(|known| known.name == pool) {
        let known = answer.cluster.objects.pools.iter().filter_map(|pool| pool.metadata.name.clone());
        if !known.clone().any(|known| known == pool) {
            return Err(similar("nodepool", pool, known));
        }
        explanation.line(&format!("NodePool {pool} launches no nodes: it is not Ready, or is being deleted."));
        return Ok((explanation.text(), PLACED));
    }
    let alone = planner::plan(&only(snapshot, pool, position));
    match alone.report.pods.first() {
        Some(PodVerdict::Launch { launch, .. }) => {
            possible(&mut explanation, pool, &alone.launches[*launch]);
            actual(&mut explanation, answer, position);
        }
        Some(verdict) => explanation.line(&format!("{verdict}.")),
        None => {}
    }
    Ok((explanation.text(), PLACED))
}

/// Returns the snapshot with this pod and NodePool only. Its nodes count for topology and limits, but take no pods.
fn only(snapshot: &Snapshot, pool: &str, pod: usize) -> Snapshot {
    let mut alone = snapshot.clone();
    alone.pools.retain(|known| known.name == pool);
    alone.pods = vec![snapshot.pods[pod].clone()];
    alone.nodes.iter_mut().for_each(|node| Arc::make_mut(node).unschedulable = true);
    alone
}

fn possible(explanation: &mut Explanation, pool: &str, launch: &Launch) {
    let kind = launch.instance_types.first().map_or("", String::as_str);
    let price = rounded(launch.price.0);
    explanation.line(&format!("It could go to a new node of NodePool {pool}: alone on {kind} at {price}/h."));
}

/// Adds the pod's place in the plan.
fn actual(explanation: &mut Explanation, answer: &PlanAnswer, position: usize) {
    let verdict = &answer.plan.report.pods[position];
    match node_row(answer, verdict) {
        Some(node) => {
            explanation.line(&format!("The plan places it on {}: {}.", node.name, node.words()));
            explanation.reason(verdict);
        }
        None => explanation.line(&format!("In the plan it {verdict}.")),
    }
}
