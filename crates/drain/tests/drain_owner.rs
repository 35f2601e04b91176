//! Drain owner: agent and controller drain one node by the rules of `drain_owner.rs`. Never two at once, and never neither.
//! Either of them hangs, dies and restarts, their clocks differ, their views are old, and every message is delayed.

#[path = "drain_owner/simulation.rs"]
mod simulation;

use std::time::Duration;

use drain::{
    AgentOwnership, Drain, MARK_ABANDONED, MARK_HOLDS, Millis, NodeReading, OwnershipStep, PodOnNode, QUIET,
    READING_HOLDS, Settings,
};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use simulation::{Fault, Script, Simulation, T0};

fn at(seconds: u64) -> Millis {
    T0 + Duration::from_secs(seconds)
}

fn reading(mark: Option<&'static str>) -> Option<NodeReading<'static>> {
    Some(NodeReading { mark, has_heartbeat: true })
}

#[test]
fn until_permits_evictions_only_after_a_reading_without_mark() {
    let rows = [
        ("nothing was read", None, false),
        ("no mark", reading(None), true),
        ("a mark", reading(Some("m")), false),
        (
            "no sign of life that a controller could have seen",
            Some(NodeReading { mark: None, has_heartbeat: false }),
            false,
        ),
    ];
    for (what, read, asks) in rows {
        let mut ownership = AgentOwnership::default();
        assert_eq!(ownership.first(T0), Some(OwnershipStep::Read), "{what}");
        assert_eq!(ownership.first(T0), None, "{what}: it is under way");
        ownership.read(T0, at(1), read);
        assert_eq!(ownership.until(at(1)).is_some(), asks, "{what}");
        let end = T0 + READING_HOLDS;
        assert_eq!(
            ownership.until(at(1)),
            Some(end).filter(|_| asks),
            "{what}: from when it began, not from its answer"
        );
        assert_eq!(ownership.until(end), None, "{what}");
    }
}

#[test]
fn saw_blocks_the_agent_even_if_an_older_reading_had_no_mark() {
    let mut ownership = AgentOwnership::default();
    assert_eq!(ownership.first(T0), Some(OwnershipStep::Read));
    ownership.observe_mark("m", at(1));
    ownership.read(T0, at(2), reading(None));
    assert!(
        ownership.is_controller_owner() && ownership.until(at(2)).is_none(),
        "it may have been read before the mark was made"
    );
    assert_eq!(ownership.first(at(12)), Some(OwnershipStep::Read));
    ownership.read(at(12), at(12), reading(None));
    assert!(!ownership.is_controller_owner() && ownership.until(at(12)).is_some());
}

#[test]
fn first_removes_a_mark_that_is_unchanged_for_60_seconds() {
    let mut ownership = AgentOwnership::default();
    let (mut read, mut taken) = (0, None);
    for second in 0..200 {
        match ownership.first(at(second)) {
            Some(OwnershipStep::Read) => {
                read += 1;
                // The mark is renewed once, after 30 s.
                let mark = if second < 30 { "m" } else { "n" };
                ownership.read(at(second), at(second), reading(Some(mark)));
            }
            Some(OwnershipStep::RemoveMark(mark_text)) => {
                assert_eq!(mark_text, "n");
                taken.get_or_insert(second);
                ownership.read(at(second), at(second), reading(Some("n")));
            }
            None => {}
        }
    }
    let taken = taken.expect("it is taken away");
    assert!((30 + MARK_ABANDONED.as_secs()..30 + MARK_ABANDONED.as_secs() + 20).contains(&taken), "{taken}");
    assert!(read < 60, "{read} readings");
}

fn wanting() -> Drain {
    let mut drain = Drain::new(Settings::for_termination(None, 1), T0);
    let pod = PodOnNode { uid: "a".into(), owner_kind: Some("ReplicaSet".into()), ..PodOnNode::default() };
    drain.pods(T0, vec![pod]);
    drain
}

#[test]
fn relieve_requires_a_mark_and_a_quiet_time_before_evictions() {
    let mut drain = wanting();
    assert_eq!(drain.take_over(T0, None, true), None, "it signs");
    assert!(drain.take_over(at(1), Some(T0), true).is_some());
    assert!(drain.step(at(1)).is_empty(), "and waits");
    let quiet = at(1) + QUIET;
    assert_eq!(drain.poll_timeout(at(1)), Some(quiet));
    assert_eq!(drain.take_over(quiet, Some(T0), true), Some(T0 + MARK_HOLDS));
    let mut late = drain.clone();
    assert_eq!(drain.step(quiet).len(), 1, "and asks");
    assert_eq!(late.take_over(T0 + MARK_HOLDS, Some(T0), true), None, "on the strength of a mark that it has renewed");
    assert!(drain.take_over(T0 + MARK_HOLDS, Some(T0), true).is_some(), "nothing is to be asked: nothing to sign for");
}

#[test]
fn relieve_does_not_wait_when_the_node_has_no_agent() {
    let mut drain = wanting();
    drain.sign();
    assert!(drain.take_over(T0, Some(T0), false).is_some());
    assert_eq!(drain.step(T0).len(), 1);
    let mut successor = wanting();
    assert_eq!(successor.take_over(at(1), Some(T0), false), None, "the clock of that time is unknown");
    assert!(successor.take_over(at(2), Some(at(1)), false).is_some());
    assert_eq!(successor.step(at(2)).len(), 1);
}

fn any_fault() -> impl Strategy<Value = (Millis, Fault)> {
    let span = || prop_oneof![0_u64..8, 0_u64..40, 60_u64..150];
    let fault = prop_oneof![
        3 => span().prop_map(Fault::AgentHangs),
        2 => span().prop_map(Fault::AgentDies),
        3 => span().prop_map(Fault::ControllerHangs),
        2 => span().prop_map(Fault::ControllerDies),
        2 => span().prop_map(Fault::ControllerSeesOld),
        2 => (0_u64..30).prop_map(Fault::ControllerIsImpatient),
        1 => span().prop_map(Fault::AgentIsRefused),
    ];
    ((0_u64..300).prop_map(at), fault)
}

fn any_script() -> impl Strategy<Value = Script> {
    (
        proptest::collection::vec(any_fault(), 0..14),
        proptest::collection::vec(prop_oneof![4 => 0_u64..300, 1 => 0_u64..5000], 1..40),
        proptest::collection::vec(0_u32..60, 1..4),
        proptest::option::weighted(0.5, 60_u64..400),
        prop_oneof![2 => Just(0_i64), 1 => -40_i64..40],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(faults, delays, refusals, deadline, skew, agent_signed, agent_survives)| Script {
            faults,
            delays,
            refusals,
            deadline: deadline.map(at),
            skew,
            agent_signed,
            agent_survives,
        })
}

proptest! {
    // The simulation asserts at every request that never two owners send requests at once: see simulation.rs.
    #[test]
    fn drain_has_one_owner_at_a_time_and_ends_when_one_survives(script in any_script()) {
        let mut simulation = Simulation::new(script);
        simulation.run_until(at(300));
        simulation.stop_the_other_program();
        simulation.run_until(at(2000));
        assert!(simulation.is_empty(), "{:?} are left", simulation.left());
    }
}
