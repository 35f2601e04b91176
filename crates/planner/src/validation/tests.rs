//! Start and rejection of planned commands.

use std::time::Duration;

use super::{ValidatedCommands, Validation};
use crate::{CommandCause, CommandReason, DisruptedNode, Millis, NodeVerdict, Plan, PlannedCommand, Report, Snapshot};

fn planned(reason: CommandReason, nodes: &[&str], replacements: usize) -> PlannedCommand {
    let leaver = |name: &&str| DisruptedNode { node: (*name).to_owned(), claim: format!("claim-of-{name}") };
    PlannedCommand {
        reason,
        nodes: nodes.iter().map(leaver).collect(),
        replacements: (0..replacements).collect(),
        pods: Vec::new(),
        saving: None,
        cost: 0,
        why: CommandCause::Cheaper,
    }
}

fn cheaper(nodes: &[&str], replacements: usize) -> Vec<PlannedCommand> {
    vec![planned(CommandReason::Underutilized, nodes, replacements)]
}

/// Validates commands of a plan at this second.
fn update(validation: &mut Validation, moves: &[PlannedCommand], second: i64) -> ValidatedCommands {
    let plan = Plan { moves: moves.to_vec(), ..Plan::default() };
    validation.update(&at(second), &plan)
}

fn at(second: i64) -> Snapshot {
    Snapshot { now: Millis(second * 1000), ..Snapshot::default() }
}

fn seconds(count: u64) -> Option<Duration> {
    Some(Duration::from_secs(count))
}

/// Returns the nodes of rejected commands.
fn dropped(ripe: &ValidatedCommands) -> Vec<&str> {
    ripe.dropped.iter().flat_map(|dropped| &dropped.nodes).map(String::as_str).collect()
}

#[test]
fn update_begins_consolidation_after_15_s_in_every_plan() {
    for reason in [CommandReason::Empty, CommandReason::Underutilized] {
        let mut validation = Validation::default();
        let moves = vec![planned(reason, &["a", "b"], 1)];
        let first = update(&mut validation, &moves, 0);
        assert_eq!((first.begin.len(), first.candidates, first.next), (0, vec![0], seconds(15)), "{reason}");
        let second = update(&mut validation, &moves, 9);
        assert_eq!((second.begin.len(), second.candidates.len(), second.next), (0, 0, seconds(6)), "{reason}");
        let third = update(&mut validation, &moves, 15);
        assert_eq!((third.begin, third.next), (vec![0], None), "{reason}");
    }
}

#[test]
fn update_begins_other_reasons_at_once() {
    for reason in [CommandReason::Drifted, CommandReason::Expired, CommandReason::Unhealthy, CommandReason::Static] {
        let ripe = update(&mut Validation::default(), &[planned(reason, &["a"], 1)], 0);
        assert_eq!((ripe.begin, ripe.candidates), (vec![0], Vec::new()), "{reason}");
    }
}

#[test]
fn update_restarts_the_wait_when_one_plan_omits_a_command() {
    let mut validation = Validation::default();
    drop(update(&mut validation, &cheaper(&["a"], 0), 0));
    assert_eq!(dropped(&update(&mut validation, &[], 5)), ["a"]);
    let again = update(&mut validation, &cheaper(&["a"], 0), 10);
    assert_eq!((again.begin.len(), again.next), (0, seconds(15)));
    assert_eq!(
        update(&mut validation, &cheaper(&["a"], 0), 20).begin.len(),
        0,
        "the first ten seconds count for nothing"
    );
    assert_eq!(update(&mut validation, &cheaper(&["a"], 0), 25).begin, [0]);
}

#[test]
fn update_drops_only_the_command_that_changed() {
    let mut validation = Validation::default();
    let both = [cheaper(&["a"], 0), cheaper(&["b"], 0)].concat();
    drop(update(&mut validation, &both, 0));
    let ripe = update(&mut validation, &cheaper(&["b"], 0), 15);
    assert_eq!((dropped(&ripe), ripe.begin.as_slice()), (vec!["a"], [0].as_slice()));
}

#[test]
fn update_compares_nodes_reason_and_replacements_of_a_command() {
    let others = [
        ("another node", cheaper(&["a", "b", "c"], 2)),
        ("another reason", vec![planned(CommandReason::Empty, &["a", "b"], 2)]),
        ("a replacement less", cheaper(&["a", "b"], 1)),
    ];
    for (what, other) in others {
        let mut validation = Validation::default();
        drop(update(&mut validation, &cheaper(&["a", "b"], 2), 0));
        let ripe = update(&mut validation, &other, 15);
        assert_eq!((ripe.begin.len(), ripe.candidates.len()), (0, 1), "{what}");
    }
    let same = [
        ("the nodes in another order", cheaper(&["b", "a"], 2)),
        ("more replacements", cheaper(&["a", "b"], 3)),
        ("a node less", cheaper(&["a"], 2)),
    ];
    for (what, same) in same {
        let mut validation = Validation::default();
        drop(update(&mut validation, &cheaper(&["a", "b"], 2), 0));
        assert_eq!(update(&mut validation, &same, 15).begin, [0], "{what}");
    }
}

