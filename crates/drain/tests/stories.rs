//! Stories of drains with blessed endings: every `stories/NAME.txt` is a node in words, `---`, and what is asked of whom, second by
//! second. What a story expects holds whatever is blessed; `BLESS=1` writes the transcripts anew, to be reviewed like code.
//!
//! Here the drain is played as the controller drives it. The agent's tests play the same stories through the whole of an agent's
//! decisions, and its actions are told in the same words.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "stories/play.rs"]
mod play;

use drain::{Action, Drain, Millis, PodOnNode, Reply, Settings};

use play::story::{Cause, T0};
use play::world::Player;
use play::{Story, Telling};

/// A drain and nothing else.
struct Bare(Drain);

impl Bare {
    fn of(story: &Story) -> Self {
        let settings = match (story.cause, story.deadline) {
            (Cause::Termination, deadline) => Settings::for_termination(deadline, 1),
            // Of a node that is in no load balancer.
            (Cause::Notice | Cause::Wish, deadline) => Settings { deadline, ..Settings::for_machine(1) },
        };
        let mut drain = Drain::new(settings, T0);
        drain.closed(T0);
        Self(drain)
    }
}

impl Player for Bare {
    fn hear(&mut self, now: Millis, pods: Vec<PodOnNode>, volumes: Vec<String>) {
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
fn every_story_of_a_drain_ends_as_blessed() {
    let bless = std::env::var_os("BLESS").is_some();
    play::all(play::SHARED, Telling { bless, anothers: false }, |_| true, Bare::of);
}
