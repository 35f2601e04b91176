//! Launches that gave their pods no place, by pod group and NodePool: nodes that came up and took no pod, because a taint of
//! another program or an unknown rule keeps pods away, and NodeClaims that were deleted before their node came up. The next
//! launch for such a group in that NodePool waits, each time twice as long. Other pods and other NodePools do not wait.
//!
//! Nodes that came up and that no pod could use, because a startup taint stayed, pause all launches of their NodePool after a few.
//!
//! A pod group is all pods of one controller, or the virtual pods of one CapacityBuffer or ProvisioningRequest. A static NodePool
//! has one group for its missing nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use planner::{CapacityHolder, LaunchPause, Millis};
use serde::{Deserialize, Serialize};

use super::pool_failures::PoolFailures;
use super::{Backoff, FailuresInARow, PoolVersion};
use crate::state::nominations::after;

/// Delay after nodes that took no pod.
const UNUSED: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(10 * 60));
/// Delay after NodeClaims without a node, from the second one on: the next plan may choose other capacity, without a delay.
const LOST: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(60));
/// Number of nodes that no pod could use after which the NodePool launches no further ones. Not one of them may have been
/// initialized meanwhile.
const UNREADY_NODES: u32 = 3;
/// Pause of the NodePool after the last of them.
const UNREADY: Duration = Duration::from_secs(60 * 60);
/// Time in which kube-scheduler binds the first pod to a new node.
const BINDING: Duration = Duration::from_secs(5);
/// Maximum number of groups of a NodePool that survive a restart, those with the most failures.
const STORED: usize = 20;
/// Time after which the failures of a group without pending pods are dropped.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);

/// Pod group of a launch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodGroup {
    /// Pods by the UID of their controller, or of the pod without a controller.
    Controller(String),
    /// Virtual pods of the CapacityBuffer with this `namespace/name`.
    Buffer(String),
    /// Virtual pods of the ProvisioningRequest with this `namespace/name`.
    Request(String),
    /// Missing nodes of a static NodePool.
    Replicas,
}

impl From<&CapacityHolder> for PodGroup {
    fn from(holder: &CapacityHolder) -> Self {
        match holder {
            CapacityHolder::Buffer(key) => Self::Buffer(key.clone()),
            CapacityHolder::Request(key) => Self::Request(key.clone()),
        }
    }
}

/// Pods of a launch by group: their UIDs.
pub type PodGroups = BTreeMap<PodGroup, BTreeSet<String>>;

/// State of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// The node is not registered yet.
    Starting,
    /// The node is registered, so that its taints and its capacity are known.
    Up(NodeUse),
    /// The NodeClaim is being deleted or gone.
    Gone,
}

/// Use of a registered node, the most certain one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeUse {
    /// The node has pods other than those of DaemonSets.
    Pods,
    /// The last plan keeps capacity of the node for virtual pods.
    VirtualPods,
    /// The last plan expects pods on the node.
    Expected,
    /// None of these.
    Unused,
}

/// Launch whose result is open.
#[derive(Clone, Debug)]
struct OpenAttempt {
    pool: String,
    groups: PodGroups,
    version: PoolVersion,
    launched: Timestamp,
    /// Time at which the node was first found registered.
    up: Option<Timestamp>,
    /// True if the launch was counted as a failure. A late pod still proves the opposite.
    failed: bool,
}

/// Failures of one group in one NodePool.
#[derive(Clone, Debug)]
struct FailedLaunches {
    version: PoolVersion,
    count: u32,
    last: Timestamp,
    /// True if the last node came up and took no pod.
    unused: bool,
    /// Time at which the group last had pending pods.
    needed: Timestamp,
}

/// Failures of one group in the form that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredLaunch {
    group: PodGroup,
    count: u32,
    last: Timestamp,
    unused: bool,
}

