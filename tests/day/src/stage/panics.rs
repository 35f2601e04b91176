//! Panics that faults cause in the controller. Each one strikes the task that performs the next call of its kind.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Moment;
use crate::dice::Dice;

/// Text of every injected panic.
pub const INJECTED: &str = "injected panic";
/// Text of a panic that stands for a real bug.
const BUG: &str = "a bug";

/// EC2 calls of the controller's loops: launches, drains, garbage collection, drift, prices, queue and status checks.
pub const ACTIONS: [&str; 14] = [
    "CreateFleet",
    "CreateLaunchTemplate",
    "TerminateInstances",
    "DescribeInstances",
    "DescribeLaunchTemplates",
    "DescribeImages",
    "DescribeSubnets",
    "DescribeSecurityGroups",
    "DescribeInstanceTypes",
    "DescribeInstanceTypeOfferings",
    "DescribeSpotPriceHistory",
    "DescribeInstanceStatus",
    "ReceiveMessage",
    "DeleteMessageBatch",
];

/// Call in which a panic happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Next plan.
    Plan,
    /// Write to the API server, after so many others.
    Write(usize),
    /// Next request for the Lease.
    Lease,
    /// Next EC2 call of this name, before it is sent or after its response.
    Call(&'static str, bool),
}

/// Draws the call of a panic.
pub fn draw(dice: &mut Dice) -> Target {
    match dice.between(0, 9) {
        0..=1 => Target::Plan,
        2..=5 => Target::Write(dice.between(0, 20)),
        6 => Target::Lease,
        _ => Target::Call(dice.one::<&str>(&ACTIONS), dice.chance(50)),
    }
}

/// Panics of one process of the controller.
#[derive(Debug, Default)]
pub struct Panics(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Targets, and true for those that stand for a real bug.
    armed: Vec<(Target, bool)>,
    /// Targets of the panics that have happened, without those that stand for bugs.
    fired: Vec<Target>,
    last: Option<Moment>,
}

impl Panics {
    /// Schedules a panic. `is_bug` makes it look like a real one.
    pub fn arm(&self, target: Target, is_bug: bool) {
        self.state().armed.push((target, is_bug));
    }

    /// Panics if a plan is a target. Plans are made on threads without the simulated clock.
    pub fn strike_plan(&self) {
        self.strike("plan", None, |target| *target == Target::Plan);
    }

    /// Panics if this request for the Lease is a target.
    pub fn strike_lease(&self, now: Moment) {
        self.strike("lease", Some(now), |target| *target == Target::Lease);
    }

    /// Panics if this write to the API server is a target.
    pub fn strike_write(&self, now: Moment) {
        self.strike("write", Some(now), |target| {
            let Target::Write(others) = target else { return false };
            let is_due = *others == 0;
            *others = others.saturating_sub(1);
            is_due
        });
    }

    /// Panics if this EC2 call is a target, before it is sent or after its response.
    pub fn strike_call(&self, call: &str, answered: bool, now: Moment) {
        self.strike(
            "call",
            Some(now),
            |target| matches!(target, Target::Call(wanted, after) if *wanted == call && *after == answered),
        );
    }

    /// Returns the targets of the panics that have happened, without those that stand for bugs.
    pub fn fired(&self) -> Vec<Target> {
        self.state().fired.clone()
    }

    /// Returns the moment of the last panic.
    pub fn last(&self) -> Option<Moment> {
        self.state().last
    }

    fn strike(&self, place: &'static str, now: Option<Moment>, mut is_target: impl FnMut(&mut Target) -> bool) {
        let mut state = self.state();
        let Some(position) = state.armed.iter_mut().position(|(target, _)| is_target(target)) else { return };
        let (target, is_bug) = state.armed.remove(position);
        state.last = now.or(state.last);
        if !is_bug {
            state.fired.push(target);
        }
        drop(state);
        // Without the message and the backtrace of a panic in the output of the simulation.
        std::panic::resume_unwind(Box::new(format!("{} in a {place}", if is_bug { BUG } else { INJECTED })));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
