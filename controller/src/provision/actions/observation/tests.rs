//! Tests of the records of observe mode: each action once.

use api::decisions::{Decision, DecisionKind};
use jiff::Timestamp;
use planner::CommandReason;
use serde_json::json;

use super::{NamedObjects, PlanActions};
use crate::fixture::{at, claim};
use crate::provision::actions::PlannedClaim;
use crate::reconcile::disruption::DisruptionCommand;

fn record(kind: DecisionKind) -> Decision {
    Decision {
        nodepools: ["general"].into_iter().collect(),
        nodeclaims: ["general-new"].into_iter().collect(),
        instance_types: ["m7g.large"].into_iter().collect(),
        ..Decision::new(Timestamp::UNIX_EPOCH, kind, "test")
    }
}

/// Returns the actions of a plan that launches a node for these pods.
fn launch(pods: &[&str]) -> PlanActions {
    let planned = PlannedClaim {
        claim: claim(&json!({})).as_ref().clone(),
        pods: pods.iter().map(|uid| (*uid).to_owned()).collect(),
        groups: Default::default(),
        record: record(DecisionKind::Created),
    };
    PlanActions { launches: vec![planned], ..PlanActions::default() }
}

/// Returns the actions of a plan that replaces the nodes of these NodeClaims.
fn command(claims: &[&str]) -> PlanActions {
    let start = Decision {
        nodeclaims: claims.iter().copied().collect(),
        replacements: ["general-new"].into_iter().collect(),
        instance_types: Default::default(),
        ..record(DecisionKind::Disrupting)
    };
    let order = DisruptionCommand {
        records: vec![start, record(DecisionKind::Created)],
        reason: CommandReason::Underutilized,
        claims: claims.iter().map(|claim| (*claim).to_owned()).collect(),
        unhealthy: None,
        replacements: Vec::new(),
        places: Default::default(),
    };
    PlanActions { orders: vec![order], ..PlanActions::default() }
}

#[test]
fn launch_is_recorded_once_for_its_pods() {
    let mut named = NamedObjects::default();
    let mut count = |second, pods: &[&str]| named.news(&launch(pods), at(second)).len();
    assert_eq!(count(0, &["a", "b"]), 1);
    assert_eq!(count(10, &["a", "b"]), 0, "Karpenter has not launched yet");
    assert_eq!(count(20, &["a", "c"]), 1, "c is new");
    assert_eq!((count(30, &[]), count(40, &[])), (1, 0), "a static NodePool");
    assert_eq!(count(20 + 15 * 60, &["a"]), 1, "no plan has named a for 15 minutes");
}

#[test]
fn records_name_no_object_that_does_not_exist() {
    let mut named = NamedObjects::default();
    let created = named.news(&launch(&["a"]), at(0)).remove(0);
    assert_eq!((created.kind, created.nodeclaims.count), (DecisionKind::WouldCreate, 0));
    let started = named.news(&command(&["general-old"]), at(0)).remove(0);
    assert_eq!((started.kind, started.replacements.count), (DecisionKind::WouldDisrupt, 0));
    assert_eq!(
        (started.nodeclaims.listed(9), started.instance_types.listed(9)),
        ("general-old".to_owned(), "m7g.large".to_owned())
    );
    assert_eq!(named.news(&command(&["general-old"]), at(10)), []);
}
