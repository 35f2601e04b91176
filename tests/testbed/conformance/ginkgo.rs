//! Reports of Ginkgo, the test framework of the suites: `-ginkgo.json-report`.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::results::{Case, Outcome};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    spec_reports: Option<Vec<Spec>>,
    #[serde(default)]
    special_suite_failure_reasons: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_text: String,
    leaf_node_location: Location,
    state: String,
    run_time: u64,
    #[serde(default)]
    failure: Failure,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Location {
    #[serde(default)]
    file_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

const NANOSECONDS: f64 = 1e9;
/// Message of a case that did not run, because one before it in its container failed.
const NOT_REACHED: &str = "Spec skipped because an earlier spec in an ordered container failed";

/// Reports whether the case did not run, because one before it in its container failed.
#[must_use]
pub fn was_not_reached(case: &Case) -> bool {
    case.message == NOT_REACHED
}

/// Returns the cases of a report that were chosen to run, also those that their suite skips with a reason.
///
/// # Errors
/// Returns an error if the text is no report, or if the suite failed outside of its cases.
pub fn cases(report: &str) -> Result<Vec<Case>> {
    let reports: Vec<Report> = serde_json::from_str(report).context("it is no report of Ginkgo")?;
    let mut cases = Vec::new();
    for report in reports {
        let specs = report.spec_reports.unwrap_or_default();
        for spec in &specs {
            let is_case = spec.leaf_node_type == "It";
            ensure!(is_case || !has_failed(spec), "{} failed: {}", spec.leaf_node_type, spec.failure.message);
        }
        let chosen: Vec<Case> = specs.into_iter().filter_map(case).collect();
        let reasons = report.special_suite_failure_reasons.unwrap_or_default();
        ensure!(!chosen.is_empty() || reasons.is_empty(), "the suite failed: {}", reasons.join("; "));
        cases.extend(chosen);
    }
    Ok(cases)
}

fn has_failed(spec: &Spec) -> bool {
    !matches!(spec.state.as_str(), "passed" | "skipped" | "pending")
}

/// Converts a report to a case; `None` for set-up functions and for cases that were not chosen.
fn case(spec: Spec) -> Option<Case> {
    let outcome = match spec.state.as_str() {
        "passed" => Outcome::Passed,
        "pending" => Outcome::Skipped,
        "skipped" if spec.failure.message.is_empty() => return None,
        "skipped" if spec.failure.message == NOT_REACHED => Outcome::Failed,
        "skipped" => Outcome::Skipped,
        _ => Outcome::Failed,
    };
    if spec.leaf_node_type != "It" {
        return None;
    }
    let texts = spec.container_hierarchy_texts.unwrap_or_default();
    let name = texts.iter().map(String::as_str).chain([spec.leaf_node_text.as_str()]).collect::<Vec<_>>().join(" ");
    let path = spec.leaf_node_location.file_name;
    let file = path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name).to_owned();
    let seconds = (spec.run_time as f64 / NANOSECONDS * 10.0).round() / 10.0;
    Some(Case { file, name, outcome, seconds, message: spec.failure.message })
}
