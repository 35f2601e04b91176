//! All integration tests of this crate as one program, because linking a program takes as long as compiling its tests.

mod account;
#[cfg(feature = "live")]
#[path = "support/cluster.rs"]
mod cluster;
mod completions;
mod convert;
mod disruption;
#[cfg(feature = "live")]
mod history;
mod how_to;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod migration;
#[path = "support/page.rs"]
mod page;
mod plan;
mod prices;
mod reading;
#[path = "support/shell.rs"]
mod shell;
#[path = "support/kerf.rs"]
mod support;
mod transcripts;
mod types;
mod ui;
mod workloads;
