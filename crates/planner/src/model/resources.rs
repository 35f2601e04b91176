//! Amounts of resources as integers: CPU in millicores, memory and storage in bytes, all others in units.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Largest amount of a resource: a pebibyte of memory. Nodes and pods state amounts of any size, and sums and products of these
/// amounts must not overflow.
const LARGEST: i64 = 1 << 50;

/// Amounts by resource, at most 2^50 each; an absent resource is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(BTreeMap<String, i64>);

impl Resources {
    /// Kubernetes' name for CPU; the amount is in millicores.
    pub const CPU: &'static str = "cpu";
    /// Kubernetes' name for memory; the amount is in bytes.
    pub const MEMORY: &'static str = "memory";
    /// Kubernetes' name for the number of pods.
    pub const PODS: &'static str = "pods";
    /// Kubernetes' name for ephemeral storage; the amount is in bytes.
    pub const EPHEMERAL_STORAGE: &'static str = "ephemeral-storage";
    /// Karpenter's name for the number of nodes in a NodePool's limits.
    pub const NODES: &'static str = "nodes";

    /// Returns the amount of one resource.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Sets one amount; keeps a zero, because a limit of zero differs from no limit.
    pub fn set(&mut self, name: &str, amount: i64) {
        self.0.insert(name.to_owned(), bounded(amount));
    }

    /// Returns names and amounts in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Reports whether no resource has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether the resource has an entry, even with zero.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Reports whether requests of the resource count in the division of costs: CPU, memory and accelerators, but no network
    /// interfaces.
    #[must_use]
    pub fn is_paid_for(name: &str) -> bool {
        let is_device = name.contains('/') && !name.starts_with("vpc.amazonaws.com/");
        is_device || [Self::CPU, Self::MEMORY].contains(&name)
    }

    /// Share that is a whole node.
    pub const WHOLE: i64 = 1_000_000;

    /// Returns the share of a node that these requests take, for the division of its cost: the mean of their shares of CPU, of
    /// memory and of each kind of accelerator that the node has.
    #[must_use]
    pub fn share_of(&self, allocatable: &Self) -> i64 {
        let all = allocatable.iter().filter(|(name, whole)| *whole > 0 && Self::is_paid_for(name));
        let shares: Vec<i128> =
            all.map(|(name, whole)| i128::from(self.get(name)) * i128::from(Self::WHOLE) / i128::from(whole)).collect();
        let mean = shares.iter().sum::<i128>() / i128::try_from(shares.len().max(1)).unwrap_or(1);
        i64::try_from(mean).unwrap_or(i64::MAX)
    }

    /// Adds `other`, resource by resource.
    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, amount)| self.change(name, *amount));
    }

    /// Subtracts `other`, resource by resource; amounts may become negative.
    pub fn subtract(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, amount)| self.change(name, amount.saturating_neg()));
    }

    /// Adds to one amount; copies the name only where it is new.
    fn change(&mut self, name: &str, by: i64) {
        match self.0.get_mut(name) {
            Some(amount) => *amount = bounded(amount.saturating_add(by)),
            None => self.set(name, by),
        }
    }

    /// Reports whether `room` has every amount above zero that `self` requests.
    #[must_use]
    pub fn fits(&self, available: &Self) -> bool {
        self.first_lacking(available).is_none()
    }

    /// Returns how many times `one` fits into these amounts; `u64::MAX` when it requests nothing.
    #[must_use]
    pub fn times(&self, one: &Self) -> u64 {
        let asked = one.iter().filter(|(_, amount)| *amount > 0);
        asked.map(|(name, amount)| u64::try_from(self.get(name) / amount).unwrap_or(0)).min().unwrap_or(u64::MAX)
    }

    /// Returns the first resource, by name, of which `room` has less than `self` requests.
    #[must_use]
    pub fn first_lacking(&self, available: &Self) -> Option<&str> {
        self.iter().find(|(name, amount)| *amount > 0 && *amount > available.get(name)).map(|(name, _)| name)
    }
}

impl<N: Into<String>> FromIterator<(N, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (N, i64)>>(amounts: I) -> Self {
        Self(amounts.into_iter().map(|(name, amount)| (name.into(), bounded(amount))).collect())
    }
}

fn bounded(amount: i64) -> i64 {
    amount.clamp(-LARGEST, LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_and_subtract_stay_in_bounds_for_amounts_of_any_size() {
        let cpu = |amount| Resources::from_iter([(Resources::CPU, amount)]);
        let mut sum = cpu(i64::MAX);
        sum.add(&cpu(i64::MAX));
        assert_eq!(sum, cpu(LARGEST));
        sum.subtract(&cpu(i64::MIN));
        assert_eq!(sum, cpu(LARGEST));
        sum.subtract(&cpu(i64::MAX));
        assert_eq!(sum, cpu(0));
        sum.set(Resources::CPU, i64::MIN);
        assert_eq!(sum, cpu(-LARGEST));
    }
}
