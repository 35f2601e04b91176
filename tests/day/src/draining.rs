//! Drains nodes with the drain that agent and controller ship, against a simulated Eviction API.

use std::time::Duration;

use drain::{Action, Drain, PodOnNode, Reply, Settings};

use crate::app::App;
use crate::audit::Audit;
use crate::clock::{Moment, SECOND, of_drain};
use crate::world::{Running, World};

/// Cause of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Consolidation that saves money.
    Saving,
    /// Another decision of Kerf: drift, or an instance that never registers.
    Wish,
    /// Interruption by EC2.
    Notice,
}

/// Drain of one node.
#[derive(Debug)]
pub struct Draining {
    drain: Drain,
    cause: Cause,
}

impl Draining {
    /// Creates the controller's drain, which has no deadline.
    #[must_use]
    pub fn for_termination(cause: Cause, now: Moment) -> Self {
        Self { drain: Drain::new(Settings::for_termination(None, 0), of_drain(now)), cause }
    }

    /// Creates the agent's drain, which ends when EC2 terminates the instance.
    #[must_use]
    pub fn for_notice(deadline: Moment, now: Moment) -> Self {
        let mut drain = Drain::new(Settings::for_notice(of_drain(deadline), 0), of_drain(now));
        drain.mark_closed(of_drain(now));
        Self { drain, cause: Cause::Notice }
    }

    /// Reports whether no pod is left to evict.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.drain.is_done()
    }

    /// Sends the evictions that are due and returns the moment of the next step.
    pub fn drive(&mut self, world: &mut World, node: &str, audit: &mut Audit) -> Moment {
        let now = of_drain(world.now);
        self.drain.pods(now, world.pods_on(node).map(|(name, pod)| seen(name, pod, world)).collect());
        for action in self.drain.step(now) {
            if let Some((pod, reply)) = self.answer(world, action, audit) {
                self.drain.reply(now, &pod, &reply);
            }
        }
        let next = self.drain.poll_timeout(now).and_then(|at| i64::try_from(at.0).ok());
        next.unwrap_or(world.now + SECOND).clamp(world.now + 100, world.now + SECOND)
    }

    fn answer(&self, world: &mut World, action: Action, audit: &mut Audit) -> Option<(String, Reply)> {
        let (pod, grace, forced) = match action {
            Action::Evict { pod, grace, .. } => (pod, grace, false),
            Action::Delete { pod, grace, .. } => (pod, Some(grace), true),
            Action::List => return None,
        };
        if world.is_stalled() {
            return Some((pod, Reply::Unreachable));
        }
        let Some(app) = world.pods.get(&pod).and_then(|running| world.apps.get(&running.app)).cloned() else {
            return Some((pod, Reply::Gone));
        };
        if !forced && !passes(world, &pod, &app) {
            let budget = Some(app.name);
            return Some((pod, Reply::Blocked { retry_after: Some(Duration::from_secs(10)), budget }));
        }
        audit.leaves(world, &pod, &app, self.cause, forced);
        let grace = grace.and_then(|grace| i64::try_from(grace).ok()).unwrap_or(app.grace);
        world.end(&pod, grace);
        world.evicted += 1;
        Some((pod, Reply::Accepted))
    }
}

/// Reports whether the Eviction API accepts the request. A running pod needs a budget that allows a disruption; any other pod
/// needs enough healthy pods.
fn passes(world: &World, pod: &str, app: &App) -> bool {
    let (healthy, works) = (world.healthy(&app.name), world.pods.get(pod).is_some_and(|pod| pod.ready.is_some()));
    app.may_be_away.is_none() || if works { app.allowed(healthy) > 0 } else { healthy >= app.least_healthy() }
}

fn seen(name: &str, pod: &Running, world: &World) -> PodOnNode {
    let app = world.apps.get(&pod.app);
    let deletion = pod.object.metadata.deletion_timestamp.as_ref();
    PodOnNode {
        uid: name.to_owned(),
        namespace: pod.object.namespace().to_owned(),
        name: name.to_owned(),
        owner_kind: pod.object.controller().map(|owner| owner.kind.clone()),
        grace_seconds: app.and_then(|app| u64::try_from(app.grace).ok()).unwrap_or_default(),
        deletion: deletion.map(|at| of_drain(at.0.as_millisecond())),
        ..PodOnNode::default()
    }
}
