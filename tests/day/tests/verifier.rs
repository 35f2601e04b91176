//! Tests of the checker: each forbidden change to a quiet cluster must produce a breach, and each permitted change must not.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::sync::Arc;

use api::nodeclaim::NodeClaimSpec;
use api::status::Conditioned;
use api::{NodeClaim, NodePool, annotation, condition};
use day::app::App;
use day::audit::Cause;
use day::budget::{Allowed, Budget, Window};
use day::clock::{HOUR, MINUTE, Moment, START, timestamp};
use day::market::Instance;
use day::setup::{Pool, Setup};
use day::simulation::Simulation;
use day::trace::Event;
use planner::CommandReason;

/// Quiet cluster that a test changes directly.
struct Fixture(Simulation);

impl Fixture {
    /// Creates twelve pods with anti-affinity, each on its own node.
    fn on(app: App) -> Self {
        Self::within(app, vec![Budget::always(Allowed::Percent(100))])
    }

    fn within(app: App, budgets: Vec<Budget>) -> Self {
        let pools = vec![Pool { budgets, ..Pool::fixed(Allowed::Nodes(0)) }];
        let mut simulation = Simulation::new(&Setup { duds: 0, pools, ..Setup::default() }).unwrap();
        simulation.at(START, Event::Come(App { name: "web".to_owned(), wanted: 12, apart: true, ..app }));
        simulation.run(START + 10 * MINUTE);
        assert_eq!(simulation.cluster_state.nodes.len(), 12);
        assert_eq!(simulation.audit.breaches, []);
        Self(simulation)
    }

    fn pod(&self, position: usize) -> String {
        self.0.cluster_state.pods.keys().nth(position).unwrap().clone()
    }

    fn claim(&self, position: usize) -> String {
        self.0.cluster_state.claims.keys().nth(position).unwrap().clone()
    }

    /// Requests the eviction or deletion of a pod.
    fn asks(&mut self, pod: &str, cause: Cause, forced: bool) {
        self.0.audit.leaves_because(&self.0.cluster_state, pod, cause, forced);
    }

    /// Sets the disruption reason of NodeClaims.
    fn takes(&mut self, claims: impl IntoIterator<Item = usize>, reason: CommandReason) {
        let at = timestamp(self.0.cluster_state.now);
        for claim in claims.into_iter().map(|position| self.claim(position)).collect::<Vec<_>>() {
            self.edit(&claim, |claim| {
                claim.set(condition::DISRUPTION_REASON, condition::TRUE, reason.as_str(), "", at);
            });
        }
    }

    fn edit(&mut self, claim: &str, change: impl FnOnce(&mut NodeClaim)) {
        change(Arc::make_mut(self.0.cluster_state.claims.get_mut(claim).unwrap()));
    }

    /// Sets the moment since which a pod is terminating.
    fn end(&mut self, pod: &str) {
        self.0.cluster_state.pods.get_mut(pod).unwrap().ending = Some(self.0.cluster_state.now);
    }

    /// Adds an instance with the tag of a NodeClaim.
    fn another_instance(&mut self, claim: &str) -> String {
        let instances = &mut self.0.cluster_state.market.instances;
        let like = instances.values().next().unwrap().clone();
        let id = format!("another-{claim}");
        instances.insert(id.clone(), Instance { id: id.clone(), claim: claim.to_owned(), ..like });
        id
    }

    /// Advances the clock and runs the checker.
    fn look(&mut self, later: Moment) {
        self.0.cluster_state.now += later;
        self.0.audit.step(&self.0.cluster_state);
    }

    fn nothing_is_seen(&self) {
        assert_eq!(self.0.audit.breaches, []);
    }

    /// Asserts exactly one breach, which contains `words`.
    fn is_seen(&self, words: &str) {
        let seen: Vec<&String> = self.0.audit.breaches.iter().map(|(_, breach)| breach).collect();
        assert!(seen.len() == 1 && seen[0].contains(words), "{words:?}: {seen:?}");
    }
}

