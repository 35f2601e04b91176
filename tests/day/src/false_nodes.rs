//! Nodes of the day whose programs write false labels, amounts, conditions, annotations and usage reports, until an operator
//! ends their instances.

use std::collections::BTreeMap;

use api::objects::Pod;
use serde_json::json;
use simulator::api_server::{ApiServer, NODES, PODS};
use simulator::hostile_node::HostileNode;

use crate::clock::{Moment, SECOND, timestamp};

/// Prefix of the second Node that a program may create, before the name of its own.
pub const SECOND_NODE: &str = "a-";
/// Interval of the programs.
const PAUSE: Moment = 5 * SECOND;

/// Programs that run, by the name of their node.
#[derive(Debug, Default)]
pub struct FalseNodes {
    programs: BTreeMap<String, HostileNode>,
    next: Option<Moment>,
}

impl FalseNodes {
    /// Starts the program of a node. `victim` is the provider id of another node.
    pub fn start(&mut self, node: &str, provider_id: &str, victim: &str, seed: u64) {
        self.programs.insert(node.to_owned(), HostileNode::new(node, provider_id, victim, seed));
    }

    /// Ends the program of a node, and removes its objects that the end of the instance does not remove.
    pub fn end(&mut self, node: &str, server: &ApiServer) {
        self.programs.remove(node);
        let second = format!("{SECOND_NODE}{node}");
        for name in [node, second.as_str()] {
            server.change(NODES, name, &json!({"metadata": {"finalizers": null}}));
        }
        server.delete(NODES, &second);
        let pods = server.shared::<Pod>(PODS);
        for pod in pods.iter().filter(|pod| pod.spec.node_name == node && pod.name().starts_with("static-")) {
            server.remove(PODS, &format!("{}/{}", pod.namespace(), pod.name()));
        }
    }

    /// Returns the moment of the next writes.
    #[must_use]
    pub fn next(&self, now: Moment) -> Option<Moment> {
        (!self.programs.is_empty()).then(|| self.next.unwrap_or(now))
    }

    /// Lets the programs write if they are due. Returns the number of changes.
    pub fn act(&mut self, server: &ApiServer, now: Moment) -> u64 {
        if self.programs.is_empty() || self.next.is_some_and(|next| next > now) {
            return 0;
        }
        self.next = Some(now + PAUSE);
        let before = server.version();
        self.programs.values().for_each(|program| program.write(server, timestamp(now)));
        server.version() - before
    }
}
