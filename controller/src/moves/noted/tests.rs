//! When a planned move is begun, and when it is dropped.

use std::time::Duration;

use jiff::Timestamp;
use planner::{Leaver, Move, MoveReason, WhyMove};

use super::{Noted, Ripe};
use crate::fixture::at;

fn planned(reason: MoveReason, nodes: &[&str], replacements: usize) -> Move {
    let leaver = |name: &&str| Leaver { node: (*name).to_owned(), claim: format!("claim-of-{name}") };
    Move {
        reason,
        nodes: nodes.iter().map(leaver).collect(),
        replacements: (0..replacements).collect(),
        pods: Vec::new(),
        saving: None,
        cost: 0,
        why: WhyMove::Cheaper,
    }
}

fn cheaper(nodes: &[&str], replacements: usize) -> Vec<Move> {
    vec![planned(MoveReason::Underutilized, nodes, replacements)]
}

fn seconds(count: u64) -> Option<Duration> {
    Some(Duration::from_secs(count))
}

/// Nodes of dropped moves.
fn dropped(ripe: &Ripe) -> Vec<&str> {
    ripe.dropped.iter().flat_map(|dropped| &dropped.nodes).map(String::as_str).collect()
}

#[test]
fn what_only_saves_money_waits_until_every_plan_for_15_seconds_has_said_the_same() {
    for reason in [MoveReason::Empty, MoveReason::Underutilized] {
        let mut noted = Noted::default();
        let moves = vec![planned(reason, &["a", "b"], 1)];
        let first = noted.look(&moves, at(0));
        assert_eq!((first.begin.len(), first.candidates, first.next), (0, vec![0], seconds(15)), "{reason}");
        let second = noted.look(&moves, at(9));
        assert_eq!((second.begin.len(), second.candidates.len(), second.next), (0, 0, seconds(6)), "{reason}");
        let third = noted.look(&moves, at(15));
        assert_eq!((third.begin, third.next), (vec![0], None), "{reason}");
    }
}

#[test]
fn what_is_wrong_already_waits_for_nothing() {
    for reason in
        [MoveReason::Drifted, MoveReason::Expired, MoveReason::Unhealthy, MoveReason::Interrupted, MoveReason::Static]
    {
        let ripe = Noted::default().look(&[planned(reason, &["a"], 1)], at(0));
        assert_eq!((ripe.begin, ripe.candidates), (vec![0], Vec::new()), "{reason}");
    }
}

#[test]
fn a_move_that_one_plan_left_out_is_dropped_and_begins_to_wait_anew() {
    let mut noted = Noted::default();
    drop(noted.look(&cheaper(&["a"], 0), at(0)));
    assert_eq!(dropped(&noted.look(&[], at(5))), ["a"]);
    let again = noted.look(&cheaper(&["a"], 0), at(10));
    assert_eq!((again.begin.len(), again.next), (0, seconds(15)));
    assert_eq!(noted.look(&cheaper(&["a"], 0), at(20)).begin.len(), 0, "the first ten seconds count for nothing");
    assert_eq!(noted.look(&cheaper(&["a"], 0), at(25)).begin, [0]);
}

#[test]
fn only_the_move_that_changed_is_dropped() {
    let mut noted = Noted::default();
    let both = [cheaper(&["a"], 0), cheaper(&["b"], 0)].concat();
    drop(noted.look(&both, at(0)));
    let ripe = noted.look(&cheaper(&["b"], 0), at(15));
    assert_eq!((dropped(&ripe), ripe.begin.as_slice()), (vec!["a"], [0].as_slice()));
}

#[test]
fn other_nodes_another_reason_or_fewer_replacements_are_another_move() {
    let others = [
        ("another node", cheaper(&["a", "b", "c"], 2)),
        ("a node less", cheaper(&["a"], 2)),
        ("another reason", vec![planned(MoveReason::Empty, &["a", "b"], 2)]),
        ("a replacement less", cheaper(&["a", "b"], 1)),
    ];
    for (what, other) in others {
        let mut noted = Noted::default();
        drop(noted.look(&cheaper(&["a", "b"], 2), at(0)));
        let ripe = noted.look(&other, at(15));
        assert_eq!((ripe.begin.len(), ripe.candidates.len()), (0, 1), "{what}");
    }
    for (what, same) in [("the nodes in another order", cheaper(&["b", "a"], 2)), ("more", cheaper(&["a", "b"], 3))] {
        let mut noted = Noted::default();
        drop(noted.look(&cheaper(&["a", "b"], 2), at(0)));
        assert_eq!(noted.look(&same, at(15)).begin, [0], "{what}");
    }
}

#[test]
fn a_node_that_goes_into_another_move_is_not_told_that_it_stays() {
    let mut noted = Noted::default();
    drop(noted.look(&cheaper(&["a", "b"], 1), at(0)));
    assert_eq!(dropped(&noted.look(&cheaper(&["a"], 0), at(5))), ["b"]);
}

#[test]
fn a_move_that_was_begun_is_not_dropped_and_one_that_could_not_be_is_begun_again() {
    let mut noted = Noted::default();
    drop(noted.look(&cheaper(&["a"], 1), at(0)));
    assert_eq!(noted.look(&cheaper(&["a"], 1), at(15)).begin, [0]);
    assert_eq!(noted.look(&cheaper(&["a"], 1), at(16)).begin, [0], "the plan contains it still");
    assert_eq!(noted.look(&[], at(17)), Ripe::default());
    assert_eq!(noted.look(&cheaper(&["a"], 1), at(40)).begin.len(), 0, "after a rollback it has to wait again");
}

#[test]
fn a_clock_that_is_set_back_starts_the_wait_anew() {
    let mut noted = Noted::default();
    let before: Timestamp = at(0);
    drop(noted.look(&cheaper(&["a"], 0), at(3600)));
    assert_eq!(noted.look(&cheaper(&["a"], 0), before).next, seconds(15));
    assert_eq!(noted.look(&cheaper(&["a"], 0), at(15)).begin, [0]);
}
