//! Eligibility of a node for disruption: a reason to remove it, or the first verdict that prevents this.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    BoundPod, CapacityHolder, CommandReason, ConsolidationPolicy, Node, NodeVerdict, Plan, PodTerm, PodVerdict, Pool,
    Snapshot, Stage, Utilization, utilization_limit,
};

/// A node waits for others that change until it has been quiet for this many times `consolidateAfter`.
const QUIET_TIMES: i64 = 3;

/// Evaluation of single nodes.
pub(super) struct EligibilityRules<'a> {
    snapshot: &'a Snapshot,
    pools: BTreeMap<&'a str, &'a Pool>,
    /// Nodes to which this plan assigns pods. Virtual pods of CapacityBuffers never arrive, so they do not count.
    expecting: BTreeSet<String>,
    /// NodePools with so many unhealthy nodes that the nodes themselves are hardly the cause: number of unhealthy nodes, and of
    /// all.
    mostly_unhealthy: BTreeMap<&'a str, (usize, usize)>,
    /// Required affinity terms of pods with a place in this plan, with their namespaces.
    near: Vec<(&'a str, &'a PodTerm)>,
}

impl<'a> EligibilityRules<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, plan: &Plan) -> Self {
        let expecting = expecting(snapshot, plan);
        let pools = snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
        Self { snapshot, pools, expecting, mostly_unhealthy: unhealthy_by_pool(snapshot), near: near(snapshot, plan) }
    }

    /// Reports whether a pending pod has its place because of a pod on this node.
    fn is_required_by_pending_pods(&self, node: &Node) -> bool {
        node.pods.iter().any(|pod| {
            let shape = &pod.shape;
            let means = |(own, term): &(&str, &PodTerm)| {
                term.means(own, &shape.namespace, &shape.labels, &self.snapshot.namespaces)
            };
            self.near.iter().any(means)
        })
    }

    /// Returns the NodePool of a node.
    pub(super) fn pool(&self, node: &Node) -> Option<&'a Pool> {
        self.pools.get(node.pool.as_deref()?).copied()
    }

    /// Returns the reason to remove a node, independent of budgets.
    pub(super) fn evaluate(&self, node: &Node) -> Result<CommandReason, NodeVerdict> {
        if node.leaving.is_some() {
            return Err(NodeVerdict::Leaving);
        }
        if node.rebooting {
            return Err(NodeVerdict::Rebooting);
        }
        if !self.is_terminally_unhealthy(node) {
            return self.evaluate_healthy(node);
        }
        match self.mostly_unhealthy.get(node.pool.as_deref().unwrap_or_default()) {
            None => Ok(CommandReason::Unhealthy),
            Some((unhealthy, nodes)) => self
                .evaluate_healthy(node)
                .map_err(|_| NodeVerdict::ManyUnhealthy { unhealthy: *unhealthy, nodes: *nodes }),
        }
    }

    /// Evaluates a node that is healthy, or that repair does not replace.
    fn evaluate_healthy(&self, node: &Node) -> Result<CommandReason, NodeVerdict> {
        if node.stage != Stage::Initialized && !node.never_registered(self.snapshot.now) {
            return Err(NodeVerdict::NotInitialized);
        }
        let pool = self.pool(node);
        let outdated = self.outdated(node);
        let stays_in_use = outdated.is_none() && !pool.is_some_and(repacks);
        if let Some(pods) = in_use(node).filter(|_| stays_in_use) {
            return Err(NodeVerdict::InUse { pods });
        }
        if self.is_expected(node) {
            return Err(NodeVerdict::Nominated);
        }
        let keeps_node = |holder: &CapacityHolder| stays_in_use || matches!(holder, CapacityHolder::Request(_));
        if let Some(holder) = capacity_holder(node).filter(keeps_node) {
            return Err(NodeVerdict::HoldsCapacity { holder });
        }
        if node.do_not_disrupt {
            return Err(NodeVerdict::DoNotDisrupt);
        }
        let pool = pool.ok_or(NodeVerdict::NoPool)?;
        let is_static = pool.replicas.is_some();
        if is_static && outdated.is_none() {
            return Err(NodeVerdict::Static);
        }
        if node.stage != Stage::Initialized {
            return self.evaluate_never_registered(node);
        }
        if outdated == Some(CommandReason::Inactive) {
            return self.evaluate_inactive(node);
        }
        let quiet = self.is_quiet(node, pool);
        if !is_static && in_use(node).is_none() && capacity_holder(node).is_none() && quiet.is_ok() {
            self.has_no_blocking_pod(node)?;
            return Ok(CommandReason::Empty);
        }
        if let Some(reason) = outdated {
            if node.termination_grace.is_none() {
                self.has_no_blocking_pod(node)?;
            }
            return Ok(reason);
        }
        self.has_no_blocking_pod(node)?;
        quiet?;
        self.is_consolidatable(node, pool)
    }

    /// Evaluates a node that expired before it was initialized: neither emptiness nor drift matters.
    fn evaluate_never_registered(&self, node: &Node) -> Result<CommandReason, NodeVerdict> {
        if node.termination_grace.is_none() {
            self.has_no_blocking_pod(node)?;
        }
        Ok(CommandReason::Expired)
    }

    /// Evaluates a node of a NodePool outside of its active times: emptiness and quiet times do not matter.
    fn evaluate_inactive(&self, node: &Node) -> Result<CommandReason, NodeVerdict> {
        if node.termination_grace.is_none() {
            self.has_no_blocking_pod(node)?;
        }
        Ok(CommandReason::Inactive)
    }

    /// Reports whether a node without another reason may be consolidated.
    fn is_consolidatable(&self, node: &Node, pool: &Pool) -> Result<CommandReason, NodeVerdict> {
        let resting = first(node, |pod| self.rests(pod).is_some());
        if let Some((pod, until)) = resting.and_then(|pod| self.rests(pod)) {
            return Err(NodeVerdict::Resting { pod, remaining: until - self.snapshot.now.0 });
        }
        if node.price.is_none() {
            return Err(NodeVerdict::UnknownPrice);
        }
        match utilization_limit::overload(node).filter(|_| pool.disruption.utilization != Utilization::Ignore) {
            Some(strain) => Err(NodeVerdict::Busy { strain }),
            None => Ok(CommandReason::Underutilized),
        }
    }

    fn rests(&self, pod: &BoundPod) -> Option<(String, i64)> {
        let workload = pod.workload.as_deref().filter(|_| pod.reschedulable)?;
        let until = self.snapshot.resting.get(workload).filter(|until| **until > self.snapshot.now)?;
        Some((pod.name.clone(), until.0))
    }

    /// Reports whether this plan or a recent one assigns pods to this node, or elsewhere because of pods on it.
    pub(super) fn is_expected(&self, node: &Node) -> bool {
        let nominated = node.nominated_until.is_some_and(|until| until > self.snapshot.now);
        nominated || self.expecting.contains(&node.name) || self.is_required_by_pending_pods(node)
    }

    /// Returns the end of active times, drift or expiration as a reason, independent of the pods on the node.
    pub(super) fn outdated(&self, node: &Node) -> Option<CommandReason> {
        let is_inactive = self.pool(node).is_some_and(|pool| pool.is_inactive);
        let drifted = node.drifted.is_some().then_some(CommandReason::Drifted);
        let inactive = is_inactive.then_some(CommandReason::Inactive);
        inactive.or(drifted).or(self.has_expired(node).then_some(CommandReason::Expired))
    }

    /// Reports whether a node is older than `expireAfter`.
    pub(super) fn has_expired(&self, node: &Node) -> bool {
        node.expires.is_some_and(|at| at <= self.snapshot.now)
    }

    /// Reports whether a node has been unhealthy for longer than its toleration.
    fn is_terminally_unhealthy(&self, node: &Node) -> bool {
        let due = node.unhealthy.as_ref().is_some_and(|unhealthy| unhealthy.due <= self.snapshot.now);
        due && !self.is_expected(node)
    }

    /// Reports whether no pod blocks the disruption of its node.
    fn has_no_blocking_pod(&self, node: &Node) -> Result<(), NodeVerdict> {
        if let Some(pod) = first(node, |pod| pod.do_not_disrupt) {
            let remaining = pod.protected_until.map(|until| until.0.saturating_sub(self.snapshot.now.0));
            return Err(NodeVerdict::PodDoNotDisrupt { pod: pod.name.clone(), remaining });
        }
        match first(node, |pod| !pod.held_by.is_empty()) {
            Some(pod) => Err(NodeVerdict::PodHeld { pod: pod.name.clone(), budgets: pod.held_by.clone() }),
            None => Ok(()),
        }
    }

    /// Reports whether only its recent changes keep a node from being a candidate of consolidation.
    pub(super) fn is_candidate_soon(&self, node: &Node) -> bool {
        let is_restless = matches!(self.evaluate(node), Err(NodeVerdict::Quiet { .. }));
        is_restless && self.pool(node).is_some_and(|pool| self.is_consolidatable(node, pool).is_ok())
    }

    /// Returns how many milliseconds a node may still wait for nodes that are not quiet yet, if any.
    pub(super) fn wait_for_others(&self, node: &Node) -> Option<i64> {
        let after = self.pool(node)?.disruption.consolidate_after?;
        let until = node.quiet_since?.0.saturating_add(after.saturating_mul(QUIET_TIMES));
        Some(until.saturating_sub(self.snapshot.now.0)).filter(|remaining| *remaining > 0)
    }

    /// Reports whether the node has been quiet for `consolidateAfter`; the verdict has the remaining time.
    pub(super) fn is_quiet(&self, node: &Node, pool: &Pool) -> Result<(), NodeVerdict> {
        let after = pool.disruption.consolidate_after.ok_or(NodeVerdict::ConsolidationDisabled)?;
        let since = node.quiet_since.ok_or(NodeVerdict::NotInitialized)?;
        let remaining = since.0.saturating_add(after).saturating_sub(self.snapshot.now.0);
        if remaining > 0 { Err(NodeVerdict::Quiet { remaining }) } else { Ok(()) }
    }
}

