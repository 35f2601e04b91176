//! Assignment of instances to NodeClaims, after a launch and after a crash.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{ClaimId, Token};
use crate::calls::Instance;
use crate::tags::{LAUNCH_TOKEN_TAG, NODE_CLAIM_UID_TAG};

/// A NodeClaim whose launch has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldInstance {
    /// Name and UID of the NodeClaim.
    pub claim: ClaimId,
    /// Token of its annotation.
    pub token: Token,
    /// Instance that its status already names.
    pub instance: Option<String>,
}

/// An instance with its NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assignment {
    /// Name and UID of the NodeClaim.
    pub claim: ClaimId,
    /// Instance id.
    pub instance: String,
}

/// Next step for a NodeClaim with a token and without an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The launch succeeded: the instance exists.
    Adopt(Assignment),
    /// The outcome is unknown: check again at this time.
    Wait {
        /// Name and UID of the NodeClaim.
        claim: ClaimId,
        /// Time at which every instance of the launch must be visible.
        until: Timestamp,
    },
    /// The launch did not happen: launch under a new token.
    LaunchAnew(ClaimId),
}

/// Assigns the instances of one launch to its NodeClaims.
///
/// An instance with a NodeClaim's UID belongs to that NodeClaim. The other instances in the order of their ids go to the
/// remaining NodeClaims in the order of their names, ending instances last: the NodeClaim of an ending instance may be deleted
/// already. NodeClaims with an instance keep it; surplus instances remain unassigned.
#[must_use]
pub fn assign(claims: &[HeldInstance], instances: &[Instance]) -> Vec<Assignment> {
    let held: BTreeSet<&str> = claims.iter().filter_map(|claim| claim.instance.as_deref()).collect();
    let mut free: BTreeMap<&str, &Instance> =
        instances.iter().map(|one| (one.id.as_str(), one)).filter(|(id, _)| !held.contains(id)).collect();
    let mut waiting: Vec<&ClaimId> =
        claims.iter().filter(|claim| claim.instance.is_none()).map(|claim| &claim.claim).collect();
    waiting.sort();
    let mut assigned = Vec::new();
    waiting.retain(|claim| {
        let owned =
            free.values().find(|one| one.tags.get(NODE_CLAIM_UID_TAG) == Some(&claim.uid)).map(|one| one.id.clone());
        let Some(instance) = owned else { return true };
        free.remove(instance.as_str());
        assigned.push(Assignment { claim: (*claim).clone(), instance });
        false
    });
    let mut unowned: Vec<_> = free.values().filter(|one| !one.tags.contains_key(NODE_CLAIM_UID_TAG)).collect();
    unowned.sort_by_key(|one| one.is_ending());
    assigned.extend(
        waiting
            .iter()
            .zip(unowned)
            .map(|(claim, one)| Assignment { claim: (*claim).clone(), instance: one.id.clone() }),
    );
    assigned.sort();
    assigned
}

/// Returns the instances of a launch with the UIDs of their NodeClaims. A repeated assignment keeps these pairs, also when a
/// NodeClaim was deleted in the meantime.
#[must_use]
pub fn with_owners(instances: &[Instance], assigned: &[Assignment]) -> Vec<Instance> {
    let mut owned = instances.to_vec();
    for one in &mut owned {
        if let Some(Assignment { claim, .. }) = assigned.iter().find(|assignment| assignment.instance == one.id) {
            one.tags.insert(NODE_CLAIM_UID_TAG.to_owned(), claim.uid.clone());
        }
    }
    owned
}

/// Returns the next step for every NodeClaim with a token and without an instance, given all instances of the cluster.
///
/// Ending instances count too: a NodeClaim whose instance has ended must be notified instead of silently receiving a second
/// one.
#[must_use]
pub fn resume(claims: &[HeldInstance], instances: &[Instance], now: Timestamp) -> Vec<Resume> {
    let mut by_token: BTreeMap<&Token, Vec<HeldInstance>> = BTreeMap::new();
    for held in claims {
        by_token.entry(&held.token).or_default().push(held.clone());
    }
    let mut answers = Vec::new();
    for (token, claims) in by_token {
        let text = token.to_string();
        let ours = instances.iter().filter(|one| one.tags.get(LAUNCH_TOKEN_TAG) == Some(&text)).cloned();
        let assigned = assign(&claims, &ours.collect::<Vec<_>>());
        let served: BTreeSet<&ClaimId> = assigned.iter().map(|one| &one.claim).collect();
        let left = claims.iter().filter(|held| held.instance.is_none() && !served.contains(&held.claim));
        let missing: Vec<Resume> = left.map(|held| unserved(held, now)).collect();
        answers.extend(assigned.into_iter().map(Resume::Adopt));
        answers.extend(missing);
    }
    answers
}

fn unserved(held: &HeldInstance, now: Timestamp) -> Resume {
    let claim = held.claim.clone();
    match held.token.made().filter(|_| !held.token.settled(now)) {
        Some(made) => Resume::Wait { claim, until: made.saturating_add(super::SETTLE).unwrap_or(now) },
        None => Resume::LaunchAnew(claim),
    }
}
