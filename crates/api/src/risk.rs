//! How an agent says that EC2 recommends to leave its machine, and how it hears that its replacement is there: the message of the
//! condition `kerf.sh/Interrupted`, and the annotation that answers it. Controller and agent read each other by this file alone.

use std::fmt;

use crate::objects::Node;
use crate::{annotation, condition, reason};

const REPLACE: &str = "replace";

/// The beginning of the message while nothing is drained yet, in words of the form `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RiskSaid {
    /// Names the recommendation.
    pub id: String,
    /// The agent waits for a replacement and drains once it is approved; else it only tells.
    pub replace: bool,
}

impl RiskSaid {
    /// What the Node's agent says; `None` where EC2 recommends nothing, or is about to take the machine back anyway.
    #[must_use]
    pub fn from_node(node: &Node) -> Option<Self> {
        let said = node.condition(condition::INTERRUPTED).filter(|said| said.status == condition::TRUE)?;
        if said.reason != reason::REBALANCE_RECOMMENDATION {
            return None;
        }
        let words = said.message.split_whitespace().map_while(|word| word.split_once('='));
        let word = |key| words.clone().find(|(name, _)| *name == key).map(|(_, value)| value);
        Some(Self { id: word("id")?.to_owned(), replace: word("policy") == Some(REPLACE) })
    }

    /// The recommendation for which the Node is to be replaced, whether or not that has been approved.
    #[must_use]
    pub fn wants_replacement(node: &Node) -> Option<String> {
        Self::from_node(node).filter(|said| said.replace).map(|said| said.id)
    }

    /// Whether the replacement has been approved.
    #[must_use]
    pub fn is_approved(&self, node: &Node) -> bool {
        node.annotation(annotation::REPLACEMENT_APPROVED) == Some(self.id.as_str())
    }
}

impl fmt::Display for RiskSaid {
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
        let said = json!({"type": condition::INTERRUPTED, "status": status, "reason": reason, "message": message});
        let node = json!({
            "metadata": {"name": "n", "annotations": {annotation::REPLACEMENT_APPROVED: "rebalance-1"}},
            "status": {"conditions": [said]},
        });
        serde_json::from_value(node).unwrap_or_else(|error| unreachable!("{error}"))
    }

    #[test]
    fn what_one_says_the_other_reads() {
        let risk = reason::REBALANCE_RECOMMENDATION;
        for replace in [true, false] {
            let said = RiskSaid { id: "rebalance-1".into(), replace };
            let node = node("True", risk, &format!("{said} EC2 sees policy=replace"));
            let read = RiskSaid::from_node(&node);
            assert_eq!(read.as_ref().map(|read| read.id.as_str()), Some("rebalance-1"));
            assert!(read.is_some_and(|read| read.replace == replace && read.is_approved(&node)));
        }
        let other = RiskSaid { id: "rebalance-2".into(), replace: true };
        let asks = node("True", risk, &other.to_string());
        assert_eq!(RiskSaid::wants_replacement(&asks).as_deref(), Some("rebalance-2"));
        assert!(!other.is_approved(&asks), "an approval is for one recommendation");
        let quiet = [
            node("False", risk, "id=rebalance-1 policy=replace"),
            node("True", reason::SPOT_INTERRUPTION, "id=rebalance-1 policy=replace"),
            node("True", risk, "policy=replace"),
            node("True", risk, "id=rebalance-1 EC2 sees an elevated risk"),
        ];
        assert!(quiet.iter().all(|node| RiskSaid::wants_replacement(node).is_none()));
    }
}
