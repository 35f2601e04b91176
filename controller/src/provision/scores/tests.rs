//! Tests of the counted commands, their number and their score.

use daemon::metric::Metrics;
use planner::{
    CommandCause, CommandReason, ConsolidationPolicy, DisruptedNode, Disruption, MicroDollars, Node, NodeVerdict, Plan,
    PlannedCommand, Pool, Report, Snapshot,
};
use snapshot::SnapshotResult;

use super::ConsolidationScores;
use crate::metrics::table;

/// Returns ten empty nodes of a NodePool, each for a dollar per hour.
fn built(policy: ConsolidationPolicy) -> SnapshotResult {
    let pool = Pool {
        name: "default".to_owned(),
        disruption: Disruption { policy, ..Disruption::default() },
        ..Pool::default()
    };
    let node = |number: usize| Node {
        name: format!("node-{number}"),
        claim: Some(format!("default-{number}")),
        pool: Some(pool.name.clone()),
        price: Some(MicroDollars(1_000_000)),
        ..Node::default()
    };
    let nodes = (0..10).map(|number| node(number).into()).collect();
    SnapshotResult {
        snapshot: Snapshot { pools: vec![pool.clone()], nodes, ..Snapshot::default() },
        ..SnapshotResult::default()
    }
}

fn planned(reason: CommandReason, saving: i64) -> PlannedCommand {
    PlannedCommand {
        reason,
        nodes: vec![DisruptedNode { node: "node-1".to_owned(), claim: "default-1".to_owned() }],
        replacements: Vec::new(),
        pods: Vec::new(),
        saving: Some(MicroDollars(saving)),
        cost: 0,
        why: CommandCause::Cheaper,
    }
}

fn counted(metrics: &Metrics, line: &str) -> Vec<String> {
    metrics.render().lines().filter(|found| found.starts_with(line)).map(str::to_owned).collect()
}

#[test]
fn count_records_the_score_when_a_command_begins() {
    let rows = [
        (ConsolidationPolicy::Balanced, "Balanced"),
        (ConsolidationPolicy::WhenEmptyOrUnderutilized, "WhenEmptyOrUnderutilized"),
    ];
    for (policy, name) in rows {
        let metrics = Metrics::new(&table());
        // A tenth of the disruption, and a twentieth of the cost.
        let moves = vec![planned(CommandReason::Underutilized, 500_000), planned(CommandReason::Empty, 1_000_000)];
        let plan = Plan { moves, ..Plan::default() };
        let (scores, built) = (ConsolidationScores::default(), built(policy));
        scores.count(&metrics, &built, &plan, &[]);
        assert!(counted(&metrics, "karpenter_consolidation_moves_total{").is_empty(), "it only waits");
        scores.count(&metrics, &built, &plan, &[0, 1]);
        let labels = format!("{{decision=\"approved\",nodepool=\"default\",policy=\"{name}\"}}");
        let expected = [format!("karpenter_consolidation_moves_total{labels} 1.0")];
        assert_eq!(counted(&metrics, "karpenter_consolidation_moves_total{"), expected);
        let expected = [format!("karpenter_consolidation_score_sum{labels} 0.5")];
        assert_eq!(counted(&metrics, "karpenter_consolidation_score_sum"), expected);
    }
}

#[test]
fn count_records_a_rejection_once_until_the_verdict_changes() {
    let (metrics, scores) = (Metrics::new(&table()), ConsolidationScores::default());
    let built = built(ConsolidationPolicy::Balanced);
    let plan_of = |verdict: NodeVerdict| Plan {
        report: Report { nodes: vec![("node-1".to_owned(), verdict)], ..Report::default() },
        ..Plan::default()
    };
    let unbalanced = plan_of(NodeVerdict::Unbalanced { score: 417 });
    let quiet = plan_of(NodeVerdict::Nominated);
    for (plan, expected) in [(&unbalanced, "1.0"), (&unbalanced, "1.0"), (&quiet, "1.0"), (&unbalanced, "2.0")] {
        scores.count(&metrics, &built, plan, &[]);
        let labels = "{decision=\"rejected\",nodepool=\"default\",policy=\"Balanced\"}";
        let expected = [format!("karpenter_consolidation_moves_total{labels} {expected}")];
        assert_eq!(counted(&metrics, "karpenter_consolidation_moves_total{"), expected);
    }
}