#[test]
fn update_keeps_the_latest_wait_when_nodes_are_recombined() {
    let mut validation = Validation::default();
    drop(update(&mut validation, &cheaper(&["a"], 0), 0));
    drop(update(&mut validation, &[cheaper(&["a"], 0), cheaper(&["b"], 0)].concat(), 4));
    let together = update(&mut validation, &cheaper(&["a", "b"], 1), 10);
    assert_eq!((together.begin.len(), together.next), (0, seconds(9)));
    assert_eq!(update(&mut validation, &cheaper(&["a", "b"], 1), 19).begin, [0]);
}

#[test]
fn dropped_omits_nodes_when_another_command_has_them() {
    let mut validation = Validation::default();
    drop(update(&mut validation, &cheaper(&["a", "b"], 1), 0));
    assert_eq!(dropped(&update(&mut validation, &cheaper(&["a"], 0), 5)), ["b"]);
}

#[test]
fn update_begins_again_when_a_begun_command_is_repeated() {
    let mut validation = Validation::default();
    drop(update(&mut validation, &cheaper(&["a"], 1), 0));
    assert_eq!(update(&mut validation, &cheaper(&["a"], 1), 15).begin, [0]);
    assert_eq!(update(&mut validation, &cheaper(&["a"], 1), 16).begin, [0], "the plan contains it still");
    assert_eq!(update(&mut validation, &[], 17), ValidatedCommands::default());
    assert_eq!(
        update(&mut validation, &cheaper(&["a"], 1), 40).begin.len(),
        0,
        "after a rollback it has to wait again"
    );
}

#[test]
fn update_restarts_the_wait_when_the_clock_is_set_back() {
    let mut validation = Validation::default();
    drop(update(&mut validation, &cheaper(&["a"], 0), 3600));
    assert_eq!(update(&mut validation, &cheaper(&["a"], 0), 0).next, seconds(15));
    assert_eq!(update(&mut validation, &cheaper(&["a"], 0), 15).begin, [0]);
}

/// Validates commands of a plan in which a budget excludes other nodes.
fn beside(validation: &mut Validation, moves: &[PlannedCommand], withheld: &[&str], second: i64) -> ValidatedCommands {
    let verdict = |name: &&str| ((*name).to_owned(), NodeVerdict::Budget { reason: CommandReason::Underutilized });
    let report = Report { nodes: withheld.iter().map(verdict).collect(), ..Report::default() };
    validation.update(&at(second), &Plan { moves: moves.to_vec(), report, ..Plan::default() })
}

#[test]
fn update_counts_the_wait_when_only_a_budget_excludes_nodes() {
    let mut validation = Validation::default();
    drop(beside(&mut validation, &[], &["a", "b"], 0));
    drop(beside(&mut validation, &[], &["a", "b"], 10));
    let ripe = beside(&mut validation, &cheaper(&["a"], 0), &["b"], 15);
    assert_eq!((ripe.begin.as_slice(), ripe.candidates.len()), ([0].as_slice(), 0));
    assert_eq!(
        beside(&mut validation, &cheaper(&["a", "b"], 1), &[], 15).begin,
        [] as [usize; 0],
        "a was begun and is back"
    );
}

#[test]
fn update_continues_the_wait_when_a_budget_excludes_a_node() {
    let mut validation = Validation::default();
    drop(update(&mut validation, &cheaper(&["a"], 0), 0));
    drop(beside(&mut validation, &[], &["a"], 5));
    assert_eq!(update(&mut validation, &cheaper(&["a"], 0), 15).begin, [0]);
}

#[test]
fn update_waits_the_rest_when_a_budget_excluded_nodes_briefly() {
    let rows = [
        ("for eight seconds", vec![(8, vec!["a", "b"])], 7),
        ("with a plan between that did not", vec![(0, vec!["a", "b"]), (4, vec![]), (6, vec!["a", "b"])], 5),
        ("but one of two only", vec![(0, vec!["a"])], 15),
        ("but the clock was set back", vec![(90, vec!["a", "b"])], 15),
    ];
    for (what, before, remaining) in rows {
        let mut validation = Validation::default();
        for (second, withheld) in before {
            drop(beside(&mut validation, &[], &withheld, second));
        }
        let ripe = beside(&mut validation, &cheaper(&["a", "b"], 1), &[], 16);
        assert_eq!((ripe.begin.len(), ripe.next), (0, seconds(remaining)), "{what}");
    }
}
