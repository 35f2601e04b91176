//! docs/conformance.md, rendered from the results and the reasons.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::reasons::{self, Reason};
use super::results::{Case, Outcome, Results};
use super::suites;

const HEAD: &str = "# Conformance\n\n\
    Karpenter's own end-to-end suites, compiled from its Go modules (`sigs.k8s.io/karpenter` and\n\
    `github.com/aws/karpenter-provider-aws`, v1.14.1), with Kerf's controller: real etcd, API server, scheduler and controller manager,\n\
    EC2 emulated on the wire, a machine with a real agent and a stand-in of kubelet for each instance. In the suites performance and\n\
    scale, which have hundreds of nodes, the machines are EKS' stock AL2023 without an agent. There, each Node renews its lease every\n\
    60 s and reports its status every 300 s; elsewhere every 10 s and 60 s, and kubelet every 10 s and 300 s. Feature gates\n\
    NodeRepair, StaticCapacity, CapacityBuffer, NodeOverlay and SpotToSpotConsolidation are on.\n\n\
    `make conformance` runs all of it, `make conformance SUITES=core/regression CASES=Drift` a part, and `make conformance\n\
    KUBECONFIG=FILE NODE_CLASS=FILE` runs it in a cluster of yours with Kerf. This page is generated from its results.\n";

/// Returns the path of the page.
#[must_use]
pub fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md")
}

/// Writes the page.
///
/// # Errors
/// Returns an error if a source is invalid or the page cannot be written.
pub fn write() -> Result<()> {
    std::fs::write(file(), render()?).with_context(|| format!("cannot write {}", file().display()))
}

/// Renders the page from the files of the checkout.
///
/// # Errors
/// Returns an error if a source is invalid.
pub fn render() -> Result<String> {
    let reasons = reasons::read()?;
    let mut suites = Vec::new();
    for suite in suites::all()? {
        suites.push((suite.name(), Results::read(&suite)?));
    }
    Ok(page(&suites, &reasons))
}

/// Renders the page.
#[must_use]
pub fn page(suites: &[(String, Results)], reasons: &[Reason]) -> String {
    let mut text = format!("{HEAD}\n{}", summary(suites, reasons));
    for (suite, results) in suites.iter().filter(|(_, results)| results.cases().next().is_some()) {
        write_suite(&mut text, suite, results, reasons);
    }
    text
}

/// Renders the table of all suites.
fn summary(suites: &[(String, Results)], reasons: &[Reason]) -> String {
    let mut text =
        "| suite | cases | pass | do not pass, with a reason | unexplained | minutes |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (suite, results) in suites {
        let cases: Vec<&Case> = results.cases().collect();
        if cases.is_empty() {
            text += &format!("| {suite} | not run yet | | | | |\n");
            continue;
        }
        let passed = cases.iter().filter(|case| case.outcome == Outcome::Passed).count();
        let explained = cases.iter().filter(|case| is_explained(suite, case, reasons)).count();
        let minutes = cases.iter().map(|case| case.seconds).sum::<f64>() / 60.0;
        let unexplained = cases.len() - passed - explained;
        text += &format!("| {suite} | {} | {passed} | {explained} | {unexplained} | {minutes:.0} |\n", cases.len());
    }
    text
}

fn is_explained(suite: &str, case: &Case, reasons: &[Reason]) -> bool {
    case.outcome != Outcome::Passed && reason(suite, case, reasons).is_some()
}

fn reason<'a>(suite: &str, case: &Case, reasons: &'a [Reason]) -> Option<&'a Reason> {
    reasons.iter().find(|reason| reason.explains(suite, case))
}

fn write_suite(text: &mut String, suite: &str, results: &Results, reasons: &[Reason]) {
    *text += &format!("\n## {suite}\n\n| file | case | result | seconds | reason |\n|---|---|---|---|---|\n");
    for case in results.cases() {
        let result = match case.outcome {
            Outcome::Passed => "pass",
            Outcome::Skipped => "skipped by the suite",
            Outcome::NotRun => "not run",
            Outcome::Failed => "**fail**",
        };
        let file = case.file.trim_end_matches("_test.go");
        // A String as a target of write! cannot fail.
        let _ = writeln!(
            text,
            "| {file} | {} | {result} | {} | {} |",
            cell(&case.name),
            case.seconds,
            why(suite, case, reasons)
        );
    }
}

/// Returns the reason of a case that does not pass; without one, what the suite says.
fn why(suite: &str, case: &Case, reasons: &[Reason]) -> String {
    if case.outcome == Outcome::Passed {
        return String::new();
    }
    match reason(suite, case, reasons) {
        Some(reason) => format!("{}: {}", reason.kind, cell(&reason.reason)),
        None => format!("unexplained: {}", cell(case.message.lines().next().unwrap_or_default())),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
