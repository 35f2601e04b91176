//! Pods as the API server's admission stores them: the defaults of LimitRanges, and what the pod's RuntimeClass and
//! PriorityClass add.
//!
//! A pod that exists has been through admission. Wherever a pod is made from a template, or read from a manifest, these rules
//! apply instead. They are those of the API server's own plugins. Webhooks are unknown: only a real pod shows what they change.

mod error;
mod limit_ranges;
mod runtime_class;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::objects::{LimitRange, PodSpec, Priority, PriorityClass, RuntimeClass, priority_of};

pub use error::{AdmissionError, Bound, BoundViolation, Violated};

/// The objects that admission reads.
#[derive(Clone, Debug, Default)]
pub struct Admission<'a> {
    /// LimitRanges by namespace, ordered by name.
    limit_ranges: BTreeMap<&'a str, Vec<&'a LimitRange>>,
    runtime_classes: BTreeMap<&'a str, &'a RuntimeClass>,
    priority_classes: Vec<&'a PriorityClass>,
}

/// A class that a pod names and that does not exist. Nothing of the class is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingClass {
    /// A RuntimeClass of this name.
    Runtime(String),
    /// A PriorityClass of this name.
    Priority(String),
}

impl fmt::Display for MissingClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(name) => write!(
                out,
                "RuntimeClass {name} is not in the input, the overhead, node selector and tolerations that it adds to \
                 its pods are not counted"
            ),
            Self::Priority(name) => write!(out, "PriorityClass {name} is not in the input, its pods have priority 0"),
        }
    }
}

impl<'a> Admission<'a> {
    /// Creates the admission of a cluster. The order of the objects does not matter.
    pub fn new(
        limit_ranges: impl IntoIterator<Item = &'a Arc<LimitRange>>,
        runtime_classes: impl IntoIterator<Item = &'a Arc<RuntimeClass>>,
        priority_classes: impl IntoIterator<Item = &'a Arc<PriorityClass>>,
    ) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&LimitRange>> = BTreeMap::new();
        for range in limit_ranges {
            by_namespace.entry(range.metadata.namespace.as_deref().unwrap_or_default()).or_default().push(range);
        }
        by_namespace.values_mut().for_each(|ranges| ranges.sort_by_key(|range| &range.metadata.name));
        Self {
            limit_ranges: by_namespace,
            runtime_classes: runtime_classes.into_iter().map(|class| (class.name(), class.as_ref())).collect(),
            priority_classes: priority_classes.into_iter().map(AsRef::as_ref).collect(),
        }
    }

    /// Returns the specification with which the API server stores a new pod. A missing class changes nothing.
    ///
    /// # Errors
    /// Returns an error if the API server refuses the pod.
    pub fn admit(&self, namespace: &str, spec: &PodSpec) -> Result<PodSpec, AdmissionError> {
        let ranges = self.limit_ranges.get(namespace).map_or(&[][..], Vec::as_slice);
        let mut admitted = spec.clone();
        limit_ranges::add_defaults(ranges, &mut admitted);
        self.set_priority(&mut admitted)?;
        match admitted.runtime_class_name.as_deref().map(|name| self.runtime_classes.get(name)) {
            None => runtime_class::check_without(&admitted)?,
            Some(Some(class)) => runtime_class::apply(class, &mut admitted)?,
            Some(None) => {}
        }
        limit_ranges::check(ranges, &admitted)?;
        limit_ranges::check_limits(ranges, spec, &admitted)?;
        Ok(admitted)
    }

    /// Returns the classes that a pod names and that do not exist.
    #[must_use]
    pub fn missing_classes(&self, spec: &PodSpec) -> Vec<MissingClass> {
        let runtime = spec.runtime_class_name.as_deref().filter(|name| !self.runtime_classes.contains_key(name));
        let runtime = runtime.map(|name| MissingClass::Runtime(name.to_owned()));
        let priority = self.priority(spec).is_none().then(|| MissingClass::Priority(spec.priority_class_name.clone()));
        runtime.into_iter().chain(priority).collect()
    }

    /// Returns the priority that the pod's class or the default class gives to it; `None` if its class does not exist.
    #[must_use]
    pub fn priority(&self, spec: &PodSpec) -> Option<Priority> {
        priority_of(&spec.priority_class_name, self.priority_classes.iter().copied())
    }

    /// Sets the priority of the pod's class, or of the default class.
    fn set_priority(&self, spec: &mut PodSpec) -> Result<(), AdmissionError> {
        let Some(class) = self.priority(spec) else { return Ok(()) };
        if let Some(own) = spec.priority.filter(|own| *own != class.value) {
            return Err(AdmissionError::Priority { own, class: class.value });
        }
        if let Some(own) = spec.preemption_policy.filter(|own| *own != class.preemption_policy) {
            return Err(AdmissionError::PreemptionPolicy { own, class: class.preemption_policy });
        }
        spec.priority = Some(class.value);
        spec.preemption_policy = Some(class.preemption_policy);
        Ok(())
    }
}
