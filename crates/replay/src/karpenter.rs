//! Karpenter's rules for disruption on top of Kerf's planner. The rules select other nodes; the placement of pods is the same.
//!
//! Each pass selects the first possible one of three commands:
//!
//! 1. all empty nodes together
//! 2. the longest prefix of 100 candidates that needs at most one new node, found by binary search within one minute
//! 3. the first single candidate that is found within three minutes
//!
//! Spot nodes are replaced by a spot node only with the feature gate SpotToSpotConsolidation.
//!
//! A command that saves money is validated after 15 seconds, and no other command is selected until then. Drifted nodes are
//! disrupted one at a time, without that validation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::{
    CapacityType, CommandCause, CommandReason, Destination, DisruptedNode, Launch, Leaving, Millis, Node, Plan,
    PlannedCommand, Pod, PodShape, PodVerdict, Purpose, Relocation, Requirements, Snapshot, Stage, label,
};

/// Milliseconds since the Unix epoch.
type Moment = i64;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const VALIDATION: i64 = 15 * SECOND;
const IDLE: i64 = 10 * SECOND;
const MOST: usize = 100;

/// Karpenter's rules on a machine with a given duration of one simulation.
#[derive(Clone, Debug)]
pub struct KarpenterRules {
    /// Duration of one simulation, in milliseconds.
    pub each: i64,
    next: Moment,
    found: Option<(Moment, CommandReason, Vec<String>)>,
}

/// Plan that removes certain nodes without further planning.
struct Middleware {
    plan: Plan,
    /// Node and UID of each moved pod, with its position in the plan.
    pods: Vec<(String, String, usize)>,
}

impl KarpenterRules {
    /// Creates the rules without any previous pass.
    #[must_use]
    pub fn new(each: i64) -> Self {
        Self { each, next: 0, found: None }
    }

    /// Returns the moment of the next pass.
    #[must_use]
    pub fn next(&self) -> Moment {
        self.found.as_ref().map_or(self.next, |(at, _, _)| *at)
    }

    /// Returns the plan without Kerf's commands, and with Karpenter's command if one is due.
    pub fn plan(&mut self, snapshot: &Snapshot, now: Moment) -> Plan {
        let calm = calm(snapshot);
        if let Some((_, reason, nodes)) = self.found.take_if(|(at, _, _)| *at <= now) {
            self.next = now;
            if let Some(middleware) = middleware(&calm, &nodes, reason) {
                return carried(middleware, snapshot, &nodes, reason);
            }
            self.next = now + IDLE;
        } else if self.found.is_none() && self.next <= now {
            let mut spent = 0;
            if let Some((node, middleware)) = self.drifted(snapshot, &calm, &mut spent) {
                self.next = now + spent;
                return carried(middleware, snapshot, &[node], CommandReason::Drifted);
            }
            self.found = self.search(snapshot, &calm, &mut spent);
            if let Some((at, _, _)) = &mut self.found {
                *at = now + spent + VALIDATION;
            }
            self.next = now + spent + IDLE;
        }
        planner::plan(&calm)
    }

    /// Returns the first drifted node that can be removed. Returns `None` while there are empty nodes, which have precedence.
    fn drifted(&self, snapshot: &Snapshot, calm: &Snapshot, spent: &mut i64) -> Option<(String, Middleware)> {
        if !candidates(snapshot, CommandReason::Empty).is_empty() {
            return None;
        }
        self.single(snapshot, calm, CommandReason::Drifted, spent, Moment::MAX)
    }

    /// Returns the first candidate that can be removed alone, if it is found in time. After a failure, similar candidates are
    /// skipped because they would fail too, but the time of their simulation counts.
    fn single(
        &self,
        snapshot: &Snapshot,
        calm: &Snapshot,
        reason: CommandReason,
        spent: &mut i64,
        until: Moment,
    ) -> Option<(String, Middleware)> {
        let known: BTreeMap<&str, &Node> = snapshot.nodes.iter().map(|node| (node.name.as_str(), &**node)).collect();
        let mut tried = BTreeSet::new();
        candidates(snapshot, reason).into_iter().find_map(|node| {
            *spent += self.each;
            let another = tried.insert(known.get(node.as_str()).map(|node| kind(node)));
            let found = (another && *spent <= until).then(|| middleware(calm, std::slice::from_ref(&node), reason));
            found.flatten().map(|middleware| (node, middleware))
        })
    }

