//! Commitments: they pay for no more than they have, and no pod loses its place because of them.

use std::sync::Arc;

use planner::{Commitment, Plan, Snapshot, check, label, plan};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::{collection, option, prop_assert, sample};

use crate::applied;
use crate::clusters::{Cluster, cluster};

/// Random commitment: its amount, the number of instance types that it does not pay for, and its zone.
type Draft = (i64, usize, Option<&'static str>);

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let zone = option::weighted(0.3, sample::select(vec!["a", "b", "c"]));
    collection::vec((0i64..300_000, 0usize..4, zone), 1..3)
}

/// Adds the commitments and lets them pay for the nodes.
fn commit(snapshot: &mut Snapshot, drafts: &[Draft]) {
    for (position, (left, skipped, zone)) in drafts.iter().enumerate() {
        let types = snapshot.catalogues.iter().flat_map(|it| &it.types).skip(*skipped);
        let used = |kind: &planner::InstanceType| kind.offerings.iter().map(|it| it.price.0 * 900).max().unwrap_or(1);
        snapshot.commitments.push(Commitment {
            name: format!("commitment-{position}"),
            left: *left,
            uses: Arc::new(types.map(|kind| (kind.name.clone(), used(kind))).collect()),
            zone: zone.map(str::to_owned),
        });
    }
    snapshot.pay_for_nodes();
}

/// Returns what the launches use of a commitment if each gets the first of its types.
fn used(plan: &Plan, commitment: &Commitment) -> i64 {
    let own = plan.launches.iter().filter(|launch| launch.commitment.as_ref() == Some(&commitment.name));
    own.map(|launch| commitment.use_of(&launch.instance_types[0]).unwrap()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn commitments_pay_for_no_more_than_they_have(
        Cluster(mut snapshot) in cluster(),
        drafts in drafts(),
        twice in any::<bool>(),
    ) {
        commit(&mut snapshot, &drafts);
        if twice {
            snapshot = applied::to(&snapshot, &plan(&snapshot));
        }
        let plan = plan(&snapshot);
        let findings = check(&snapshot, &plan);
        prop_assert!(findings.is_empty(), "{:#?}", findings);
        for commitment in &snapshot.commitments {
            let removed = plan.moves.iter().flat_map(|it| &it.nodes);
            let nodes = removed.filter_map(|it| snapshot.nodes.iter().find(|node| node.name == it.node));
            let shares = nodes.flat_map(|node| &node.paid).filter(|it| it.commitment == commitment.name);
            let released: i64 = shares.map(|it| it.amount).sum();
            let used = used(&plan, commitment);
            prop_assert!(used <= commitment.left + released, "{used} of {} and {released}", commitment.left);
        }
    }

    #[test]
    fn commitments_leave_no_further_pod_without_a_place(Cluster(mut snapshot) in cluster(), drafts in drafts()) {
        // Limits are for fewer nodes if these are larger, and spot shares do not exist here.
        snapshot.pools.iter_mut().for_each(|pool| pool.limits = None);
        let before = super::unplaced(&snapshot, &plan(&snapshot));
        commit(&mut snapshot, &drafts);
        let after = super::unplaced(&snapshot, &plan(&snapshot));
        prop_assert!(after.iter().all(|pod| before.contains(pod)), "{after:?}, without commitments {before:?}");
    }

    /// A commitment that has nothing for any type changes nothing.
    #[test]
    fn used_up_commitment_changes_nothing(Cluster(mut snapshot) in cluster()) {
        let without = plan(&snapshot);
        commit(&mut snapshot, &[(0, 0, None)]);
        prop_assert!(plan(&snapshot).launches == without.launches);
    }
}

#[test]
fn check_finds_launches_that_their_commitment_does_not_pay_for() {
    let commit = |snapshot: &mut Snapshot, plan: &mut Plan, left: i64, kind: &str, zone: Option<&str>| {
        plan.launches[0].commitment = Some("plan".to_owned());
        snapshot.commitments.push(Commitment {
            name: "plan".to_owned(),
            left,
            uses: Arc::new([(kind.to_owned(), 10_000)].into()),
            zone: zone.map(str::to_owned),
        });
    };
    let rows: &[(&str, i64, &str, Option<&str>)] = &[
        ("commitment plan: pays for 10000, has 9999 and 0 of removed nodes", 9_999, "m.large", None),
        ("launch 0: lists a type that commitment plan does not pay for", 10_000, "m.xlarge", None),
        ("launch 0: may become a node that commitment plan does not pay for", 10_000, "m.large", Some("b")),
    ];
    for (expected, left, kind, zone) in rows {
        let mut snapshot = super::cost_limits::one_pod();
        let mut decided = plan(&snapshot);
        commit(&mut snapshot, &mut decided, *left, kind, *zone);
        let findings: Vec<String> = check(&snapshot, &decided).iter().map(ToString::to_string).collect();
        assert!(findings.iter().any(|it| it.contains(expected)), "{expected}: found only {findings:#?}");
    }
    let mut snapshot = super::cost_limits::one_pod();
    let mut decided = plan(&snapshot);
    commit(&mut snapshot, &mut decided, 10_000, "m.large", Some("a"));
    assert!(check(&snapshot, &decided).is_empty());
    assert!(decided.launches[0].requirements.iter().any(|it| it.key == label::CAPACITY_TYPE));
}