#[test]
fn audit_reports_a_breach_when_a_move_exceeds_a_budget() {
    let pools = vec![Pool::fixed(Allowed::Percent(100))];
    let mut simulation = Simulation::new(&Setup { duds: 0, pools, ..Setup::default() }).unwrap();
    simulation.audit.budgets.values_mut().for_each(|all| *all = vec![Budget::always(Allowed::Nodes(0))]);
    simulation.at(START, Event::Come(App { name: "web".to_owned(), wanted: 40, ..App::default() }));
    simulation.at(START + 10 * MINUTE, Event::Scale("web".to_owned(), 1));
    simulation.run(START + 30 * MINUTE);
    let (_, breach) = simulation.audit.breaches.first().unwrap();
    assert!(breach.contains("are disturbed after"), "{breach}");
}

#[test]
fn audit_reports_a_breach_when_a_node_joins_beyond_budget() {
    let two = || vec![Budget::always(Allowed::Nodes(2))];
    let mut fixture = Fixture::within(App::default(), two());
    fixture.takes([0, 1], CommandReason::Empty);
    fixture.look(0);
    fixture.nothing_is_seen();
    fixture.takes([2], CommandReason::Expired);
    fixture.look(0);
    fixture.is_seen("3 of 12 nodes of fixed go and 2 may");
    // After that, no node joins them.
    fixture.look(MINUTE);
    fixture.is_seen("3 of 12 nodes of fixed go and 2 may");
}

#[test]
fn audit_accepts_begun_disruptions_when_the_budget_shrinks() {
    let mut fixture = Fixture::within(App::default(), vec![Budget::always(Allowed::Percent(25))]);
    fixture.takes(0..3, CommandReason::Drifted);
    fixture.look(0);
    // A quarter of the remaining nodes is less.
    for claim in 3..8 {
        let node = fixture.0.cluster_state.instance_of(&fixture.claim(claim)).unwrap().id.clone();
        fixture.0.cluster_state.nodes.remove(&node);
    }
    fixture.look(0);
    fixture.nothing_is_seen();
    fixture.takes([8], CommandReason::Drifted);
    fixture.look(0);
    fixture.is_seen("4 of 7 nodes of fixed go and 2 may");
}

#[test]
fn audit_ignores_a_node_when_ec2_interrupts_it() {
    let mut fixture = Fixture::within(App::default(), vec![Budget::always(Allowed::Nodes(1))]);
    fixture.takes([0], CommandReason::Drifted);
    fixture.look(0);
    let taken = fixture.0.cluster_state.instance_of(&fixture.claim(1)).unwrap().id.clone();
    fixture.0.cluster_state.market.instances.entry(taken).and_modify(|instance| instance.noticed = true);
    fixture.takes([1], CommandReason::Drifted);
    fixture.look(0);
    fixture.nothing_is_seen();
}

#[test]
fn audit_counts_budgets_by_reason_and_window() {
    let one = Budget { reasons: vec![CommandReason::Drifted], ..Budget::always(Allowed::Nodes(1)) };
    let quiet = Budget { window: Some(Window { opens: 30, lasts: 10 }), ..Budget::always(Allowed::Nodes(0)) };
    let mut fixture = Fixture::within(App::default(), vec![one.clone(), quiet.clone()]);
    fixture.takes([0, 1, 2], CommandReason::Underutilized);
    fixture.takes([3], CommandReason::Drifted);
    fixture.look(0);
    // A command that has begun continues in the window.
    fixture.look(25 * MINUTE);
    fixture.nothing_is_seen();
    fixture.takes([4], CommandReason::Underutilized);
    fixture.look(0);
    fixture.is_seen("5 of 12 nodes of fixed go and 0 may");

    let mut fixture = Fixture::within(App::default(), vec![one, quiet]);
    fixture.takes([3, 4], CommandReason::Drifted);
    fixture.look(0);
    fixture.is_seen("2 of 12 nodes of fixed go and 1 may");
}

