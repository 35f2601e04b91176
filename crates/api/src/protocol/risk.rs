//! Protocol of rebalance recommendations. The agent reports a recommendation in the message of the condition
//! `kerf.sh/Interrupted`. The controller approves the drain by an annotation, once the replacement is ready. Controller and
//! agent communicate about recommendations only through the types in this file.

use std::fmt;

use crate::NodeClaim;
use crate::names::{annotation, condition, reason};
use crate::objects::Node;

const REPLACE: &str = "replace";

/// Beginning of the message before the drain begins, as pairs of the form `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebalanceRisk {
    /// Id of the recommendation.
    pub id: String,
    /// True if the agent waits for a replacement and drains the node after its approval. Otherwise the agent only reports the
    /// recommendation.
    pub replace: bool,
}

impl RebalanceRisk {
    /// Returns the recommendation that the agent of the Node reports. Returns `None` if there is none, or if EC2 has announced
    /// an interruption.
    #[must_use]
    pub fn from_node(node: &Node) -> Option<Self> {
        let reported = node.condition(condition::INTERRUPTED).filter(|reported| reported.status == condition::TRUE)?;
        if reported.reason != reason::REBALANCE_RECOMMENDATION {
            return None;
        }
        let words = reported.message.split_whitespace().map_while(|word| word.split_once('='));
        let word = |key| words.clone().find(|(name, _)| *name == key).map(|(_, value)| value);
        Some(Self { id: word("id")?.to_owned(), replace: word("policy") == Some(REPLACE) })
    }

    /// Returns the recommendation for which the Node is to be replaced, approved or not. Its NodeClaim must ask for replacements:
    /// a node writes its own Node.
    #[must_use]
    pub fn requested_replacement(node: &Node, claim: Option<&NodeClaim>) -> Option<Self> {
        let policy = claim?.metadata.annotations.as_ref()?.get(annotation::REBALANCE)?;
        Self::from_node(node).filter(|risk| risk.replace && policy == REPLACE)
    }

    /// Reports whether the replacement has been approved.
    #[must_use]
    pub fn is_approved(&self, node: &Node) -> bool {
        node.annotation(annotation::REPLACEMENT_APPROVED) == Some(self.id.as_str())
    }
}

impl fmt::Display for RebalanceRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = if self.replace { " policy=replace" } else { "" };
        write!(f, "id={}{policy}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(status: &str, reason: &str, message: &str) -> Node {
        let reported = json!({"type": condition::INTERRUPTED, "status": status, "reason": reason, "message": message});
        let node = json!({
            "metadata": {"name": "n", "annotations": {annotation::REPLACEMENT_APPROVED: "rebalance-1"}},
            "status": {"conditions": [reported]},
        });
        serde_json::from_value(node).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn claim(policy: &str) -> NodeClaim {
        let mut claim = NodeClaim::new("web-1", crate::NodeClaimSpec::default());
        claim.metadata.annotations = Some([(annotation::REBALANCE.to_owned(), policy.to_owned())].into());
        claim
    }

    #[test]
    fn rebalance_risk_reads_messages_of_the_agent() {
        let recommended = reason::REBALANCE_RECOMMENDATION;
        for replace in [true, false] {
            let risk = RebalanceRisk { id: "rebalance-1".into(), replace };
            let node = node("True", recommended, &format!("{risk} EC2 sees policy=replace"));
            let read = RebalanceRisk::from_node(&node);
            assert_eq!(read.as_ref().map(|read| read.id.as_str()), Some("rebalance-1"));
            assert!(read.is_some_and(|read| read.replace == replace && read.is_approved(&node)));
        }
        let other = RebalanceRisk { id: "rebalance-2".into(), replace: true };
        let requested = node("True", recommended, &other.to_string());
        let replacement = |node: &Node, claim: &NodeClaim| {
            RebalanceRisk::requested_replacement(node, Some(claim)).map(|risk| risk.id)
        };
        assert_eq!(replacement(&requested, &claim("replace")).as_deref(), Some("rebalance-2"));
        for policy in ["ignore", "cordon"] {
            assert_eq!(replacement(&requested, &claim(policy)), None, "only the NodeClaim has the policy");
        }
        assert_eq!(RebalanceRisk::requested_replacement(&requested, None), None);
        assert!(!other.is_approved(&requested), "an approval is for one recommendation");
        let quiet = [
            node("False", recommended, "id=rebalance-1 policy=replace"),
            node("True", reason::SPOT_INTERRUPTION, "id=rebalance-1 policy=replace"),
            node("True", recommended, "policy=replace"),
            node("True", recommended, "id=rebalance-1 EC2 sees an elevated risk"),
        ];
        assert!(quiet.iter().all(|node| replacement(node, &claim("replace")).is_none()));
    }
}
