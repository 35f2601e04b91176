//! Lists that many objects have alike are kept once: claims of one plan mostly ask for the same hundred types.

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
    /// The list that stands for all of its kind. Those that nobody holds any more are forgotten when a new one comes.
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
    fn equal_lists_are_kept_once_and_those_that_nobody_holds_are_forgotten() {
        let list = |last: u32| -> Arc<[u32]> { vec![1, 2, last].into() };
        let mut shared = Interner::default();
        let first = shared.share(&list(3));
        assert!(Arc::ptr_eq(&first, &shared.share(&list(3))));
        let other = shared.share(&list(4));
        assert_eq!(shared.0.len(), 2);
        drop(first);
        let last = shared.share(&list(5));
        assert_eq!(shared.0, [other, last].into(), "nobody asks for the first one any more");
    }
}
