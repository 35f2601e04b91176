//! Launches under all faults at once. Every call to EC2 and to the API server can fail, be slow, or lose its reply, offerings
//! become unavailable, and lists are stale. NodeClaims are created and deleted, and the controller is killed repeatedly. In the
//! end every NodeClaim has exactly one instance, every instance has a NodeClaim, and no launch template is left.
//!
//! Launcher, reconciler, gc and the fake of EC2 are the real ones. The API server is a map with a part of the Kubernetes API.
//! The clock is paused and advances when every task waits, so the result does not depend on the machine. `make soak` runs 2,000
//! NodeClaims and 20 kills (`KERF_SOAK_CLAIMS`, `KERF_SOAK_KILLS`, `KERF_SOAK_SEED`).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "soak/fixture.rs"]
mod fixture;
#[path = "soak/leaks.rs"]
mod leaks;
#[path = "soak/refusals.rs"]
mod refusals;
#[path = "soak/trouble.rs"]
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::label;
use api::status::Conditioned;
use cloud::fake::{FakeCloud, Pool};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use simulator::api_server::{ApiServer, CLAIMS};
use simulator::chance::Chance;
use simulator::classes;
use simulator::classes::claim;
use simulator::clock::{OfTokio, of_tokio};
use simulator::controller_run::ControllerRun;
use simulator::surroundings::Surroundings;
use trouble::begin;

const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];
const TYPES: [&str; 6] = ["m5.large", "m5.xlarge", "c5.large", "c5.xlarge", "r5.large", "m6i.large"];
/// Number of NodeClaims that are created together.
const WAVE: u64 = 40;
/// Interval of the kubelet models.
const KUBELETS: Duration = Duration::from_secs(2);

