//! Claims that are no longer what their pool asks for (core 3.6). The pool alone decides, so a claim follows it at once.

use std::cell::LazyCell;

use api::status::Conditioned;
use api::{NodeClaim, NodePool, Requirement, condition, hash, label, reason};
use cloud::nodeclass::Drift;
use jiff::Timestamp;
use planner::ValueSet;

use crate::reconcile::hashes;

/// The reasons that are reported here.
const OURS: [&str; 2] = [reason::NODEPOOL_DRIFTED, reason::REQUIREMENTS_DRIFTED];

/// The first way in which a claim differs from what its pool asks for now: by the template's hash, then by requirements, which
/// are no part of that.
#[must_use]
pub fn of_pool(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    template(claim, pool).or_else(|| requirements(claim, pool))
}

/// A pool whose durations cannot be read has no hash to compare with.
fn template(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    let hash = hash::node_pool(pool).ok()?;
    hashes::OF_POOL.differs(claim, &hash).then(|| Drift {
        reason: reason::NODEPOOL_DRIFTED,
        message: "template of the NodePool changed after creation".to_owned(),
    })
}

/// A label that is missing has drifted, but where it was required when the claim was made: the next machine would lack it too.
fn requirements(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    // The types that a claim may have are many: they are read only where a label is missing.
    let asked_for = LazyCell::new(|| cloud::types::requirements(&claim.spec.requirements));
    let asked = cloud::types::requirements(&pool.spec.template.spec.requirements);
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

/// Says on the claim whether it has drifted from its pool, and takes that back. What others found stays, as does what was said
/// of a pool that is gone.
pub fn follow_pool(claim: &mut NodeClaim, pool: Option<&NodePool>, now: Timestamp) {
    let launched = claim.is_true(condition::LAUNCHED);
    let pool = pool.filter(|pool| pool.metadata.deletion_timestamp.is_none());
    let told = api::status::find(claim.conditions(), condition::DRIFTED);
    let ours = told.is_some_and(|told| OURS.contains(&told.reason.as_str()));
    match pool.filter(|_| launched).and_then(|pool| of_pool(claim, pool)) {
        Some(drift) => drop(claim.set(condition::DRIFTED, condition::TRUE, drift.reason, &drift.message, now)),
        None if ours && (pool.is_some() || !launched) => drop(claim.clear(condition::DRIFTED, now)),
        None => {}
    }
}

#[cfg(test)]
mod tests;
