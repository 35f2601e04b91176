//! What a simulation leaves behind: figures, a line for each minute, and every move.

use std::collections::BTreeMap;

use planner::{CommandReason, PlannedCommand, ResizeReason};

use crate::clock::{HOUR, MINUTE, Moment};
use crate::world::World;

/// The cluster at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Moment,
    /// Machines that cost money.
    pub machines: usize,
    /// Pods that run or wait.
    pub pods: usize,
    /// Pods that wait for a place.
    pub waiting: usize,
    /// Dollars per hour.
    pub dollars: f64,
}

/// A move from its begin to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Why.
    pub reason: CommandReason,
    /// The claims that went.
    pub claims: Vec<String>,
    /// The names of its replacements; empty without any.
    pub id: String,
    /// What the plan said that it saves, in dollars per hour.
    pub saving: Option<f64>,
    /// When it began.
    pub begun: Moment,
    /// When its replacements were up, or it was taken back; at its begin where it waited for nothing.
    pub ended: Option<Moment>,
    /// Whether it was carried out.
    pub done: bool,
}

/// Everything that is told afterwards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// One a minute.
    pub samples: Vec<Sample>,
    /// In the order of their begins.
    pub moves: Vec<Moved>,
    /// Plans that were made.
    pub plans: usize,
    /// Of those, plans in which the checker found something: they were not carried out, or only with their first moves.
    pub refused: usize,
    /// Machines that were bought.
    pub launches: usize,
    /// Purchases for which nothing was in stock.
    pub refusals: usize,
    /// Deaths of the controller.
    pub deaths: usize,
    /// Faults of all kinds that were played.
    pub faults: usize,
    /// Pods whose requests were changed, by reason.
    pub resizes: BTreeMap<ResizeReason, usize>,
    /// Machines that EC2 took with notice.
    pub notices: usize,
    /// Micro-dollars times milliseconds.
    spent: i128,
    clock: Option<Moment>,
}

impl Record {
    /// Time has gone on to this moment, at what the machines cost until then.
    pub fn tick(&mut self, world: &World, now: Moment) {
        let passed = now - self.clock.replace(now).unwrap_or(now);
        self.spent += i128::from(world.market.cost()) * i128::from(passed);
        let due = self.samples.last().is_none_or(|last| now - last.at >= MINUTE);
        if due {
            let waiting = world.pods.values().filter(|pod| pod.node.is_none()).count();
            self.samples.push(Sample {
                at: now,
                machines: world.market.instances.len(),
                pods: world.pods.len(),
                waiting,
                dollars: world.market.cost() as f64 / 1e6,
            });
        }
    }

    /// How often requests went down.
    #[must_use]
    pub fn lowered(&self) -> usize {
        self.resizes.get(&ResizeReason::MakesRoom).copied().unwrap_or(0)
    }

    /// How often requests went up again.
    #[must_use]
    pub fn raised(&self) -> usize {
        let kept = self.resizes.get(&ResizeReason::NoRoom).copied().unwrap_or(0);
        self.resizes.values().sum::<usize>() - self.lowered() - kept
    }

    /// What all machines have cost, in dollars.
    #[must_use]
    pub fn dollars(&self) -> f64 {
        self.spent as f64 / HOUR as f64 / 1e6
    }

    pub(crate) fn began(&mut self, moved: Moved) {
        self.moves.push(moved);
    }

    pub(crate) fn ended(&mut self, id: &str, at: Moment, done: bool) {
        if let Some(moved) = self.moves.iter_mut().rev().find(|moved| moved.id == id) {
            (moved.ended, moved.done) = (Some(at), done);
        }
    }
}

impl Moved {
    pub(crate) fn of(planned: &PlannedCommand, claims: &[String], id: &str, now: Moment) -> Self {
        let at_once = id.is_empty();
        Self {
            reason: planned.reason,
            claims: claims.to_vec(),
            id: id.to_owned(),
            saving: planned.saving.map(|saving| saving.0 as f64 / 1e6),
            begun: now,
            ended: at_once.then_some(now),
            done: at_once,
        }
    }

    /// Whether it was to save money.
    #[must_use]
    pub fn saves(&self) -> bool {
        matches!(self.reason, CommandReason::Empty | CommandReason::Underutilized)
    }
}
