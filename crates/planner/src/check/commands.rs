//! Disruption commands: each node may be removed for the stated reason, each of its pods has a place, the budgets suffice, and
//! consolidation saves money.

mod after_commands;
mod disruption_intervals;
mod drift_canary;
mod utilization_limits;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    CommandReason, Destination, Launch, Node, NodeVerdict, Plan, PlannedCommand, Pod, PodVerdict, Pool,
    ReplacementState, Snapshot, Stage,
};

use super::{Findings, InFlightNodes};
pub(super) use after_commands::apply_commands;
pub use after_commands::carried_out;

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, in_flight_nodes: &InFlightNodes<'_>, findings: &mut Findings) {
    let view = CommandContext { snapshot, plan, in_flight_nodes };
    let mut spent: BTreeMap<&str, u32> = BTreeMap::new();
    for it in &plan.moves {
        for disrupted in &it.nodes {
            let subject = format!("node {}", disrupted.node);
            match view.node(&disrupted.node) {
                None => findings.add(subject, "goes but is not in the snapshot"),
                Some(node) => {
                    findings.expect(Some(&disrupted.claim) == node.claim.as_ref(), &subject, || {
                        "has another claim".to_owned()
                    });
                    view.may_be_removed(node, it, &subject, findings);
                    view.budget(node, it, &mut spent, findings);
                }
            }
        }
        view.places(it, findings);
        view.successors(it, findings);
        view.money(it, findings);
    }
    view.permits(findings);
    view.launches(findings);
    view.reported(findings);
    utilization_limits::check(snapshot, plan, findings);
    disruption_intervals::check(snapshot, plan, findings);
    drift_canary::check(snapshot, plan, findings);
}

struct CommandContext<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    in_flight_nodes: &'a InFlightNodes<'a>,
}

