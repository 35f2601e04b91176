//! State that all duties can read: the identity of the node, its Node object, and the journal.

use drain::Drain;

use crate::cluster::Node;
use crate::host::clock::WallOffset;
use crate::run::journal::Journal;

/// Observed state of our Node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ObservedNode {
    Unknown,
    Absent,
    /// Node with our name that belongs to another instance.
    Foreign(String),
    Ours(Box<Node>),
}

/// State that duties share.
#[derive(Debug)]
pub(super) struct AgentState {
    pub(super) name: String,
    pub(super) journal: Journal,
    /// True if the journal differs from its file.
    pub(super) dirty: bool,
    pub(super) seen: ObservedNode,
    /// Offset of the wall clock, for times that others read.
    pub(super) wall: WallOffset,
}

impl AgentState {
    pub(super) fn new(name: &str, journal: Journal) -> Self {
        Self { name: name.to_owned(), journal, dirty: false, seen: ObservedNode::Unknown, wall: WallOffset::default() }
    }

    /// Returns our Node, if its identity is verified.
    pub(super) fn node(&self) -> Option<&Node> {
        match &self.seen {
            ObservedNode::Ours(node) => Some(node),
            _ => None,
        }
    }

    /// Reports whether the API server has answered, and not with another instance's Node.
    pub(super) fn may_write(&self) -> bool {
        matches!(self.seen, ObservedNode::Absent | ObservedNode::Ours(_))
    }

    pub(super) fn rename(&mut self, name: &str) {
        if self.name != name {
            name.clone_into(&mut self.name);
            self.seen = ObservedNode::Unknown;
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

    /// Verifies the identity of the Node: its providerID must end in our instance id.
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
