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
struct Hand(Simulation);

impl Hand {
    /// Creates twelve pods with anti-affinity, each on its own node.
    fn on(app: App) -> Self {
        Self::within(app, vec![Budget::always(Allowed::Percent(100))])
    }

    fn within(app: App, budgets: Vec<Budget>) -> Self {
        let pools = vec![Pool { budgets, ..Pool::fixed(Allowed::Nodes(0)) }];
        let mut simulation = Simulation::new(&Setup { duds: 0, pools, ..Setup::default() }).unwrap();
        simulation.at(START, Event::Come(App { name: "web".to_owned(), wanted: 12, apart: true, ..app }));
        simulation.run(START + 10 * MINUTE);
        assert_eq!(simulation.world.nodes.len(), 12);
        assert_eq!(simulation.audit.breaches, []);
        Self(simulation)
    }

    fn pod(&self, position: usize) -> String {
        self.0.world.pods.keys().nth(position).unwrap().clone()
    }

    fn claim(&self, position: usize) -> String {
        self.0.world.claims.keys().nth(position).unwrap().clone()
    }

    /// Requests the eviction or deletion of a pod.
    fn asks(&mut self, pod: &str, cause: Cause, forced: bool) {
        self.0.audit.leaves_because(&self.0.world, pod, cause, forced);
    }

    /// Sets the disruption reason of NodeClaims.
    fn takes(&mut self, claims: impl IntoIterator<Item = usize>, reason: CommandReason) {
        let at = timestamp(self.0.world.now);
        for claim in claims.into_iter().map(|position| self.claim(position)).collect::<Vec<_>>() {
            self.edit(&claim, |claim| {
                claim.set(condition::DISRUPTION_REASON, condition::TRUE, reason.as_str(), "", at);
            });
        }
    }

    fn edit(&mut self, claim: &str, change: impl FnOnce(&mut NodeClaim)) {
        change(Arc::make_mut(self.0.world.claims.get_mut(claim).unwrap()));
    }

    /// Sets the moment since which a pod is terminating.
    fn end(&mut self, pod: &str) {
        self.0.world.pods.get_mut(pod).unwrap().ending = Some(self.0.world.now);
    }

    /// Adds an instance with the tag of a NodeClaim.
    fn another_instance(&mut self, claim: &str) -> String {
        let instances = &mut self.0.world.market.instances;
        let like = instances.values().next().unwrap().clone();
        let id = format!("another-{claim}");
        instances.insert(id.clone(), Instance { id: id.clone(), claim: claim.to_owned(), ..like });
        id
    }

