//! What the limits of each pool leave for new nodes.

use crate::{InstanceType, Resources};

use super::template::Template;

/// Headroom of every template; it may be negative when a limit was lowered.
pub(super) struct Headroom {
    left: Vec<Option<Resources>>,
    generation: u64,
}

impl Headroom {
    pub(super) fn of(templates: &[Template<'_>]) -> Self {
        let left = |template: &Template<'_>| {
            let limits = template.pool.limits.as_ref()?;
            Some(limits.iter().map(|(name, limit)| (name, limit - template.pool.usage.get(name))).collect())
        };
        Self { left: templates.iter().map(left).collect(), generation: 0 }
    }

    /// Changes whenever the answer of [`Self::first_exceeded`] may have changed.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The first limited resource, by name, of which less is left than `wanted`, with `held` given back.
    pub(super) fn first_exceeded(&self, template: usize, wanted: &Resources, held: &Resources) -> Option<&str> {
        let left = self.left[template].as_ref()?;
        left.iter().find(|(name, left)| wanted.get(name) > left + held.get(name)).map(|(name, _)| name)
    }

    /// Reserves `wanted` in place of `held`.
    pub(super) fn exchange(&mut self, template: usize, held: &Resources, wanted: &Resources) {
        let Some(left) = &mut self.left[template] else { return };
        let names: Vec<String> = left.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let change = wanted.get(&name) - held.get(&name);
            left.set(&name, left.get(&name) - change);
            self.generation += u64::from(change != 0);
        }
    }
}

/// What one node of a type counts for: its capacity, and itself.
pub(super) fn footprint(kind: &InstanceType) -> Resources {
    let mut footprint = kind.capacity.clone();
    footprint.set(Resources::NODES, 1);
    footprint
}

/// The greater amount of every resource.
pub(super) fn maximum(one: &Resources, other: &Resources) -> Resources {
    let mut greater = one.clone();
    for (name, amount) in other.iter() {
        greater.set(name, amount.max(one.get(name)));
    }
    greater
}
