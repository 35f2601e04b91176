//! What can be bought: one catalogue a node class, and one more for every pool to which something of its own applies.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::Catalogue;

/// Catalogues by class and, where a pool has its own, by pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogues {
    pub(crate) classes: BTreeMap<String, Arc<Catalogue>>,
    pub(crate) pools: BTreeMap<String, Arc<Catalogue>>,
}

impl Catalogues {
    /// What a pool of that class can buy.
    pub(crate) fn get(&self, pool: &str, class: &str) -> Option<&Arc<Catalogue>> {
        self.pools.get(pool).or_else(|| self.classes.get(class))
    }

    /// Its position in [`Catalogues::list`].
    pub(crate) fn position(&self, pool: &str, class: &str) -> Option<usize> {
        let own = self.pools.keys().position(|known| known == pool).map(|position| self.classes.len() + position);
        own.or_else(|| self.classes.keys().position(|known| known == class))
    }

    /// All catalogues: those of classes, then those of pools, by name.
    pub(crate) fn list(&self) -> Vec<Arc<Catalogue>> {
        self.classes.values().chain(self.pools.values()).cloned().collect()
    }
}
