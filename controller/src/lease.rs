//! Leader election with a Lease, so that only one of two replicas writes. The rules are those of client-go. A lease that did
//! not change for its duration, by the local clock, is free. A leader that cannot renew in time steps down. `kubert` compares
//! the renewal time with the wall clock of its machine, so that skewed clocks give two leaders.

mod keeper;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::Instant;

use crate::settings::LeaseName;
pub use keeper::Keeper;

/// Duration of a lease without renewal.
const DURATION: Duration = Duration::from_secs(15);
/// Time without renewal after which a leader steps down.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Interval between attempts.
const RETRY: Duration = Duration::from_secs(2);

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

/// Candidate of the leader election for one replica.
pub struct Leadership {
    api: Api<Lease>,
    name: LeaseName,
    identity: String,
    seen: Option<ObservedLease>,
}

impl Leadership {
    /// Creates a candidate. `identity` must differ between replicas and between restarts of one replica.
    #[must_use]
    pub fn new(client: Client, name: LeaseName, identity: String) -> Self {
        Self { api: Api::namespaced(client, &name.namespace), name, identity, seen: None }
    }

    /// Waits until this replica leads.
    pub async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(
                        error = daemon::error::chain(&error).as_str(),
                        "failed to renew the lease, retrying"
                    );
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the lease until it is lost.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RETRY).await;
            match tokio::time::timeout(RENEW_DEADLINE, self.attempt()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => return,
                Ok(Err(_)) | Err(_) if renewed.elapsed() < RENEW_DEADLINE => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// Releases the lease, so that another replica need not wait for its expiration.
    pub async fn release(&mut self) {
        let Ok(Some(mut lease)) = self.api.get_opt(&self.name.name).await else { return };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&self.identity) {
            spec.holder_identity = None;
            // After a failure, another replica waits for the expiration of the lease.
            let _ = self.api.replace(&self.name.name, &PostParams::default(), &lease).await;
        }
    }

    /// Reads the lease and acts on it once. `Ok(true)` means that this replica leads. A conflict means that another replica was
    /// faster.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        let lease = self.api.get_opt(&self.name.name).await?;
        let now = Instant::now();
        let spec = lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let step = decide(&self.identity, spec.as_ref(), self.seen.as_ref(), now);
        if let Some(spec) = &spec
            && self.seen.as_ref().is_none_or(|seen| seen.spec != *spec)
        {
            self.seen = Some(ObservedLease { spec: spec.clone(), changed: now });
        }
        let written = match step {
            LeaseAction::Wait => return Ok(false),
            LeaseAction::Create => self.api.create(&PostParams::default(), &self.ours(None)).await,
            LeaseAction::Take | LeaseAction::Renew => {
                self.api.replace(&self.name.name, &PostParams::default(), &self.ours(lease)).await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the lease with this replica as its holder.
    fn ours(&self, lease: Option<Lease>) -> Lease {
        let now = MicroTime(jiff::Timestamp::now());
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
