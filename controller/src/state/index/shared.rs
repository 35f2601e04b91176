//! Interning of lists that many objects have in common: NodeClaims of one plan mostly list the same hundred instance types.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Lists in use.
#[derive(Debug)]
pub struct Interner<T>(BTreeSet<Arc<[T]>>);

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord> Interner<T> {
    /// Returns the shared copy of a list. Unused copies are dropped when a new list is added.
    pub fn share(&mut self, list: &Arc<[T]>) -> Arc<[T]> {
        if let Some(known) = self.0.get(list) {
            return Arc::clone(known);
        }
        self.0.retain(|known| Arc::strong_count(known) > 1);
        self.0.insert(Arc::clone(list));
        Arc::clone(list)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Interner};

    #[test]
    fn share_keeps_equal_lists_once_and_drops_unused_ones() {
        let list = |last: u32| -> Arc<[u32]> { vec![1, 2, last].into() };
        let mut shared = Interner::default();
        let first = shared.share(&list(3));
        assert!(Arc::ptr_eq(&first, &shared.share(&list(3))));
        let other = shared.share(&list(4));
        assert_eq!(shared.0.len(), 2);
        drop(first);
        let last = shared.share(&list(5));
        assert_eq!(shared.0, [other, last].into(), "the first one is not used any more");
    }
}
