//! Tests of the effect of overlays, factors, fees and in-flight NodeClaims on the catalogue.

use planner::{CapacityType, InstanceType, MicroDollars, PreferencePremium, Resources};
use serde_json::{Value, json};
use snapshot::{OverlayError, Problem, SnapshotResult};

use crate::objects::{Cluster, claim, machine, merged, pool};

fn overlay(name: &str, weight: i32, requirements: Value, spec: Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
        "spec": merged(json!({"requirements": requirements, "weight": weight}), spec),
    })
}

fn only(key: &str, operator: &str, values: Value) -> Value {
    json!([{"key": key, "operator": operator, "values": values}])
}

fn built(overlays: Vec<Value>) -> SnapshotResult {
    Cluster { overlays, pools: vec![pool("a", json!({})), pool("b", json!({}))], ..Cluster::default() }.build()
}

fn kind<'a>(built: &'a SnapshotResult, pool: usize, name: &str) -> &'a InstanceType {
    let catalogue = built.snapshot.pools[pool].catalogue;
    built.snapshot.catalogues[catalogue].types.iter().find(|kind| kind.name == name).unwrap()
}

/// Returns the prices of `m7i.large` in NodePool `a`: on-demand in zone a, spot in zone a, spot in zone b.
fn prices(built: &SnapshotResult) -> Vec<i64> {
    kind(built, 0, "m7i.large").offerings.iter().map(|offering| offering.price.0).collect()
}

#[test]
fn overlay_changes_the_price_of_matching_offerings() {
    let price = |price: &str| json!({"price": price});
    let adjusted = |by: &str| json!({"priceAdjustment": by});
    let plain = || vec![100_000, 40_000, 42_000];
    let rows = [
        ("all", json!([]), price("0.5"), vec![500_000; 3]),
        (
            "a type",
            only("node.kubernetes.io/instance-type", "In", json!(["m7i.large"])),
            price("0.5"),
            vec![500_000; 3],
        ),
        ("another type", only("node.kubernetes.io/instance-type", "In", json!(["m7i.xlarge"])), price("0.5"), plain()),
        (
            "spot",
            only("karpenter.sh/capacity-type", "In", json!(["spot"])),
            price("0.01"),
            vec![100_000, 10_000, 10_000],
        ),
        (
            "a zone",
            only("topology.kubernetes.io/zone", "NotIn", json!(["us-west-2a"])),
            price("0.01"),
            vec![100_000, 40_000, 10_000],
        ),
        (
            "an old key",
            only("failure-domain.beta.kubernetes.io/zone", "In", json!(["us-west-2b"])),
            price("0.01"),
            vec![100_000, 40_000, 10_000],
        ),
        ("a pool", only("karpenter.sh/nodepool", "In", json!(["b"])), price("0.01"), plain()),
        ("small ones", only("karpenter.k8s.aws/instance-cpu", "Lt", json!(["4"])), price("0.01"), vec![10_000; 3]),
        ("an unknown label", only("team", "In", json!(["x"])), price("0.01"), plain()),
        ("no such label", only("team", "DoesNotExist", json!([])), price("0.01"), vec![10_000; 3]),
        ("more", json!([]), adjusted("+0.01"), vec![110_000, 50_000, 52_000]),
        ("less", json!([]), adjusted("-0.041"), vec![59_000, 0, 1000]),
        ("in percent", json!([]), adjusted("-10%"), vec![90_000, 36_000, 37_800]),
        ("for nothing", json!([]), adjusted("-100%"), vec![0; 3]),
    ];
    for (name, requirements, spec, expected) in rows {
        let built = built(vec![overlay("o", 1, requirements, spec)]);
        assert_eq!(prices(&built), expected, "{name}");
        assert!(built.overlays.iter().all(|it| it.error.is_none()), "{name}: {:?}", built.overlays);
        let is_listed = built.overlaid.get("a").is_some_and(|it| it.price.contains("m7i.large"));
        assert_eq!(is_listed, expected != plain(), "{name}");
    }
}

#[test]
fn catalogue_is_separate_only_for_pools_with_changes() {
    let built = built(vec![overlay("o", 1, only("karpenter.sh/nodepool", "In", json!(["b"])), json!({"price": "1"}))]);
    let positions: Vec<usize> = built.snapshot.pools.iter().map(|pool| pool.catalogue).collect();
    assert_eq!((positions, built.snapshot.catalogues.len()), (vec![0, 1], 2));
    assert_eq!(kind(&built, 1, "m7i.xlarge").offerings[0].price, MicroDollars(1_000_000));
}

