//! Interning of values that many objects have in common: NodeClaims of one plan mostly list the same hundred instance types, and
//! pods of one workload have the same specification.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Values in use.
#[derive(Debug)]
pub struct Interner<T: ?Sized> {
    known: BTreeSet<Arc<T>>,
    /// Number of changes since unused values were dropped.
    changes: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { known: BTreeSet::new(), changes: 0 }
    }
}

impl<T: Ord + ?Sized> Interner<T> {
    /// Returns the shared copy of a value.
    pub fn share(&mut self, value: &Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(value) {
            return Arc::clone(known);
        }
        self.known.insert(Arc::clone(value));
        Arc::clone(value)
    }

    /// Takes in a change of an object. Unused values are dropped once in as many changes as there are values, so that a change
    /// costs little.
    pub fn note_change(&mut self) {
        self.changes += 1;
        if self.changes >= self.known.len() {
            self.known.retain(|value| Arc::strong_count(value) > 1);
            self.changes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use api::objects::Pod;
    use serde_json::json;

    use super::{Arc, Interner};
    use crate::fixture::{at, pod};
    use crate::state::index::Index;

    #[test]
    fn apply_shares_the_specification_of_equal_pods() {
        let mut index = Index::default();
        let mut apply = |name: &str, node: &str, cpu: &str| {
            let volume = json!({"name": format!("kube-api-access-{name}"), "projected": {}});
            let container = json!({"name": "web", "resources": {"requests": {"cpu": cpu}}});
            let spec = json!({"nodeName": node, "containers": [container], "volumes": [volume]});
            let change = json!({"metadata": {"name": name, "uid": name}, "spec": spec});
            drop(index.apply::<Pod>(Pod::clone(&pod(&change)), at(0), true));
        };
        apply("a", "node-1", "1");
        apply("b", "node-2", "1");
        apply("c", "node-2", "2");
        let [a, b, c] = ["a", "b", "c"].map(|name| Arc::clone(index.pods.get(&format!("default/{name}")).unwrap()));
        assert!(Arc::ptr_eq(a.spec.rest(), b.spec.rest()) && !Arc::ptr_eq(a.spec.rest(), c.spec.rest()));
        assert_eq!([&a, &b, &c].map(|pod| pod.spec.node_name.as_str()), ["node-1", "node-2", "node-2"]);
        drop((a, b));
        drop(index.delete::<Pod>("default/a", at(1)));
        drop(index.delete::<Pod>("default/b", at(1)));
        // As after any further change.
        index.drop_unused();
        assert_eq!(index.specs.known.len(), 1, "only one specification is used");
    }

    #[test]
    fn note_change_drops_values_that_only_the_interner_has() {
        let list = |last: u32| -> Arc<[u32]> { vec![1, 2, last].into() };
        let mut shared = Interner::default();
        let first = shared.share(&list(3));
        assert!(Arc::ptr_eq(&first, &shared.share(&list(3))));
        let other = shared.share(&list(4));
        assert_eq!(shared.known.len(), 2);
        drop(first);
        shared.note_change();
        assert_eq!(shared.known.len(), 2, "one change for two lists");
        shared.note_change();
        assert_eq!(shared.known, [other].into(), "the first one is not used any more");
    }
}
