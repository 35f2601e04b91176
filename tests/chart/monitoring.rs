//! Alerts and dashboards. The chart reads them from the folder `monitoring`, renders them unchanged and only on request, and an
//! archive contains them.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use testbed::helm::{Helm, Version};

const RULE: &str = "--set=kerf.monitoring.prometheusRule.enabled=true";
const DASHBOARDS: &str = "--set=kerf.monitoring.dashboards.enabled=true";

fn render(version: Version, given: &[&str]) -> Result<Vec<DynamicObject>> {
    Helm::find(version)?.render(&Helm::chart("chart"), &[&super::LEAST[..], given].concat())
}

/// Returns the text of a file for Prometheus or Grafana.
fn original(name: &str) -> Result<String> {
    let path = Helm::chart("monitoring").join(name);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn of_kind(objects: &[DynamicObject], kind: &str) -> usize {
    objects.iter().filter(|object| object.types.as_ref().is_some_and(|types| types.kind == kind)).count()
}

#[test]
fn chart_renders_no_monitoring_by_default() -> Result<()> {
    let objects = render(Version::Four, &[])?;
    ensure!(of_kind(&objects, "Deployment") == 1);
    ensure!(of_kind(&objects, "PrometheusRule") + of_kind(&objects, "ConfigMap") == 0);
    Ok(())
}

#[test]
fn chart_renders_prometheus_rule_with_groups_of_rule_file() -> Result<()> {
    for version in Version::ALL {
        let given = [RULE, "--set=kerf.monitoring.prometheusRule.additionalLabels.release=prometheus"];
        let rule = super::object(&render(version, &given)?, "PrometheusRule", "karpenter")?;
        let alerts: Value = serde_saphyr::from_str(&original("alerts.yaml")?)?;
        ensure!(alerts["groups"][0]["rules"].as_array().is_some_and(|rules| rules.len() > 10), "{alerts}");
        ensure!(rule["spec"] == alerts, "{version:?}: {}", rule["spec"]);
        ensure!(rule["metadata"]["labels"]["release"] == "prometheus", "{}", rule["metadata"]);
        ensure!(rule["metadata"]["namespace"] == "kube-system", "{}", rule["metadata"]);
    }
    Ok(())
}

/// The alert on cost has no threshold that fits every cluster.
#[test]
fn chart_renders_the_cost_alert_only_with_its_threshold() -> Result<()> {
    for version in Version::ALL {
        let given = [RULE, "--set=kerf.monitoring.prometheusRule.costPerHour=1250.5"];
        let rule = super::object(&render(version, &given)?, "PrometheusRule", "karpenter")?;
        let alerts: Value = serde_saphyr::from_str(&original("alerts.yaml")?)?;
        let cost: Value = serde_saphyr::from_str(&original("cost.yaml")?.replace("COST_PER_HOUR", "1250.5"))?;
        ensure!(rule["spec"]["groups"][0] == alerts["groups"][0], "{version:?}: {}", rule["spec"]);
        ensure!(rule["spec"]["groups"][1] == cost["groups"][0], "{version:?}: {}", rule["spec"]);
        ensure!(rule["spec"]["groups"].as_array().is_some_and(|groups| groups.len() == 2), "{}", rule["spec"]);
    }
    Ok(())
}

/// The dashboards need metrics that the setting leaves out.
#[test]
fn chart_notes_that_boards_need_cluster_state() -> Result<()> {
    let off = "--set=settings.disableClusterStateObservability=true";
    for (given, is_noted) in [(&[off][..], false), (&[off, DASHBOARDS], true), (&[RULE], false)] {
        let chart = Helm::chart("chart").display().to_string();
        let install = ["install", "karpenter", &chart, "--dry-run=client", "--namespace=kube-system"];
        let text = Helm::find(Version::Four)?.run(&[&install[..], &super::LEAST, given].concat())?;
        let (_, notes) = text.split_once("NOTES:").context("no notes")?;
        ensure!(notes.contains("disables their metrics") == is_noted, "{given:?}: {notes}");
    }
    Ok(())
}

#[test]
fn chart_renders_each_dashboard_as_labeled_config_map() -> Result<()> {
    let folder = "--set=kerf.monitoring.dashboards.additionalAnnotations.grafana_folder=Nodes";
    for version in Version::ALL {
        let objects = render(version, &[DASHBOARDS, folder])?;
        let mut boards = BTreeSet::new();
        for entry in std::fs::read_dir(Helm::chart("monitoring").join("boards"))? {
            let file = entry?.file_name().to_string_lossy().into_owned();
            let name = file.strip_suffix(".json").with_context(|| format!("{file} is no board"))?;
            let map = super::object(&objects, "ConfigMap", &format!("karpenter-{name}"))?;
            ensure!(map["data"] == json!({&file: original(&format!("boards/{file}"))?}), "{version:?}: {file}");
            ensure!(map["metadata"]["labels"]["grafana_dashboard"] == "1", "{}", map["metadata"]);
            ensure!(map["metadata"]["annotations"]["grafana_folder"] == "Nodes", "{}", map["metadata"]);
            boards.insert(file);
        }
        ensure!(boards.len() > 1 && of_kind(&objects, "ConfigMap") == boards.len(), "{boards:?}");
    }
    Ok(())
}

/// In the checkout they are a link to the folder beside the chart, which an archive does not have.
#[test]
fn chart_archive_contains_rules_and_dashboards() -> Result<()> {
    for version in Version::ALL {
        let folder = tempfile::tempdir().context("no room for an archive")?;
        let (chart, to) = (Helm::chart("chart").display().to_string(), folder.path().display().to_string());
        let helm = Helm::find(version)?;
        helm.run(&["package", &chart, "--destination", &to])?;
        let archive = folder.path().join(format!("kerf-{}.tgz", env!("CARGO_PKG_VERSION")));
        let given = [&super::LEAST[..], &[RULE, DASHBOARDS]].concat();
        let (packed, plain) = (helm.render(&archive, &given)?, helm.render(&Helm::chart("chart"), &given)?);
        ensure!(of_kind(&packed, "ConfigMap") > 1, "{version:?} packs no boards");
        ensure!(serde_json::to_value(&packed)? == serde_json::to_value(&plain)?, "{version:?} packs something else");
    }
    Ok(())
}
