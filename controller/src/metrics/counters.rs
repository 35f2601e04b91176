//! Counters of NodeClaims and nodes, called after the operation that ends something. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::objects::Node;
use api::status::Conditioned;
use api::timeline::{self, StartStage};
use api::{DrainProgress, NodeClaim, annotation, condition, label};
use daemon::metric::Metrics;
use drain::DrainReport;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::metrics;
use crate::reconcile::disruption::CommandKind;

/// Counts the registration of a node.
pub fn registered(metrics: &Metrics, claim: &NodeClaim) {
    let zone = claim.metadata.labels.as_ref().and_then(|labels| labels.get(label::ZONE));
    metrics.add(
        &metrics::NODES_CREATED,
        metrics::ByNodePoolZone { nodepool: claim.nodepool(), zone: zone.map_or("", String::as_str) },
        1.0,
    );
}

/// Counts the creation of a NodeClaim, with Karpenter's reason.
pub fn created(metrics: &Metrics, claim: &NodeClaim, reason: &str) {
    let annotations = claim.metadata.annotations.as_ref();
    let relaxed = annotations.and_then(|all| all.get(annotation::MIN_VALUES_RELAXED)).map_or("false", String::as_str);
    let labels =
        metrics::ByReasonNodePoolMinValuesRelaxed { reason, nodepool: claim.nodepool(), min_values_relaxed: relaxed };
    metrics.add(&metrics::CLAIMS_CREATED, labels, 1.0);
}

/// Measures the stages of the start of a node; nothing without stages.
pub fn node_started(metrics: &Metrics, stages: &[StartStage]) {
    for (stage, seconds) in timeline::milestones(stages) {
        metrics.observe(&metrics::START_STAGES, metrics::ByStage { stage }, seconds);
    }
}

/// Counts the removal of a NodeClaim, with Karpenter's reason.
pub fn disrupted(metrics: &Metrics, claim: &NodeClaim, reason: &str) {
    let capacity_type = claim.metadata.labels.as_ref().and_then(|labels| labels.get(label::CAPACITY_TYPE));
    let capacity_type = capacity_type.map_or("", String::as_str);
    metrics.add(
        &metrics::CLAIMS_DISRUPTED,
        metrics::ByReasonNodePoolCapacityType { reason, nodepool: claim.nodepool(), capacity_type },
        1.0,
    );
}

/// Counts a NodeClaim that is gone, with its durations.
pub fn claim_gone(metrics: &Metrics, claim: &NodeClaim, now: Timestamp) {
    let pool = claim.nodepool();
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str);
    metrics.add(
        &metrics::CLAIMS_TERMINATED,
        metrics::ByNodePoolCapacityTypeZone {
            nodepool: pool,
            capacity_type: label(label::CAPACITY_TYPE),
            zone: label(label::ZONE),
        },
        1.0,
    );
    if let Some(seconds) = since(claim.metadata.deletion_timestamp.as_ref(), now) {
        metrics.observe(&metrics::CLAIM_TERMINATION, metrics::ByNodePool { nodepool: pool }, seconds);
    }
    let ending = api::status::find(claim.conditions(), condition::INSTANCE_TERMINATING);
    if let Some(seconds) = since(ending.map(|found| &found.last_transition_time), now) {
        metrics.observe(&metrics::INSTANCE_TERMINATION, metrics::ByNodePool { nodepool: pool }, seconds);
    }
}

/// Counts a node that is gone, with its durations. The labels are those of the NodeClaim, because a node may write its own.
pub fn node_gone(metrics: &Metrics, node: &Node, claim: Option<&NodeClaim>, drained: bool, now: Timestamp) {
    let label = |key: &str| claim.and_then(|claim| claim.metadata.labels.as_ref()?.get(key)).map_or("", String::as_str);
    let (pool, zone) = (label(label::NODEPOOL), label(label::ZONE));
    metrics.add(&metrics::NODES_TERMINATED, metrics::ByNodePoolZone { nodepool: pool, zone }, 1.0);
    if drained {
        metrics.add(&metrics::NODES_DRAINED, metrics::ByNodePool { nodepool: pool }, 1.0);
    }
    if let Some(seconds) = since(node.metadata.deletion_timestamp.as_ref(), now) {
        metrics.observe(&metrics::NODE_TERMINATION, metrics::ByNodePool { nodepool: pool }, seconds);
    }
    if let Some(seconds) = since(node.metadata.creation_timestamp.as_ref(), now) {
        metrics.observe(&metrics::NODE_LIFETIME, metrics::ByNodePool { nodepool: pool }, seconds);
    }
}

