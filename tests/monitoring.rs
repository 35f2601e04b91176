//! Monitoring. Alerts fire when they should, and each has its section in the runbook. Dashboards and alerts use only existing
//! metrics and labels. A fleet of 1000 nodes has fewer than 2000 series. In Karpenter's detail its boards return data.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "monitoring/boards.rs"]
mod boards;
#[path = "monitoring/detailed.rs"]
mod detailed;
#[path = "monitoring/fleet.rs"]
mod fleet;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use controller::metrics::detail::MetricsDetail;
use daemon::metric::{Description, Kind};
use serde::Deserialize;
use serde_json::Value;
use testbed::linters;

const DETAILS: [MetricsDetail; 2] = [MetricsDetail::Aggregated, MetricsDetail::Karpenter];
/// Labels that Prometheus adds, or that belong to the buckets of a histogram.
const ALWAYS: [&str; 3] = ["le", "instance", "job"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    alert: String,
    expr: String,
}

/// Threshold of the alert on cost in these tests, in dollars per hour.
const COST_PER_HOUR: &str = "100";

/// Returns the names and texts of the rule files.
fn rule_files() -> [(&'static str, String); 2] {
    let text = |name| read(&format!("controller/monitoring/{name}"));
    [("alerts.yaml", text("alerts.yaml")), ("cost.yaml", text("cost.yaml").replace("COST_PER_HOUR", COST_PER_HOUR))]
}

fn rules() -> Vec<Rule> {
    let groups = |(_, text): (&str, String)| serde_saphyr::from_str::<Rules>(&text).unwrap().groups;
    rule_files().into_iter().flat_map(groups).flat_map(|group| group.rules).collect()
}

fn boards() -> Vec<(String, Value)> {
    let entries = fs::read_dir(root().join("controller/monitoring/boards")).unwrap();
    let board = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), serde_json::from_str(&text).unwrap())
    };
    entries.map(|entry| board(entry.unwrap().path())).collect()
}

/// Returns every expression of a rule or dashboard, with its location.
fn expressions() -> Vec<(String, String)> {
    let mut all: Vec<_> = rules().into_iter().map(|rule| (rule.alert, rule.expr)).collect();
    for (name, board) in boards() {
        for panel in board["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
            let place = format!("{name}: {}", panel["title"].as_str().unwrap());
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty(), "{place} shows nothing");
            all.extend(targets.iter().map(|one| (place.clone(), one["expr"].as_str().unwrap().to_owned())));
        }
    }
    all
}

#[derive(Deserialize)]
struct Spoken {
    selectors: Vec<Selector>,
    grouped: Vec<String>,
}

#[derive(Deserialize)]
struct Selector {
    metric: String,
    labels: Vec<String>,
}

