//! Shapes, each stored once with its number of users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::PodShape;

use crate::pods::terms;

/// All shapes in use.
#[derive(Default)]
pub(super) struct ShapeInterner {
    /// Number of users of each shape.
    users: BTreeMap<Arc<PodShape>, usize>,
    /// Number of uses of each pod label in selectors of the shapes.
    keys: BTreeMap<String, usize>,
}

impl ShapeInterner {
    /// Returns the stored shape that equals this one, and counts a user.
    pub(super) fn intern(&mut self, shape: PodShape) -> Arc<PodShape> {
        let known = self.users.get_key_value(&shape).map(|(known, _)| Arc::clone(known));
        self.share(&known.unwrap_or_else(|| Arc::new(shape)))
    }

    /// Returns the same shape and counts a user.
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

    /// Removes a user; a shape without users is deleted.
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

    /// Adds the pod labels that selectors of the shapes use.
    pub(super) fn collect_keys(&self, keys: &mut BTreeSet<String>) {
        keys.extend(self.keys.keys().cloned());
    }
}