/// Counts the outcome of a node's drain, by the controller and the agent.
pub fn drain_ended(
    metrics: &Metrics,
    nodepool: &str,
    drained: bool,
    ours: &DrainReport,
    agents: Option<&DrainProgress>,
) {
    let forced = ours.forced > 0 || agents.is_some_and(|said| said.forced > 0);
    let outcome = match (drained, forced) {
        (false, _) => "cut_short",
        (true, true) => "forced",
        (true, false) => "clean",
    };
    metrics.add(&metrics::DRAINS, metrics::ByNodePoolOutcome { nodepool, outcome }, 1.0);
}

/// Maximum number of pods that an agent can drain: more than kubelet supports.
const MOST_PODS: usize = 1000;

/// Counts pods that the controller and the agent drained from a removed node.
pub fn pods_drained(metrics: &Metrics, reason: &str, ours: &DrainReport, agents: Option<&DrainProgress>) {
    // The node writes its numbers. The last ones may be missing: the controller often sees that the pods have left before the agent
    // reports it.
    let by_agent = agents.map_or(0, |said| said.evicted.saturating_add(said.forced).min(MOST_PODS));
    let pods = u32::try_from(ours.evicted + ours.forced + by_agent.max(ours.gone)).unwrap_or(u32::MAX);
    if pods > 0 {
        metrics.add(&metrics::PODS_DRAINED, metrics::ByReason { reason }, f64::from(pods));
    }
}

/// Counts the start of a command for `claims`, with the created `replacements`.
pub fn move_begun(metrics: &Metrics, kind: &CommandKind, claims: &[Arc<NodeClaim>], replacements: &[NodeClaim]) {
    let reason = kind.label();
    let (decision, consolidation_type) = (kind.decision(), kind.consolidation());
    let labels = metrics::ByDecisionReasonConsolidationType { decision, reason: &reason, consolidation_type };
    metrics.add(&metrics::DECISIONS, labels, 1.0);
    for pool in claims.iter().map(|claim| claim.nodepool()).collect::<BTreeSet<_>>() {
        let labels = metrics::ByNodePoolDecisionReasonConsolidationType {
            nodepool: pool,
            decision,
            reason: &reason,
            consolidation_type,
        };
        metrics.add(&metrics::DECISIONS_BY_POOL, labels, 1.0);
    }
    replacements.iter().for_each(|claim| created(metrics, claim, &reason));
}

/// Counts the deletion of these NodeClaims of a command.
pub fn move_done(metrics: &Metrics, kind: &CommandKind, claims: &[Arc<NodeClaim>]) {
    claims.iter().for_each(|claim| disrupted(metrics, claim, &kind.label()));
}

/// Counts the removal of a NodeClaim with an unhealthy node, by condition.
pub fn unhealthy(metrics: &Metrics, condition: &str, claim: &NodeClaim) {
    let capacity_type = claim.metadata.labels.as_ref().and_then(|labels| labels.get(label::CAPACITY_TYPE));
    let image = claim.status.as_ref().map_or("", |status| status.image_id.as_str());
    let labels = metrics::ByConditionNodePoolCapacityTypeImageId {
        condition,
        nodepool: claim.nodepool(),
        capacity_type: capacity_type.map_or("", String::as_str),
        image_id: image,
    };
    metrics.add(&metrics::UNHEALTHY_DISRUPTED, labels, 1.0);
}

/// Counts the rollback of a command after the launch of replacements, of which `unready` never became ready.
pub fn move_rolled_back(metrics: &Metrics, kind: &CommandKind, unready: usize) {
    let labels = metrics::ByDecisionReasonConsolidationType {
        decision: kind.decision(),
        reason: &kind.label(),
        consolidation_type: kind.consolidation(),
    };
    metrics.add(&metrics::QUEUE_FAILURES, labels, u32::try_from(unready).unwrap_or(u32::MAX).into());
}

