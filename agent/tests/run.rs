//! `kerf-agent run`: its decisions alone, its Kubernetes client against a scripted API server, and the whole loop against the
//! API server and a scripted metadata service, over restarts.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption should fail the test")]

#[path = "run/aemm.rs"]
mod aemm;
#[path = "run/client.rs"]
mod client;
#[path = "run/decisions.rs"]
mod decisions;
#[path = "run/drain_owner.rs"]
mod drain_owner;
#[path = "run/drain_scenarios.rs"]
mod drain_scenarios;
#[path = "run/faults.rs"]
mod faults;
#[path = "run/gates.rs"]
mod gates;
#[path = "run/health.rs"]
mod health;
#[path = "run/local.rs"]
mod local;
#[path = "run/logind.rs"]
mod logind;
#[path = "run/memory.rs"]
mod memory;
#[path = "run/notice_store.rs"]
mod notice_store;
#[path = "run/notices.rs"]
mod notices;
#[path = "run/reboot.rs"]
mod reboot;
#[path = "run/requested_drain.rs"]
mod requested_drain;
#[path = "../../crates/drain/tests/scenarios/runner.rs"]
mod runner;
#[path = "run/scaling.rs"]
mod scaling;
#[path = "run/sequences.rs"]
mod sequences;
#[path = "run/settings_sources.rs"]
mod settings_sources;
#[path = "run/timers.rs"]
mod timers;
#[path = "run/whole.rs"]
mod whole;