/// Returns a number from the environment, or `usual`, the value of the daily tests.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Returns a requirement that a label has one of `values`.
fn one_of(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// Returns a NodeClaim with random requirements.
fn any_claim(number: u64, chance: &Chance) -> Value {
    let mut kinds: Vec<&str> = TYPES.into_iter().filter(|_| chance.one_in(2)).collect();
    kinds.push(TYPES[chance.below(6)]);
    let ways: &[&str] = if chance.one_in(5) { &["spot"] } else { &["spot", "on-demand"] };
    let mut requirements = vec![one_of(label::INSTANCE_TYPE, &kinds), one_of(label::CAPACITY_TYPE, ways)];
    if chance.one_in(3) {
        requirements.push(one_of(label::ZONE, &[ZONES[chance.below(3)]]));
    }
    claim(number, &requirements)
}

#[tokio::test(start_paused = true)]
async fn soak_keeps_one_instance_per_nodeclaim_under_all_faults() {
    let (claims, kills) = (number("KERF_SOAK_CLAIMS", 200), number("KERF_SOAK_KILLS", 3));
    let chance = Arc::new(Chance::new(number("KERF_SOAK_SEED", 1)));
    let ec2 = FakeCloud::builder("us-west-2").only_types(&TYPES).clock(OfTokio);
    let ec2 = ec2.invisible_for(SignedDuration::from_secs(5)).build().unwrap();
    let server = Arc::new(ApiServer::new(of_tokio));
    let _kubelets = JoinSet::from_iter([Surroundings::new(Arc::clone(&server), ec2.clone(), of_tokio).live(KUBELETS)]);
    let mut controller_run = begin(&ec2, &server, &chance).await;
    let (waves, mut killed) = (claims.div_ceil(WAVE), 0);
    for wave in 0..waves {
        for number in wave * WAVE..claims.min((wave + 1) * WAVE) {
            server.create(CLAIMS, any_claim(number, &chance));
        }
        controller_run.gather();
        stock_up(&ec2, &chance);
        ration(&ec2, &chance);
        let unresolved = chance.one_in(4);
        if unresolved {
            trouble::unresolve(&controller_run);
        }
        tokio::time::sleep(Duration::from_millis(2000 + chance.below(8000) as u64)).await;
        if unresolved {
            classes::learn(&ec2, &controller_run.offerings).await;
            // A reconcile without a resolved EC2NodeClass is repeated after a second.
            tokio::time::sleep(Duration::from_millis(1200)).await;
        }
        for claim in server.claims().iter().filter(|claim| settled(claim) && chance.one_in(30)) {
            server.delete(CLAIMS, &name(claim));
        }
        while killed * waves < kills * (wave + 1) {
            tokio::time::sleep(Duration::from_millis(chance.below(6000) as u64)).await;
            controller_run.kill();
            controller_run = begin(&ec2, &server, &chance).await;
            killed += 1;
        }
    }
    chance.calm_down();
    for capacity_type in ["spot", "on-demand"] {
        ec2.set_quota(capacity_type, None);
    }
    settle(&server).await;
    // The interval of gc and its grace period fit into this time.
    tokio::time::sleep(Duration::from_secs(160)).await;
    settle(&server).await;
    check(&ec2, &server);
    check_templates(&ec2, &controller_run).await;
    println!("{claims} claims, {killed} kills: {}", trouble::scenario(&ec2, &chance));
}

/// Gives some offerings a small number of instances, so that they become unavailable.
fn stock_up(ec2: &FakeCloud, chance: &Chance) {
    for _ in 0..4 {
        let pool = Pool::new("spot", TYPES[chance.below(6)], ZONES[chance.below(3)]);
        let left = u32::try_from(chance.below(6)).unwrap();
        ec2.set_stock(pool, (!chance.one_in(4)).then_some(left));
    }
}

/// Changes the quotas of the account: sometimes one capacity type cannot be launched, regardless of its capacity.
fn ration(ec2: &FakeCloud, chance: &Chance) {
    for capacity_type in ["spot", "on-demand"] {
        let vcpus = u32::try_from(chance.below(400)).unwrap();
        ec2.set_quota(capacity_type, chance.one_in(4).then_some(vcpus));
    }
}

/// Waits until every NodeClaim is launched or deleted.
async fn settle(server: &ApiServer) {
    for _ in 0..3600 {
        let open: Vec<String> = server.claims().iter().filter(|claim| !settled(claim)).map(name).collect();
        if open.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let open: Vec<_> = server.claims().into_iter().filter(|claim| !settled(claim)).collect();
    panic!("{} claims are not settled, such as {:#?}", open.len(), open.first());
}

fn settled(claim: &api::NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_none() && claim.is_true(api::condition::LAUNCHED)
}

fn name(claim: &api::NodeClaim) -> String {
    claim.metadata.name.clone().unwrap_or_default()
}

/// Asserts that NodeClaims and running instances match one to one.
fn check(ec2: &FakeCloud, server: &ApiServer) {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for claim in server.claims() {
        let id = claim.status.as_ref().map(|status| status.provider_id.clone()).unwrap_or_default();
        let other = owners.insert(id.clone(), name(&claim));
        assert_eq!(other, None, "{} has the same instance {id}", name(&claim));
    }
    let alive = ec2.machines().into_iter().filter(|machine| !machine.instance.is_ending());
    let alive: BTreeSet<String> = alive.map(|machine| machine.instance.provider_id()).collect();
    let owned: BTreeSet<String> = owners.keys().cloned().collect();
    let lost: Vec<_> = owned.difference(&alive).collect();
    let leaked: Vec<_> = alive.difference(&owned).collect();
    assert!(lost.is_empty() && leaked.is_empty(), "claims without their instance: {lost:?}, leaked: {leaked:?}");
    assert!(!owned.is_empty(), "nothing was launched at all");
    let ever = server.owned();
    let unowned = ec2.machines().into_iter().map(|machine| machine.instance.provider_id());
    let unowned: Vec<String> = unowned.filter(|id| !ever.contains(id)).collect();
    assert!(unowned.is_empty(), "launched although some claim had been launched already: {unowned:?}");
}

/// Asserts that the templates of all instances exist, and that gc deletes every template once none is in use.
async fn check_templates(ec2: &FakeCloud, controller_run: &ControllerRun) {
    let used: BTreeSet<String> = ec2.machines().into_iter().map(|machine| machine.template.name).collect();
    let there: BTreeSet<String> = ec2.template_names().into_iter().collect();
    assert!(there.is_superset(&used), "{used:?} were used, {there:?} are there");
    trouble::collect_templates(controller_run, of_tokio()).await;
    assert_eq!(ec2.template_names().len(), there.len(), "they were used just now");
    trouble::collect_templates(controller_run, of_tokio() + SignedDuration::from_hours(2)).await;
    assert_eq!(ec2.template_names(), [] as [String; 0]);
}
