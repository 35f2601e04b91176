//! What every duty may look at: who we are, what our Node says, and what the disk remembers.

use drain::Drain;

use crate::clock::WallOffset;
use crate::cluster::Node;
use crate::journal::Journal;

/// What is known of our Node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ObservedNode {
    Unheard,
    Absent,
    /// There is a Node of our name that is another machine's.
    Foreign(String),
    Ours(Box<Node>),
}

/// The state that duties share.
#[derive(Debug)]
pub(super) struct AgentState {
    pub(super) name: String,
    pub(super) journal: Journal,
    /// The journal differs from its file.
    pub(super) dirty: bool,
    pub(super) seen: ObservedNode,
    /// How moments are written for others.
    pub(super) wall: WallOffset,
}

impl AgentState {
    pub(super) fn new(name: &str, journal: Journal) -> Self {
        Self { name: name.to_owned(), journal, dirty: false, seen: ObservedNode::Unheard, wall: WallOffset::default() }
    }

    /// Our Node, proven to be ours.
    pub(super) fn node(&self) -> Option<&Node> {
        match &self.seen {
            ObservedNode::Ours(node) => Some(node),
            _ => None,
        }
    }

    /// Whether the API server has answered, and not with another machine's Node.
    pub(super) fn may_write(&self) -> bool {
        matches!(self.seen, ObservedNode::Absent | ObservedNode::Ours(_))
    }

    pub(super) fn rename(&mut self, name: &str) {
        if self.name != name {
            name.clone_into(&mut self.name);
            self.seen = ObservedNode::Unheard;
        }
    }

    pub(super) fn update_node(&mut self, node: Option<Node>) {
        self.seen = self.identify(node);
    }

    pub(super) fn with_drain(&mut self, change: impl FnOnce(&mut Drain)) {
        if let Some(drain) = &mut self.journal.drain {
            change(drain);
        }
    }

    /// Proves who we are: the Node's providerID must end in our instance.
    fn identify(&self, node: Option<Node>) -> ObservedNode {
        match node {
            None => ObservedNode::Absent,
            Some(node) if self.is_ours(&node) => ObservedNode::Ours(Box::new(node)),
            Some(node) => ObservedNode::Foreign(node.spec.provider_id),
        }
    }

    pub(super) fn is_ours(&self, node: &Node) -> bool {
        let instance = node.spec.provider_id.rsplit('/').next().unwrap_or_default();
        instance == self.journal.instance && !instance.is_empty()
    }
}
