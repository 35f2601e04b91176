//! Leader election with a Lease, so that only one of two replicas writes. The rules are those of client-go. A lease that did
//! not change for its duration, by the local clock, is free. A leader that cannot renew in time steps down. `kubert` compares
//! the renewal time with the wall clock of its machine, so that skewed clocks give two leaders.

mod keeper;
mod leader_guard;
mod leading;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::Instant;

use crate::settings::LeaseName;
use crate::state::cluster::Clock;
pub use keeper::Keeper;
pub use leader_guard::led;
pub use leading::Leading;

/// Duration of a lease without renewal.
const DURATION: Duration = Duration::from_secs(15);
/// Time without renewal after which a leader steps down.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Interval between the starts of attempts.
const RETRY: Duration = Duration::from_secs(2);
/// Time limit of an attempt: enough for an overloaded API server, and a dead connection leaves time for another attempt.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Action on the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseAction {
    Create,
    Take,
    Renew,
    Wait,
}

/// Last observed change of the lease.
#[derive(Clone, Debug, PartialEq)]
struct ObservedLease {
    spec: LeaseSpec,
    changed: Instant,
}

fn decide(me: &str, lease: Option<&LeaseSpec>, seen: Option<&ObservedLease>, now: Instant) -> LeaseAction {
    let Some(lease) = lease else { return LeaseAction::Create };
    match lease.holder_identity.as_deref() {
        Some(holder) if holder == me => LeaseAction::Renew,
        None | Some("") => LeaseAction::Take,
        Some(_) => {
            let seconds = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let duration = seconds.map_or(DURATION, Duration::from_secs);
            let expired = seen.is_some_and(|seen| seen.spec == *lease && now - seen.changed >= duration);
            if expired { LeaseAction::Take } else { LeaseAction::Wait }
        }
    }
}

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// This replica holds the lease since this moment, the start of the attempt, or longer.
    Held(Instant),
    /// Another replica holds the lease.
    HeldByOther,
    /// The attempt had no result.
    Failed,
}

/// Source of connections to the API server.
pub type Connect = Box<dyn Fn() -> kube::Result<Client> + Send>;

/// Candidate of the leader election for one replica.
pub struct Candidate {
    connect: Connect,
    /// Client of the attempts; `None` after an attempt without an answer, because its connection may be dead.
    client: Option<Client>,
    name: LeaseName,
    identity: String,
    seen: Option<ObservedLease>,
    /// Clock of the lease's timestamps, which no decision reads.
    clock: Clock,
}

impl Candidate {
    /// Creates a candidate. `identity` must differ between replicas and between restarts of one replica.
    #[must_use]
    pub fn new(connect: Connect, name: LeaseName, identity: String) -> Self {
        Self { connect, client: None, name, identity, seen: None, clock: Timestamp::now }
    }

    /// Replaces the wall clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Waits until this replica leads, and renews the lease until it is lost. Leadership counts from the start of the request
    /// that renewed the lease, because other replicas may see the renewal from then on.
    pub async fn lead(&mut self, leading: &Leading, acquired: impl FnOnce()) {
        let mut end = self.acquire().await + RENEW_DEADLINE;
        leading.extend(end);
        acquired();
        while let Some(renewed) = self.renew_until(end).await {
            end = renewed + RENEW_DEADLINE;
            leading.extend(end);
        }
        leading.end();
    }