    /// Advances the clock and runs the checker.
    fn look(&mut self, later: Moment) {
        self.0.world.now += later;
        self.0.audit.step(&self.0.world);
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
    let mut hand = Hand::within(App::default(), two());
    hand.takes([0, 1], CommandReason::Empty);
    hand.look(0);
    hand.nothing_is_seen();
    hand.takes([2], CommandReason::Expired);
    hand.look(0);
    hand.is_seen("3 of 12 nodes of fixed go and 2 may");
    // After that, no node joins them.
    hand.look(MINUTE);
    hand.is_seen("3 of 12 nodes of fixed go and 2 may");
}

#[test]
fn audit_accepts_begun_disruptions_when_the_budget_shrinks() {
    let mut hand = Hand::within(App::default(), vec![Budget::always(Allowed::Percent(25))]);
    hand.takes(0..3, CommandReason::Drifted);
    hand.look(0);
    // A quarter of the remaining nodes is less.
    for claim in 3..8 {
        let node = hand.0.world.instance_of(&hand.claim(claim)).unwrap().id.clone();
        hand.0.world.nodes.remove(&node);
    }
    hand.look(0);
    hand.nothing_is_seen();
    hand.takes([8], CommandReason::Drifted);
    hand.look(0);
    hand.is_seen("4 of 7 nodes of fixed go and 2 may");
}

#[test]
fn audit_ignores_a_node_when_ec2_interrupts_it() {
    let mut hand = Hand::within(App::default(), vec![Budget::always(Allowed::Nodes(1))]);
    hand.takes([0], CommandReason::Drifted);
    hand.look(0);
    let taken = hand.0.world.instance_of(&hand.claim(1)).unwrap().id.clone();
    hand.0.world.market.instances.entry(taken).and_modify(|instance| instance.noticed = true);
    hand.takes([1], CommandReason::Drifted);
    hand.look(0);
    hand.nothing_is_seen();
}

#[test]
fn audit_counts_budgets_by_reason_and_window() {
    let one = Budget { reasons: vec![CommandReason::Drifted], ..Budget::always(Allowed::Nodes(1)) };
    let quiet = Budget { window: Some(Window { opens: 30, lasts: 10 }), ..Budget::always(Allowed::Nodes(0)) };
    let mut hand = Hand::within(App::default(), vec![one.clone(), quiet.clone()]);
    hand.takes([0, 1, 2], CommandReason::Underutilized);
    hand.takes([3], CommandReason::Drifted);
    hand.look(0);
    // A command that has begun continues in the window.
    hand.look(25 * MINUTE);
    hand.nothing_is_seen();
    hand.takes([4], CommandReason::Underutilized);
    hand.look(0);
    hand.is_seen("5 of 12 nodes of fixed go and 0 may");

    let mut hand = Hand::within(App::default(), vec![one, quiet]);
    hand.takes([3, 4], CommandReason::Drifted);
    hand.look(0);
    hand.is_seen("2 of 12 nodes of fixed go and 1 may");
}

#[test]
fn budget_allows_the_same_number_as_the_nodepool() {
    let setup = Setup::default();
    for (own, pool) in setup.pools.iter().zip(setup.pools()) {
        let pool: NodePool = serde_json::from_value(pool).unwrap();
        assert_eq!(pool.disruption_faults(), []);
        for now in (START..START + 2 * HOUR).step_by(20_000) {
            for all in [0, 1, 11, 40] {
                let said: Vec<Option<usize>> = pool
                    .budgets(u32::try_from(all).unwrap(), timestamp(now))
                    .map(|(_, said)| said.unwrap().map(|nodes| nodes as usize))
                    .collect();
                let counted: Vec<Option<usize>> = own.budgets.iter().map(|budget| budget.allows(all, now)).collect();
                assert_eq!(said, counted, "{} at {}", own.name, timestamp(now));
            }
        }
    }
}

#[test]
fn audit_reports_a_breach_when_an_eviction_exceeds_a_pdb() {
    let mut hand = Hand::on(App { may_be_away: Some(1), ..App::default() });
    let (first, second) = (hand.pod(0), hand.pod(1));
    hand.asks(&first, Cause::Saving, false);
    hand.end(&first);
    hand.nothing_is_seen();
    hand.asks(&second, Cause::Saving, false);
    hand.is_seen("goes and leaves 10 of web, budget or not");
}

#[test]
fn audit_reports_a_breach_when_a_pod_is_forced_without_notice() {
    let mut hand = Hand::on(App::default());
    let pod = hand.pod(0);
    hand.asks(&pod, Cause::Notice, true);
    hand.nothing_is_seen();
    hand.asks(&pod, Cause::Wish, true);
    hand.is_seen("is forced to go, and nothing presses");
}

#[test]
fn audit_reports_a_breach_when_a_pod_moves_before_its_rest_ends() {
    let mut hand = Hand::on(App { rests: Some(HOUR), ..App::default() });
    let pod = hand.pod(0);
    hand.asks(&pod, Cause::Wish, false);
    hand.nothing_is_seen();
    hand.asks(&pod, Cause::Saving, false);
    hand.is_seen("is moved again before its time");
    let mut hand = Hand::on(App { rests: Some(HOUR), ..App::default() });
    hand.0.world.now += HOUR;
    hand.asks(&pod, Cause::Saving, false);
    hand.nothing_is_seen();
}

#[test]
fn audit_reports_a_breach_when_a_claim_has_two_instances() {
    let mut hand = Hand::on(App::default());
    let claim = hand.claim(0);
    hand.another_instance(&claim);
    hand.look(0);
    hand.is_seen(&format!("claim {claim} has two machines"));
}

#[test]
fn audit_reports_a_breach_when_instance_or_claim_is_orphaned() {
    let leak = |hand: &mut Hand| hand.another_instance("nobody");
    let lose = |hand: &mut Hand| {
        let claim = hand.claim(0);
        let machine = hand.0.world.instance_of(&claim).unwrap().id.clone();
        hand.0.world.market.instances.remove(&machine);
        claim
    };
    for stray in [leak as fn(&mut Hand) -> String, lose] {
        let mut hand = Hand::on(App::default());
        let name = stray(&mut hand);
        hand.look(0);
        hand.look(8 * MINUTE);
        hand.nothing_is_seen();
        hand.look(1);
        hand.is_seen(&format!("{name} has had no other half for minutes"));
    }
}

#[test]
fn audit_reports_a_breach_when_a_pod_is_pending_too_long() {
    let waiting = |comes: bool| {
        let mut hand = Hand::on(App::default());
        let large = App { name: "large".to_owned(), wanted: 1, cpu: 1_000_000, ..App::default() };
        let now = hand.0.world.now;
        hand.0.at(now, Event::Come(large));
        hand.0.run(now + 1);
        if comes {
            let claim = NodeClaim::new("coming", NodeClaimSpec::default());
            hand.0.world.claims.insert("coming".to_owned(), claim.into());
        }
        hand.look(0);
        hand
    };
    let mut hand = waiting(false);
    hand.look(4 * MINUTE);
    hand.nothing_is_seen();
    hand.look(1);
    hand.is_seen("waits, and no machine is on its way for minutes");
    let mut hand = waiting(true);
    hand.look(25 * MINUTE);
    hand.nothing_is_seen();
    hand.look(1);
    hand.is_seen("has waited for 25 min");
}

#[test]
fn audit_reports_a_breach_when_an_instance_with_pods_ends() {
    let mut hand = Hand::on(App::default());
    let (pod, node) = (hand.pod(0), hand.0.world.pods[&hand.pod(0)].node.clone().unwrap());
    hand.0.audit.ends(&hand.0.world, &node);
    hand.is_seen(&format!("{node} is ended while 1 pods run there"));
    let mut hand = Hand::on(App::default());
    hand.end(&pod);
    hand.0.audit.ends(&hand.0.world, &node);
    hand.nothing_is_seen();
}

#[test]
fn churn_exceeds_its_limit_when_replacements_are_removed() {
    let (soon, for_nothing) = ("12 of 12 replacements were given back within minutes", "though nothing had changed");
    for (later, changes, expected) in [(MINUTE, false, 2), (MINUTE, true, 1), (HOUR, true, 0)] {
        let mut hand = Hand::on(App::default());
        for claim in (0..12).map(|position| hand.claim(position)).collect::<Vec<_>>() {
            hand.edit(&claim, |claim| {
                let all = claim.metadata.annotations.get_or_insert_default();
                all.insert(annotation::REPLACES.to_owned(), "gone".to_owned());
            });
        }
        hand.look(MINUTE);
        assert_eq!(hand.0.audit.churn.excess(), [""; 0]);
        if changes {
            hand.0.world.changed = hand.0.world.now + 1;
        }
        hand.takes(0..12, CommandReason::Underutilized);
        hand.look(later);
        // Repeated checks count each replacement once.
        hand.look(MINUTE);
        let excess = hand.0.audit.churn.excess();
        assert_eq!(excess.len(), expected, "{excess:?}");
        assert!(expected < 1 || excess[0] == soon, "{excess:?}");
        assert!(expected < 2 || excess[1].ends_with(for_nothing), "{excess:?}");
    }
}

#[test]
fn churn_exceeds_its_limit_when_a_pod_moves_repeatedly() {
    for (pause, seen) in [(4 * MINUTE, true), (6 * MINUTE, false)] {
        let mut hand = Hand::on(App::default());
        let pod = hand.pod(0);
        for _ in 0..30 {
            hand.0.world.now += pause;
            hand.asks(&pod, Cause::Saving, false);
        }
        let excess = hand.0.audit.churn.excess();
        assert_eq!(excess.len(), usize::from(seen), "{excess:?}");
        assert!(excess.iter().all(|words| words.contains("a pod was moved 15 times within an hour")), "{excess:?}");
    }
}
