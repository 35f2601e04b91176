//! A small API server: pods that end after their grace period or never, budgets that recover, stalls and errors. The server
//! respects budgets in evictions but not in deletions, as the real API server does, and records all requests.

use std::collections::BTreeMap;
use std::time::Duration;

use drain::{Action, AwaitedCopy, Millis, PodOnNode, Protection, Reply};

/// A pod on the server.
#[derive(Clone, Debug)]
pub struct Held {
    pub pod: PodOnNode,
    /// Budgets that select the pod, by index.
    pub budgets: Vec<usize>,
    /// Time from SIGTERM to the end; `None` never ends and is not killed either, as with a failed kubelet.
    pub stops_in: Option<Duration>,
    /// Time at which the pod appears on the node.
    pub from: Millis,
    /// Time at which the pod is gone.
    pub gone: Option<Millis>,
    /// Time of its first deletion, and whether the deletion was forced.
    pub ended: Option<(Millis, bool)>,
}

impl Held {
    /// Reports whether a drain without DaemonSets evicts the pod.
    pub fn goes(&self) -> bool {
        let Self { pod, .. } = self;
        let free = pod.do_not_disrupt == Protection::None && pod.copy == AwaitedCopy::None;
        free && !pod.terminal && !pod.mirror && !pod.tolerates_disrupted && !pod.is_daemon()
    }

    pub fn is_there(&self, now: Millis) -> bool {
        self.from <= now && self.gone.is_none_or(|gone| now < gone)
    }
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug)]
pub struct Budget {
    /// `maxUnavailable`.
    pub most: usize,
    /// Time until a replacement is ready.
    pub heals_in: Duration,
    /// The server's `Retry-After` if no disruption is allowed.
    pub retry_after: Option<Duration>,
    /// End of each current disruption.
    pub disrupted: Vec<Millis>,
    /// Maximum number of concurrent disruptions by eviction.
    pub peak: usize,
}

impl Budget {
    pub fn allowed(&self, now: Millis) -> usize {
        self.most.saturating_sub(self.disrupted.iter().filter(|heals| **heals > now).count())
    }
}

/// Time in which the server accepts requests but does not respond; `acts` if it executes them nevertheless.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    pub from: Millis,
    pub until: Millis,
    pub acts: bool,
}

/// The server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub pods: BTreeMap<String, Held>,
    pub budgets: Vec<Budget>,
    pub stalls: Vec<Stall>,
    /// Status codes that replace the responses to the next requests, in order; 0 for none.
    pub errors: Vec<u16>,
    pub latency: Duration,
    /// Number of requests so far.
    pub requests: usize,
}

/// Timeout of a client.
pub const PATIENCE: Duration = Duration::from_secs(5);

impl Server {
    pub fn stalled(&self, now: Millis) -> Option<Stall> {
        self.stalls.iter().copied().find(|stall| stall.from <= now && now < stall.until)
    }

    /// Returns the pods bound to the node.
    pub fn list(&self, now: Millis) -> Vec<PodOnNode> {
        self.pods.values().filter(|held| held.is_there(now)).map(|held| held.pod.clone()).collect()
    }

    /// Processes a request that was sent at `now`; returns its response with the time of arrival.
    pub fn take(&mut self, action: &Action, now: Millis) -> (Millis, Reply) {
        self.requests += 1;
        let error = self.errors.get(self.requests - 1).copied().filter(|code| *code != 0);
        match self.stalled(now) {
            Some(stall) => {
                if stall.acts {
                    self.answer(action, now);
                }
                (now + PATIENCE, Reply::Unreachable)
            }
            None => {
                let reply = error.map(|code| Reply::from_status(code, "", None));
                (now + self.latency * 2, reply.unwrap_or_else(|| self.answer(action, now + self.latency)))
            }
        }
    }

    fn answer(&mut self, action: &Action, now: Millis) -> Reply {
        match action {
            Action::Evict { uid, grace, .. } => self.evict(uid, *grace, now),
            Action::Delete { uid, grace, .. } => self.delete(uid, *grace, now),
            Action::List => Reply::Accepted,
        }
    }

    fn evict(&mut self, uid: &str, grace: Option<u64>, now: Millis) -> Reply {
        let Some(held) = self.pods.get_mut(uid).filter(|held| held.is_there(now)) else {
            return Reply::Gone;
        };
        if held.pod.deletion.is_some() {
            return Reply::Accepted;
        }
        if held.budgets.len() > 1 {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Reply::from_status(500, message, None);
        }
        if let Some(index) = held.budgets.first() {
            let budget = &mut self.budgets[*index];
            if budget.allowed(now) == 0 {
                let message = format!(
                    "Cannot evict pod. The disruption budget pdb-{index} needs 3 healthy pods and has 3 currently"
                );
                return Reply::from_status(429, &message, budget.retry_after);
            }
            budget.disrupted.push(now + budget.heals_in);
            budget.peak = budget.peak.max(budget.most - budget.allowed(now));
        }
        end(held, grace.unwrap_or(held.pod.grace_seconds), false, now);
        Reply::Accepted
    }

    fn delete(&mut self, uid: &str, grace: u64, now: Millis) -> Reply {
        let Some(held) = self.pods.get_mut(uid).filter(|held| held.is_there(now)) else {
            return Reply::Gone;
        };
        for index in &held.budgets {
            let budget = &mut self.budgets[*index];
            budget.disrupted.push(now + budget.heals_in);
        }
        end(held, grace, true, now);
        Reply::Accepted
    }

    /// Returns the next time at which the state changes without a request.
    pub fn next(&self, now: Millis) -> Option<Millis> {
        let pods = self.pods.values().flat_map(|held| [Some(held.from), held.gone]).flatten();
        let stalls = self.stalls.iter().flat_map(|stall| [stall.from, stall.until]);
        pods.chain(stalls).filter(|at| *at > now).min()
    }
}

fn end(held: &mut Held, grace: u64, forced: bool, now: Millis) {
    let end = now + Duration::from_secs(grace);
    let sooner = held.pod.deletion.is_none_or(|before| end < before);
    if sooner {
        held.pod.deletion = Some(end);
        let stopped = |span: Duration| (held.ended.map_or(now, |(at, _)| at) + span).min(end).max(now);
        held.gone = held.stops_in.map(stopped);
    }
    held.ended.get_or_insert((now, forced));
}
