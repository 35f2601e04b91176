//! The nodeadm-compatible command line against real sockets and folders: sources, cache, phases, links and proxies.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

mod asking;
mod boot;
mod choice;
mod ec2;
#[path = "../bootstrap/imds.rs"]
#[expect(dead_code, reason = "the tests of bootstrap use the rest")]
mod imds;
mod links;
mod program;
#[path = "../bootstrap/room.rs"]
#[expect(dead_code, reason = "the tests of bootstrap use the rest")]
mod room;
mod sources;
mod stage;
