//! NodeOverlays and performance factors: changes of price, capacity and performance of instance types.
//!
//! Overlays are evaluated in the order of descending weight; of equal weights the later name is first. The first overlay for an
//! offering's price, for a type's resource or for its performance takes precedence. An overlay that changes the same value as
//! an overlay of equal weight is in conflict and has no effect at all.

mod pool_state;
mod prepared;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::{NodeOverlay, NodePool, reason};
use planner::Catalogue;

use crate::{Problem, pools, requirements};
use pool_state::PoolState;
use prepared::Prepared;

/// Result of one NodeOverlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayVerdict {
    /// Name of the overlay.
    pub overlay: String,
    /// Reason why the overlay has no effect, if it has none.
    pub error: Option<OverlayError>,
}

/// The reason why an overlay has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayError {
    /// The overlay is invalid.
    Invalid {
        /// Description of the error with a hint.
        message: String,
    },
    /// An overlay of the same weight changes the same value.
    Conflict {
        /// Name of the other overlay.
        with: String,
        /// First NodePool with the conflict, by name.
        pool: String,
        /// First instance type with the conflict, by name.
        instance_type: String,
        /// Value in conflict: `price`, `performance` or the name of a resource.
        subject: String,
    },
}

impl OverlayError {
    /// Returns the reason of the condition `ValidationSucceeded`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => reason::RUNTIME_VALIDATION,
            Self::Conflict { .. } => reason::CONFLICT,
        }
    }
}

impl fmt::Display for OverlayError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { message } => out.write_str(message),
            Self::Conflict { with, pool, instance_type, subject } => write!(
                out,
                "conflict with NodeOverlay {with} of the same weight in {subject} of {instance_type} in NodePool \
                 {pool}: change one of the weights"
            ),
        }
    }
}

/// Instance types of a NodePool that overlays change, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaid {
    /// Types with a changed price of any offering.
    pub price: BTreeSet<String>,
    /// Types with changed capacity.
    pub capacity: BTreeSet<String>,
}

/// The result of all overlays and factors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evaluation {
    /// Catalogues of NodePools with changes.
    pub(crate) pools: BTreeMap<String, Arc<Catalogue>>,
    pub(crate) verdicts: Vec<OverlayVerdict>,
    pub(crate) overlaid: BTreeMap<String, Overlaid>,
    pub(crate) problems: Vec<Problem>,
}

/// Evaluates overlays for NodePools whose EC2NodeClass has a catalogue.
pub(crate) fn evaluate(
    pools: &[Arc<NodePool>],
    overlays: &[Arc<NodeOverlay>],
    classes: &BTreeMap<String, Arc<Catalogue>>,
) -> Evaluation {
    let mut result = Evaluation::default();
    let mut states: Vec<PoolState<'_>> = pools.iter().filter_map(|pool| state(pool, classes)).collect();
    states.sort_by(|one, other| one.name.cmp(&other.name));
    let mut ranked: Vec<&NodeOverlay> = overlays.iter().map(AsRef::as_ref).collect();
    ranked.sort_by(|one, other| one.precedence(other));
    let prepared: Vec<Result<Prepared, OverlayError>> = ranked.iter().map(|it| Prepared::new(it)).collect();
    for (position, overlay) in prepared.iter().enumerate() {
        let error = match overlay {
            Err(error) => Some(error.clone()),
            Ok(own) => apply(position, own, &prepared, &mut states),
        };
        let overlay = ranked[position].metadata.name.clone().unwrap_or_default();
        result.verdicts.push(OverlayVerdict { overlay, error });
    }
    result.verdicts.sort_by(|one, other| one.overlay.cmp(&other.overlay));
    for state in &states {
        let factors = state.pool.performance_factors().unwrap_or_else(|error| {
            result.problems.push(Problem::PerformanceFactors { pool: state.name.clone(), error });
            Default::default()
        });
        if let Some((catalogue, overlaid)) = state.finish(&prepared, &factors) {
            result.pools.insert(state.name.clone(), Arc::new(catalogue));
            result.overlaid.insert(state.name.clone(), overlaid);
        }
    }
    result
}

fn state<'a>(pool: &'a NodePool, classes: &'a BTreeMap<String, Arc<Catalogue>>) -> Option<PoolState<'a>> {
    let name = pool.metadata.name.clone().unwrap_or_default();
    let template = &pool.spec.template.spec;
    let catalogue = classes.get(&template.node_class_ref.name)?;
    let labels = pools::labels(pool, &name);
    let required: Vec<_> = template.requirements.iter().map(requirements::convert).collect();
    let is_live = pool.metadata.deletion_timestamp.is_none();
    is_live.then(|| PoolState::new(name, pool, catalogue, labels, required.iter().collect()))
}

/// Applies one overlay to all NodePools, or to none if any NodePool has a conflict.
fn apply(
    position: usize,
    own: &Prepared,
    all: &[Result<Prepared, OverlayError>],
    states: &mut [PoolState<'_>],
) -> Option<OverlayError> {
    let matches: Vec<_> = states.iter().map(|state| state.matches(own)).collect();
    let weight = |other: usize| all.get(other).and_then(|other| other.as_ref().ok()).map(|other| other.weight);
    for (state, matches) in states.iter().zip(&matches) {
        let conflict = state.conflict(own, matches, |other| weight(other) == Some(own.weight));
        if let Some((other, instance_type, subject)) = conflict {
            let with = all.get(other).and_then(|other| other.as_ref().ok()).map(|other| other.name.clone());
            let with = with.unwrap_or_default();
            return Some(OverlayError::Conflict { with, pool: state.name.clone(), instance_type, subject });
        }
    }
    for (state, matches) in states.iter_mut().zip(&matches) {
        state.record(position, own, matches);
    }
    None
}
