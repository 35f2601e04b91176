//! Invariants of parsers of the agent, the controller and the command for arbitrary bytes, one function for each target. A fuzzer searches for bytes that
//! violate an invariant (`make fuzz`). A plain test checks the corpus (`tests/replay.rs`). Both call only these functions.
//!
//! A violated invariant is a panic. The parsers must not only survive. Accepted input must be writable and readable again,
//! applied values must stay inside their files, and an error must be one line of limited length.

mod journal;
mod kubeconfig;
mod manifests;
mod metadata;
mod node_class;
mod node_config;
mod sentence;
mod user_data;

/// Result of a parser for the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseResult {
    /// Valid input.
    Accepted,
    /// Invalid input, with the error message.
    Refused(String),
}

/// One parser with its invariants.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target and of its folder below `corpus`.
    pub name: &'static str,
    /// Parses the bytes and checks the invariants; panics on a violation.
    pub check: fn(&[u8]) -> ParseResult,
}

/// Parsers of all input from outside the program.
pub const TARGETS: [Target; 7] = [
    Target { name: "user-data", check: user_data::check },
    Target { name: "node-config", check: node_config::check },
    Target { name: "node-class", check: node_class::check },
    Target { name: "manifests", check: manifests::check },
    Target { name: "metadata", check: metadata::check },
    Target { name: "kubeconfig", check: kubeconfig::check },
    Target { name: "journal", check: journal::check },
];

impl Target {
    /// Returns the target with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }
}
