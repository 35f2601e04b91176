//! Passes of the planner: when they are due, and what they decide.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use planner::{Destination, Nomination, Plan, PlanCache, Validation};
use snapshot::{Input, Settings, SnapshotCache, SnapshotResult};

use crate::cluster::Cluster;
use crate::karpenter::{KarpenterRules, forget_additions};

/// Time without a new pod after which a plan is due, and the longest time until then, as multiples of it.
const WINDOW: (SignedDuration, i32) = (SignedDuration::from_secs(1), 10);
/// Number of windows for new pods in a whole recording, at most. In a long one, they are longer.
const WINDOWS: i32 = 40_000;
/// Longest time between two plans.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(10);
/// Time for which a nomination protects its node.
const NOMINATION: SignedDuration = SignedDuration::from_secs(20);
/// Number of plans that only save money in a whole recording, at most. In a long one, more changes share a plan.
const SAVING_PLANS: i32 = 1_500;
/// Shortest time between such plans.
const LEAST_PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// Planner with its memory between plans.
pub(crate) struct Passes {
    settings: Settings,
    seed: u64,
    karpenter: Option<KarpenterRules>,
    cache: SnapshotCache,
    /// Nominated nodes by the UID of the pod, with the order of the nomination and the end of the node's protection.
    nominations: BTreeMap<String, (u64, String, Timestamp)>,
    numbers: u64,
    /// Time of the next plan for pods.
    for_pods: Option<Timestamp>,
    /// Begin of the window of new pods.
    opened: Option<Timestamp>,
    /// Time of the next plan that may save money.
    for_savings: Timestamp,
    /// Time of the last plan that may save money.
    last: Timestamp,
    /// Time without a new pod after which a plan is due.
    window: SignedDuration,
    /// Least time between two plans that may save money.
    pause: SignedDuration,
    /// Commands that are being validated, and the end of that time.
    validated: Option<(Timestamp, Decisions)>,
}

/// Decisions of a pass.
pub(crate) struct Decisions {
    pub(crate) built: Arc<SnapshotResult>,
    pub(crate) plan: Arc<Plan>,
    /// Positions of the commands to begin now.
    pub(crate) begin: Vec<usize>,
    /// True if pods get their places now, too.
    pub(crate) places_pods: bool,
}

impl Passes {
    /// Creates the planner for a recording of this length.
    pub(crate) fn new(
        settings: Settings,
        karpenter: Option<KarpenterRules>,
        begin: Timestamp,
        length: SignedDuration,
    ) -> Self {
        Self {
            settings,
            seed: 0,
            karpenter,
            cache: SnapshotCache::default(),
            nominations: BTreeMap::new(),
            numbers: 0,
            for_pods: None,
            opened: None,
            for_savings: begin,
            last: begin,
            window: (length / WINDOWS).max(WINDOW.0),
            pause: (length / SAVING_PLANS).max(LEAST_PAUSE),
            validated: None,
        }
    }

    pub(crate) fn due(&self) -> Timestamp {
        // While commands are validated, no others are searched.
        let savings = self.validated.as_ref().map_or(self.for_savings, |(end, _)| *end);
        self.for_pods.map_or(savings, |pods| pods.min(savings))
    }

    /// Returns the time between two rounds of kube-scheduler: none unless the recording is long.
    pub(crate) fn bind_pause(&self) -> SignedDuration {
        if self.window > WINDOW.0 { self.window } else { SignedDuration::ZERO }
    }

    /// Requests a plan for pods without a place.
    pub(crate) fn request_for_pods(&mut self, now: Timestamp) {
        let opened = *self.opened.get_or_insert(now);
        self.for_pods = Some((now + self.window).min(opened + self.window * WINDOW.1));
    }

    /// Requests a plan that may save money.
    pub(crate) fn request_for_savings(&mut self, now: Timestamp) {
        self.for_savings = self.for_savings.min((now + LEAST_PAUSE).max(self.last + self.pause));
    }

    /// Returns the pods that kube-scheduler binds now, with the UID and the node of each.
    pub(crate) fn bindings(&mut self, cluster: &mut Cluster) -> Vec<(String, String)> {
        let built = self.build(cluster);
        let bound = |found: Nomination| (built.snapshot.pods[found.pod].uid.clone(), found.node);
        planner::bindings(&built.snapshot).into_iter().map(bound).collect()
    }

    fn build(&mut self, cluster: &mut Cluster) -> SnapshotResult {
        let now = cluster.now;
        let exists = |name: &String| cluster.nodes.contains_key(name) || cluster.claims.contains_key(name);
        self.nominations.retain(|_, (_, node, _)| exists(node));
        let mut named: Vec<(&u64, &String, &String)> =
            self.nominations.iter().map(|(uid, (number, node, _))| (number, uid, node)).collect();
        named.sort_unstable();
        let mut until: BTreeMap<String, Timestamp> = BTreeMap::new();
        for (_, node, end) in self.nominations.values().filter(|(_, _, end)| *end > now) {
            let last = until.entry(node.clone()).or_insert(*end);
            *last = (*last).max(*end);
        }
        let nominations = named.into_iter().map(|(_, uid, node)| (uid.clone(), node.clone())).collect();
        let (settings, seed) = (self.settings, self.seed);
        let input = cluster.input();
        let mut built = self.cache.build(&Input { seed, settings, nominations, nominated_until: until, ..input });
        if self.karpenter.is_some() {
            forget_additions(&mut built.snapshot);
        }
        built
    }

