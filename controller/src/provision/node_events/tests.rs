//! Tests of the events and metrics of nodes.

use api::{label, reason};
use daemon::metric::Metrics;
use jiff::Timestamp;
use planner::{
    Budgets, CommandCause, CommandReason, Commitment, DisruptedNode, Disruption, DriftCanary, Drifted, Leaving,
    MicroDollars, NodeVerdict, PaidShare, Plan, PlannedCommand, Pool, RejectedCommand, Report, Snapshot,
    ValidatedCommands,
};
use serde_json::json;
use snapshot::SnapshotResult;
use tokio::sync::mpsc::unbounded_channel;

use super::{NodeGauges, notes};
use crate::fixture::{claim, node, pool, status};
use crate::metrics::table;
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::write::events::{Event, EventRecorder};

/// Returns an index with `node-1` of the NodeClaim `default-1` and the NodePool `default`.
fn index() -> Index {
    let mut index = Index::default();
    let now = Timestamp::UNIX_EPOCH;
    drop(index.apply(claim(&status(&[])).as_ref().clone(), now, true));
    let labels = json!({"metadata": {"labels": {label::NODEPOOL: "default"}}});
    drop(index.apply(node(&labels).as_ref().clone(), now, true));
    drop(index.apply(pool(&json!({})).as_ref().clone(), now, true));
    index
}

fn plan(verdict: NodeVerdict) -> Plan {
    Plan { report: Report { nodes: vec![("node-1".to_owned(), verdict)], ..Report::default() }, ..Plan::default() }
}

fn left_out() -> NodeVerdict {
    NodeVerdict::LeftOut { reason: CommandReason::Empty, finding: "node node-1: goes twice".to_owned() }
}

fn waits_for_canary() -> NodeVerdict {
    NodeVerdict::AwaitsCanary { pool: "default".to_owned(), healthy: 1, nodes: 2, remaining: Some(5) }
}

fn published(notes: &[Event]) -> Vec<(&str, &str)> {
    notes.iter().map(|note| (note.reason(), note.message())).collect()
}

#[test]
fn notes_explain_why_a_node_is_not_disrupted() {
    let (pod, one) = ("default/web".to_owned(), CommandReason::Underutilized);
    let rows = [
        (
            NodeVerdict::DoNotDisrupt,
            reason::DISRUPTION_BLOCKED,
            "This node stays: node has annotation karpenter.sh/do-not-disrupt",
            2,
        ),
        (
            NodeVerdict::PodHeld { pod, budgets: vec!["one".to_owned()] },
            reason::DISRUPTION_BLOCKED,
            "This node stays: eviction of pod default/web is blocked (PodDisruptionBudget one)",
            2,
        ),
        (NodeVerdict::Cheapest { pods: 3 }, reason::UNCONSOLIDATABLE, "Can't replace with a cheaper node", 2),
        (
            NodeVerdict::ConsolidationDisabled,
            reason::UNCONSOLIDATABLE,
            "NodePool \"default\" has consolidation disabled",
            2,
        ),
        (
            waits_for_canary(),
            reason::DISRUPTION_BLOCKED,
            "This node stays: drifted, but the canary nodes of NodePool default come first",
            2,
        ),
        (
            NodeVerdict::Budget { reason: one },
            reason::DISRUPTION_BLOCKED,
            "No allowed disruptions for disruption reason Underutilized due to blocking budget",
            1,
        ),
        (
            NodeVerdict::ManyUnhealthy { unhealthy: 3, nodes: 10 },
            reason::NODE_REPAIR_BLOCKED,
            "More than 20% nodes are unhealthy in the nodepool (3 of 10): repair is suspended; look for a common \
             cause, and delete NodeClaims that should be replaced anyway",
            3,
        ),
    ];
    for (verdict, reason, message, objects) in rows {
        let notes = notes(&index(), &plan(verdict), &ValidatedCommands::default());
        assert_eq!(published(&notes), vec![(reason, message); objects]);
    }
    let later = NodeVerdict::AfterMove { node: "node-2".to_owned() };
    for silent in
        [NodeVerdict::Quiet { remaining: 5 }, NodeVerdict::Nominated, NodeVerdict::Remove(one), later, left_out()]
    {
        assert!(notes(&index(), &plan(silent.clone()), &ValidatedCommands::default()).is_empty(), "{silent}");
    }
}

