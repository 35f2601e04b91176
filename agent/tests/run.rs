//! `kerf-agent run`: its decisions alone, its Kubernetes client against a scripted API server, and the whole loop against the
//! API server and a scripted metadata service, over restarts.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption should fail the test")]

#[path = "run/aemm.rs"]
mod aemm;
#[path = "run/asked.rs"]
mod asked;
#[path = "run/client.rs"]
mod client;
#[path = "run/decisions.rs"]
mod decisions;
#[path = "run/faults.rs"]
mod faults;
#[path = "run/gates.rs"]
mod gates;
#[path = "run/hands.rs"]
mod hands;
#[path = "run/health.rs"]
mod health;
#[path = "run/ledger.rs"]
mod ledger;
#[path = "run/local.rs"]
mod local;
#[path = "run/logind.rs"]
mod logind;
#[path = "run/memory.rs"]
mod memory;
#[path = "run/notices.rs"]
mod notices;
#[path = "../../crates/drain/tests/stories/play.rs"]
mod play;
#[path = "run/scaling.rs"]
mod scaling;
#[path = "run/sequences.rs"]
mod sequences;
#[path = "run/stories.rs"]
mod stories;
#[path = "run/told.rs"]
mod told;
#[path = "run/whole.rs"]
mod whole;
