//! What a look at a cluster found, in an order that does not depend on the cluster's.

use std::fmt;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// To be mended before Kerf starts.
    First,
    /// Will change once Kerf runs, and needs nobody.
    Change,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// How much it weighs.
    pub weight: Weight,
    /// The object.
    pub object: String,
    /// What will be, and what to do where anything is to be done.
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

/// Everything that was found, what is to be mended first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sorted, each once.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort();
        findings.dedup();
        Self { findings }
    }

    /// Whether Kerf can start as things are.
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