#[test]
fn audit_uses_the_window_of_the_moment_of_a_change() {
    let quiet = Budget { window: Some(Window { opens: 30, lasts: 10 }), ..Budget::always(Allowed::Nodes(0)) };
    let opens = START + 30 * MINUTE;
    let between = |since, now| quiet.allows_between(10, since, now);
    assert_eq!(between(opens - 500, opens - 1), None);
    assert_eq!(between(opens - 500, opens), None, "the change was made before the window opened");
    assert_eq!(between(opens, opens + 500), Some(0));
    assert_eq!(between(opens + 10 * MINUTE - 500, opens + 10 * MINUTE), None, "the window had closed");
}

#[test]
fn budget_allows_the_same_number_as_the_nodepool() {
    let setup = Setup::default();
    for (own, pool) in setup.pools.iter().zip(setup.pools()) {
        let pool: NodePool = serde_json::from_value(pool).unwrap();
        assert_eq!(pool.disruption_faults(), []);
        for now in (START..START + 2 * HOUR).step_by(20_000) {
            for all in [0, 1, 11, 40] {
                let found: Vec<Option<usize>> = pool
                    .budgets(u32::try_from(all).unwrap(), timestamp(now))
                    .map(|(_, found)| found.unwrap().map(|nodes| nodes as usize))
                    .collect();
                let counted: Vec<Option<usize>> = own.budgets.iter().map(|budget| budget.allows(all, now)).collect();
                assert_eq!(found, counted, "{} at {}", own.name, timestamp(now));
            }
        }
    }
}

#[test]
fn audit_reports_a_breach_when_an_eviction_exceeds_a_pdb() {
    let mut fixture = Fixture::on(App { may_be_away: Some(1), ..App::default() });
    let (first, second) = (fixture.pod(0), fixture.pod(1));
    fixture.asks(&first, Cause::Saving, false);
    fixture.end(&first);
    fixture.nothing_is_seen();
    fixture.asks(&second, Cause::Saving, false);
    fixture.is_seen("goes and leaves 10 of web, budget or not");
}

#[test]
fn audit_reports_a_breach_when_a_pod_is_forced_without_notice() {
    let mut fixture = Fixture::on(App::default());
    let pod = fixture.pod(0);
    fixture.asks(&pod, Cause::Notice, true);
    fixture.nothing_is_seen();
    fixture.asks(&pod, Cause::Voluntary, true);
    fixture.is_seen("is forced to go, and nothing presses");
}

#[test]
fn audit_reports_a_breach_when_a_pod_moves_before_its_rest_ends() {
    let mut fixture = Fixture::on(App { rests: Some(HOUR), ..App::default() });
    let pod = fixture.pod(0);
    fixture.asks(&pod, Cause::Voluntary, false);
    fixture.nothing_is_seen();
    fixture.asks(&pod, Cause::Saving, false);
    fixture.is_seen(" s after it started, and rests for 3600 s");
    let mut fixture = Fixture::on(App { rests: Some(HOUR), ..App::default() });
    fixture.0.cluster_state.now += HOUR;
    fixture.asks(&pod, Cause::Saving, false);
    fixture.nothing_is_seen();
}

#[test]
fn audit_reports_a_breach_when_a_claim_has_two_instances() {
    let mut fixture = Fixture::on(App::default());
    let claim = fixture.claim(0);
    fixture.another_instance(&claim);
    fixture.look(0);
    fixture.is_seen(&format!("claim {claim} has two machines"));
}

#[test]
fn audit_reports_a_breach_when_instance_or_claim_is_orphaned() {
    let leak = |fixture: &mut Fixture| fixture.another_instance("nobody");
    let lose = |fixture: &mut Fixture| {
        let claim = fixture.claim(0);
        let machine = fixture.0.cluster_state.instance_of(&claim).unwrap().id.clone();
        fixture.0.cluster_state.market.instances.remove(&machine);
        claim
    };
    for stray in [leak as fn(&mut Fixture) -> String, lose] {
        let mut fixture = Fixture::on(App::default());
        let name = stray(&mut fixture);
        fixture.look(0);
        fixture.look(8 * MINUTE);
        fixture.nothing_is_seen();
        fixture.look(1);
        fixture.is_seen(&format!("{name} has had no other half for minutes"));
    }
}

