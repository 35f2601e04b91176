//! Findings in a cluster, in an order that does not depend on the cluster's order.

use std::fmt;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Must be fixed before Kerf starts.
    First,
    /// Changes once Kerf runs, and needs no action.
    Change,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Severity.
    pub weight: Weight,
    /// Kind and name of the object.
    pub object: String,
    /// Effect, and the action to take if one is needed.
    pub text: String,
}

impl Finding {
    pub(super) fn first(object: impl Into<String>, text: impl Into<String>) -> Self {
        Self { weight: Weight::First, object: object.into(), text: text.into() }
    }

    pub(super) fn change(object: impl Into<String>, text: impl Into<String>) -> Self {
        Self { weight: Weight::Change, object: object.into(), text: text.into() }
    }
}

/// All findings; those that must be fixed come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Findings, sorted and without duplicates.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort();
        findings.dedup();
        Self { findings }
    }

    /// Reports whether Kerf can start without a change.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.findings.iter().all(|finding| finding.weight != Weight::First)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads =
            [(Weight::First, "TO FIX BEFORE KERF STARTS"), (Weight::Change, "CHANGES ON TAKEOVER, NO ACTION NEEDED")];
        for (weight, head) in heads {
            let mut own = self.findings.iter().filter(|finding| finding.weight == weight).peekable();
            if own.peek().is_some() {
                writeln!(out, "{head}")?;
            }
            own.try_for_each(|finding| writeln!(out, "  {}: {}", finding.object, finding.text))?;
        }
        if self.findings.is_empty() {
            writeln!(out, "No changes.")?;
        }
        Ok(())
    }
}
