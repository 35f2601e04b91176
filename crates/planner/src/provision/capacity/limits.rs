//! Remaining limits of each NodePool for new nodes.

use crate::{InstanceType, Pool, Resources};

/// Amounts of one node in its NodePool's limits, in the order of their names; empty without limits.
pub(in crate::provision) type Footprint = Box<[i64]>;

/// Headroom of every NodePool; negative when a limit was lowered.
#[derive(Clone)]
pub(in crate::provision) struct Headroom {
    pools: Vec<PoolHeadroom>,
    generation: u64,
}

#[derive(Clone)]
struct PoolHeadroom {
    names: Vec<String>,
    left: Vec<i64>,
}

impl Headroom {
    pub(in crate::provision) fn new<'a>(pools: impl Iterator<Item = &'a Pool>) -> Self {
        Self { pools: pools.map(PoolHeadroom::new).collect(), generation: 0 }
    }

    /// Returns a number that changes with every possible change of [`Self::first_exceeded`].
    pub(in crate::provision) fn generation(&self) -> u64 {
        self.generation
    }

    /// Reports whether the NodePool has limits.
    pub(in crate::provision) fn is_bounded(&self, pool: usize) -> bool {
        !self.pools[pool].names.is_empty()
    }

    /// Returns the first limited resource, by name, of which less is left than `wanted`, after the release of `held`.
    pub(in crate::provision) fn first_exceeded(&self, pool: usize, wanted: &[i64], held: &[i64]) -> Option<&str> {
        let bounds = &self.pools[pool];
        let over =
            |position: &usize| wanted[*position] > bounds.left[*position] + held.get(*position).copied().unwrap_or(0);
        (0..bounds.names.len()).find(over).map(|position| bounds.names[position].as_str())
    }

    /// Reports whether the limits allow `wanted` after the release of `held`.
    pub(in crate::provision) fn allows(&self, pool: usize, wanted: &[i64], held: &[i64]) -> bool {
        self.first_exceeded(pool, wanted, held).is_none()
    }

    /// Restores earlier headroom. Increases the generation, so that results cached in between become invalid.
    pub(in crate::provision) fn restore(&mut self, before: Self) {
        self.pools = before.pools;
        self.generation += 1;
    }

    /// Reserves `wanted` in place of `held`.
    pub(in crate::provision) fn exchange(&mut self, pool: usize, held: &[i64], wanted: &[i64]) {
        for (position, left) in self.pools[pool].left.iter_mut().enumerate() {
            let change = wanted[position] - held.get(position).copied().unwrap_or(0);
            *left -= change;
            self.generation += u64::from(change != 0);
        }
    }
}

impl PoolHeadroom {
    fn new(pool: &Pool) -> Self {
        let limits = pool.limits.iter().flat_map(Resources::iter);
        let (names, left) = limits.map(|(name, limit)| (name.to_owned(), limit - pool.usage.get(name))).unzip();
        Self { names, left }
    }
}

/// Returns the amounts of a node of a type: its capacity, and one node.
pub(in crate::provision) fn footprint(pool: &Pool, kind: &InstanceType) -> Footprint {
    let amount = |name: &str| if name == Resources::NODES { 1 } else { kind.capacity.get(name) };
    pool.limits.iter().flat_map(Resources::iter).map(|(name, _)| amount(name)).collect()
}

/// Returns the greater amount of every resource; an empty list counts as zero.
pub(in crate::provision) fn maximum(one: &[i64], other: &[i64]) -> Footprint {
    let longer = one.len().max(other.len());
    let at = |list: &[i64], position: usize| list.get(position).copied().unwrap_or(0);
    (0..longer).map(|position| at(one, position).max(at(other, position))).collect()
}