#[test]
fn audit_reports_a_breach_when_a_pod_is_pending_too_long() {
    let waiting = |comes: bool| {
        let mut fixture = Fixture::on(App::default());
        let large = App { name: "large".to_owned(), wanted: 1, cpu: 1_000_000, ..App::default() };
        let now = fixture.0.cluster_state.now;
        fixture.0.at(now, Event::Come(large));
        fixture.0.run(now + 1);
        if comes {
            let claim = NodeClaim::new("coming", NodeClaimSpec::default());
            fixture.0.cluster_state.claims.insert("coming".to_owned(), claim.into());
        }
        fixture.look(0);
        fixture
    };
    let mut fixture = waiting(false);
    fixture.look(4 * MINUTE);
    fixture.nothing_is_seen();
    fixture.look(1);
    fixture.is_seen("waits, and no machine is on its way for 240 s");
    let mut fixture = waiting(true);
    fixture.look(25 * MINUTE);
    fixture.nothing_is_seen();
    fixture.look(1);
    fixture.is_seen("has waited for 25 min");
}

#[test]
fn audit_reports_a_breach_when_an_instance_with_pods_ends() {
    let mut fixture = Fixture::on(App::default());
    let (pod, node) = (fixture.pod(0), fixture.0.cluster_state.pods[&fixture.pod(0)].node.clone().unwrap());
    fixture.0.audit.ends(&fixture.0.cluster_state, &node);
    fixture.is_seen(&format!("{node} is ended while 1 pods run there"));
    let mut fixture = Fixture::on(App::default());
    fixture.end(&pod);
    fixture.0.audit.ends(&fixture.0.cluster_state, &node);
    fixture.nothing_is_seen();
}

#[test]
fn churn_exceeds_its_limit_when_replacements_are_removed() {
    let (soon, for_nothing) = ("12 of 12 replacements were given back within minutes", "though nothing had changed");
    for (later, changes, expected) in [(MINUTE, false, 2), (MINUTE, true, 1), (HOUR, true, 0)] {
        let mut fixture = Fixture::on(App::default());
        for claim in (0..12).map(|position| fixture.claim(position)).collect::<Vec<_>>() {
            fixture.edit(&claim, |claim| {
                let all = claim.metadata.annotations.get_or_insert_default();
                all.insert(annotation::REPLACES.to_owned(), "gone".to_owned());
            });
        }
        fixture.look(MINUTE);
        assert_eq!(fixture.0.audit.churn.excess(), [""; 0]);
        if changes {
            fixture.0.cluster_state.changed = fixture.0.cluster_state.now + 1;
        }
        fixture.takes(0..12, CommandReason::Underutilized);
        fixture.look(later);
        // Repeated checks count each replacement once.
        fixture.look(MINUTE);
        let excess = fixture.0.audit.churn.excess();
        assert_eq!(excess.len(), expected, "{excess:?}");
        assert!(expected < 1 || excess[0] == soon, "{excess:?}");
        assert!(expected < 2 || excess[1].ends_with(for_nothing), "{excess:?}");
    }
}

#[test]
fn churn_exceeds_its_limit_when_a_pod_moves_repeatedly() {
    for (pause, seen) in [(4 * MINUTE, true), (6 * MINUTE, false)] {
        let mut fixture = Fixture::on(App::default());
        let pod = fixture.pod(0);
        for _ in 0..30 {
            fixture.0.cluster_state.now += pause;
            fixture.asks(&pod, Cause::Saving, false);
        }
        let excess = fixture.0.audit.churn.excess();
        assert_eq!(excess.len(), usize::from(seen), "{excess:?}");
        assert!(excess.iter().all(|words| words.contains("a pod was moved 15 times within an hour")), "{excess:?}");
    }
}
