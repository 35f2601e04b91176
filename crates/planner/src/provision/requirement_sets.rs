//! Requirements by number: pods that ask the same of a node's labels share one.

use std::collections::BTreeMap;

use crate::{Effect, Requirements, Taint, Toleration};

/// A set of requirements.
pub(super) type RequirementSetId = usize;
/// All that a node's own nature must meet: alternatives of requirements, and tolerations.
pub(super) type ClassId = usize;

/// How `PreferNoSchedule` taints count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tolerance {
    /// Like any other taint.
    Strict,
    /// Not at all.
    Lenient,
}

/// What pods ask of a node whatever else is there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DemandClass<'a> {
    /// Alternatives, in order; never empty.
    pub(super) wants: Vec<RequirementSetId>,
    pub(super) tolerations: &'a [Toleration],
    pub(super) tolerance: Tolerance,
}

/// All requirements and classes of one snapshot.
#[derive(Default)]
pub(super) struct RequirementSets<'a> {
    list: Vec<Requirements>,
    known: BTreeMap<Requirements, RequirementSetId>,
    classes: Vec<DemandClass<'a>>,
    known_classes: BTreeMap<DemandClass<'a>, ClassId>,
}

impl<'a> RequirementSets<'a> {
    pub(super) fn intern(&mut self, requirements: Requirements) -> RequirementSetId {
        if let Some(id) = self.known.get(&requirements) {
            return *id;
        }
        self.list.push(requirements.clone());
        self.known.insert(requirements, self.list.len() - 1);
        self.list.len() - 1
    }

    pub(super) fn class(&mut self, class: DemandClass<'a>) -> ClassId {
        if let Some(id) = self.known_classes.get(&class) {
            return *id;
        }
        self.classes.push(class.clone());
        self.known_classes.insert(class, self.classes.len() - 1);
        self.classes.len() - 1
    }

    pub(super) fn get(&self, want: RequirementSetId) -> &Requirements {
        &self.list[want]
    }

    pub(super) fn of_class(&self, class: ClassId) -> &DemandClass<'a> {
        &self.classes[class]
    }
}

impl DemandClass<'_> {
    /// The first taint that keeps the pod away.
    pub(super) fn first_untolerated<'t>(&self, taints: &'t [Taint]) -> Option<&'t Taint> {
        first_untolerated(self.tolerations, taints, self.tolerance)
    }
}

/// The first taint that none of the tolerations bears.
pub(super) fn first_untolerated<'t>(
    tolerations: &[Toleration],
    taints: &'t [Taint],
    tolerance: Tolerance,
) -> Option<&'t Taint> {
    taints.iter().find(|taint| {
        let counts = tolerance == Tolerance::Strict || taint.effect != Effect::PreferNoSchedule;
        counts && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}