#[test]
fn overlay_with_greatest_weight_wins_and_capacity_merges() {
    let capacity = |list: Value| json!({"capacity": list});
    let built = built(vec![
        overlay(
            "light",
            1,
            json!([]),
            merged(json!({"price": "1"}), capacity(json!({"example.com/a": "1", "example.com/b": "2"}))),
        ),
        overlay(
            "heavy",
            9,
            json!([]),
            merged(json!({"price": "2"}), capacity(json!({"example.com/a": "7", "hugepages-2Mi": "1Gi"}))),
        ),
    ]);
    assert_eq!(prices(&built), [2_000_000; 3]);
    let kind = kind(&built, 0, "m7i.large");
    let amounts = |list: &Resources| (list.get("example.com/a"), list.get("example.com/b"), list.get("hugepages-2Mi"));
    assert_eq!(amounts(&kind.capacity), (7, 2, 1 << 30));
    assert_eq!(amounts(&kind.allocatable), (7, 2, 1 << 30));
    assert_eq!(kind.allocatable.get(Resources::MEMORY), (2 << 32) - (1 << 30), "huge pages come out of the memory");
    assert!(built.overlaid["a"].capacity.contains("m7i.large"));
}

#[test]
fn overlay_conflicts_with_later_name_when_weights_are_equal() {
    let spot = only("karpenter.sh/capacity-type", "In", json!(["spot"]));
    // The overlays conflict on spot in NodePool a only, but then `b` has no effect in NodePool b either.
    let in_a = json!([{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}]);
    let built = built(vec![
        overlay("c", 5, in_a, json!({"price": "3"})),
        overlay("b", 5, spot, json!({"price": "2"})),
        overlay("a", 4, json!([]), json!({"price": "1"})),
        overlay("z", 4, json!([]), json!({"capacity": {"example.com/a": "1"}})),
    ]);
    assert_eq!(prices(&built), [3_000_000; 3]);
    assert_eq!(kind(&built, 1, "m7i.large").offerings[1].price, MicroDollars(1_000_000));
    let troubles: Vec<(&str, Option<&str>)> =
        built.overlays.iter().map(|it| (it.overlay.as_str(), it.error.as_ref().map(OverlayError::reason))).collect();
    assert_eq!(troubles, [("a", None), ("b", Some("Conflict")), ("c", None), ("z", None)]);
    let message = built.overlays[1].error.as_ref().unwrap().to_string();
    let expected = "conflict with NodeOverlay c of the same weight in the price of m7i.2xlarge in NodePool a: change one of the weights";
    assert_eq!(message, expected);
}

#[test]
fn overlay_conflicts_with_the_lightest_overlay_so_far() {
    let built = built(vec![
        overlay("heavy", 9, json!([]), json!({"price": "3"})),
        overlay("late", 1, json!([]), json!({"price": "2"})),
        overlay("early", 1, json!([]), json!({"price": "1"})),
    ]);
    let troubled: Vec<bool> = built.overlays.iter().map(|it| it.error.is_some()).collect();
    assert_eq!((prices(&built), troubled), (vec![3_000_000; 3], vec![true, false, false]));
}

#[test]
fn overlay_error_names_the_invalid_field() {
    let rows = [
        (json!({"price": "cheap"}), "spec.price"),
        (json!({"priceAdjustment": "10"}), "spec.priceAdjustment"),
        (json!({"price": "1", "priceAdjustment": "+1"}), "remove one of them"),
        (json!({"capacity": {"cpu": "1"}}), "spec.capacity: cpu cannot be changed"),
        (json!({"capacity": {"example.com/a": "some"}}), "spec.capacity.example.com/a: \"some\" is not a quantity"),
        (json!({"requirements": [{"key": "team", "operator": "In"}], "price": "1"}), "label team"),
    ];
    for (spec, expected) in rows {
        let built = built(vec![overlay("o", 1, json!([]), spec.clone())]);
        let trouble = built.overlays[0].error.as_ref().unwrap();
        assert_eq!(trouble.reason(), "RuntimeValidation");
        assert!(trouble.to_string().contains(expected), "{spec}: {trouble}");
        assert_eq!(built.snapshot.catalogues.len(), 1);
    }
}

#[test]
fn preference_premium_of_a_pool_overrides_the_setting() {
    let annotated = |name: &str, premium: &str| {
        let mut pool = pool(name, json!({}));
        pool["metadata"]["annotations"] = json!({"kerf.sh/preference-premium": premium});
        pool
    };
    let pools = vec![pool("a", json!({})), annotated("b", "25%"), annotated("c", "unlimited"), annotated("d", "25")];
    let built = Cluster { pools, ..Cluster::default() }.build();
    let found: Vec<Option<PreferencePremium>> = built.snapshot.pools.iter().map(|it| it.preference_premium).collect();
    assert_eq!(found, [None, Some(PreferencePremium::Percent(25)), Some(PreferencePremium::Unlimited), None]);
    let texts: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    let expected = "NodePool d: annotation kerf.sh/preference-premium is ignored: \"25\" is not a premium: \
                    write a whole percentage up to 1000% such as 10%, or 0, or unlimited";
    assert_eq!(texts, [expected]);
}

