//! Independent parts of an exchange.
//!
//! Nodes are vacated together because their pods may fit on fewer or smaller nodes. If only a pair among thirty nodes saves
//! money, the others receive equivalent nodes, and their pods would be evicted for nothing. An exchange of independent parts is
//! therefore rejected if one part does not save enough; its other parts are tried again separately.

use std::collections::BTreeMap;

use super::simulation::Position;

/// Nodes that depend on each other because their pods move to the same launch, with the launches that they need.
pub(super) struct IndependentPart {
    pub(super) nodes: Vec<Position>,
    pub(super) launches: Vec<usize>,
}

/// Returns the parts of an exchange of these nodes. `sent` contains a pair of node and launch for each launch to which a node
/// moves pods.
pub(super) fn parts(nodes: &[Position], sent: impl Iterator<Item = (Position, usize)>) -> Vec<IndependentPart> {
    let mut part_of: BTreeMap<Position, usize> =
        nodes.iter().enumerate().map(|(part, position)| (*position, part)).collect();
    let mut launched: BTreeMap<usize, Position> = BTreeMap::new();
    for (position, launch) in sent {
        let first = *launched.entry(launch).or_insert(position);
        let (Some(&own), Some(&other)) = (part_of.get(&position), part_of.get(&first)) else { continue };
        part_of.values_mut().filter(|part| **part == own).for_each(|part| *part = other);
    }
    let mut parts: BTreeMap<usize, IndependentPart> = BTreeMap::new();
    let empty = || IndependentPart { nodes: Vec::new(), launches: Vec::new() };
    // Parts and nodes keep the order of `nodes`.
    for position in nodes {
        parts.entry(part_of[position]).or_insert_with(empty).nodes.push(*position);
    }
    for (launch, position) in launched {
        parts.entry(part_of[&position]).or_insert_with(empty).launches.push(launch);
    }
    parts.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_groups_nodes_when_they_share_a_launch() {
        let sent = [(5, 0), (7, 1), (2, 0), (9, 2), (7, 2), (7, 1), (3, 3)];
        let found: Vec<(Vec<usize>, Vec<usize>)> =
            parts(&[5, 7, 2, 9, 3, 4], sent.into_iter()).into_iter().map(|it| (it.nodes, it.launches)).collect();
        let expected = [(vec![5, 2], vec![0]), (vec![7, 9], vec![1, 2]), (vec![3], vec![3]), (vec![4], vec![])];
        let mut sorted = found.clone();
        sorted.sort_by_key(|(nodes, _)| expected.iter().position(|(own, _)| own == nodes));
        assert_eq!(sorted, expected);
    }
}