fn since(start: Option<&Time>, now: Timestamp) -> Option<f64> {
    Some(now.duration_since(start?.0).as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use daemon::metric::Metrics;
    use serde_json::json;

    use super::{claim_gone, created, drain_ended, move_begun, node_gone, pods_drained, registered};
    use crate::fixture::{at, claim, node};
    use crate::metrics::table;
    use crate::reconcile::disruption::CommandKind;
    use api::DrainProgress;
    use drain::DrainReport;

    #[test]
    fn move_begun_counts_a_command_once_per_nodepool() {
        let metrics = Metrics::new(&table());
        let of = |pool: &str| claim(&json!({"metadata": {"labels": {api::label::NODEPOOL: pool}}}));
        let kind = CommandKind { reason: "Underutilized".to_owned(), replaces: true, nodes: 3 };
        move_begun(&metrics, &kind, &[of("one"), of("other"), of("one")], &[]);
        let text = metrics.render();
        let counted: Vec<&str> =
            text.lines().filter(|line| line.starts_with("karpenter_voluntary_disruption_decisions")).collect();
        let labels = r#"decision="replace",reason="underutilized",consolidation_type="multi""#;
        let expected = [
            format!("karpenter_voluntary_disruption_decisions_total{{{labels}}} 1.0"),
            format!("karpenter_voluntary_disruption_decisions_by_nodepool_total{{nodepool=\"one\",{labels}}} 1.0"),
            format!("karpenter_voluntary_disruption_decisions_by_nodepool_total{{nodepool=\"other\",{labels}}} 1.0"),
        ];
        assert!(expected.iter().all(|line| counted.contains(&line.as_str())), "{counted:?}");
        assert_eq!(counted.len(), expected.len(), "{counted:?}");
    }

    #[test]
    fn created_reads_from_the_claim_whether_min_values_are_relaxed() {
        let metrics = Metrics::new(&table());
        let labels = json!({api::label::NODEPOOL: "blue"});
        let relaxed = json!({api::annotation::MIN_VALUES_RELAXED: "true"});
        created(&metrics, &claim(&json!({"metadata": {"labels": labels, "annotations": relaxed}})), "provisioned");
        created(&metrics, &claim(&json!({"metadata": {"labels": labels}})), "drifted");
        let text = metrics.render();
        for (reason, relaxed) in [("provisioned", "true"), ("drifted", "false")] {
            let labels = format!(r#"reason="{reason}",nodepool="blue",min_values_relaxed="{relaxed}""#);
            assert!(text.contains(&format!("karpenter_nodeclaims_created_total{{{labels}}} 1.0")), "{text}");
        }
    }

    #[test]
    fn counters_record_ends_with_their_durations() {
        let metrics = Metrics::new(&table());
        let deleted = json!({"metadata": {"deletionTimestamp": at(10).to_string()}});
        registered(&metrics, &claim(&json!({})));
        claim_gone(&metrics, &claim(&deleted), at(13));
        node_gone(&metrics, &node(&deleted), None, true, at(15));
        let agents = DrainProgress { evicted: 4, ..DrainProgress::default() };
        let ours = DrainReport { evicted: 2, forced: 1, gone: 3, ..DrainReport::default() };
        pods_drained(&metrics, "Drifted", &ours, Some(&agents));
        pods_drained(&metrics, "Empty", &DrainReport::default(), None);
        pods_drained(&metrics, "Expired", &ours, Some(&DrainProgress::default()));
        drain_ended(&metrics, "", true, &ours, None);
        drain_ended(&metrics, "", true, &DrainReport::default(), Some(&agents));
        drain_ended(&metrics, "", false, &ours, None);
        let text = metrics.render();
        for outcome in ["clean", "forced", "cut_short"] {
            let line = format!(r#"kerf_drains_total{{nodepool="",outcome="{outcome}"}} 1.0"#);
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
        for line in [
            "karpenter_nodes_created_total{",
            "karpenter_nodeclaims_terminated_total{",
            "karpenter_nodeclaims_termination_duration_seconds_sum{",
            "karpenter_nodes_drained_total{",
            "karpenter_nodes_termination_duration_seconds_sum{",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        let drained: BTreeSet<&str> =
            text.lines().filter(|line| line.starts_with("karpenter_pods_drained_total{")).collect();
        let expected =
            ["Drifted\"} 7.0", "Expired\"} 6.0"].map(|end| format!("karpenter_pods_drained_total{{reason=\"{end}"));
        assert_eq!(drained, expected.iter().map(String::as_str).collect());
        assert!(
            text.lines().any(|line| line.starts_with("karpenter_nodeclaims_termination_duration_seconds_sum")
                && line.ends_with(" 3.0"))
        );
    }

    #[test]
    fn counters_are_bounded_when_a_node_invents_labels_and_numbers() {
        let metrics = Metrics::new(&table());
        let invented = json!({"metadata": {"labels": {api::label::NODEPOOL: "invented", api::label::ZONE: "moon"}}});
        let owner = claim(&json!({"metadata": {"labels": {api::label::NODEPOOL: "blue", api::label::ZONE: "a"}}}));
        node_gone(&metrics, &node(&invented), Some(&owner), true, at(1));
        let agents = DrainProgress { evicted: usize::MAX, forced: usize::MAX, ..DrainProgress::default() };
        pods_drained(&metrics, "Drifted", &DrainReport::default(), Some(&agents));
        let text = metrics.render();
        for line in [
            r#"karpenter_nodes_terminated_total{nodepool="blue",zone="a"} 1.0"#,
            r#"karpenter_pods_drained_total{reason="Drifted"} 1000.0"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("invented") && !text.contains("moon"), "{text}");
    }
}