    /// Returns all empty nodes, or else the nodes whose removal saves money.
    fn search(
        &self,
        snapshot: &Snapshot,
        calm: &Snapshot,
        spent: &mut i64,
    ) -> Option<(Moment, CommandReason, Vec<String>)> {
        let pick = |reason| candidates(snapshot, reason);
        let empty = pick(CommandReason::Empty);
        if !empty.is_empty() {
            return Some((0, CommandReason::Empty, empty));
        }
        let found = pick(CommandReason::Underutilized);
        self.halve(calm, &found, spent)
            .or_else(|| {
                let until = *spent + 3 * MINUTE;
                let found = self.single(snapshot, calm, CommandReason::Underutilized, spent, until);
                found.map(|(node, _)| vec![node])
            })
            .map(|nodes| (0, CommandReason::Underutilized, nodes))
    }

    /// Returns the longest prefix that binary search finds.
    fn halve(&self, calm: &Snapshot, found: &[String], spent: &mut i64) -> Option<Vec<String>> {
        let until = *spent + MINUTE;
        let (mut least, mut most) = (2, found.len().min(MOST));
        let mut best = None;
        while least <= most && *spent < until {
            let middle = usize::midpoint(least, most);
            *spent += self.each;
            if middleware(calm, &found[..middle], CommandReason::Underutilized).is_some() {
                (best, least) = (Some(found[..middle].to_vec()), middle + 1);
            } else {
                most = middle - 1;
            }
        }
        best
    }
}

/// Returns all properties of a node that determine the placement of its pods and the savings: its pods, and its type, zone and
/// price.
fn kind(node: &Node) -> impl Ord {
    let pods: Vec<&PodShape> = node.pods.iter().filter(|pod| pod.reschedulable).map(|pod| &*pod.shape).collect();
    let claims = node.pods.iter().any(|pod| !pod.claims.is_empty()).then_some(&node.name);
    (&node.pool, &node.instance_type, node.labels.get(label::ZONE), node.price, pods, claims)
}

/// Removes what Karpenter does not know: limits of the cost, commitments, active times of NodePools, and pod groups.
pub(crate) fn forget_additions(snapshot: &mut Snapshot) {
    snapshot.spend_limits.clear();
    snapshot.commitments.clear();
    for pool in &mut snapshot.pools {
        (pool.cost_limit, pool.is_inactive) = (None, false);
    }
    snapshot.pods.iter_mut().for_each(|pod| pod.group = None);
    let paid = snapshot.nodes.iter_mut().filter(|node| !node.paid.is_empty());
    paid.for_each(|node| Arc::make_mut(node).paid.clear());
}

/// Returns the snapshot with disruption disabled.
fn calm(snapshot: &Snapshot) -> Snapshot {
    let mut calm = snapshot.clone();
    calm.pools.iter_mut().for_each(|pool| pool.disruption.consolidate_after = None);
    for node in calm.nodes.iter_mut().filter(|node| node.drifted.is_some() || node.expires.is_some()) {
        let node = Arc::make_mut(node);
        (node.drifted, node.expires) = (None, None);
    }
    calm
}

/// Returns the candidates for the reason within the budgets, in order of disruption cost.
fn candidates(snapshot: &Snapshot, reason: CommandReason) -> Vec<String> {
    let mut found: Vec<&Arc<Node>> = Vec::new();
    for pool in &snapshot.pools {
        let budgets = pool.disruption.budgets;
        let budget = match reason {
            CommandReason::Empty => budgets.empty,
            CommandReason::Drifted => budgets.drifted,
            _ => budgets.underutilized,
        };
        let own = |node: &&Arc<Node>| node.pool.as_ref() == Some(&pool.name) && is_candidate(node);
        let suits = |node: &&Arc<Node>| match reason {
            CommandReason::Drifted => node.drifted.is_some(),
            CommandReason::Empty => {
                is_quiet(node, pool, snapshot.now) && !node.pods.iter().any(|pod| pod.reschedulable)
            }
            _ => is_quiet(node, pool, snapshot.now) && node.pods.iter().any(|pod| pod.reschedulable),
        };
        let mut own: Vec<&Arc<Node>> = snapshot.nodes.iter().filter(own).filter(suits).collect();
        own.sort_by_key(|node| (node.pods.len(), &node.name));
        found.extend(own.into_iter().take(usize::try_from(budget).unwrap_or(usize::MAX)));
    }
    found.sort_by_key(|node| (node.pods.len(), &node.name));
    found.into_iter().map(|node| node.name.clone()).collect()
}

fn is_candidate(node: &Node) -> bool {
    let held = |pod: &planner::BoundPod| pod.do_not_disrupt || !pod.held_by.is_empty();
    let settled = node.stage == Stage::Initialized && node.leaving.is_none() && node.nominated_until.is_none();
    settled && node.claim.is_some() && !node.do_not_disrupt && !node.pods.iter().any(held)
}

fn is_quiet(node: &Node, pool: &planner::Pool, now: Millis) -> bool {
    pool.disruption.consolidate_after.zip(node.quiet_since).is_some_and(|(after, since)| now.0 - since.0 >= after)
}