impl<'a> CommandContext<'a> {
    fn node(&self, name: &str) -> Option<&'a Node> {
        self.snapshot.nodes.iter().map(AsRef::as_ref).find(|node| node.name == name)
    }

    fn pool(&self, name: Option<&String>) -> Option<&'a Pool> {
        self.snapshot.pools.iter().find(|pool| Some(&pool.name) == name)
    }

    /// Returns the pods that the plan assigns to nodes, with these nodes.
    fn placed(&self) -> impl Iterator<Item = (&'a Pod, &'a str)> {
        self.snapshot.pods.iter().zip(&self.plan.report.pods).filter_map(|(pod, verdict)| match verdict {
            PodVerdict::Existing { node, .. } => Some((pod, node.as_str())),
            _ => None,
        })
    }

    /// Returns the UIDs of virtual pods of CapacityBuffers with their place on one of these nodes.
    fn virtual_pods(&self, nodes: &[&Node]) -> Vec<&'a str> {
        let on_nodes = |node: &str| nodes.iter().any(|it| it.name == node && it.stage == Stage::Initialized);
        let own = self.placed().filter(|(pod, node)| pod.holder.is_some() && on_nodes(node));
        own.map(|(pod, _)| pod.uid.as_str()).collect()
    }

    /// Returns names of nodes that receive real pods, by this plan's placements or its commands.
    fn receiving(&self) -> BTreeSet<&'a str> {
        let placed = self.placed().filter(|(pod, _)| pod.holder.is_none()).map(|(_, node)| node);
        let moved = self.plan.moves.iter().flat_map(|it| &it.pods).filter_map(|pod| match &pod.to {
            Destination::Node(node) => Some(node.as_str()),
            Destination::Launch(_) => None,
        });
        placed.chain(moved).collect()
    }

    fn may_be_removed(&self, node: &Node, it: &PlannedCommand, subject: &str, findings: &mut Findings) {
        let now = self.snapshot.now;
        let forced = matches!(it.reason, CommandReason::Unhealthy | CommandReason::Static);
        let may_end = [CommandReason::Drifted, CommandReason::Expired, CommandReason::Inactive].contains(&it.reason);
        let ends = may_end && node.termination_grace.is_some();
        let held = node.pods.iter().any(|pod| pod.do_not_disrupt || !pod.held_by.is_empty());
        let rows = [
            (node.claim.is_some(), "goes but is not managed"),
            (node.leaving.is_none(), "goes twice"),
            (it.reason == CommandReason::Static || !node.rebooting, "goes while its instance reboots"),
            (
                forced || it.reason == CommandReason::Expired || node.stage == Stage::Initialized,
                "goes before it is initialized",
            ),
            (forced || !node.do_not_disrupt, "goes against do-not-disrupt"),
            (forced || ends || !held, "goes though something holds one of its pods"),
            (!self.receiving().contains(node.name.as_str()), "goes while pods are sent there"),
            (forced || node.nominated_until.is_none_or(|until| until <= now), "goes while a promise holds"),
            (self.justified(node, it.reason), "goes for a reason that it has not"),
        ];
        for (holds, fault) in rows {
            findings.expect(holds, subject, || fault.to_owned());
        }
    }

    fn justified(&self, node: &Node, reason: CommandReason) -> bool {
        let now = self.snapshot.now;
        let pool = self.pool(node.pool.as_ref());
        let dynamic = pool.is_some_and(|pool| pool.replicas.is_none());
        let in_use = node.pods.iter().any(|pod| pod.reschedulable) || !self.virtual_pods(&[node]).is_empty();
        match reason {
            CommandReason::Empty => dynamic && !in_use && self.waited(node),
            CommandReason::Underutilized => {
                let policy = pool.map(|pool| pool.disruption.policy);
                let allowed = policy.is_some_and(|policy| policy != crate::ConsolidationPolicy::WhenEmpty);
                dynamic && in_use && self.waited(node) && allowed
            }
            CommandReason::Drifted => node.drifted.is_some(),
            CommandReason::Expired => node.expires.is_some_and(|at| at <= now),
            CommandReason::Unhealthy => node.unhealthy.as_ref().is_some_and(|it| it.due <= now),
            CommandReason::Inactive => pool.is_some_and(|pool| pool.is_inactive),
            CommandReason::Static => !dynamic,
        }
    }

    fn waited(&self, node: &Node) -> bool {
        let after = self.pool(node.pool.as_ref()).and_then(|pool| pool.disruption.consolidate_after);
        matches!((node.quiet_since, after), (Some(since), Some(after)) if since.0 + after <= self.snapshot.now.0)
    }

    /// Checks the budget: every disruption uses all budgets of a NodePool, and each reason may only use its own up to its
    /// limit.
    fn budget(&self, node: &'a Node, it: &PlannedCommand, spent: &mut BTreeMap<&'a str, u32>, findings: &mut Findings) {
        let Some(pool) = self.pool(node.pool.as_ref()) else { return };
        let count = spent.entry(pool.name.as_str()).or_default();
        *count += 1;
        let budgets = pool.disruption.budgets;
        let budget = match it.reason {
            CommandReason::Empty => budgets.empty,
            CommandReason::Underutilized => budgets.underutilized,
            CommandReason::Drifted => budgets.drifted,
            CommandReason::Expired => budgets.expired,
            CommandReason::Unhealthy | CommandReason::Inactive | CommandReason::Static => return,
        };
        let count = *count;
        findings.expect(count <= budget, &format!("pool {}", pool.name), || {
            format!("loses {count} nodes by then, its budget for {} is {budget}", it.reason)
        });
    }

    /// Checks that every pod that needs a place has one, on an initialized node that suits it or on the command's own launches.
    fn places(&self, it: &PlannedCommand, findings: &mut Findings) {
        let subject = subject(it);
        let nodes: Vec<&Node> = it.nodes.iter().filter_map(|disrupted| self.node(&disrupted.node)).collect();
        let run = nodes.iter().flat_map(|node| &node.pods).filter(|pod| pod.reschedulable).map(|pod| pod.uid.as_str());
        let real: BTreeSet<&str> = run.collect();
        let expected: BTreeSet<&str> = real.iter().copied().chain(self.virtual_pods(&nodes)).collect();
        let moved: BTreeSet<&str> = it.pods.iter().map(|pod| pod.uid.as_str()).collect();
        // An outdated node may be removed although a CapacityBuffer has no other place.
        let outdated = matches!(it.reason, CommandReason::Drifted | CommandReason::Expired);
        let all = moved == expected || outdated && moved == real || self.is_forced(it) && moved.is_empty();
        findings.expect(all && moved.len() == it.pods.len(), &subject, || {
            format!("has places for {:?}, needed are {:?}", Vec::from_iter(&moved), Vec::from_iter(&expected))
        });
        for pod in &it.pods {
            let bound = nodes.iter().flat_map(|node| &node.pods).find(|bound| bound.uid == pod.uid);
            let surges = bound.is_some_and(|bound| bound.surges);
            findings.expect(pod.surge == surges, &subject, || format!("has pod {} surge: {}", pod.pod, pod.surge));
            match &pod.to {
                Destination::Launch(launch) => {
                    let own = it.replacements.contains(launch);
                    findings.expect(own, &subject, || format!("sends {} to a launch of another move", pod.pod));
                }
                Destination::Node(name) => {
                    let fit = self.node(name).is_some_and(|node| self.may_receive(node, it.reason));
                    findings.expect(fit, &subject, || {
                        format!("sends {} to node {name}, which is no place for it", pod.pod)
                    });
                }
            }
        }
    }

    /// Reports whether nodes may be removed although their pods have no place: expired nodes only where their drain ends.
    fn is_forced(&self, it: &PlannedCommand) -> bool {
        let ends = |disrupted: &crate::DisruptedNode| {
            self.node(&disrupted.node).is_some_and(|node| node.termination_grace.is_some())
        };
        matches!(it.reason, CommandReason::Unhealthy | CommandReason::Inactive | CommandReason::Static)
            || it.reason == CommandReason::Expired && it.nodes.iter().all(ends)
    }

    /// Checks that a static NodePool only loses surplus nodes and nodes with a replacement, and that no command increases it.
    fn successors(&self, it: &PlannedCommand, findings: &mut Findings) {
        let forced = self.is_forced(it);
        let launched = || it.replacements.iter().filter_map(|position| self.plan.launches.get(*position));
        let static_pools = self.snapshot.pools.iter().filter(|pool| pool.replicas.is_some());
        for pool in static_pools {
            let own = |disrupted: &&crate::DisruptedNode| {
                self.node(&disrupted.node).is_some_and(|node| node.pool.as_ref() == Some(&pool.name))
            };
            let gone = it.nodes.iter().filter(own).count();
            let come = launched().filter(|launch| launch.pool == pool.name).count();
            findings.expect(gone == come || forced && come == 0, &subject(it), || {
                format!("takes {gone} nodes from static pool {} and gives it {come}", pool.name)
            });
        }
    }

    fn may_receive(&self, node: &Node, reason: CommandReason) -> bool {
        let after = self.pool(node.pool.as_ref()).and_then(|pool| pool.disruption.consolidate_after);
        let fresh = after.is_some() && !self.waited(node) && node.claim.is_some();
        node.stage == Stage::Initialized && (reason != CommandReason::Underutilized || !fresh)
    }

    /// Checks that the stated savings equal the difference of prices and fees, and that consolidation never costs more.
    fn money(&self, it: &PlannedCommand, findings: &mut Findings) {
        let subject = subject(it);
        let fee = |pool: Option<&String>| self.pool(pool).map_or(0, |pool| pool.node_fee.0);
        let of_node = |disrupted: &crate::DisruptedNode| {
            let node = self.node(&disrupted.node)?;
            let paid: i64 = node.paid.iter().map(|share| share.price.0).sum();
            Some(node.price?.0 - paid + fee(node.pool.as_ref()))
        };
        let before: Option<i64> = it.nodes.iter().map(of_node).sum();
        let launches: Vec<(usize, &Launch)> = it
            .replacements
            .iter()
            .filter_map(|position| Some((*position, self.plan.launches.get(*position)?)))
            .collect();
        findings.expect(launches.len() == it.replacements.len(), &subject, || {
            "has replacements that are not launched".to_owned()
        });
        let price = |launch: &Launch| if launch.commitment.is_some() { 0 } else { launch.price.0 };
        let after: i64 = launches.iter().map(|(_, launch)| price(launch) + fee(Some(&launch.pool))).sum();
        let saving = before.map(|before| before - after);
        findings.expect(saving == it.saving.map(|it| it.0), &subject, || {
            format!("saves {saving:?}, and says {:?}", it.saving.map(|it| it.0))
        });
        if it.reason == CommandReason::Underutilized {
            let dearest: Option<i64> = launches
                .iter()
                .map(|(position, launch)| Some(self.highest_price(*position, launch)? + fee(Some(&launch.pool))))
                .sum();
            let cheaper = before.zip(dearest).is_some_and(|(before, dearest)| dearest < before);
            findings.expect(cheaper, &subject, || format!("may cost {dearest:?} in place of {before:?}"));
        }
    }

    /// Returns the maximum price of a launch, over all offerings that its requirements allow, available now or later; 0 where a
    /// commitment pays.
    fn highest_price(&self, position: usize, launch: &Launch) -> Option<i64> {
        if launch.commitment.is_some() {
            return Some(0);
        }
        let in_flight_node = self.in_flight_nodes.get(position)?;
        let listed = in_flight_node.positions(&launch.instance_types);
        let offerings = listed.iter().flat_map(|kind| &in_flight_node.kinds[*kind].1);
        offerings.map(|it| it.price.0).max()
    }

    /// Checks that no command launches where replacements failed, and that one command at a time tries again.
    fn permits(&self, findings: &mut Findings) {
        for pool in &self.snapshot.pools {
            let launches = |it: &&PlannedCommand| {
                it.replacements
                    .iter()
                    .any(|position| self.plan.launches.get(*position).is_some_and(|it| it.pool == pool.name))
            };
            let commands = self.plan.moves.iter().filter(launches).count();
            let most = match pool.replacements {
                ReplacementState::Allowed => usize::MAX,
                ReplacementState::One => 1,
                ReplacementState::Awaiting { .. } | ReplacementState::Paused { .. } => 0,
            };
            findings.expect(commands <= most, &format!("pool {}", pool.name), || {
                format!("launches replacements for {commands} moves, allowed are {most}")
            });
        }
    }

    /// Checks that every replacement belongs to one command.
    fn launches(&self, findings: &mut Findings) {
        for (position, launch) in self.plan.launches.iter().enumerate() {
            let moves = self.plan.moves.iter().filter(|it| it.replacements.contains(&position)).count();
            let expected = usize::from(launch.purpose == crate::Purpose::Replacement);
            findings.expect(moves == expected, &format!("launch {position}"), || {
                format!("is part of {moves} moves, by its purpose of {expected}")
            });
        }
    }

    /// Checks that every managed node has a verdict, and exactly the removed nodes have the verdict of a removal.
    fn reported(&self, findings: &mut Findings) {
        let managed = self.snapshot.nodes.iter().filter(|it| it.claim.is_some());
        let managed: Vec<&str> = managed.map(|it| it.name.as_str()).collect();
        let named: Vec<&str> = self.plan.report.nodes.iter().map(|(name, _)| name.as_str()).collect();
        findings.expect(managed == named, "report", || format!("verdicts for {named:?}, managed are {managed:?}"));
        for (name, verdict) in &self.plan.report.nodes {
            let goes = |it: &&PlannedCommand| it.nodes.iter().any(|disrupted| disrupted.node == *name);
            let reasons: Vec<CommandReason> = self.plan.moves.iter().filter(goes).map(|it| it.reason).collect();
            let expected = match verdict {
                NodeVerdict::Remove(reason) => vec![*reason],
                _ => Vec::new(),
            };
            findings.expect(reasons == expected, &format!("node {name}"), || {
                format!("goes for {reasons:?}, the verdict says {expected:?}")
            });
        }
    }
}

fn subject(it: &PlannedCommand) -> String {
    let nodes: Vec<&str> = it.nodes.iter().map(|disrupted| disrupted.node.as_str()).collect();
    format!("move of {}", nodes.join(" and "))
}
