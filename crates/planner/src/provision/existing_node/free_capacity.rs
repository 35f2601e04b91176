//! Free capacity of each existing node, in adjacent rows, so that a search over mostly full nodes reads nothing else. Each
//! stretch of rows has the maximum of its nodes, so the search skips a stretch without enough capacity at once.

use crate::provision::demand::dimensions::{Amounts, fits};

/// Free capacity of a closed node: less than any node has that pods filled.
const CLOSED: i64 = i64::MIN / 4;
/// Number of nodes per stretch.
const STRETCH: usize = 32;

/// One row per node, in the order in which nodes are tried.
#[derive(Clone)]
pub(in crate::provision) struct FreeCapacity {
    width: usize,
    rows: Vec<i64>,
    /// Maximum of each dimension over the nodes of a stretch, by stretch.
    most: Vec<i64>,
}

impl FreeCapacity {
    pub(in crate::provision) fn new(nodes: &[Amounts]) -> Self {
        let width = nodes.first().map_or(0, |row| row.len());
        let stretches = nodes.len().div_ceil(STRETCH);
        let mut free = Self { width, rows: nodes.concat(), most: vec![0; stretches * width] };
        (0..stretches).for_each(|stretch| free.sum_up(stretch));
        free
    }

    /// Returns the free capacity of a node.
    pub(in crate::provision) fn row(&self, node: usize) -> &[i64] {
        &self.rows[node * self.width..][..self.width]
    }

    /// Returns the number of nodes from this one on that certainly have too little: the rest of its stretch, or zero if the
    /// stretch may have enough.
    pub(in crate::provision) fn full_from(&self, node: usize, asked: &[i64]) -> usize {
        let most = &self.most[node / STRETCH * self.width..][..self.width];
        if fits(asked, most) { 0 } else { STRETCH - node % STRETCH }
    }

    /// Subtracts an amount from a node.
    pub(in crate::provision) fn take(&mut self, node: usize, asked: &[i64]) {
        let left = &mut self.rows[node * self.width..][..self.width];
        left.iter_mut().zip(asked).for_each(|(left, asked)| *left -= asked);
    }

    /// Restores an earlier row of a node.
    pub(in crate::provision) fn put_back(&mut self, node: usize, row: &[i64]) {
        self.rows[node * self.width..][..self.width].copy_from_slice(row);
        self.settle(node);
    }

    /// Leaves no capacity on a node.
    pub(in crate::provision) fn close(&mut self, node: usize) {
        self.rows[node * self.width..][..self.width].fill(CLOSED);
        self.settle(node);
    }

    /// Reports whether a node was closed.
    pub(in crate::provision) fn is_closed(&self, node: usize) -> bool {
        self.row(node).first().is_some_and(|left| *left <= CLOSED)
    }

    /// Updates the maximum of a node's stretch after amounts were subtracted.
    pub(in crate::provision) fn settle(&mut self, node: usize) {
        self.sum_up(node / STRETCH);
    }

    fn sum_up(&mut self, stretch: usize) {
        let (begin, end) = (stretch * STRETCH * self.width, (stretch + 1) * STRETCH * self.width);
        let rows = &self.rows[begin..end.min(self.rows.len())];
        let most = &mut self.most[stretch * self.width..][..self.width];
        most.fill(i64::MIN);
        for row in rows.chunks_exact(self.width.max(1)) {
            most.iter_mut().zip(row).for_each(|(most, left)| *most = (*left).max(*most));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn full_from_skips_a_stretch_when_no_row_has_enough(
            mut amounts in vec(0..9i64, 1..80),
            taken in vec((0..80usize, 0..4i64), 0..40),
            asked in 1..9i64,
        ) {
            let mut free = FreeCapacity::new(&amounts.iter().map(|amount| [*amount].into()).collect::<Vec<Amounts>>());
            let nodes = amounts.len();
            for (node, amount) in taken.into_iter().filter(|(node, _)| *node < nodes) {
                free.take(node, &[amount]);
                free.settle(node);
                amounts[node] -= amount;
            }
            for node in 0..nodes {
                let begin = node / STRETCH * STRETCH;
                let end = begin + STRETCH;
                let enough = amounts[begin..end.min(nodes)].iter().any(|amount| *amount >= asked);
                prop_assert_eq!(free.row(node), &[amounts[node]]);
                prop_assert_eq!(free.full_from(node, &[asked]), if enough { 0 } else { end - node });
            }
        }
    }
}
