//! Plans that panicked, failed their validation, or exhausted their step budget: the evidence for a bug report.

use planner::Finding;

use crate::state::cluster::Cluster;
use crate::state::plans::evidence::{self, Evidence, EvidenceCause};

/// Keeps the objects of a plan that failed.
pub async fn keep_evidence(cluster: &Cluster, plan: u64, cause: EvidenceCause) {
    let (store, taken) = (&cluster.evidence, cluster.now());
    if !store.wants(cause, taken) {
        return;
    }
    let objects = cluster.read(evidence::objects);
    let written = tokio::task::spawn_blocking(move || evidence::compress(&objects)).await;
    let file = written.ok().and_then(Result::ok);
    if file.is_some_and(|file| store.keep(Evidence { plan, taken, cause, file: file.into() })) {
        tracing::info!("kept the snapshot of the plan, see /debug/snapshots");
    } else {
        tracing::warn!("could not keep the snapshot of the plan");
    }
}

/// Returns the findings of plan validation as text.
#[must_use]
pub fn text(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
