//! Shapes, each kept once, with the number of its users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::PodShape;

use crate::terms;

/// Distinct shapes in use.
#[derive(Default)]
pub(super) struct Interner {
    /// How many users each shape has.
    users: BTreeMap<Arc<PodShape>, usize>,
    /// How many times the shapes' selectors look at each pod label.
    keys: BTreeMap<String, usize>,
}

impl Interner {
    /// The one shape that is equal to this one, with one user more.
    pub(super) fn intern(&mut self, shape: PodShape) -> Arc<PodShape> {
        let known = self.users.get_key_value(&shape).map(|(known, _)| Arc::clone(known));
        self.share(&known.unwrap_or_else(|| Arc::new(shape)))
    }

    /// The same shape with one user more.
    pub(super) fn share(&mut self, shape: &Arc<PodShape>) -> Arc<PodShape> {
        let users = self.users.entry(Arc::clone(shape)).or_default();
        *users += 1;
        if *users == 1 {
            for key in terms::keys(shape) {
                *self.keys.entry(key.to_owned()).or_default() += 1;
            }
        }
        Arc::clone(shape)
    }

    /// One user less; without users a shape is forgotten.
    pub(super) fn release(&mut self, shape: &Arc<PodShape>) {
        let Some(users) = self.users.get_mut(shape) else { return };
        *users -= 1;
        if *users > 0 {
            return;
        }
        self.users.remove(shape);
        for key in terms::keys(shape) {
            let Some(count) = self.keys.get_mut(key) else { continue };
            *count -= 1;
            if *count == 0 {
                self.keys.remove(key);
            }
        }
    }

    /// Adds the pod labels that a selector of any shape looks at.
    pub(super) fn collect_keys(&self, keys: &mut BTreeSet<String>) {
        keys.extend(self.keys.keys().cloned());
    }
}