    /// Waits until this replica holds the lease, and returns since when.
    async fn acquire(&mut self) -> Instant {
        loop {
            let next = Instant::now() + RETRY;
            if let Attempt::Held(since) = self.attempt(ATTEMPT).await {
                return since;
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Renews the lease, and returns the moment of the renewal. Returns `None` at `end` or when another replica holds the lease.
    async fn renew_until(&mut self, end: Instant) -> Option<Instant> {
        let mut next = Instant::now() + RETRY;
        loop {
            tokio::time::sleep_until(end.min(next)).await;
            let now = Instant::now();
            let left = end.saturating_duration_since(now);
            if left.is_zero() {
                return None;
            }
            next = now + RETRY;
            match self.attempt(left.min(ATTEMPT)).await {
                Attempt::Held(since) => return Some(since),
                Attempt::HeldByOther => return None,
                Attempt::Failed => {}
            }
        }
    }

    /// Releases the lease, so that another replica need not wait for its expiration.
    pub async fn release(&mut self) {
        // After a failure, another replica waits for the expiration of the lease.
        let _ = tokio::time::timeout(ATTEMPT, self.give_back()).await;
    }

    async fn give_back(&mut self) {
        let Ok(api) = self.api() else { return };
        let Ok(Some(mut lease)) = api.get_opt(&self.name.name).await else { return };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&self.identity) {
            spec.holder_identity = None;
            let _ = api.replace(&self.name.name, &PostParams::default(), &lease).await;
        }
    }

    /// Reads the lease and acts on it once, within `limit`.
    async fn attempt(&mut self, limit: Duration) -> Attempt {
        let began = Instant::now();
        let error = match tokio::time::timeout(limit, self.read_and_act()).await {
            Ok(Ok(true)) => return Attempt::Held(began),
            Ok(Ok(false)) => return Attempt::HeldByOther,
            // Another replica was faster, or an earlier attempt of this one arrived late.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => return Attempt::Failed,
            Ok(Err(error)) => daemon::error::chain(&error),
            Err(_) => {
                self.client = None;
                format!("no response within {limit:?}")
            }
        };
        tracing::warn!(error = error.as_str(), "failed to renew the lease, retrying");
        Attempt::Failed
    }

    /// Returns the API of leases, on a new connection if there is none.
    fn api(&mut self) -> kube::Result<Api<Lease>> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.client.insert((self.connect)()?).clone(),
        };
        Ok(Api::namespaced(client, &self.name.namespace))
    }

    /// Reads the lease and creates, takes or renews it. Returns false if another replica holds the lease.
    async fn read_and_act(&mut self) -> kube::Result<bool> {
        let api = self.api()?;
        let lease = api.get_opt(&self.name.name).await?;
        let now = Instant::now();
        let spec = lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let step = decide(&self.identity, spec.as_ref(), self.seen.as_ref(), now);
        if let Some(spec) = &spec
            && self.seen.as_ref().is_none_or(|seen| seen.spec != *spec)
        {
            self.seen = Some(ObservedLease { spec: spec.clone(), changed: now });
        }
        match step {
            LeaseAction::Wait => return Ok(false),
            LeaseAction::Create => api.create(&PostParams::default(), &self.ours(None)).await?,
            LeaseAction::Take | LeaseAction::Renew => {
                api.replace(&self.name.name, &PostParams::default(), &self.ours(lease)).await?
            }
        };
        Ok(true)
    }

    /// Returns the lease with this replica as its holder.
    fn ours(&self, lease: Option<Lease>) -> Lease {
        let now = MicroTime((self.clock)());
        let mut lease = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            spec.holder_identity = Some(self.identity.clone());
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count + 1));
            spec.acquire_time = Some(now.clone());
        }
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
        spec.renew_time = Some(now);
        lease
    }
}

#[cfg(test)]
mod two_replicas;

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, LeaseAction, LeaseSpec, ObservedLease, decide};

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec { holder_identity: Some(holder.to_owned()), lease_duration_seconds: Some(15), ..LeaseSpec::default() }
    }

    #[test]
    fn decide_takes_the_lease_when_it_is_free_or_expired() {
        let start = Instant::now();
        let other = held_by("other");
        let seen = ObservedLease { spec: other.clone(), changed: start };
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(decide("me", None, None, start), LeaseAction::Create);
        assert_eq!(decide("me", Some(&held_by("me")), None, start), LeaseAction::Renew);
        assert_eq!(decide("me", Some(&held_by("")), None, start), LeaseAction::Take);
        assert_eq!(decide("me", Some(&other), None, at(3600)), LeaseAction::Wait);
        assert_eq!(decide("me", Some(&other), Some(&seen), at(14)), LeaseAction::Wait);
        assert_eq!(decide("me", Some(&other), Some(&seen), at(15)), LeaseAction::Take);
        assert_eq!(decide("me", Some(&held_by("third")), Some(&seen), at(3600)), LeaseAction::Wait);
    }
}
