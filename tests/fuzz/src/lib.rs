//! What the agent's readers promise about any bytes at all: one function for each target. A fuzzer looks for bytes that break a
//! promise (`make fuzz`), a plain test holds what is known (`tests/replay.rs`), and both call these functions and nothing else.
//!
//! A broken promise is a panic. Not crashing is the least of them: what is read can be written and read again, what is followed
//! stays inside its file, and what is refused is refused in one sentence that fits where people read it.

mod journal;
mod kubeconfig;
mod metadata;
mod node_config;
mod sentence;
mod user_data;

/// What a reader made of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can be used.
    Accepted,
    /// It cannot, in the words that people read.
    Refused(String),
}

/// One reader, with its promises.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder below `corpus`.
    pub name: &'static str,
    /// Reads the bytes and holds the reader to its promises; panics when one is broken.
    pub check: fn(&[u8]) -> Verdict,
}

/// All readers of what comes from outside the program.
pub const TARGETS: [Target; 5] = [
    Target { name: "user-data", check: user_data::check },
    Target { name: "node-config", check: node_config::check },
    Target { name: "metadata", check: metadata::check },
    Target { name: "kubeconfig", check: kubeconfig::check },
    Target { name: "journal", check: journal::check },
];

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }
}
