//! What a pod shape asks of a node, worked out once for all pods that share it.

use crate::{Effect, PodShape, Requirements, Resources, Taint, Toleration};

/// How `PreferNoSchedule` taints count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tolerance {
    /// Like any other taint.
    Strict,
    /// Not at all.
    Lenient,
}

/// A shape's requests, its alternatives and what it tolerates.
pub(super) struct Demand<'a> {
    pub(super) requests: &'a Resources,
    /// The node selector with each of the affinity's alternatives, in their order; never empty.
    pub(super) alternatives: Vec<Requirements>,
    tolerations: &'a [Toleration],
}

impl<'a> Demand<'a> {
    pub(super) fn of(shape: &'a PodShape) -> Self {
        let selector: Requirements = shape.selector.iter().collect();
        let alternatives = if shape.affinity.is_empty() {
            vec![selector]
        } else {
            shape.affinity.iter().map(|term| selector.intersection(&term.iter().collect())).collect()
        };
        Self { requests: &shape.requests, alternatives, tolerations: &shape.tolerations }
    }

    /// The first taint that keeps the pod away.
    pub(super) fn first_untolerated<'t>(&self, taints: &'t [Taint], tolerance: Tolerance) -> Option<&'t Taint> {
        taints.iter().find(|taint| {
            let counts = tolerance == Tolerance::Strict || taint.effect != Effect::PreferNoSchedule;
            counts && !self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
        })
    }
}