/// A limit that cannot be read permits nothing: a limit that fails open would be none.
#[test]
fn limit_of_the_cost_is_the_lower_one_and_zero_when_invalid() {
    let limited = |name: &str, annotation: Option<&str>, limits: Value| {
        let mut pool = pool(name, json!({"limits": limits}));
        pool["metadata"]["annotations"] = json!({});
        if let Some(text) = annotation {
            pool["metadata"]["annotations"]["kerf.sh/max-cost-per-hour"] = json!(text);
        }
        pool
    };
    let pools = vec![
        limited("a", None, json!({"cpu": "10"})),
        limited("b", Some("12.50"), json!({"kerf.sh/max-cost-per-hour": "20"})),
        limited("c", Some("12.50"), json!({"kerf.sh/max-cost-per-hour": 3, "cpu": "10"})),
        limited("d", Some("much"), json!({})),
    ];
    let built = Cluster { pools, ..Cluster::default() }.build();
    let found: Vec<Option<i64>> =
        built.snapshot.pools.iter().map(|pool| pool.cost_limit.map(|limit| limit.0)).collect();
    assert_eq!(found, [None, Some(12_500_000), Some(3_000_000), Some(0)]);
    let limits: Vec<usize> =
        built.snapshot.pools.iter().map(|pool| pool.limits.iter().flat_map(|limits| limits.iter()).count()).collect();
    assert_eq!(limits, [1, 0, 1, 0], "the cost is no resource");
    let texts: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    let expected = "NodePool d: kerf.sh/max-cost-per-hour permits no launch until it is corrected: \"much\" is not a \
                    price: write dollars per hour as a decimal such as 0.096";
    assert_eq!(texts, [expected]);
}

#[test]
fn performance_follows_pool_factors_and_overlays() {
    let mut factors = pool("a", json!({}));
    factors["metadata"]["annotations"] =
        json!({"kerf.sh/performance-factors": "type=m7i.large:1.5,arch=amd64:1.1", "kerf.sh/node-fee": "0.012"});
    let mut odd = pool("b", json!({}));
    odd["metadata"]["annotations"] = json!({"kerf.sh/performance-factors": "size=large:2", "kerf.sh/node-fee": "dear"});
    let mut fast = overlay("fast", 1, only("node.kubernetes.io/instance-type", "In", json!(["m7i.xlarge"])), json!({}));
    fast["metadata"]["annotations"] = json!({"kerf.sh/performance": "2"});
    let built = Cluster { pools: vec![factors, odd], overlays: vec![fast], ..Cluster::default() }.build();
    let of = |pool: usize| ["m7i.2xlarge", "m7i.large", "m7i.xlarge"].map(|name| kind(&built, pool, name).performance);
    assert_eq!(of(0), [Some(1100), Some(1500), Some(2000)]);
    assert_eq!(of(1), [None, None, Some(2000)]);
    assert_eq!(
        (built.snapshot.pools[0].node_fee, built.snapshot.pools[1].node_fee),
        (MicroDollars(12_000), MicroDollars(0))
    );
    assert!(
        matches!(built.problems.as_slice(), [Problem::PerformanceFactors { .. }, Problem::NodeFee { .. }]),
        "{:?}",
        built.problems
    );
}

#[test]
fn node_price_includes_overlays() {
    let (node, claim) = machine("n1", json!({}));
    let overlays = vec![overlay("o", 1, json!([]), json!({"priceAdjustment": "-50%"}))];
    let cluster = Cluster {
        nodes: vec![node],
        claims: vec![claim],
        pools: vec![pool("default", json!({}))],
        overlays,
        ..Cluster::default()
    };
    assert_eq!(cluster.build().snapshot.nodes[0].price, Some(MicroDollars(40_000)));
}

