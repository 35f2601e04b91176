//! Match of an instance type and its offerings with a set of requirements.

use std::collections::{BTreeMap, BTreeSet};

use super::{InstanceType, MicroDollars, Offering, Requirements, label};

/// Instance type with the label keys that its offerings decide.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// Instance type.
    pub kind: &'a InstanceType,
    keys: BTreeSet<&'a str>,
}

impl<'a> Offer<'a> {
    /// Creates the value for a type and collects the label keys of its offerings.
    #[must_use]
    pub fn new(kind: &'a InstanceType) -> Self {
        let mut keys = BTreeSet::from([label::ZONE, label::CAPACITY_TYPE]);
        keys.extend(kind.offerings.iter().flat_map(|offering| offering.labels.keys()).map(String::as_str));
        keys.extend(
            kind.offerings.iter().any(|offering| offering.reservation.is_some()).then_some(label::RESERVATION_ID),
        );
        Self { kind, keys }
    }

    /// Returns the label keys that the type's offerings decide.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.keys.iter().copied()
    }

    /// Reports whether the type or its offerings define a label.
    #[must_use]
    pub fn carries(&self, key: &str) -> bool {
        key == label::INSTANCE_TYPE || self.keys.contains(key) || self.kind.labels.contains_key(key)
    }

    /// Reports whether the type's own labels can satisfy the requirements. Ignores labels that the node receives anyway
    /// (`given`) and labels that the type does not decide.
    #[must_use]
    pub fn labels_match(
        &self,
        requirements: &Requirements,
        given: &BTreeMap<String, String>,
        well_known: &BTreeSet<String>,
    ) -> bool {
        requirements.iter().filter(|(key, _)| !self.keys.contains(key)).all(|(key, set)| {
            match self.kind.labels.get(key) {
                Some(values) => set.allows_any(values),
                None if key == label::INSTANCE_TYPE => set.allows(Some(&self.kind.name)),
                None => given.contains_key(key) || !well_known.contains(key) || set.allows(None),
            }
        })
    }

    /// Returns the offerings that can satisfy the requirements, available or not.
    pub fn offerings(&self, requirements: &Requirements) -> impl Iterator<Item = &'a Offering> {
        self.among(&self.kind.offerings, requirements)
    }

    /// Returns the highest price that EC2 charges for one of these offerings; `None` without any.
    #[must_use]
    pub fn highest_price(&self, requirements: &Requirements) -> Option<MicroDollars> {
        self.offerings(requirements).map(Offering::charged).max()
    }

    /// Returns the offerings that can satisfy the requirements and have no known price.
    pub fn unpriced(&self, requirements: &Requirements) -> impl Iterator<Item = &'a Offering> {
        self.among(&self.kind.unpriced, requirements)
    }

    fn among(&self, all: &'a [Offering], requirements: &Requirements) -> impl Iterator<Item = &'a Offering> {
        let asked: Vec<_> = requirements.iter().filter(|(key, _)| self.keys.contains(key)).collect();
        all.iter().filter(move |offering| asked.iter().all(|(key, set)| set.allows(offering.value(key))))
    }

    /// Returns the price of the cheapest available offering that satisfies the requirements.
    #[must_use]
    pub fn price(&self, requirements: &Requirements) -> Option<MicroDollars> {
        self.offerings(requirements).filter(|offering| offering.available).map(|offering| offering.price).min()
    }
}
