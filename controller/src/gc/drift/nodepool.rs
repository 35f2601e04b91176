//! Drift from the NodePool. Only the NodePool decides, so the NodeClaim is updated at once.

use std::cell::LazyCell;

use api::status::Conditioned;
use api::{NodeClaim, NodePool, Requirement, condition, hash, label, reason};
use cloud::nodeclass::Drift;
use jiff::Timestamp;
use planner::ValueSet;

use crate::reconcile::hashes;

/// Reasons that this module writes.
const OURS: [&str; 2] = [reason::NODEPOOL_DRIFTED, reason::REQUIREMENTS_DRIFTED];

/// Returns the first drift of a NodeClaim from its NodePool: by the hash of the template, then by requirements, which the hash
/// excludes.
#[must_use]
pub fn of_pool(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    template(claim, pool).or_else(|| requirements(claim, pool))
}

/// Compares the hashes of the template. A NodePool with invalid durations has no hash.
fn template(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    let hash = hash::node_pool(pool).ok()?;
    hashes::OF_POOL.differs(claim, &hash).then(|| Drift {
        reason: reason::NODEPOOL_DRIFTED,
        message: "template of the NodePool changed after creation".to_owned(),
    })
}

/// Compares labels with requirements. A missing label is drift unless the NodeClaim was created with that requirement: the next
/// node would lack the label too.
fn requirements(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    // A NodeClaim may list many instance types: its requirements are parsed only if a label is missing.
    let asked_for = LazyCell::new(|| cloud::requirements(&claim.spec.requirements));
    let asked = cloud::requirements(&pool.spec.template.spec.requirements);
    let stands = |key: &str| claim.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let drifted = |(key, set): &(&str, &ValueSet)| match stands(key) {
        None => !set.allows(None) && !asked_for.get(key).is_some_and(|known| known.is_subset(set)),
        value => !set.allows(value),
    };
    let (key, _) = asked.iter().find(drifted)?;
    let says: Vec<String> =
        pool.spec.template.spec.requirements.iter().filter(|it| label::canonical(&it.key) == key).map(text).collect();
    let stands =
        stands(key).map_or_else(|| "the label is missing".to_owned(), |value| format!("the value is {value:?}"));
    let message = format!("NodePool requires {}, {stands}", says.join(" and "));
    Some(Drift { reason: reason::REQUIREMENTS_DRIFTED, message })
}

fn text(requirement: &Requirement) -> String {
    let Requirement { key, operator, values, .. } = requirement;
    if values.is_empty() { format!("{key} {operator:?}") } else { format!("{key} {operator:?} {}", values.join(", ")) }
}

/// Sets or clears the condition Drifted of a NodeClaim for drift from its NodePool. Keeps the reasons of other modules, and its
/// own reason if the NodePool is deleted.
pub fn follow_pool(claim: &mut NodeClaim, pool: Option<&NodePool>, now: Timestamp) {
    let launched = claim.is_true(condition::LAUNCHED);
    let pool = pool.filter(|pool| pool.metadata.deletion_timestamp.is_none());
    let found = api::status::find(claim.conditions(), condition::DRIFTED);
    let ours = found.is_some_and(|found| OURS.contains(&found.reason.as_str()));
    match pool.filter(|_| launched).and_then(|pool| of_pool(claim, pool)) {
        Some(drift) => drop(claim.set(condition::DRIFTED, condition::TRUE, drift.reason, &drift.message, now)),
        None if ours && (pool.is_some() || !launched) => drop(claim.clear(condition::DRIFTED, now)),
        None => {}
    }
}

#[cfg(test)]
mod tests;
