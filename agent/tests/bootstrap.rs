//! Bootstrap against a scripted metadata service. Folders of input and expected files (`cases/`), and behaviour under every
//! fault that IMDS and machines have shown.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

mod behaviour;
mod host;
mod metadata;
mod node_name;
mod observed;
mod process;
mod rendered;
