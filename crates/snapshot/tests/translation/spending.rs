//! SpendPolicies, and what a plan does above a limit of the cost.

use planner::{MicroDollars, MinimumSavings, PreferencePremium, SpendLimit};
use serde_json::{Value, json};
use snapshot::{Settings, SnapshotResult};

use super::objects::{Cluster, machine, merged, pool};

fn policy(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "kerf.sh/v1alpha1", "kind": "SpendPolicy", "metadata": {"name": name}, "spec": spec})
}

/// Returns a cluster with these policies, NodePools of two teams, and a node in NodePool `default`.
fn teams(policies: Vec<Value>) -> Cluster {
    let team = |name: &str, team: &str| merged(pool(name, json!({})), json!({"metadata": {"labels": {"team": team}}}));
    let (node, claim) = machine("n1", json!({}));
    Cluster {
        pools: vec![team("batch", "research"), team("default", "web"), team("web", "web")],
        nodes: vec![node],
        claims: vec![claim],
        spend_policies: policies,
        ..Cluster::default()
    }
}

/// Returns each limit as name, dollars per hour and NodePools.
fn limits(built: &SnapshotResult) -> Vec<(String, i64, String)> {
    let text = |limit: &SpendLimit| {
        let pools: Vec<&str> = limit.pools.iter().map(String::as_str).collect();
        (limit.name.clone(), limit.limit.0 / 1_000_000, pools.join(" "))
    };
    built.snapshot.spend_limits.iter().map(text).collect()
}

#[test]
fn policies_limit_the_pools_that_they_select() {
    let policies = vec![
        policy("all", json!({"maxCostPerHour": "9"})),
        policy("none", json!({"maxCostPerHour": "1", "nodePoolSelector": {"matchLabels": {"team": "shop"}}})),
        policy("soft", json!({"softCostPerHour": "3"})),
        policy("web", json!({"maxCostPerHour": "5", "nodePoolSelector": {"matchLabels": {"team": "web"}}})),
    ];
    let settings = Settings { cost_limit: Some(MicroDollars(20_000_000)), ..Settings::default() };
    let built = Cluster { settings, ..teams(policies) }.build();
    let row = |name: &str, dollars: i64, pools: &str| (name.to_owned(), dollars, pools.to_owned());
    assert_eq!(
        limits(&built),
        [
            row(SpendLimit::OF_ALL_NODES, 20, "batch default web"),
            row("the cost of SpendPolicy all", 9, "batch default web"),
            row("the cost of SpendPolicy none", 1, ""),
            row("the cost of SpendPolicy web", 5, "default web"),
        ]
    );
    let cost = built.snapshot.pools[1].cost;
    assert!(cost.0 > 0);
    let costs: Vec<MicroDollars> = built.snapshot.spend_limits.iter().map(|limit| limit.cost).collect();
    assert_eq!(costs, [cost, cost, MicroDollars(0), cost]);
    let states: Vec<(usize, MicroDollars)> =
        built.spending.iter().map(|state| (state.pools.len(), state.cost)).collect();
    assert_eq!(states, [(3, cost), (0, MicroDollars(0)), (3, cost), (2, cost)]);
}

/// The cost of a NodePool that launches nothing now still counts, and its NodePool is selected.
#[test]
fn nodes_of_pools_that_are_not_ready_count() {
    let mut cluster = teams(vec![policy("all", json!({"maxCostPerHour": "9"}))]);
    let before = cluster.build().snapshot.spend_limits[0].clone();
    cluster.pools[1]["status"]["conditions"] = json!([]);
    let after = cluster.build().snapshot.spend_limits[0].clone();
    assert_eq!((after.cost, after.pools.len()), (before.cost, before.pools.len() - 1));
}

#[test]
fn windows_apply_at_the_time_of_the_snapshot() {
    let windows = json!([{"schedule": "0 20 * * *", "duration": "8h", "maxCostPerHour": "1"}]);
    let night = policy("night", json!({"maxCostPerHour": "9", "windows": windows}));
    let at = |now| limits(&Cluster { now: Some(now), ..teams(vec![night.clone()]) }.build())[0].1;
    assert_eq!([at("2026-11-21T19:59:59Z"), at("2026-11-21T20:00:00Z"), at("2026-11-22T04:00:00Z")], [9, 1, 9]);
}

#[test]
fn invalid_policy_permits_no_launch_and_is_reported() {
    let windows = json!([{"schedule": "at night", "duration": "8h", "maxCostPerHour": "1"}]);
    let built = teams(vec![policy("night", json!({"maxCostPerHour": "9", "windows": windows}))]).build();
    assert_eq!(limits(&built)[0].1, 0);
    let texts: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 1);
    let expected = "SpendPolicy night: permits no launch until it is corrected: spec.windows[0].schedule: \"at night\"";
    assert!(texts[0].starts_with(expected), "{texts:?}");
    let subjects = built.problems[0].about();
    assert_eq!((subjects[0].kind, subjects[0].name.as_str()), ("SpendPolicy", "night"));
}

#[test]
fn spent_budget_permits_no_launch_until_the_month_ends() {
    let mut month = policy("month", json!({"maxCostPerMonth": "100"}));
    month["status"] = json!({
        "costPerHour": "1", "costThisMonth": "100.5", "countedSince": "2026-11-01T00:00:00Z",
        "countedUntil": "2026-11-21T12:00:00Z", "conditions": [],
    });
    let at = |now| limits(&Cluster { now: Some(now), ..teams(vec![month.clone()]) }.build());
    let expected = ("the cost per month of SpendPolicy month".to_owned(), 0, "batch default web".to_owned());
    assert_eq!(at("2026-11-21T12:00:00Z"), [expected]);
    assert_eq!(at("2026-12-01T00:00:00Z"), []);
}

/// Above a limit, soft or not, preferences cost nothing and no saving is too small, in the NodePools of the limit only.
#[test]
fn pools_above_a_limit_accept_any_saving() {
    let web = json!({"matchLabels": {"team": "web"}});
    let annotated = |mut cluster: Cluster| {
        cluster.pools[1]["metadata"]["annotations"] = json!({"kerf.sh/max-cost-per-hour": "0.0001"});
        cluster
    };
    let rows = [
        ("within", teams(vec![policy("web", json!({"softCostPerHour": "9", "nodePoolSelector": web}))]), ""),
        (
            "above the soft limit",
            teams(vec![policy("web", json!({"softCostPerHour": "0.0001", "nodePoolSelector": web}))]),
            "default web",
        ),
        (
            "above the limit",
            teams(vec![policy("web", json!({"maxCostPerHour": "0.0001", "nodePoolSelector": web}))]),
            "default web",
        ),
        ("above the annotation", annotated(teams(vec![])), "default"),
    ];
    for (name, cluster, expected) in rows {
        let built = cluster.build();
        let saves = |pool: &&planner::Pool| {
            let worth = MinimumSavings { share: 0, per_pod: MicroDollars(0), ..MinimumSavings::default() };
            pool.preference_premium == Some(PreferencePremium::Percent(0)) && pool.disruption.worth == worth
        };
        let found: Vec<&str> = built.snapshot.pools.iter().filter(saves).map(|pool| pool.name.as_str()).collect();
        assert_eq!(found.join(" "), expected, "{name}");
    }
}
