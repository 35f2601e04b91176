//! Shapes, each kept once, with the number of its users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::PodShape;

use crate::terms;

/// Distinct shapes, with their users.
#[derive(Default)]
pub(super) struct Interner(BTreeMap<Arc<PodShape>, usize>);

impl Interner {
    /// The one shape that is equal to this one, with one user more.
    pub(super) fn intern(&mut self, shape: PodShape) -> Arc<PodShape> {
        let known = self.0.get_key_value(&shape).map(|(known, _)| Arc::clone(known));
        self.share(&known.unwrap_or_else(|| Arc::new(shape)))
    }

    /// The same shape with one user more.
    pub(super) fn share(&mut self, shape: &Arc<PodShape>) -> Arc<PodShape> {
        *self.0.entry(Arc::clone(shape)).or_default() += 1;
        Arc::clone(shape)
    }

    /// One user less; without users a shape is forgotten.
    pub(super) fn release(&mut self, shape: &Arc<PodShape>) {
        if let Some(users) = self.0.get_mut(shape) {
            *users -= 1;
            if *users == 0 {
                self.0.remove(shape);
            }
        }
    }

    /// Adds the pod labels that a selector of any shape looks at.
    pub(super) fn collect_keys(&self, keys: &mut BTreeSet<String>) {
        for key in self.0.keys().flat_map(|shape| terms::keys(shape)) {
            if !keys.contains(key) {
                keys.insert(key.to_owned());
            }
        }
    }
}
