//! Drain scenarios with reviewed transcripts. Every `scenarios/NAME.txt` contains a node as text, `---`, and the requests of
//! the drain by time. The expectations of a scenario hold for every transcript; `BLESS=1` rewrites the transcripts, to be reviewed
//! like code.
//!
//! The test in this file runs the drain as the controller does. The agent's tests run the same scenarios through all of the
//! agent's decisions, and print its actions in the same format.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "scenarios/runner.rs"]
mod runner;

use drain::{Action, Drain, Millis, PodOnNode, Reply, Settings};

use runner::cluster::DrainDriver;
use runner::scenario::{Cause, T0};
use runner::{Scenario, TranscriptMode};

/// A drain without an agent or controller.
struct Bare(Drain);

impl Bare {
    fn of(scenario: &Scenario) -> Self {
        let settings = match (scenario.cause, scenario.deadline) {
            (Cause::Termination, deadline) => Settings::for_termination(deadline, 1),
            // The node is in no load balancer.
            (Cause::Notice | Cause::Request, deadline) => Settings { deadline, ..Settings::for_machine(1) },
        };
        let mut drain = Drain::new(settings, T0);
        drain.mark_closed(T0);
        Self(drain)
    }
}

impl DrainDriver for Bare {
    fn observe(&mut self, now: Millis, pods: Vec<PodOnNode>, volumes: Vec<String>) {
        self.0.attached(now, volumes);
        self.0.pods(now, pods);
    }

    fn reply(&mut self, now: Millis, uid: &str, reply: &Reply) {
        self.0.reply(now, uid, reply);
    }

    fn step(&mut self, now: Millis) -> Vec<Action> {
        self.0.step(now)
    }

    fn next(&self, now: Millis) -> Option<Millis> {
        self.0.poll_timeout(now)
    }

    fn restart(&mut self, now: Millis) {
        let written = serde_json::to_string(&self.0).unwrap();
        self.0 = serde_json::from_str(&written).unwrap();
        self.0.resume(now);
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

#[test]
fn drain_prints_the_reviewed_transcript_of_each_scenario() {
    let bless = std::env::var_os("BLESS").is_some();
    runner::all(runner::SHARED, TranscriptMode { bless, of_another_driver: false }, |_| true, Bare::of);
}