/// Returns the plan that removes these nodes, if their pods can be placed on existing nodes and at most one cheaper new node.
fn middleware(calm: &Snapshot, nodes: &[String], reason: CommandReason) -> Option<Middleware> {
    let mut after = calm.clone();
    let mut pods = Vec::new();
    for name in nodes {
        let position = after.nodes.iter().position(|node| node.name == *name && is_candidate(node))?;
        let node = Arc::clone(&after.nodes[position]);
        Arc::make_mut(&mut after.nodes[position]).leaving = Some(Leaving::Deleting);
        for pod in node.pods.iter().filter(|pod| pod.reschedulable && !pod.ending) {
            let known = after.shapes.iter().position(|shape| **shape == *pod.shape);
            let shape = known.unwrap_or_else(|| {
                after.shapes.push(Arc::clone(&pod.shape));
                after.shapes.len() - 1
            });
            pods.push((name.clone(), pod.uid.clone(), after.pods.len()));
            let (uid, name, from) = (pod.uid.clone(), pod.name.clone(), Some(node.name.clone()));
            after.pods.push(Pod { uid, name, shape, leaving_node: from, claims: pod.claims.clone(), ..Pod::default() });
        }
    }
    let plan = planner::plan(&after);
    let up = |name: &String| after.nodes.iter().any(|node| node.name == *name && node.stage == Stage::Initialized);
    let placed = pods.iter().all(|(_, _, pod)| match &plan.report.pods[*pod] {
        PodVerdict::Existing { node, .. } => up(node),
        PodVerdict::Launch { .. } => true,
        PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => false,
    });
    let price = |name: &String| calm.nodes.iter().find(|node| node.name == *name).and_then(|node| node.price);
    let before: i64 = nodes.iter().filter_map(price).map(|price| price.0).sum();
    let cheaper = plan.launches.iter().map(|launch| launch.price.0).sum::<i64>() < before;
    let few = plan.launches.len() <= 1 && cheaper && !is_spot_to_spot(calm, nodes, &plan.launches);
    (placed && (few || reason == CommandReason::Drifted)).then_some(Middleware { plan, pods })
}

/// Reports whether spot nodes would be replaced by a spot node, which the feature gate SpotToSpotConsolidation must permit.
fn is_spot_to_spot(calm: &Snapshot, nodes: &[String], launches: &[Launch]) -> bool {
    let spot = Some(CapacityType::Spot.as_str());
    let is_spot = |node: &Arc<Node>| node.labels.get(label::CAPACITY_TYPE).map(String::as_str) == spot;
    let to_spot = |launch: &Launch| {
        let requirements: Requirements = launch.requirements.iter().collect();
        requirements.get(label::CAPACITY_TYPE).is_none_or(|values| values.allows(spot))
    };
    let from_spot = calm.nodes.iter().filter(|node| nodes.contains(&node.name)).all(is_spot);
    !calm.policy.spot_to_spot && from_spot && launches.iter().any(to_spot)
}

fn carried(middleware: Middleware, snapshot: &Snapshot, nodes: &[String], reason: CommandReason) -> Plan {
    let Middleware { mut plan, pods } = middleware;
    let mut replacements: Vec<usize> = Vec::new();
    let relocation = |(from, uid, pod): &(String, String, usize)| {
        let to = match &plan.report.pods[*pod] {
            PodVerdict::Launch { launch, .. } => Destination::Launch(*launch),
            PodVerdict::Existing { node, .. } => Destination::Node(node.clone()),
            PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => return None,
        };
        Some(Relocation { uid: uid.clone(), pod: uid.clone(), from: from.clone(), to, surge: false })
    };
    let relocations: Vec<Relocation> = pods.iter().filter_map(relocation).collect();
    for it in &relocations {
        if let Destination::Launch(launch) = it.to {
            replacements.push(launch);
        }
    }
    replacements.sort_unstable();
    replacements.dedup();
    replacements.iter().for_each(|launch| plan.launches[*launch].purpose = Purpose::Replacement);
    let leaver = |name: &String| {
        let node = snapshot.nodes.iter().find(|node| node.name == *name)?;
        Some(DisruptedNode { node: name.clone(), claim: node.claim.clone()? })
    };
    // Pods of the removed nodes are pending only in the simulated snapshot.
    let pending = snapshot.pods.len();
    plan.report.order.retain(|pod| *pod < pending);
    plan.report.pods.truncate(pending);
    plan.nominations.retain(|nomination| nomination.pod < pending);
    plan.launches.iter_mut().for_each(|launch| launch.pods.retain(|pod| *pod < pending));
    plan.moves = vec![PlannedCommand {
        reason,
        nodes: nodes.iter().filter_map(leaver).collect(),
        replacements,
        pods: relocations,
        saving: None,
        cost: 0,
        why: CommandCause::NothingRuns,
    }];
    plan
}
