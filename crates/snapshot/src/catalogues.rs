//! Catalogues: one per EC2NodeClass, and one more per NodePool with its own prices or capacities.

pub(crate) mod reserved;

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{Catalogue, MicroDollars};

/// Catalogues by EC2NodeClass, and by NodePool for those with their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogues {
    pub(crate) classes: BTreeMap<String, Arc<Catalogue>>,
    pub(crate) pools: BTreeMap<String, Arc<Catalogue>>,
}

impl Catalogues {
    /// Returns the catalogue of a NodePool with that EC2NodeClass.
    pub(crate) fn get(&self, pool: &str, class: &str) -> Option<&Arc<Catalogue>> {
        self.pools.get(pool).or_else(|| self.classes.get(class))
    }

    /// Returns the position of the catalogue in [`Catalogues::list`].
    pub(crate) fn position(&self, pool: &str, class: &str) -> Option<usize> {
        let own = self.pools.keys().position(|known| known == pool).map(|position| self.classes.len() + position);
        own.or_else(|| self.classes.keys().position(|known| known == class))
    }

    /// Returns the cost of a node of the catalogue at this position beside its instance.
    pub(crate) fn extras(&self, position: usize) -> MicroDollars {
        let catalogue = self.classes.values().chain(self.pools.values()).nth(position);
        catalogue.map_or(MicroDollars(0), |catalogue| catalogue.node_extras)
    }

    /// Lists all catalogues: those of EC2NodeClasses, then those of NodePools, by name.
    pub(crate) fn list(&self) -> Vec<Arc<Catalogue>> {
        self.classes.values().chain(self.pools.values()).cloned().collect()
    }
}

/// Reports whether two sets of catalogues are the same `Arc`s.
pub(crate) fn same(one: &BTreeMap<String, Arc<Catalogue>>, other: &BTreeMap<String, Arc<Catalogue>>) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.0 == other.0 && Arc::ptr_eq(one.1, other.1))
}