/// Pause that kept pods of a NodePool without a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedLaunches {
    /// Number of pods; 0 for missing nodes of a static NodePool.
    pub pods: usize,
    /// Largest number of failures in a row.
    pub failures: u32,
    /// Time of the next launch.
    pub until: Timestamp,
    /// Cause, if the nodes of the NodePool came up and no pod could use them.
    pub cause: Option<String>,
}

/// Sources of the state of launches.
pub struct AttemptView<'a> {
    /// State of a NodeClaim by its name.
    pub state: &'a dyn Fn(&str) -> AttemptState,
    /// True if the pod group still needs a place for one of these pods.
    pub needs: &'a dyn Fn(&PodGroup, &BTreeSet<String>) -> bool,
    /// Present version of a NodePool.
    pub version: &'a dyn Fn(&str) -> PoolVersion,
    /// Time of the update.
    pub now: Timestamp,
}

/// Launches with an open result, and failures in a row.
#[derive(Clone, Debug, Default)]
pub struct LaunchAttempts {
    open: BTreeMap<String, OpenAttempt>,
    failed: BTreeMap<(String, PodGroup), FailedLaunches>,
    /// Nodes in a row of each NodePool that came up and that no pod could use.
    unready: PoolFailures,
    blocked: BTreeMap<String, BlockedLaunches>,
}

impl LaunchAttempts {
    /// Records a new NodeClaim with the pods that it is made for.
    pub fn begin(&mut self, claim: &str, pool: &str, groups: PodGroups, version: PoolVersion, now: Timestamp) {
        let attempt = OpenAttempt { pool: pool.to_owned(), groups, version, launched: now, up: None, failed: false };
        self.open.insert(claim.to_owned(), attempt);
    }

