//! Which instance belongs to which claim, after a launch and after a crash.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{ClaimId, LAUNCH_TOKEN_TAG, NODE_CLAIM_UID_TAG, Token};
use crate::calls::Instance;

/// A claim that a launch was begun for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldInstance {
    /// The claim.
    pub claim: ClaimId,
    /// Its annotation.
    pub token: Token,
    /// The instance that its status names already.
    pub instance: Option<String>,
}

/// An instance with its claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assignment {
    /// The claim.
    pub claim: ClaimId,
    /// The instance's id.
    pub instance: String,
}

/// What is to be done about a claim with a token and without an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The launch happened: the instance is there.
    Adopt(Assignment),
    /// Perhaps it happened: look again at this moment.
    Wait {
        /// The claim.
        claim: ClaimId,
        /// When every instance of the launch must be visible.
        until: Timestamp,
    },
    /// It did not happen: launch under a new token.
    LaunchAnew(ClaimId),
}

/// Deals the instances of one launch to its claims: an instance that carries a claim's UID to that claim, the others by
/// id to the remaining claims by name. Claims that hold an instance keep it; surplus instances stay undealt.
#[must_use]
pub fn deal(claims: &[HeldInstance], instances: &[Instance]) -> Vec<Assignment> {
    let held: BTreeSet<&str> = claims.iter().filter_map(|claim| claim.instance.as_deref()).collect();
    let mut free: BTreeMap<&str, &Instance> =
        instances.iter().map(|one| (one.id.as_str(), one)).filter(|(id, _)| !held.contains(id)).collect();
    let mut waiting: Vec<&ClaimId> =
        claims.iter().filter(|claim| claim.instance.is_none()).map(|claim| &claim.claim).collect();
    waiting.sort();
    let mut dealt = Vec::new();
    waiting.retain(|claim| {
        let owned =
            free.values().find(|one| one.tags.get(NODE_CLAIM_UID_TAG) == Some(&claim.uid)).map(|one| one.id.clone());
        let Some(instance) = owned else { return true };
        free.remove(instance.as_str());
        dealt.push(Assignment { claim: (*claim).clone(), instance });
        false
    });
    let unowned = free.values().filter(|one| !one.tags.contains_key(NODE_CLAIM_UID_TAG));
    dealt.extend(
        waiting
            .iter()
            .zip(unowned)
            .map(|(claim, one)| Assignment { claim: (*claim).clone(), instance: one.id.clone() }),
    );
    dealt.sort();
    dealt
}

/// What to do about every claim that has a token and no instance yet, given all instances of the cluster. Instances on
/// their way out count too: a claim whose instance has ended must learn that, not get a second one unseen.
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
        let dealt = deal(&claims, &ours.collect::<Vec<_>>());
        let served: BTreeSet<&ClaimId> = dealt.iter().map(|one| &one.claim).collect();
        let left = claims.iter().filter(|held| held.instance.is_none() && !served.contains(&held.claim));
        let missing: Vec<Resume> = left.map(|held| unserved(held, now)).collect();
        answers.extend(dealt.into_iter().map(Resume::Adopt));
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
