//! From values to the settings of the controller: the controller reads each variable of the rendered Deployment, with the
//! intended meaning.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::objects::Node;
use clap::{CommandFactory, Parser};
use controller::metrics::detail::MetricsDetail;
use controller::settings::{Args, Settings};
use planner::{MinValuesPolicy, PreferencePolicy, PreferencePremium};
use serde_json::Value;
use testbed::helm::{Helm, Version};

/// Region, for tests without an environment variable for the region.
const REGION: &str = "--set=kerf.region=us-west-2";

fn environment(arguments: &[&str]) -> Result<BTreeMap<String, String>> {
    let objects = Helm::find(Version::Four)?.render(&Helm::chart("chart"), arguments)?;
    let deployment = super::object(&objects, "Deployment", "karpenter")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let variables = container["env"].as_array().context("no environment")?;
    let pair = |variable: &Value| {
        let text = |field: &str| variable[field].as_str().map(str::to_owned);
        Some((text("name")?, text("value").unwrap_or_else(|| "kube-system".to_owned())))
    };
    Ok(variables.iter().filter_map(pair).collect())
}

/// Returns the settings of a controller in that environment. The variables are parsed as flags, because this process keeps its
/// own environment.
fn settings(environment: &BTreeMap<String, String>) -> Result<Settings> {
    let command = Args::command();
    let mut flags = vec!["kerf-controller".to_owned()];
    for (name, value) in environment {
        let reads = |argument: &&clap::Arg| argument.get_env().is_some_and(|env| env == name.as_str());
        let argument = command.get_arguments().find(reads).with_context(|| format!("no setting reads {name}"))?;
        let flag = argument.get_long().with_context(|| format!("{name} has no flag"))?;
        flags.push(format!("--{flag}={value}"));
    }
    Ok(Args::try_parse_from(flags)?.settings())
}

#[test]
fn chart_values_set_the_same_settings_as_in_karpenter() -> Result<()> {
    let existing = super::existing();
    let found = settings(&environment(&existing.each_ref().map(String::as_str))?)?;
    ensure!(found.cluster_name == "prod" && found.region == "us-west-2", "{found:?}");
    ensure!(found.interruption_queue.as_deref() == Some("prod-notices"), "a template in a value: {found:?}");
    ensure!(found.cluster_endpoint == "https://ABC.gr7.us-west-2.eks.amazonaws.com", "{found:?}");
    ensure!(found.batch.idle == Duration::from_secs(2) && found.batch.max == Duration::from_secs(20), "{found:?}");
    ensure!(found.planning.preferences == PreferencePolicy::Ignore, "{found:?}");
    ensure!(found.planning.min_values == MinValuesPolicy::BestEffort, "{found:?}");
    ensure!(found.memory_overhead_per_mille == 50 && found.reserved_enis == 1, "{found:?}");
    ensure!(found.isolated_vpc && found.eks_control_plane && found.disable_dry_run, "{found:?}");
    ensure!(found.class_refresh == Duration::from_secs(300), "{found:?}");
    ensure!(!found.exports_cluster_state, "{found:?}");
    ensure!(found.gates.node_repair.covers(&Node::default()), "{found:?}");
    ensure!(found.gates.spot_to_spot && found.gates.node_overlay, "{found:?}");
    ensure!(found.gates.reserved_capacity && !found.gates.static_capacity && !found.gates.capacity_buffer, "{found:?}");
    ensure!(found.log_level == log::LevelFilter::Debug && found.unmet.is_empty(), "{found:?}");
    Ok(())
}

/// The chart repeats the default values of the controller, so the two could differ.
#[test]
fn chart_defaults_equal_defaults_of_the_controller() -> Result<()> {
    let found = settings(&environment(&[&super::LEAST[..], &[REGION]].concat())?)?;
    let given =
        [("CLUSTER_NAME", "prod"), ("AWS_REGION", "us-west-2")].map(|(name, value)| (name.into(), value.into()));
    let own = settings(&given.into_iter().collect())?;
    ensure!(format!("{found:?}") == format!("{own:?}"), "{found:?} instead of {own:?}");
    Ok(())
}

#[test]
fn chart_passes_the_limit_of_the_cost_to_the_controller() -> Result<()> {
    let limit = |given: &[&str]| -> Result<_> {
        let found = settings(&environment(&[&super::LEAST[..], &[REGION], given].concat())?)?;
        Ok(found.planning.cost_limit.map(|limit| limit.0))
    };
    for (given, expected) in [
        (&[][..], None),
        (&["--set=kerf.maxCostPerHour=12.5"], Some(12_500_000)),
        (&["--set-string=kerf.maxCostPerHour=0.25"], Some(250_000)),
        (&["--set=kerf.maxCostPerHour=0"], Some(0)),
    ] {
        ensure!(limit(given)? == expected, "{given:?}: {:?}", limit(given)?);
    }
    Ok(())
}

#[test]
fn chart_passes_detail_of_metrics_to_the_controller() -> Result<()> {
    let detail = |given: &[&str]| -> Result<_> {
        let found = settings(&environment(&[&super::LEAST[..], &[REGION], given].concat())?)?;
        ensure!(found.exports_cluster_state, "{found:?}");
        Ok((found.metrics_detail, found.cost_label))
    };
    ensure!(detail(&[])? == (MetricsDetail::Aggregated, None));
    let given = ["--set=kerf.metricsDetail=karpenter", "--set=kerf.costLabel=example.com/team"];
    ensure!(detail(&given)? == (MetricsDetail::Karpenter, Some("example.com/team".to_owned())));
    Ok(())
}

#[test]
fn chart_enables_zonal_shift_by_value_or_variable() -> Result<()> {
    let variable = ["--set=controller.env[0].name=ENABLE_ZONAL_SHIFT", "--set-string=controller.env[0].value=true"];
    let rows: [(&[&str], bool); 3] =
        [(&[], false), (&["--set=settings.enableZonalShift=true"], true), (&variable, true)];
    for (given, expected) in rows {
        let found = settings(&environment(&[&super::LEAST[..], &[REGION], given].concat())?)?;
        ensure!(found.zonal_shift == expected && found.unmet.is_empty(), "{given:?}: {found:?}");
    }
    Ok(())
}

/// Values 0 and false must also reach the controller where the default is another value.
#[test]
fn chart_passes_zero_and_false_to_the_controller() -> Result<()> {
    let given =
        ["--set=settings.vmMemoryOverheadPercent=0", "--set=kerf.riskPremium=false", "--set=kerf.preferencePremium=0"];
    let found = settings(&environment(&[&super::LEAST[..], &[REGION], &given].concat())?)?;
    ensure!(found.memory_overhead_per_mille == 0 && !found.risk_premium, "{found:?}");
    ensure!(found.planning.preference_premium == PreferencePremium::Percent(0), "{found:?}");
    Ok(())
}