/// Returns the selectors of expressions, read by an independent parser of PromQL.
fn spoken(expressions: &[(String, String)]) -> Vec<Spoken> {
    let mut python = Command::new(linters::python().unwrap())
        .arg(root().join("tests/monitoring/selectors.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = expressions.iter().map(|(_, text)| text.replace('\n', " ")).collect();
    python.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "an expression cannot be read, see above");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Reports whether a metric exposes series of this name.
fn is_series_of(metric: &Description, series: &str) -> bool {
    let has = |suffixes: &[&str]| suffixes.iter().any(|suffix| series.strip_suffix(suffix) == Some(metric.name));
    match metric.kind {
        Kind::Histogram(_) => has(&["_bucket", "_sum", "_count"]),
        Kind::Summary(_) => series == metric.name || has(&["_sum", "_count"]),
        Kind::Counter | Kind::Gauge => series == metric.name,
    }
}

/// Returns the labels of the series that a selector selects; `None` if the table has no such series.
fn labels_of(table: &[Description], selector: &Selector) -> Option<Vec<&'static str>> {
    let metric = table.iter().find(|metric| is_series_of(metric, &selector.metric))?;
    let is_quantile = matches!(metric.kind, Kind::Summary(_)) && metric.name == selector.metric;
    let labels: Vec<_> = metric.labels.iter().copied().chain(is_quantile.then_some("quantile")).collect();
    selector.labels.iter().all(|label| labels.contains(&label.as_str())).then_some(labels)
}

/// Some metrics have other series in each detail. An expression needs one selector that selects series, and labels of those.
#[test]
fn rules_and_dashboards_use_only_existing_metrics_and_labels() {
    let (expressions, tables) = (expressions(), DETAILS.map(MetricsDetail::table));
    let answers = spoken(&expressions);
    assert_eq!(answers.len(), expressions.len());
    assert!(answers.len() > 40, "the walk through rules and boards lost its way");
    let mut wrong = String::new();
    for ((place, text), spoken) in expressions.iter().zip(&answers) {
        for selector in &spoken.selectors {
            if tables.iter().all(|table| labels_of(table, selector).is_none()) {
                writeln!(wrong, "{place}: no {} with {:?}", selector.metric, selector.labels).unwrap();
            }
        }
        for (detail, table) in DETAILS.iter().zip(&tables) {
            let selected: Vec<_> = spoken.selectors.iter().filter_map(|selector| labels_of(table, selector)).collect();
            if selected.is_empty() {
                writeln!(wrong, "{place} selects nothing in {detail:?}: {text}").unwrap();
            }
            let known: BTreeSet<&str> = selected.into_iter().flatten().chain(ALWAYS).collect();
            for label in spoken.grouped.iter().filter(|label| !known.contains(label.as_str())) {
                writeln!(wrong, "{place}: nothing in {text} has a label {label} in {detail:?}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Grafana identifies a dashboard by its uid, and places panels by their own positions.
#[test]
fn dashboards_have_unique_ids_and_valid_positions() {
    let boards = boards();
    assert!(boards.len() > 1);
    for (name, board) in &boards {
        assert_eq!(board["uid"], name.as_str(), "a board is found by the name of its file");
        let panels = board["panels"].as_array().unwrap();
        let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len(), "{name}: panels share an id");
        for panel in panels {
            let place = |field: &str| panel["gridPos"][field].as_u64().unwrap();
            assert!(place("x") + place("w") <= 24, "{name}: {} leaves the page", panel["title"]);
            let is_explained = panel["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(is_explained || panel["type"] == "row", "{name}: {} has no description", panel["title"]);
        }
    }
}

#[test]
fn runbook_has_a_section_for_each_alert() {
    let runbook = read("docs/runbook.md");
    let mut sections: Vec<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## Kerf")).collect();
    let rules = rules();
    let mut alerts: Vec<&str> = rules.iter().filter_map(|rule| rule.alert.strip_prefix("Kerf")).collect();
    sections.sort_unstable();
    alerts.sort_unstable();
    assert_eq!(sections, alerts);
    for section in runbook.split("\n## Kerf").skip(1) {
        let name = section.lines().next().unwrap();
        for part in ["**Meaning.**", "**First look.**", "**Cure.**"] {
            assert_eq!(section.matches(part).count(), 1, "Kerf{name}: {part}");
        }
    }
}

/// Prometheus's promtool checks the rules, and runs the series of `alerts.test.yaml` against them.
#[test]
fn alerts_fire_only_in_the_expected_series() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in rule_files() {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::write(folder.path().join("alerts.test.yaml"), read("tests/monitoring/alerts.test.yaml")).unwrap();
    let promtool = linters::prometheus("promtool").unwrap();
    for arguments in [
        &["check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml", "cost.yaml"][..],
        &["test", "rules", "alerts.test.yaml"],
    ] {
        let output = Command::new(&promtool).args(arguments).current_dir(folder.path()).output().unwrap();
        let report = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "promtool {arguments:?}: {report}");
    }
    let played = read("tests/monitoring/alerts.test.yaml");
    for rule in rules() {
        assert!(played.contains(&rule.alert), "{} is never played", rule.alert);
    }
}