/// A running node costs what EC2 charges. The premium for interruptions and shortages is for the choice of new nodes, so no node is
/// replaced for it. Rows: the change of an overlay, the price of the node, and the premium of a new one.
#[test]
fn node_price_excludes_the_risk_premium() {
    let rows = [
        (json!(null), 80_000, 20_000),
        (json!({"priceAdjustment": "-50%"}), 40_000, 10_000),
        (json!({"priceAdjustment": "+0.01"}), 90_000, 20_000),
        (json!({"price": "0.07"}), 70_000, 0),
    ];
    for (change, charged, premium) in rows {
        let (node, claim) = machine("n1", json!({}));
        let mut catalogue = crate::objects::catalogue();
        for offering in catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
            offering.premium = MicroDollars(offering.price.0 / 4);
            offering.price.0 += offering.premium.0;
        }
        let overlays = (!change.is_null()).then(|| overlay("o", 1, json!([]), change.clone()));
        let cluster = Cluster {
            nodes: vec![node],
            claims: vec![claim],
            pools: vec![pool("default", json!({}))],
            overlays: overlays.into_iter().collect(),
            catalogue: Some(catalogue),
            ..Cluster::default()
        };
        let snapshot = cluster.build().snapshot;
        let node = &snapshot.nodes[0];
        assert_eq!(node.price, Some(MicroDollars(charged)), "{change}");
        let of_price = |price: i64| {
            let types = snapshot.catalogues.iter().flat_map(|catalogue| &catalogue.types);
            types.flat_map(|kind| &kind.offerings).any(|it| it.price.0 == price && it.premium.0 == premium)
        };
        assert!(of_price(charged + premium), "{change}");
    }
}

#[test]
fn reserved_capacity_shrinks_by_claims_in_flight() {
    let wants =
        |ids: Value| json!([{"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": ids}]);
    let mut launched = claim("launched", wants(json!(["cr-1"])));
    launched["status"] = json!({"providerID": "aws:///a/i-1"});
    let claims = vec![claim("one", wants(json!(["cr-1", "cr-2"]))), claim("two", wants(json!(["cr-1"]))), launched];
    let built = Cluster { claims, pools: vec![pool("default", json!({}))], ..Cluster::default() }.build();
    let offerings = built.snapshot.catalogues[0].types.iter().flat_map(|kind| &kind.offerings);
    let left: Vec<(CapacityType, &str, u32)> = offerings
        .filter_map(|it| it.reservation.as_ref().map(|own| (it.capacity_type, own.id.as_str(), own.remaining)))
        .collect();
    assert_eq!(left, [(CapacityType::Reserved, "cr-1", 3), (CapacityType::Reserved, "cr-2", 0)]);
}

#[test]
fn static_pool_counts_its_running_nodes() {
    let (first, of_first) = machine("n1", json!({}));
    let (second, of_second) = machine("n2", json!({}));
    let going = merged(of_second, json!({"metadata": {"deletionTimestamp": crate::objects::NOW}}));
    let mut cluster = Cluster {
        nodes: vec![first, second],
        claims: vec![of_first, going, claim("new", json!([]))],
        pools: vec![pool("default", json!({"replicas": 5}))],
        ..Cluster::default()
    };
    let built = cluster.build();
    let pool = &built.snapshot.pools[0];
    assert_eq!((pool.replicas, pool.running, pool.disruption.consolidate_after), (Some(5), 2, None));
    cluster.settings.static_pools = false;
    assert!(cluster.build().snapshot.pools.is_empty());
}

/// A type without a price is available when an overlay sets an absolute price. An adjustment of an unknown price has no effect.
#[test]
fn overlay_sets_the_price_of_unpriced_offerings() {
    let unpriced = |overlays: Vec<Value>| {
        let mut cluster = Cluster { overlays, pools: vec![pool("a", json!({}))], ..Cluster::default() };
        let mut catalogue = crate::objects::catalogue();
        catalogue.types[1].unpriced = std::mem::take(&mut catalogue.types[1].offerings);
        cluster.catalogue = Some(catalogue);
        let built = cluster.build();
        let kind = kind(&built, 0, "m7i.large");
        let shown =
            kind.offerings.iter().map(|one| (one.zone.clone(), one.capacity_type, one.price.0)).collect::<Vec<_>>();
        let is_listed = built.overlaid.get("a").is_some_and(|it| it.price.contains("m7i.large"));
        assert_eq!(is_listed, !shown.is_empty());
        (shown, kind.unpriced.len())
    };
    let large = || only("node.kubernetes.io/instance-type", "In", json!(["m7i.large"]));
    let spot = || only("karpenter.sh/capacity-type", "In", json!(["spot"]));
    let (a, b) = (|| "us-west-2a".to_owned(), || "us-west-2b".to_owned());
    let price = || json!({"price": "0.5"});
    assert_eq!(unpriced(Vec::new()), (Vec::new(), 3));
    let bought = [(a(), CapacityType::OnDemand), (a(), CapacityType::Spot), (b(), CapacityType::Spot)];
    let bought: Vec<_> = bought.into_iter().map(|(zone, bought)| (zone, bought, 500_000)).collect();
    assert_eq!(unpriced(vec![overlay("o", 1, large(), price())]), (bought.clone(), 0));
    assert_eq!(unpriced(vec![overlay("o", 1, spot(), price())]), (bought[1..].to_vec(), 1));
    assert_eq!(unpriced(vec![overlay("o", 1, large(), json!({"priceAdjustment": "+10%"}))]), (Vec::new(), 3));
}