#[test]
fn notes_report_candidates_and_rejected_candidates() {
    let planned = PlannedCommand {
        reason: CommandReason::Empty,
        nodes: vec![DisruptedNode { node: "node-1".to_owned(), claim: "default-1".to_owned() }],
        replacements: Vec::new(),
        pods: Vec::new(),
        saving: None,
        cost: 0,
        why: CommandCause::NothingRuns,
    };
    let goes = Plan { moves: vec![planned], ..plan(NodeVerdict::Remove(CommandReason::Empty)) };
    let candidate = ValidatedCommands { candidates: vec![0], ..ValidatedCommands::default() };
    let message = "Consolidation candidate: node-1 (Empty)";
    let expected = vec![(reason::CONSOLIDATION_CANDIDATE, message); 2];
    assert_eq!(published(&notes(&index(), &goes, &candidate)), expected);
    let ripe = ValidatedCommands {
        dropped: vec![RejectedCommand {
            reason: CommandReason::Empty,
            replaces: false,
            size: 1,
            nodes: vec!["node-1".to_owned()],
        }],
        ..ValidatedCommands::default()
    };
    let stays = notes(&index(), &plan(NodeVerdict::Nominated), &ripe);
    assert_eq!(
        published(&stays),
        vec![(reason::CONSOLIDATION_REJECTED, "This node stays: nominated for pending pods"); 2]
    );
    let left_out = notes(&index(), &plan(left_out()), &ripe);
    let message =
        "This node stays: empty, but the plan failed its validation and is made again (node node-1: goes twice)";
    assert_eq!(published(&left_out), vec![(reason::CONSOLIDATION_REJECTED, message); 2]);
}

/// Returns the metrics page after one plan with this verdict for `node-1`.
fn measured(verdict: NodeVerdict) -> String {
    let (plan_for, _asked) = unbounded_channel();
    let (recorder, _events) = EventRecorder::new();
    let (cluster, metrics) = (Cluster::new(plan_for, recorder), Metrics::new(&table()));
    NodeGauges::default().set(&metrics, &SnapshotResult::default(), &plan(verdict), &cluster);
    metrics.render()
}

#[test]
fn gauges_count_omitted_nodes_as_eligible_without_timeout() {
    let timeout = "karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type=\"multi\"} 1";
    assert!(measured(NodeVerdict::Postponed).contains(timeout));
    let page = measured(left_out());
    assert!(!page.contains(timeout), "{page}");
    assert!(page.contains("karpenter_voluntary_disruption_eligible_nodes{reason=\"empty\"} 1"), "{page}");
}

#[test]
fn gauges_count_nodes_that_wait_for_a_canary_as_drifted() {
    let unhealthy = NodeVerdict::CanaryUnhealthy { pool: "default".to_owned(), node: "node-2".to_owned() };
    for verdict in [waits_for_canary(), unhealthy] {
        let page = measured(verdict);
        assert!(page.contains("karpenter_voluntary_disruption_eligible_nodes{reason=\"drifted\"} 1"), "{page}");
    }
}

#[test]
fn gauges_report_budgets_until_the_nodepool_is_deleted() {
    let (plan_for, _asked) = unbounded_channel();
    let (recorder, _events) = EventRecorder::new();
    let cluster = Cluster::new(plan_for, recorder);
    let (metrics, gauges) = (Metrics::new(&table()), NodeGauges::default());
    let budgets = Budgets { empty: 1, underutilized: 2, drifted: 3, expired: 4 };
    let own = Pool {
        name: "default".to_owned(),
        disruption: Disruption {
            budgets,
            canary: Some(DriftCanary { nodes: 2, time: 60_000 }),
            ..Disruption::default()
        },
        ..Pool::default()
    };
    let leaving = planner::Node {
        claim: Some("default-1".to_owned()),
        pool: Some("default".to_owned()),
        leaving: Some(Leaving::Deleting),
        drifted: Some(Drifted::default()),
        ..planner::Node::default()
    };
    let on_demand = |paid: i64| planner::Node {
        price: Some(MicroDollars(96_000)),
        paid: vec![PaidShare { price: MicroDollars(paid), ..PaidShare::default() }],
        ..planner::Node::default()
    };
    let nodes = [leaving, on_demand(96_000), on_demand(48_000)].map(Into::into).into();
    let commitments = vec![Commitment::default()];
    let snapshot = Snapshot { pools: vec![own], nodes, commitments, ..Snapshot::default() };
    let held = NodeVerdict::Budget { reason: CommandReason::Drifted };
    gauges.set(&metrics, &SnapshotResult { snapshot, ..SnapshotResult::default() }, &plan(held), &cluster);
    let page = metrics.render();
    for line in [
        "karpenter_nodepools_allowed_disruptions{nodepool=\"default\",reason=\"Underutilized\"} 2",
        // One of two canary nodes is being replaced.
        "karpenter_nodepools_allowed_disruptions{nodepool=\"default\",reason=\"Drifted\"} 1",
        "karpenter_nodepools_nodes_consuming_budgets{nodepool=\"default\",reason=\"Empty\"} 1",
        "karpenter_voluntary_disruption_eligible_nodes{reason=\"drifted\"} 1",
        "karpenter_voluntary_disruption_eligible_nodes{reason=\"empty\"} 0",
        "kerf_commitments_coverage_ratio{} 0.75",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    gauges.set(&metrics, &SnapshotResult::default(), &Plan::default(), &cluster);
    assert!(!metrics.render().contains("kerf_commitments_coverage_ratio{"), "{}", metrics.render());
    assert!(!metrics.render().contains("nodepool=\"default\""), "{}", metrics.render());
}