/// Returns the first pod by name that matches, because the order of pods has no meaning.
fn first(node: &Node, is: impl Fn(&BoundPod) -> bool) -> Option<&BoundPod> {
    let found = node.pods.iter().filter(|pod| is(pod));
    found.min_by(|one, other| (&one.name, &one.uid).cmp(&(&other.name, &other.uid)))
}

/// Returns the existing nodes that receive real pods in the plan.
fn expecting(snapshot: &Snapshot, plan: &Plan) -> BTreeSet<String> {
    let real = snapshot.pods.iter().zip(&plan.report.pods).filter(|(pod, _)| pod.holder.is_none());
    let nodes = real.filter_map(|(_, verdict)| match verdict {
        PodVerdict::Existing { node, .. } => Some(node.clone()),
        _ => None,
    });
    nodes.collect()
}

/// Returns the affinity terms of real pods with a place, with their namespaces.
fn near<'a>(snapshot: &'a Snapshot, plan: &Plan) -> Vec<(&'a str, &'a PodTerm)> {
    let real = plan.report.order.iter().map(|pod| &snapshot.pods[*pod]).filter(|pod| pod.holder.is_none());
    let shapes: BTreeSet<usize> = real.map(|pod| pod.shape).collect();
    let shapes = shapes.into_iter().map(|shape| &snapshot.shapes[shape]);
    shapes.flat_map(|shape| shape.near.iter().map(|term| (shape.namespace.as_str(), term))).collect()
}

