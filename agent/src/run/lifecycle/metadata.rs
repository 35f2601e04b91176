//! Reachability of the metadata service. A node that cannot receive notices reports this.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{condition, reason};
use drain::Millis;

use super::agent_state::AgentState;
use crate::cluster::ConditionUpdate;
use crate::notices::{Reachability, Watcher};

/// Duration after which a failure is reported.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Metadata {
    failing: BTreeMap<Watcher, Failing>,
    failed: u64,
}

#[derive(Debug)]
struct Failing {
    since: Millis,
    problem: String,
}

impl Metadata {
    pub(super) fn reach(&mut self, reach: Reachability, now: Millis) {
        self.failed += u64::from(reach.failed);
        match reach.problem {
            None => {
                if self.failing.remove(&reach.watcher).is_some() {
                    log::info!("metadata responds again");
                }
            }
            Some(problem) => {
                let failing = self.failing.entry(reach.watcher).or_insert_with(|| {
                    log::warn!(error:% = problem; "cannot receive notices");
                    Failing { since: now, problem: String::new() }
                });
                failing.problem = problem;
            }
        }
    }

    /// Returns the error of metadata, while it does not answer.
    pub(super) fn problem(&self) -> Option<String> {
        self.failing.values().next().map(|failing| failing.problem.clone())
    }

    /// Returns the number of requests without an answer since the start.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns the time at which the next failure is reported.
    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.failing.values().map(|failing| failing.since + PATIENCE).filter(|at| *at > now).min()
    }

    /// Returns the condition `kerf.sh/MetadataReachable`, from the first long failure on.
    pub(super) fn condition_update(&self, known: &AgentState, now: Millis) -> Option<ConditionUpdate> {
        let before = known.node()?.condition(condition::METADATA_REACHABLE);
        let long = self.failing.values().filter(|failing| now >= failing.since + PATIENCE);
        let Some(failing) = long.min_by_key(|failing| failing.since) else {
            let ends = before.is_some_and(|it| it.status == condition::FALSE) && self.failing.is_empty();
            let stays = before.is_some_and(|it| it.status == condition::TRUE);
            return (ends || stays).then(|| ConditionUpdate {
                kind: condition::METADATA_REACHABLE,
                status: condition::TRUE,
                reason: reason::METADATA_ANSWERS.to_owned(),
                message: "the instance metadata service responds".to_owned(),
            });
        };
        Some(ConditionUpdate {
            kind: condition::METADATA_REACHABLE,
            status: condition::FALSE,
            reason: reason::METADATA_FAILS.to_owned(),
            message: format!("cannot receive interruption notices: {}", failing.problem),
        })
    }
}
