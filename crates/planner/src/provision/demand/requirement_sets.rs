//! Interned requirements: pods with equal requirements on a node's labels share one id.

use std::collections::BTreeMap;

use crate::{Effect, Requirements, Taint, Toleration};

/// Id of a set of requirements.
pub(in crate::provision) type RequirementSetId = usize;
/// Id of the constraints on a node's own labels and taints: alternatives of requirements, and tolerations.
pub(in crate::provision) type ClassId = usize;

/// Treatment of `PreferNoSchedule` taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::provision) enum Tolerance {
    /// The taints exclude pods like any other taint.
    Strict,
    /// The taints are ignored.
    Lenient,
}

/// Requirements of pods on a node, independent of other pods.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::provision) struct DemandClass<'a> {
    /// Alternatives, in order; never empty.
    pub(in crate::provision) alternatives: Vec<RequirementSetId>,
    pub(in crate::provision) tolerations: &'a [Toleration],
    pub(in crate::provision) tolerance: Tolerance,
}

/// All requirements and classes of one snapshot.
#[derive(Default)]
pub(in crate::provision) struct RequirementSets<'a> {
    list: Vec<Requirements>,
    known: BTreeMap<Requirements, RequirementSetId>,
    classes: Vec<DemandClass<'a>>,
    known_classes: BTreeMap<DemandClass<'a>, ClassId>,
}

impl<'a> RequirementSets<'a> {
    pub(in crate::provision) fn intern(&mut self, requirements: Requirements) -> RequirementSetId {
        if let Some(id) = self.known.get(&requirements) {
            return *id;
        }
        self.list.push(requirements.clone());
        self.known.insert(requirements, self.list.len() - 1);
        self.list.len() - 1
    }

    pub(in crate::provision) fn class(&mut self, class: DemandClass<'a>) -> ClassId {
        if let Some(id) = self.known_classes.get(&class) {
            return *id;
        }
        self.classes.push(class.clone());
        self.known_classes.insert(class, self.classes.len() - 1);
        self.classes.len() - 1
    }

    pub(in crate::provision) fn get(&self, alternative: RequirementSetId) -> &Requirements {
        &self.list[alternative]
    }

    pub(in crate::provision) fn of_class(&self, class: ClassId) -> &DemandClass<'a> {
        &self.classes[class]
    }
}

impl DemandClass<'_> {
    /// Returns the first taint that excludes the pod.
    pub(in crate::provision) fn first_untolerated<'t>(&self, taints: &'t [Taint]) -> Option<&'t Taint> {
        first_untolerated(self.tolerations, taints, self.tolerance)
    }
}

/// Returns the first taint that no toleration matches.
pub(in crate::provision) fn first_untolerated<'t>(
    tolerations: &[Toleration],
    taints: &'t [Taint],
    tolerance: Tolerance,
) -> Option<&'t Taint> {
    taints.iter().find(|taint| {
        let counts = tolerance == Tolerance::Strict || taint.effect != Effect::PreferNoSchedule;
        counts && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}
