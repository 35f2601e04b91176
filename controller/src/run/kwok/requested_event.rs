//! Event of EC2 that a user requests for a node of KWOK by [`annotation::EMULATED_EVENT`].

use std::str::FromStr;

use api::annotation;
use api::objects::Node;
use cloud::Instance;
use cloud::fake::FakeCloud;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::node;
use crate::informer::interruption::queue::SPOT_NOTICE;

/// Event of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedEvent {
    /// EC2 announces that it ends a spot instance.
    SpotInterruption,
    /// EC2 recommends to leave an instance.
    RebalanceRecommendation,
    /// An instance ends without a notice.
    InstanceTermination,
}

impl FromStr for RequestedEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "spot-interruption" => Ok(Self::SpotInterruption),
            "rebalance-recommendation" => Ok(Self::RebalanceRecommendation),
            "instance-termination" => Ok(Self::InstanceTermination),
            _ => Err(format!("{text:?} is not an event: write {EVENTS}")),
        }
    }
}

const EVENTS: &str = "spot-interruption, rebalance-recommendation or instance-termination";

impl RequestedEvent {
    /// Returns the event that is requested for the instance of a Node; nothing for a Node without one.
    pub(super) fn of(node: &Node) -> Option<Result<(Self, Instance), String>> {
        let text = node.annotation(annotation::EMULATED_EVENT)?;
        let instance = node::instance(node)?;
        Some(text.parse().and_then(|event: Self| event.is_possible(&instance).map(|()| (event, instance))))
    }

    fn is_possible(self, instance: &Instance) -> Result<(), String> {
        if self == Self::SpotInterruption && !instance.spot {
            return Err("EC2 interrupts only spot instances; write instance-termination".to_owned());
        }
        Ok(())
    }

    /// Emulates the event. Returns false if the instance does not run.
    pub(super) fn emulate(self, ec2: &FakeCloud, instance: &str, now: Timestamp) -> bool {
        match self {
            Self::SpotInterruption => ec2.interrupt(instance, now + SPOT_NOTICE),
            Self::RebalanceRecommendation => ec2.recommend_rebalance(instance),
            Self::InstanceTermination => ec2.kill(instance),
        }
    }
}

/// Returns the patch that removes the request from this version of the Node, so that it is carried out once.
pub(super) fn without_request(node: &Node) -> Value {
    let annotations = json!({annotation::EMULATED_EVENT: null});
    json!({"metadata": {"resourceVersion": node.metadata.resource_version, "annotations": annotations}})
}

#[cfg(test)]
mod tests {
    use api::objects::Node;
    use cloud::Instance;
    use serde_json::json;

    use super::{RequestedEvent, without_request};

    fn node(event: &str, spot: bool, is_simulated: bool) -> Node {
        let instance = json!(Instance { id: "i-1".to_owned(), spot, ..Instance::default() }).to_string();
        let mut annotations = json!({"kerf.sh/emulated-event": event});
        if is_simulated {
            annotations["kerf.sh/emulated-instance"] = json!(instance);
        }
        let node = json!({"metadata": {"name": "n", "resourceVersion": "7", "annotations": annotations}});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn of_is_the_event_for_the_instance_or_an_error_with_the_fix() {
        let rows = [
            ("spot-interruption", true, Ok(RequestedEvent::SpotInterruption)),
            ("rebalance-recommendation", false, Ok(RequestedEvent::RebalanceRecommendation)),
            ("instance-termination", false, Ok(RequestedEvent::InstanceTermination)),
            ("spot-interruption", false, Err("EC2 interrupts only spot instances; write instance-termination")),
            (
                "reboot",
                true,
                Err("\"reboot\" is not an event: write spot-interruption, rebalance-recommendation or \
                     instance-termination"),
            ),
        ];
        for (text, spot, expected) in rows {
            let found = RequestedEvent::of(&node(text, spot, true)).unwrap();
            let found = found.map(|(event, instance)| (event, instance.id));
            let expected = expected.map(|event| (event, "i-1".to_owned())).map_err(str::to_owned);
            assert_eq!(found, expected, "{text} of a node with spot {spot}");
        }
    }

    #[test]
    fn of_is_nothing_for_a_node_without_an_instance_or_a_request() {
        assert!(RequestedEvent::of(&node("spot-interruption", true, false)).is_none());
        assert!(RequestedEvent::of(&Node::default()).is_none());
    }

    #[test]
    fn without_request_changes_only_the_version_that_has_it() {
        let patch = without_request(&node("spot-interruption", true, true));
        let annotations = json!({"kerf.sh/emulated-event": null});
        assert_eq!(patch, json!({"metadata": {"resourceVersion": "7", "annotations": annotations}}));
    }
}
