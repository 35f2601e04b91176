//! Invalid, contradictory or unsupported values: Helm fails with an error that names the value and the fix.

use anyhow::{Context, Result, ensure};
use testbed::helm::{Helm, Version};

/// Arguments of Helm, and parts of the expected error.
const ROWS: &[(&[&str], &[&str])] = &[
    (&["--set=settings.clusterName="], &["settings.clusterName is missing", "--set settings.clusterName=prod"]),
    (&["--set=kerf.image.repository="], &["kerf.image.repository is missing", "controller.image"]),
    (&["--set=settings.ignoreDRARequests=false"], &["settings.ignoreDRARequests is false", "set it to true"]),
    (&["--set=logOutputPaths={stdout,/var/log/kerf}"], &["\"/var/log/kerf\"", "standard output only"]),
    (&["--set=controller.metrics.port=8081"], &["are both 8081", "a port of its own"]),
    (&["--set=settings.featureGates.drift=true"], &["settings.featureGates.drift is not a feature gate", "nodeRepair"]),
    (
        &["--set=controller.env[0].name=DISABLE_LEADER_ELECTION", "--set-string=controller.env[0].value=1"],
        &["DISABLE_LEADER_ELECTION for 2 replicas", "set replicas to 1"],
    ),
    (
        &["--set=controller.env[0].name=IGNORE_DRA_REQUESTS", "--set-string=controller.env[0].value=false"],
        &["IGNORE_DRA_REQUESTS", "remove it"],
    ),
    (
        &["--set=controller.env[0].name=LEADER_ELECTION_NAME", "--set=controller.env[0].value=mine"],
        &["controller.env sets LEADER_ELECTION_NAME", "remove it"],
    ),
    (
        &["--set=kerf.region=a", "--set=controller.env[0].name=AWS_REGION", "--set=controller.env[0].value=b"],
        &["kerf.region and controller.env both set AWS_REGION"],
    ),
    (&["--set=kerf=null"], &["the values lack the defaults", "--reset-then-reuse-values"]),
    (&["--is-upgrade", "--api-versions=karpenter.sh/v1/NodePool"], &["no NodeUsages", "controller/chart-crd"]),
    (&["--set=settings.batchIdleDuration=soon"], &["settings.batchIdleDuration is \"soon\"", "write it like 10s"]),
    (
        &["--set=kerf.observe=true", "--set=kerf.surge.enabled=true"],
        &["kerf.observe lets the controller change nothing", "disable these, or kerf.observe"],
    ),
    (
        &["--set=kerf.provider=kwok", "--set=settings.interruptionQueue=q"],
        &["settings.interruptionQueue names a queue", "kerf.provider is kwok", "remove settings.interruptionQueue"],
    ),
    (&["--set=kerf.maxViewAge=soon"], &["kerf.maxViewAge is \"soon\"", "write it like 3m"]),
    (&["--set=kerf.maxViewAge=2m"], &["kerf.maxViewAge is \"2m\"", "write 150s or more"]),
    (&["--set=kerf.maxViewAge=2m29s999ms"], &["kerf.maxViewAge is \"2m29s999ms\"", "write 150s or more"]),
    (&["--set=settings.amiRefreshInterval=30s"], &["settings.amiRefreshInterval is \"30s\"", "1m or more"]),
    (&["--set=settings.subnetRefreshInterval=0.5m"], &["settings.subnetRefreshInterval is \"0.5m\"", "1m or more"]),
    (
        &["--set=settings.clusterEndpoint=localhost"],
        &["settings.clusterEndpoint is \"localhost\"", "write it like https"],
    ),
    (&["--set=settings.vmMemoryOverheadPercent=7.5"], &["vmMemoryOverheadPercent is \"7.5\"", "write 0.075"]),
    (&["--set=settings.reservedENIs=-1"], &["settings.reservedENIs is \"-1\"", "write 0 or more"]),
    (&["--set=kerf.page.enabled=true"], &["kerf.page.image.repository is missing", "or disable kerf.page"]),
    (&["--set=kerf.page.image.digest=sha1:1"], &["kerf.page.image.digest is \"sha1:1\"", "kerf.page.image.tag"]),
    (&["--set=kerf.page.port=0"], &["kerf/page/port", "minimum"]),
    (&["--set=kerf.image.digest=sha1:1"], &["kerf.image.digest is \"sha1:1\"", "64 hexadecimal digits"]),
    // Errors of the JSON schema.
    (&["--set=replicas=two"], &["replicas", "got string, want integer"]),
    (&["--set=settings.preferencePolicy=ignore"], &["preferencePolicy", "'Respect', 'Ignore'"]),
    (&["--set=settings.minValuesPolicy=Loose"], &["minValuesPolicy", "'Strict', 'BestEffort'"]),
    (&["--set=settings.isolatedVPC=perhaps"], &["isolatedVPC", "want boolean"]),
    (&["--set=logLevel=loud"], &["logLevel", "'debug', 'info', 'error'"]),
    (&["--set=controller.metrics.port=80800"], &["metrics/port", "maximum"]),
    (&["--set=kerf.image.tags=1"], &["kerf/image", "'tags'"]),
    (&["--set=kerf.nodeUsages.enabled=false"], &["'nodeUsages'"]),
    (&["--set=kerf.preferencePremium=10"], &["kerf/preferencePremium", "maximum"]),
    (&["--set=kerf.preferencePremium=much"], &["kerf/preferencePremium", "pattern"]),
    (&["--set=kerf.maxCostPerHour=-1"], &["kerf/maxCostPerHour", "minimum"]),
    (&["--set=kerf.maxCostPerHour=much"], &["kerf/maxCostPerHour", "pattern"]),
    (&["--set=kerf.metricsDetail=full"], &["kerf/metricsDetail", "'aggregated', 'karpenter'"]),
    (&["--set=kerf.monitoring.prometheusRule.costPerHour=0"], &["prometheusRule/costPerHour", "exclusiveMinimum"]),
    (&["--set=kerf.monitoring.boards.enabled=true"], &["kerf/monitoring", "'boards'"]),
    (&["--set=kerf.monitoring.dashboards.enabled=yes"], &["dashboards/enabled", "want boolean"]),
];