    /// Decides what is due now.
    pub(crate) fn plan(&mut self, cluster: &mut Cluster) -> Decisions {
        let now = cluster.now;
        if let Some((_, mut decisions)) = self.validated.take_if(|(end, _)| *end <= now) {
            let mut begin = std::mem::take(&mut decisions.begin);
            begin.retain(|command| is_still_valid(cluster, &decisions, *command));
            return Decisions { begin, ..decisions };
        }
        self.seed += 1;
        (self.opened, self.for_pods) = (None, None);
        let built = Arc::new(self.build(cluster));
        let is_for_pods = self.validated.is_some() || self.for_savings > now;
        if is_for_pods {
            let plan = Arc::new(planner::placement(&built.snapshot));
            return Decisions { built, plan, begin: Vec::new(), places_pods: true };
        }
        self.last = now;
        match self.karpenter.take() {
            Some(rules) => self.plan_as_karpenter(rules, built, now),
            None => self.plan_savings(built, now),
        }
    }

    fn plan_as_karpenter(
        &mut self,
        mut rules: KarpenterRules,
        built: Arc<SnapshotResult>,
        now: Timestamp,
    ) -> Decisions {
        let plan = Arc::new(rules.plan(&built.snapshot, now.as_millisecond()));
        let next = Timestamp::from_millisecond(rules.next()).unwrap_or(now);
        self.for_savings = next.max(now + self.pause);
        self.karpenter = Some(rules);
        Decisions { begin: (0..plan.moves.len()).collect(), built, plan, places_pods: true }
    }

    /// Plans with Kerf's rules. Commands that only save money begin after their validation.
    fn plan_savings(&mut self, built: Arc<SnapshotResult>, now: Timestamp) -> Decisions {
        let plan = Arc::new(planner::plan(&built.snapshot));
        let (later, begin): (Vec<usize>, Vec<usize>) =
            (0..plan.moves.len()).partition(|command| plan.moves[*command].reason.is_validated());
        let rests = PlanCache::new(&built.snapshot, &plan).map(|rests| rests.until().0);
        let look = rests.and_then(|until| Timestamp::from_millisecond(until).ok()).unwrap_or(now + LOOK_AGAIN);
        self.for_savings = look.max(now + self.pause);
        if !later.is_empty() {
            let waits =
                Decisions { built: Arc::clone(&built), plan: Arc::clone(&plan), begin: later, places_pods: false };
            self.validated = Some((now + SignedDuration::from_millis(Validation::TIME), waits));
        }
        Decisions { built, plan, begin, places_pods: true }
    }

    /// Keeps the nominations of a plan: to nodes, and to the NodeClaims of its launches.
    pub(crate) fn nominate(&mut self, decisions: &Decisions, claims: &BTreeMap<usize, String>, now: Timestamp) {
        let Decisions { built, plan, begin, places_pods } = decisions;
        let uid = |pod: usize| built.snapshot.pods[pod].uid.clone();
        let real = |pod: &usize| built.snapshot.pods[*pod].holder.is_none();
        for found in plan.nominations.iter().filter(|found| *places_pods && real(&found.pod)) {
            self.promise(uid(found.pod), found.node.clone(), now);
        }
        for (position, claim) in claims {
            for pod in plan.launches[*position].pods.iter().filter(|pod| real(pod)) {
                self.promise(uid(*pod), claim.clone(), now);
            }
        }
        for relocation in begin.iter().filter_map(|position| plan.moves.get(*position)).flat_map(|it| &it.pods) {
            let to = match &relocation.to {
                Destination::Node(node) => Some(node),
                Destination::Launch(launch) => claims.get(launch),
            };
            to.into_iter().for_each(|to| self.promise(relocation.uid.clone(), to.clone(), now));
        }
    }

    fn promise(&mut self, uid: String, node: String, now: Timestamp) {
        self.numbers += 1;
        self.nominations.insert(uid, (self.numbers, node, now + NOMINATION));
    }

    /// Reports whether a plan has a place for the pod.
    pub(crate) fn has_promised(&self, uid: &str) -> bool {
        self.nominations.contains_key(uid)
    }

    /// Removes the nomination of a pod that was bound or is gone.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.nominations.remove(uid);
    }
}

/// Reports whether a command still holds after its validation: its nodes have the same pods, and the nodes for them exist.
fn is_still_valid(cluster: &Cluster, decisions: &Decisions, command: usize) -> bool {
    let (planned, nodes) = (&decisions.plan.moves[command], &decisions.built.snapshot.nodes);
    let is_present =
        |name: &str| cluster.nodes.get(name).is_some_and(|node| node.metadata.deletion_timestamp.is_none());
    let is_same = |name: &str| {
        let before = nodes.iter().find(|node| node.name == name).into_iter().flat_map(|node| &node.pods);
        let mut before: Vec<&str> = before.map(|pod| pod.uid.as_str()).collect();
        before.sort_unstable();
        let now = cluster.pods_on(name);
        let mut now: Vec<&str> = now.iter().filter_map(|uid| cluster.pod(uid)?.metadata.uid.as_deref()).collect();
        now.sort_unstable();
        before == now
    };
    let has_place = |to: &Destination| match to {
        Destination::Node(node) => is_present(node),
        Destination::Launch(_) => true,
    };
    planned.nodes.iter().all(|leaver| is_present(&leaver.node) && is_same(&leaver.node))
        && planned.pods.iter().all(|pod| has_place(&pod.to))
}
