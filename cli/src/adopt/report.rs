//! Findings in a cluster, in an order that does not depend on the cluster's order.

use std::fmt;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Must be fixed before Kerf starts.
    BeforeStart,
    /// Has no effect with Kerf.
    NoEffect,
    /// Changes once Kerf runs, and needs no action.
    Change,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    /// Kind and name of the object.
    pub object: String,
    /// Effect, and the action to take if one is needed.
    pub text: String,
}

impl Finding {
    pub(super) fn before_start(object: impl Into<String>, text: impl Into<String>) -> Self {
        Self { severity: Severity::BeforeStart, object: object.into(), text: text.into() }
    }

    pub(super) fn no_effect(object: impl Into<String>, text: impl Into<String>) -> Self {
        Self { severity: Severity::NoEffect, object: object.into(), text: text.into() }
    }

    pub(super) fn change(object: impl Into<String>, text: impl Into<String>) -> Self {
        Self { severity: Severity::Change, object: object.into(), text: text.into() }
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
        self.findings.iter().all(|finding| finding.severity != Severity::BeforeStart)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings = [
            (Severity::BeforeStart, "TO FIX BEFORE KERF STARTS"),
            (Severity::NoEffect, "SETTINGS WITHOUT EFFECT"),
            (Severity::Change, "CHANGES ON TAKEOVER, NO ACTION NEEDED"),
        ];
        for (severity, heading) in headings {
            let mut own = self.findings.iter().filter(|finding| finding.severity == severity).peekable();
            if own.peek().is_some() {
                writeln!(out, "{heading}")?;
            }
            own.try_for_each(|finding| writeln!(out, "  {}: {}", finding.object, finding.text))?;
        }
        if self.findings.is_empty() {
            writeln!(out, "No changes.")?;
        }
        Ok(())
    }
}