#[test]
fn chart_rejects_each_invalid_value_with_its_error() -> Result<()> {
    for version in Version::ALL {
        let helm = Helm::find(version)?;
        for (given, parts) in ROWS {
            let arguments = [&super::LEAST[..], *given].concat();
            let outcome = helm.render(&Helm::chart("chart"), &arguments);
            let message = outcome.err().with_context(|| format!("{version:?} takes {given:?}"))?.to_string();
            for part in *parts {
                ensure!(message.contains(part), "{version:?} says of {given:?}, without {part:?}:\n{message}");
            }
        }
    }
    Ok(())
}

/// Durations of several parts count as their sum.
#[test]
fn chart_accepts_durations_at_their_minimum() -> Result<()> {
    let given = ["--set=kerf.maxViewAge=2m30s", "--set=settings.amiRefreshInterval=0.5m30s"];
    for version in Version::ALL {
        let objects = Helm::find(version)?.render(&Helm::chart("chart"), &[&super::LEAST[..], &given].concat())?;
        super::object(&objects, "Deployment", "karpenter")?;
    }
    Ok(())
}

/// The error about missing NodeUsages appears neither in a cluster that has them, nor in a new release, which installs them.
#[test]
fn chart_renders_when_node_usages_exist_or_release_is_new() -> Result<()> {
    let rows: [&[&str]; 2] = [
        &["--is-upgrade", "--api-versions=karpenter.sh/v1/NodePool", "--api-versions=kerf.sh/v1alpha1/NodeUsage"],
        &["--api-versions=karpenter.sh/v1/NodePool"],
    ];
    for version in Version::ALL {
        let helm = Helm::find(version)?;
        for served in rows {
            let objects = helm.render(&Helm::chart("chart"), &[&super::LEAST[..], served].concat())?;
            super::object(&objects, "Deployment", "karpenter")?;
        }
    }
    Ok(())
}
