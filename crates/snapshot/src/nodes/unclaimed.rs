//! Nodes with a NodePool label but without a NodeClaim, and Nodes with an invalid `do-not-disrupt` annotation.

use super::NodeSource;
use crate::problem::merge_equal;
use crate::{Input, Problem};

/// Returns the nodes with a NodePool's label but without a NodeClaim, once per NodePool, and the nodes with an invalid
/// `do-not-disrupt` annotation.
pub(crate) fn problems(input: &Input<'_>, machines: &[NodeSource<'_>]) -> Vec<Problem> {
    let invalid = machines.iter().filter_map(|machine| {
        let (node, text) = (machine.node?, machine.node?.misread_do_not_disrupt()?.to_owned());
        Some(Problem::NodeDoNotDisrupt { node: node.name().to_owned(), others: 0, text })
    });
    let alone = machines.iter().filter(|machine| machine.claim.is_none());
    let unclaimed = alone.filter_map(|machine| {
        let (node, pool) = (machine.node?, machine.pool()?);
        let is_unclaimed = node.metadata.deletion_timestamp.is_none() && input.is_settled(&node.metadata);
        is_unclaimed.then(|| Problem::Unclaimed { node: node.name().to_owned(), others: 0, pool: pool.clone() })
    });
    merge_equal(unclaimed.chain(invalid).map(|problem| ((), problem)))
}
