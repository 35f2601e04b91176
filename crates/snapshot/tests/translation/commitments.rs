//! Commitments: which nodes use them, and those that cannot be used.

use planner::MicroDollars;
use serde_json::{Value, json};
use snapshot::{CommitmentState, CommitmentUse, SnapshotResult, UnusableCommitment};

use super::objects::{Cluster, machine, pool};

fn commitment(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "kerf.sh/v1alpha1", "kind": "Commitment", "metadata": {"name": name}, "spec": spec})
}

/// Returns a cluster with an on-demand node of the first instance type with on-demand offerings, and the name and price of this type.
fn cluster(commitments: impl FnOnce(&str) -> Vec<Value>) -> (Cluster, MicroDollars) {
    let labels = json!({"karpenter.sh/capacity-type": "on-demand"});
    let (node, claim) = machine("n1", json!({"metadata": {"labels": labels}}));
    let kind = node["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str().unwrap().to_owned();
    let cluster = Cluster {
        pools: vec![pool("default", json!({}))],
        commitments: commitments(&kind),
        nodes: vec![node],
        claims: vec![claim],
        ..Cluster::default()
    };
    let price = cluster.build().snapshot.nodes[0].price.unwrap();
    (cluster, price)
}

fn state<'b>(built: &'b SnapshotResult, name: &str) -> &'b CommitmentState {
    built.commitments.iter().find(|it| it.commitment == name).unwrap()
}

#[test]
fn nodes_use_commitments_in_the_order_of_ec2() {
    let (cluster, price) = cluster(|kind| {
        vec![
            commitment("a-plan", json!({"savingsPlan": {"costPerHour": "10", "discountPercent": 40}})),
            commitment("b-bought", json!({"reservedInstances": {"instanceType": kind, "count": 2}})),
        ]
    });
    let built = cluster.build();
    let names: Vec<&str> = built.snapshot.commitments.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["b-bought", "a-plan"]);
    let paid = &built.snapshot.nodes[0].paid;
    assert_eq!((paid.len(), paid[0].commitment.as_str(), paid[0].price), (1, "b-bought", price));
    let used = CommitmentUse { amount: 2_000_000, used: 1_000_000, nodes: 1, covered: price };
    assert_eq!(state(&built, "b-bought").verdict, Ok(used));
    assert_eq!(used.used_percent(), "50.0");
    let unused = CommitmentUse { amount: 10_000_000, ..CommitmentUse::default() };
    assert_eq!(state(&built, "a-plan").verdict, Ok(unused));
    assert!(built.problems.is_empty(), "{:?}", built.problems);
}

#[test]
fn savings_plan_pays_at_its_rate() {
    let plan = json!({"costPerHour": "10", "discountPercent": 40});
    let (cluster, price) = cluster(|_| vec![commitment("plan", json!({"savingsPlan": plan, "sharePercent": 10}))]);
    let built = cluster.build();
    let rate = price.0 * 60 / 100;
    let used = CommitmentUse { amount: 1_000_000, used: rate, nodes: 1, covered: price };
    assert_eq!(state(&built, "plan").verdict, Ok(used));
    assert_eq!(built.snapshot.commitments[0].left, 1_000_000 - rate);
    assert_eq!(built.snapshot.nodes[0].unpaid_price(), Some(MicroDollars(0)));
}

#[test]
fn unusable_commitments_are_reported_with_their_reason() {
    let plan = json!({"costPerHour": "1", "discountPercent": 40});
    let (cluster, _) = cluster(|_| {
        vec![
            commitment("ended", json!({"savingsPlan": plan, "endTime": "2020-01-01T00:00:00Z"})),
            commitment("later", json!({"savingsPlan": plan, "startTime": "2099-01-01T00:00:00Z"})),
            commitment("nothing", json!({"reservedInstances": {"instanceType": "zz9.large", "count": 1}})),
            commitment("wrong", json!({"savingsPlan": {"costPerHour": "much", "discountPercent": 40}})),
        ]
    });
    let built = cluster.build();
    assert!(built.snapshot.commitments.is_empty() && built.snapshot.nodes[0].paid.is_empty());
    assert_eq!(state(&built, "ended").verdict, Err(UnusableCommitment::Ended));
    assert_eq!(state(&built, "later").verdict, Err(UnusableCommitment::NotStarted));
    assert_eq!(state(&built, "nothing").verdict, Err(UnusableCommitment::NoTypes));
    assert!(matches!(&state(&built, "wrong").verdict, Err(UnusableCommitment::Invalid(faults)) if faults.len() == 1));
    let problems: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "Commitment nothing: no EC2NodeClass has an on-demand instance type for which it pays",
            "Commitment wrong: pays for nothing until it is corrected: spec.savingsPlan.costPerHour: \"much\" is not a price: \
             write dollars per hour as a decimal such as 0.096",
        ]
    );
    let subjects = built.problems[1].about();
    assert_eq!((subjects[0].kind, subjects[0].name.as_str()), ("Commitment", "wrong"));
}
