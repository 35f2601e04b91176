//! Comparison of two lists of objects by address, without reading the objects.

use std::sync::Arc;

/// Maximum distance of the search for the next common object of two lists.
const WINDOW: usize = 32;

/// The addresses of a list, each with its record.
#[derive(Default)]
pub(super) struct TrackedList(Vec<(usize, u32)>);

/// Differences between two lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListDiff {
    /// Records of objects that are no longer in the list.
    pub(super) gone: Vec<u32>,
    /// Positions of objects that were not in the list before.
    pub(super) new: Vec<usize>,
}

impl TrackedList {
    /// Replaces the list; new objects get their records from [`TrackedList::assign`]. The comparison is stepwise, for lists in
    /// a similar order. An object that moved far counts as removed and new, which costs only time.
    pub(super) fn compare<T>(&mut self, list: &[&Arc<T>]) -> ListDiff {
        let old = std::mem::take(&mut self.0);
        let next: Vec<usize> = list.iter().map(|object| Arc::as_ptr(object).addr()).collect();
        let mut change = ListDiff::default();
        let (mut was, mut is) = (0, 0);
        while was < old.len() || is < next.len() {
            let (left, came) = step(&old[was..], &next[is..]);
            change.gone.extend(old[was..was + left].iter().map(|(_, id)| *id));
            change.new.extend(is..is + came);
            self.0.extend(next[is..is + came].iter().map(|address| (*address, 0)));
            (was, is) = (was + left, is + came);
            while was < old.len() && is < next.len() && old[was].0 == next[is] {
                self.0.push(old[was]);
                (was, is) = (was + 1, is + 1);
            }
        }
        change
    }

    /// Sets the record of the object at `position`.
    pub(super) fn assign(&mut self, position: usize, id: u32) {
        self.0[position].1 = id;
    }
}

/// Returns how many objects of each list to skip until both have a common object; one of each if the distance is too large.
fn step(old: &[(usize, u32)], new: &[usize]) -> (usize, usize) {
    let (Some((before, _)), Some(now)) = (old.first(), new.first()) else { return (old.len(), new.len()) };
    for ahead in 0..WINDOW {
        if old.get(ahead).is_some_and(|(address, _)| address == now) {
            return (ahead, 0);
        }
        if new.get(ahead) == Some(before) {
            return (0, ahead);
        }
    }
    (1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unchanged objects must keep their records, regardless of the changes around them.
    #[test]
    fn compare_keeps_the_record_of_unchanged_objects() {
        let objects: Vec<Arc<u32>> = (0..100).map(Arc::new).collect();
        let rows: [(&str, Vec<usize>, usize, usize); 7] = [
            ("nothing", (0..100).collect(), 0, 0),
            ("the first is removed", (1..100).collect(), 1, 0),
            ("the last is removed", (0..99).collect(), 1, 0),
            ("some are removed", (0..100).filter(|n| n % 7 != 3).collect(), 14, 0),
            ("all are removed", Vec::new(), 100, 0),
            ("one is repeated", (0..100).chain([99]).collect(), 0, 1),
            ("forty are removed", (0..30).chain(70..100).collect(), 40, 0),
        ];
        for (name, positions, gone, new) in rows {
            let mut tracked = TrackedList::default();
            let all: Vec<&Arc<u32>> = objects.iter().collect();
            for position in tracked.compare(&all).new {
                tracked.assign(position, **all[position]);
            }
            let list: Vec<&Arc<u32>> = positions.iter().map(|position| &objects[*position]).collect();
            let change = tracked.compare(&list);
            assert!(change.gone.len() >= gone && change.gone.len() - gone == change.new.len() - new, "{name}");
            for (position, (address, id)) in tracked.0.iter().enumerate() {
                assert_eq!(*address, Arc::as_ptr(list[position]).addr(), "{name}");
                assert!(change.new.contains(&position) || *id == **list[position], "{name}");
            }
        }
    }
}
