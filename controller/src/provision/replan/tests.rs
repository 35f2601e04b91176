//! Tests of the time of plans without a trigger.

use planner::{CommandReason, Millis, Node, Report, Snapshot, Unhealthy};

use super::{
    Duration, Instant, LOOK_AGAIN, NextPass, NodeVerdict, Plan, ReplanTimer, SnapshotResult, ValidatedCommands,
    next_look, pause_after,
};

fn plan(verdicts: Vec<NodeVerdict>) -> Plan {
    let named = |verdict| ("node".to_owned(), verdict);
    let nodes = verdicts.into_iter().map(named).collect();
    Plan { report: Report { nodes, ..Report::default() }, ..Plan::default() }
}

fn built(node: Node) -> SnapshotResult {
    let snapshot = Snapshot { now: Millis(1_000_000), nodes: vec![node.into()], ..Snapshot::default() };
    SnapshotResult { snapshot, ..SnapshotResult::default() }
}

fn quiet(remaining: i64) -> NodeVerdict {
    NodeVerdict::Quiet { remaining }
}

#[test]
fn next_look_is_due_when_the_first_node_may_be_disrupted() {
    let expiring = |at| built(Node { expires: Some(Millis(at)), ..Node::default() });
    let unhealthy = Unhealthy { due: Millis(1_004_000), condition: "Ready".to_owned() };
    let unhealthy_node = built(Node { unhealthy: Some(unhealthy), ..Node::default() });
    let nothing = || built(Node::default());
    let resting = NodeVerdict::Resting { pod: "default/web".to_owned(), remaining: 6000 };
    let used_up = NodeVerdict::Budget { reason: CommandReason::Empty };
    let ripe = ValidatedCommands { next: Some(Duration::from_secs(3)), ..ValidatedCommands::default() };
    let rows = [
        ("nothing to wait for", nothing(), vec![used_up], ValidatedCommands::default(), 10_000),
        ("the first of several", nothing(), vec![quiet(7000), quiet(2500)], ValidatedCommands::default(), 2500),
        ("a pod that was moved", nothing(), vec![resting], ValidatedCommands::default(), 6000),
        ("far ahead", nothing(), vec![quiet(60_000)], ValidatedCommands::default(), 10_000),
        ("almost now", nothing(), vec![quiet(1)], ValidatedCommands::default(), 1000),
        ("a move that gets ripe", nothing(), vec![quiet(5000)], ripe, 3000),
        ("an age", expiring(1_002_000), vec![], ValidatedCommands::default(), 2000),
        ("an age that is over", expiring(1), vec![], ValidatedCommands::default(), 10_000),
        ("an illness", unhealthy_node, vec![], ValidatedCommands::default(), 4000),
    ];
    for (what, built, verdicts, ripe, expected) in rows {
        let next = next_look(&built, &plan(verdicts), &ripe, Duration::ZERO, None);
        assert_eq!(next, Duration::from_millis(expected), "{what}");
    }
}

#[test]
fn pause_after_grows_with_the_duration_of_the_plan() {
    let many = plan(vec![quiet(100)]);
    for (took, expected) in [(0, 1000), (100, 1000), (1000, 4000), (5000, 10_000)] {
        let pause = pause_after(Duration::from_millis(took));
        let next = next_look(&SnapshotResult::default(), &many, &ValidatedCommands::default(), pause, None);
        assert_eq!(next, Duration::from_millis(expected), "after a plan of {took} ms");
    }
}

#[test]
fn next_look_uses_the_cached_end_when_a_plan_is_cached() {
    let built = built(Node::default());
    let long_ago = plan(vec![quiet(2000)]);
    for (until, expected) in [(1_003_000, 3000), (1_200_000, 10_000), (1_000_000, 1000)] {
        let next = next_look(&built, &long_ago, &ValidatedCommands::default(), Duration::ZERO, Some(Millis(until)));
        assert_eq!(next, Duration::from_millis(expected), "at rest until {until}");
    }
}

#[test]
fn ask_together_batches_freed_nodes_and_respects_the_pause() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let rows = [
        ("long after a plan of no length", 0, &[5000, 5100, 5190][..], 5200),
        ("within the least pause", 0, &[100, 900], 1000),
        ("after a plan that took long", 4000, &[100, 3000], 4000),
        ("when the regular look is nearer", 0, &[9900], 10_000),
    ];
    for (what, pause, freed, expected) in rows {
        let plan = NextPass { look: LOOK_AGAIN, pause: Duration::from_millis(pause) };
        let mut looks = ReplanTimer::after(plan, start);
        for moment in freed {
            looks.ask_together(at(moment + 200));
        }
        assert_eq!(looks.due(), at(expected), "{what}");
    }
}

#[test]
fn ask_again_plans_after_the_pause() {
    let start = Instant::now();
    let mut looks = ReplanTimer::after(NextPass { look: LOOK_AGAIN, pause: Duration::from_millis(400) }, start);
    looks.ask_again();
    assert_eq!(looks.due(), start + Duration::from_millis(400));
}
