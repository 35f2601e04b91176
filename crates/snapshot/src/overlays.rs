//! NodeOverlays and performance factors: what machines cost, have and do beyond what the cloud says of them (core 6.3).
//!
//! Overlays are looked at from the heaviest to the lightest, of equal weights the later name first. The first that speaks
//! of an offering's price, of a type's resource or of its performance wins. One that says something of what an overlay of
//! its own weight has spoken of already is in conflict with it and counts nowhere.

mod prepare;
mod states;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::{NodeOverlay, NodePool, reason};
use planner::Catalogue;

use crate::{Problem, pools, shapes};
use prepare::Prepared;
use states::PoolState;

/// What became of one NodeOverlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayVerdict {
    /// The overlay's name.
    pub overlay: String,
    /// Why it does not count, if it does not.
    pub trouble: Option<OverlayError>,
}

/// Why an overlay does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayError {
    /// It says something that cannot be read.
    Invalid {
        /// What, and what to write instead.
        message: String,
    },
    /// Another overlay of the same weight has spoken of the same thing.
    Conflict {
        /// The other overlay.
        with: String,
        /// The pool in which they meet first, by name.
        pool: String,
        /// The instance type on which they meet first, by name.
        instance_type: String,
        /// What both speak of: `price`, `performance` or the name of a resource.
        subject: String,
    },
}

impl OverlayError {
    /// The reason of condition `ValidationSucceeded`.
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

/// Instance types of a pool that overlays speak of, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaid {
    /// Types with another price than the cloud's on some offering.
    pub price: BTreeSet<String>,
    /// Types with other capacity than the cloud's.
    pub capacity: BTreeSet<String>,
}

/// What overlays and factors make of the catalogues.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evaluation {
    /// Catalogues of pools to which something applies.
    pub(crate) pools: BTreeMap<String, Arc<Catalogue>>,
    pub(crate) verdicts: Vec<OverlayVerdict>,
    pub(crate) overlaid: BTreeMap<String, Overlaid>,
    pub(crate) problems: Vec<Problem>,
}

/// Evaluates overlays for pools whose class can buy something.
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
        let trouble = match overlay {
            Err(trouble) => Some(trouble.clone()),
            Ok(own) => apply(position, own, &prepared, &mut states),
        };
        let overlay = ranked[position].metadata.name.clone().unwrap_or_default();
        result.verdicts.push(OverlayVerdict { overlay, trouble });
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
    let requirements: Vec<_> = template.requirements.iter().map(shapes::lenient).collect();
    let stays = pool.metadata.deletion_timestamp.is_none();
    stays.then(|| PoolState::new(name, pool, catalogue, labels, requirements.iter().collect()))
}

/// Lets one overlay speak everywhere, or nowhere when it is in conflict anywhere.
fn apply(
    position: usize,
    own: &Prepared,
    all: &[Result<Prepared, OverlayError>],
    states: &mut [PoolState<'_>],
) -> Option<OverlayError> {
    let touched: Vec<_> = states.iter().map(|state| state.touched(own)).collect();
    let weight = |other: usize| all.get(other).and_then(|other| other.as_ref().ok()).map(|other| other.weight);
    for (state, touched) in states.iter().zip(&touched) {
        let clash = state.clash(own, touched, |other| weight(other) == Some(own.weight));
        if let Some((other, instance_type, subject)) = clash {
            let with = all.get(other).and_then(|other| other.as_ref().ok()).map(|other| other.name.clone());
            let with = with.unwrap_or_default();
            return Some(OverlayError::Conflict { with, pool: state.name.clone(), instance_type, subject });
        }
    }
    for (state, touched) in states.iter_mut().zip(&touched) {
        state.record(position, own, touched);
    }
    None
}