    /// Returns the failures of a NodePool in this version: launches by group, those with the most failures first.
    pub(super) fn stored(&self, pool: &str, version: &PoolVersion) -> Vec<StoredLaunch> {
        let own = self.failed.iter().filter(|((other, _), failed)| other == pool && failed.version == *version);
        let mut launches: Vec<StoredLaunch> = own
            .map(|((_, group), failed)| StoredLaunch {
                group: group.clone(),
                count: failed.count,
                last: failed.last,
                unused: failed.unused,
            })
            .collect();
        launches.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.group.cmp(&other.group)));
        launches.truncate(STORED);
        launches
    }

    /// Restores failures of an earlier process, unless later ones of this version are known.
    pub(super) fn restore(&mut self, pool: &str, version: &PoolVersion, stored: StoredLaunch) {
        let StoredLaunch { group, count, last, unused } = stored;
        let key = (pool.to_owned(), group);
        let known = self.failed.get(&key).filter(|known| known.version == *version);
        if known.is_none_or(|known| known.last < last) {
            let failed = FailedLaunches { version: version.clone(), count, last, unused, needed: last };
            self.failed.insert(key, failed);
        }
    }

    /// Records a node of a NodePool that came up and that no pod could use in time.
    pub fn fail_startup(&mut self, pool: &str, version: PoolVersion, cause: &str, now: Timestamp) {
        self.unready.fail(pool, version, cause, now);
    }

    /// Records an initialized node of a NodePool.
    pub fn succeed_startup(&mut self, pool: &str, version: PoolVersion, now: Timestamp) {
        self.unready.succeed(pool, version, now);
    }

    /// Returns the nodes in a row that no pod could use, if there are any in this version of the NodePool.
    pub(super) fn stored_startups(&self, pool: &str, version: &PoolVersion) -> Option<FailuresInARow> {
        self.unready.stored(pool, version)
    }

    /// Restores nodes of an earlier process, unless a later result of this version is known.
    pub(super) fn restore_startups(&mut self, pool: &str, version: PoolVersion, stored: FailuresInARow) {
        self.unready.restore(pool, version, stored);
    }

    /// Evaluates all open launches.
    pub fn update(&mut self, view: &AttemptView<'_>) {
        let expired = |failed: &FailedLaunches| after(failed.last.max(failed.needed), FORGOTTEN) <= view.now;
        self.failed.retain(|(pool, _), failed| failed.version == (view.version)(pool) && !expired(failed));
        self.unready.retain_current(view.version);
        let open = std::mem::take(&mut self.open);
        for (claim, mut attempt) in open {
            let state = (view.state)(&claim);
            if attempt.version != (view.version)(&attempt.pool) {
                continue;
            }
            if self.evaluate(&mut attempt, state, view) {
                self.open.insert(claim, attempt);
            }
        }
    }

    /// Evaluates one launch and reports whether its result is still open.
    fn evaluate(&mut self, attempt: &mut OpenAttempt, state: AttemptState, view: &AttemptView<'_>) -> bool {
        if let AttemptState::Up(node_use) = state {
            self.succeed(attempt, node_use);
            let up = *attempt.up.get_or_insert(view.now);
            if attempt.groups.is_empty() {
                return false;
            }
            if node_use != NodeUse::Unused || attempt.failed || after(up, BINDING) > view.now {
                return true;
            }
        }
        if state != AttemptState::Starting && !attempt.failed {
            attempt.failed = true;
            self.fail(attempt, view);
        }
        state != AttemptState::Gone
    }

    /// Removes the groups that have what they need, with their earlier failures. A static NodePool needs the node itself.
    fn succeed(&mut self, attempt: &mut OpenAttempt, node_use: NodeUse) {
        let succeeds = |group: &PodGroup| match group {
            PodGroup::Controller(_) => node_use == NodeUse::Pods,
            PodGroup::Buffer(_) | PodGroup::Request(_) => matches!(node_use, NodeUse::Pods | NodeUse::VirtualPods),
            PodGroup::Replicas => true,
        };
        for (group, _) in attempt.groups.extract_if(.., |group, _| succeeds(group)) {
            self.failed.remove(&(attempt.pool.clone(), group));
        }
    }

    /// Counts a failure for each group that still needs a place. Launches that began before the last failure belong to the same
    /// attempt.
    fn fail(&mut self, attempt: &OpenAttempt, view: &AttemptView<'_>) {
        for (group, _) in attempt.groups.iter().filter(|(group, pods)| (view.needs)(group, pods)) {
            let failed = self.failed.entry((attempt.pool.clone(), group.clone())).or_insert_with(|| FailedLaunches {
                version: attempt.version.clone(),
                count: 0,
                last: attempt.launched,
                unused: false,
                needed: view.now,
            });
            failed.unused = attempt.up.is_some();
            if failed.count == 0 || attempt.launched > failed.last {
                failed.count = failed.count.saturating_add(1);
                failed.last = view.now;
            }
        }
    }

    /// Reports whether any launch is paused, so that pauses must be searched.
    #[must_use]
    pub fn has_pauses(&self) -> bool {
        !self.failed.is_empty()
            || self.unready.iter().any(|(_, unready)| unready.count > 0)
            || self.open.values().any(|attempt| attempt.up.is_some())
    }

    /// Reports whether whole NodePools are paused.
    #[must_use]
    pub fn has_paused_pools(&self, now: Timestamp) -> bool {
        self.paused_pools(now).next().is_some()
    }

    /// Returns the NodePools that launch nothing, with the end of the pause.
    fn paused_pools(&self, now: Timestamp) -> impl Iterator<Item = (&String, &FailuresInARow, Timestamp)> {
        let paused = self.unready.iter().filter(|(_, unready)| unready.count >= UNREADY_NODES);
        paused.map(|(pool, unready)| (pool, unready, after(unready.last, UNREADY))).filter(move |(.., end)| *end > now)
    }

    /// Returns the pauses of a group for one of its pods; a virtual pod has no UID.
    pub fn pauses(&mut self, group: &PodGroup, pod: &str, now: Timestamp) -> Vec<LaunchPause> {
        let whole = self.paused_pools(now);
        let mut pauses: Vec<LaunchPause> = whole
            .map(|(pool, unready, end)| LaunchPause { pool: pool.clone(), failures: unready.count, until: millis(end) })
            .collect();
        for ((pool, _), failed) in self.failed.iter_mut().filter(|((_, other), _)| other == group) {
            failed.needed = now;
            let until = failed.until();
            if until > now && pauses.iter().all(|known| known.pool != *pool) {
                pauses.push(LaunchPause { pool: pool.clone(), failures: failed.count, until: millis(until) });
            }
        }
        let undecided = self.open.values().filter_map(|attempt| {
            let until = after(attempt.up.filter(|_| !attempt.failed)?, BINDING);
            let own = attempt.groups.get(group)?.contains(pod);
            (own && until > now).then(|| LaunchPause { pool: attempt.pool.clone(), failures: 0, until: millis(until) })
        });
        for pause in undecided {
            if pauses.iter().all(|known| known.pool != pause.pool) {
                pauses.push(pause);
            }
        }
        pauses
    }

    /// Returns the objects that keep capacity and may have pauses.
    #[must_use]
    pub fn holders(&self) -> BTreeSet<CapacityHolder> {
        let failed = self.failed.keys().map(|(_, group)| group);
        let groups = failed.chain(self.open.values().flat_map(|attempt| attempt.groups.keys()));
        let keys = groups.filter_map(|group| match group {
            PodGroup::Buffer(key) => Some(CapacityHolder::Buffer(key.clone())),
            PodGroup::Request(key) => Some(CapacityHolder::Request(key.clone())),
            PodGroup::Controller(_) | PodGroup::Replicas => None,
        });
        keys.collect()
    }

    /// Returns the times until which static NodePools launch no missing node.
    #[must_use]
    pub fn static_pools(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let paused =
            self.failed.iter().filter(|((_, group), failed)| *group == PodGroup::Replicas && failed.until() > now);
        let whole = self.paused_pools(now).map(|(pool, _, end)| (pool.clone(), end));
        paused.map(|((pool, _), failed)| (pool.clone(), failed.until())).chain(whole).collect()
    }

    /// Returns the number of failures in a row of a static NodePool.
    #[must_use]
    pub fn static_failures(&self, pool: &str) -> u32 {
        let missing = self.failed.get(&(pool.to_owned(), PodGroup::Replicas)).map_or(0, |failed| failed.count);
        missing.max(self.unready.last_known(pool).map_or(0, |unready| unready.count))
    }

    /// Replaces the pauses that kept pods without a place in the last plan, and returns the NodePools where they changed.
    pub fn block(&mut self, blocked: BTreeMap<String, BlockedLaunches>) -> Vec<String> {
        let pools: BTreeSet<&String> = self.blocked.keys().chain(blocked.keys()).collect();
        let changed = pools.into_iter().filter(|pool| self.blocked.get(*pool) != blocked.get(*pool)).cloned().collect();
        self.blocked = blocked;
        changed
    }

    /// Returns the pause that keeps pods of a NodePool without a place.
    #[must_use]
    pub fn blocked(&self, pool: &str) -> Option<BlockedLaunches> {
        let unready = self.unready.last_known(pool).filter(|unready| unready.count >= UNREADY_NODES);
        let cause = unready.map(|unready| unready.cause.clone());
        self.blocked.get(pool).map(|blocked| BlockedLaunches { cause, ..blocked.clone() })
    }
}

impl StoredLaunch {
    /// Returns the failures with a last one that is not after `now`: the clock of another process may be ahead.
    pub(super) fn until(self, now: Timestamp) -> Self {
        Self { last: self.last.min(now), ..self }
    }
}

impl FailedLaunches {
    fn until(&self) -> Timestamp {
        match self.unused {
            true => UNUSED.next(self.count, self.last),
            false => LOST.next(self.count.saturating_sub(1), self.last),
        }
    }
}

fn millis(at: Timestamp) -> Millis {
    Millis(at.as_millisecond())
}

#[cfg(test)]
mod tests;
