//! Checks a plan without the solver: every rule that a plan must keep is worked out anew from the snapshot, naively.
//!
//! Nothing here may call into `provision` or `removal`, nor use the requirement sets that they are built on:
//! a mistake would then vouch for itself. So requirements are read here as plain predicates on label values.

mod budgets;
mod labels;
mod launches;
mod nodes;
mod verdicts;

use std::fmt;

use crate::{Plan, Snapshot};

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What the finding is about, such as `launch 2`, `node n1` or `pod default/a`.
    pub subject: String,
    /// The rule and how it is broken.
    pub fault: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.subject, self.fault)
    }
}

/// Everything that is wrong with a plan; empty when it keeps every rule.
#[must_use]
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    verdicts::check(snapshot, plan, &mut findings);
    if findings.0.is_empty() {
        nodes::check(snapshot, plan, &mut findings);
        launches::check(snapshot, plan, &mut findings);
        budgets::check(snapshot, plan, &mut findings);
    }
    findings.0
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, subject: impl Into<String>, fault: impl Into<String>) {
        self.0.push(Finding { subject: subject.into(), fault: fault.into() });
    }

    /// Notes a fault unless `holds`.
    fn expect(&mut self, holds: bool, subject: &str, fault: impl FnOnce() -> String) {
        if !holds {
            self.add(subject, fault());
        }
    }
}
