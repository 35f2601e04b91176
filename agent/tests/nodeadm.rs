//! The nodeadm-compatible command line against real sockets and folders: sources, cache, phases, links and proxies.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

mod asking;
mod boot;
mod choice;
pub mod ec2;
mod fixture;
mod links;
mod program;
mod sources;
mod volumes;