/// Returns the number of pods that run on a node and would need another place, if there are any.
fn in_use(node: &Node) -> Option<usize> {
    let pods = node.pods.iter().filter(|pod| pod.reschedulable && pod.holder.is_none()).count();
    (pods > 0).then_some(pods)
}

/// Returns the first object that keeps capacity on a node, a ProvisioningRequest if there is one.
fn capacity_holder(node: &Node) -> Option<CapacityHolder> {
    node.pods.iter().filter_map(|pod| pod.holder.clone()).min()
}

/// Reports whether the NodePool consolidates nodes with pods.
fn repacks(pool: &Pool) -> bool {
    let disruption = &pool.disruption;
    disruption.consolidate_after.is_some() && disruption.policy != ConsolidationPolicy::WhenEmpty
}

/// Returns NodePools with more than a fifth of their nodes unhealthy: the nodes themselves are hardly the cause. Claims without
/// a node do not count.
fn unhealthy_by_pool(snapshot: &Snapshot) -> BTreeMap<&str, (usize, usize)> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for node in snapshot.nodes.iter().filter(|node| node.claim.is_some() && node.stage != Stage::InFlight) {
        let (all, unhealthy) = counts.entry(node.pool.as_deref().unwrap_or_default()).or_default();
        *all += 1;
        *unhealthy += usize::from(node.unhealthy.is_some());
    }
    let many = counts.into_iter().filter(|(_, (all, unhealthy))| *unhealthy > all.div_ceil(5));
    many.map(|(pool, (all, unhealthy))| (pool, (unhealthy, all))).collect()
}
