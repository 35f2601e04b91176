//! Settings of the controller under Karpenter's names: the environment is the default, a flag takes precedence.

mod gates;
mod inherited;
mod values;

use std::time::Duration;

use clap::Parser;
use daemon::flag::boolean;
use inherited::Inherited;
use planner::{MicroDollars, MinValuesPolicy, PreferencePolicy, PreferencePremium};
use values::{
    absolute_url, dollars, duration, label_key, log_level, min_values, per_mille, preferences, premium, provider,
    refresh, view_age,
};

use crate::metrics::detail::MetricsDetail;
use crate::provision::batcher::BatchWindow;
use crate::state::index::Permissions;

pub use gates::Gates;

/// Default name of the Lease, as Karpenter's.
const LEASE: &str = "karpenter-leader-election";
/// Default name of the Lease of controllers that only observe, beside one that acts.
const OBSERVER_LEASE: &str = "kerf-observer";
/// Sentence about settings without effect in observe mode.
const OBSERVES: &str =
    "OBSERVE: plans are recorded and not carried out; INTERRUPTION_QUEUE, PACKING and SURGE have no effect";

/// Queue of the emulated EC2's notices, in place of INTERRUPTION_QUEUE.
pub const EMULATED_QUEUE: &str = "kwok";
/// Sentence about simulated nodes, and settings without effect on them.
const SIMULATES: &str = "PROVIDER: KWOK simulates the nodes, and nothing is launched in AWS; AWS_ENDPOINT_URL and \
                         INTERRUPTION_QUEUE have no effect";

/// Flags and environment variables as written.
#[derive(Clone, Debug, Parser)]
#[command(name = "kerf-controller", version, about = "Just-in-time nodes for Kubernetes on EC2")]
pub struct Args {
    /// Provider of nodes: aws, or kwok for simulated nodes of KWOK without AWS.
    #[arg(long, env = "PROVIDER", default_value = "aws", value_parser = provider)]
    provider: NodeProvider,
    /// Name of the EKS cluster.
    #[arg(long, env = "CLUSTER_NAME")]
    cluster_name: String,
    /// Address of the API server for nodes, such as https://ABC.eks.amazonaws.com [default: from EKS].
    #[arg(long, env = "CLUSTER_ENDPOINT", default_value = "", value_parser = absolute_url)]
    cluster_endpoint: String,
    /// Base64 of the cluster's CA certificate [default: CA of the kubeconfig or the service account, else from EKS].
    #[arg(long, env = "CLUSTER_CA_BUNDLE", default_value = "")]
    cluster_ca_bundle: String,
    /// Service CIDR of the cluster, from which nodes compute their DNS address [default: from EKS].
    #[arg(long, env = "CLUSTER_CIDR", default_value = "")]
    cluster_cidr: String,
    /// AWS region [default: from the profile, else from instance metadata].
    #[arg(long, env = "AWS_REGION", default_value = "")]
    region: String,
    /// Other EC2 endpoint, for tests and private clouds.
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint_url: Option<String>,
    /// Fraction of an instance's memory that the hypervisor keeps.
    #[arg(long, env = "VM_MEMORY_OVERHEAD_PERCENT", default_value = "0.075", value_parser = per_mille)]
    vm_memory_overhead_percent: u32,
    /// Network interfaces that pods cannot use.
    #[arg(long, env = "RESERVED_ENIS", default_value_t = 0)]
    reserved_enis: u32,
    /// No access to IAM: each EC2NodeClass sets its instance profile itself.
    #[arg(long, env = "ISOLATED_VPC", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    isolated_vpc: bool,
    /// Version of the cluster from EKS, not from the API server.
    #[arg(long, env = "EKS_CONTROL_PLANE", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    eks_control_plane: bool,
    /// No dry run of launches before an EC2NodeClass is ready.
    #[arg(long, env = "DISABLE_DRY_RUN", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    disable_dry_run: bool,
    /// Higher price in comparisons, for some hours, for offerings with interruptions or shortages.
    #[arg(long, env = "RISK_PREMIUM", default_value_t = true, action = clap::ArgAction::Set, value_parser = boolean)]
    risk_premium: bool,
    /// Longest time in which pods are batched for one plan.
    #[arg(long, env = "BATCH_MAX_DURATION", default_value = "10s", value_parser = duration)]
    batch_max_duration: Duration,
    /// Time without a new pod after which a batch is planned.
    #[arg(long, env = "BATCH_IDLE_DURATION", default_value = "200ms", value_parser = duration)]
    batch_idle_duration: Duration,
    /// Refresh interval of the images of EC2NodeClasses: 1m or more. Of this and SUBNET_REFRESH_INTERVAL the shorter applies.
    #[arg(long, env = "AMI_REFRESH_INTERVAL", default_value = "1m", value_parser = refresh)]
    ami_refresh_interval: Duration,
    /// Refresh interval of the subnets of EC2NodeClasses: 1m or more.
    #[arg(long, env = "SUBNET_REFRESH_INTERVAL", default_value = "1m", value_parser = refresh)]
    subnet_refresh_interval: Duration,
    /// Preferences of pods: Respect or Ignore.
    #[arg(long, env = "PREFERENCE_POLICY", default_value = "Respect", value_parser = preferences)]
    preference_policy: PreferencePolicy,
    /// Premium that a workload may cost because its preferences are honoured: a percentage, 0 or unlimited.
    #[arg(long, env = "PREFERENCE_PREMIUM", default_value = "10%", value_parser = premium)]
    preference_premium: PreferencePremium,
    /// Maximum cost of the nodes of all NodePools, in dollars per hour. Nothing is launched beyond it.
    #[arg(long, env = "MAX_COST_PER_HOUR", value_parser = dollars)]
    max_cost_per_hour: Option<MicroDollars>,
    /// Policy for minValues: Strict or BestEffort.
    #[arg(long, env = "MIN_VALUES_POLICY", default_value = "Strict", value_parser = min_values)]
    min_values_policy: MinValuesPolicy,
    /// Feature gates, as comma-separated NAME=true|false.
    #[arg(long, env = "FEATURE_GATES", default_value = "", value_parser = gates::read)]
    feature_gates: gates::Written,
    /// Port of /metrics.
    #[arg(long, env = "METRICS_PORT", default_value_t = 8080)]
    metrics_port: u16,
    /// Detail of metrics of nodes, pods and objects: aggregated, or karpenter for Karpenter's series of each one.
    #[arg(long, env = "METRICS_DETAIL", default_value = "aggregated", value_parser = str::parse::<MetricsDetail>)]
    metrics_detail: MetricsDetail,
    /// Label of pods or namespaces, such as team, by whose values metrics report the cost [default: none].
    #[arg(long, env = "COST_LABEL", default_value = "", value_parser = label_key)]
    cost_label: String,
    /// Port of /healthz and /readyz.
    #[arg(long, env = "HEALTH_PROBE_PORT", default_value_t = 8081)]
    health_probe_port: u16,
    /// Port of the debug pages on loopback: snapshots of plans that failed. 0 disables them.
    #[arg(long, env = "DEBUG_PORT", default_value_t = 8082)]
    debug_port: u16,
    /// Permission to patch pods and pods/resize, which the chart grants with kerf.packing.enabled.
    #[arg(long, env = "PACKING", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    packing: bool,
    /// Permission to patch pods, which the chart grants with kerf.surge.enabled.
    #[arg(long, env = "SURGE", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    surge: bool,
    /// Address of the ports for metrics and probes.
    #[arg(long, env = "LISTEN_ADDRESS", default_value = "0.0.0.0")]
    listen_address: std::net::IpAddr,
    /// Age of the view of a kind above which nodes are not disrupted voluntarily: 150s or more.
    #[arg(long, env = "MAX_VIEW_AGE", default_value = "3m", value_parser = view_age)]
    max_view_age: jiff::SignedDuration,
    /// Plans are recorded and not carried out: nothing is written but the decision log, and EC2 is only read.
    #[arg(long, env = "OBSERVE", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    observe: bool,
    /// No Lease; only for a single replica.
    #[arg(long, env = "DISABLE_LEADER_ELECTION", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    disable_leader_election: bool,
    /// Name of the Lease [default: karpenter-leader-election, with OBSERVE kerf-observer].
    #[arg(long, env = "LEADER_ELECTION_NAME", default_value = "")]
    leader_election_name: String,
    /// Namespace of the Lease [default: SYSTEM_NAMESPACE, else kube-system].
    #[arg(long, env = "LEADER_ELECTION_NAMESPACE", default_value = "")]
    leader_election_namespace: String,
    /// Namespace of the controller.
    #[arg(long, env = "SYSTEM_NAMESPACE", default_value = "kube-system")]
    system_namespace: String,
    /// Name of an SQS queue with EC2's notices; agents receive notices without one.
    #[arg(long, env = "INTERRUPTION_QUEUE", default_value = "")]
    interruption_queue: String,
    /// No launches in zones that a zonal shift of ARC excludes for the cluster.
    #[arg(long, env = "ENABLE_ZONAL_SHIFT", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    enable_zonal_shift: bool,
    /// Log level: debug, info or error.
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_parser = log_level)]
    log_level: log::LevelFilter,
    /// Log format: json, text or auto.
    #[arg(long, env = "LOG_FORMAT", default_value = "json")]
    log_format: daemon::log::Format,
    #[command(flatten)]
    inherited: Inherited,
}

/// Provider of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeProvider {
    /// EC2.
    Aws,
    /// Nodes that KWOK simulates, for trials without AWS.
    Kwok,
}

/// Validated settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Provider of nodes.
    pub provider: NodeProvider,
    /// Name of the EKS cluster.
    pub cluster_name: String,
    /// Address of the API server for nodes; empty to query EKS.
    pub cluster_endpoint: String,
    /// Base64 of the CA certificate; empty to use the client's own, or to query EKS.
    pub cluster_ca_bundle: String,
    /// Service CIDR; empty to query EKS.
    pub cluster_cidr: String,
    /// AWS region; empty to use that of the profile or of instance metadata.
    pub region: String,
    /// Namespace of the controller.
    pub namespace: String,
    /// Other EC2 endpoint.
    pub endpoint_url: Option<String>,
    /// Memory that the hypervisor keeps, in thousandths.
    pub memory_overhead_per_mille: u32,
    /// Network interfaces that pods cannot use.
    pub reserved_enis: u32,
    /// True if IAM cannot be reached.
    pub isolated_vpc: bool,
    /// True if the version of the cluster is read from EKS, not from the API server.
    pub eks_control_plane: bool,
    /// True if launches have no dry run before an EC2NodeClass is ready.
    pub disable_dry_run: bool,
    /// True if failures of a capacity pool raise the price by which its offerings compete.
    pub risk_premium: bool,
    /// Interval between reconciles of an EC2NodeClass that is ready.
    pub class_refresh: Duration,
    /// Window that batches triggers.
    pub batch: BatchWindow,
    /// Feature gates.
    pub gates: Gates,
    /// Optional permissions that the controller has.
    pub permissions: Permissions,
    /// Settings of snapshots and plans.
    pub planning: snapshot::Settings,
    /// Address of /metrics.
    pub metrics: std::net::SocketAddr,
    /// Address of the probes.
    pub probes: std::net::SocketAddr,
    /// Port of the debug pages on loopback; `None` without them.
    pub debug_port: Option<u16>,
    /// Age of the view of a kind above which nodes are not disrupted voluntarily.
    pub max_view_age: jiff::SignedDuration,
    /// True if plans are recorded and not carried out.
    pub observe: bool,
    /// Lease; `None` without leader election.
    pub lease: Option<LeaseName>,
    /// Name of the queue with EC2's notices.
    pub interruption_queue: Option<String>,
    /// True if zonal shifts of the cluster are followed.
    pub zonal_shift: bool,
    /// Least severe level that is logged.
    pub log_level: log::LevelFilter,
    /// Format of log records.
    pub log_format: daemon::log::Format,
    /// Sentences about requested settings without effect.
    pub unmet: Vec<String>,
    /// Detail of metrics of nodes, pods and objects.
    pub metrics_detail: MetricsDetail,
    /// Label of pods or namespaces by whose values metrics report the cost.
    pub cost_label: Option<String>,
    /// True if metrics of nodes, NodePools and pods, and of conditions of NodeClaims, NodePools and nodes are exported.
    pub exports_cluster_state: bool,
}

/// Namespace and name of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
}

impl Args {
    /// Converts the arguments into settings.
    #[must_use]
    pub fn settings(self) -> Settings {
        let gates = self.feature_gates.gates();
        let planning = snapshot::Settings {
            preferences: self.preference_policy,
            preference_premium: self.preference_premium,
            min_values: self.min_values_policy,
            cost_limit: self.max_cost_per_hour,
            spot_to_spot: gates.spot_to_spot,
            node_repair: gates.node_repair,
            static_pools: gates.static_capacity,
            ..snapshot::Settings::default()
        };
        let namespace = Some(self.leader_election_namespace).filter(|name| !name.is_empty());
        let own = self.system_namespace;
        let name = Some(self.leader_election_name).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| if self.observe { OBSERVER_LEASE } else { LEASE }.to_owned());
        let lease = LeaseName { namespace: namespace.unwrap_or_else(|| own.clone()), name };
        let observes = self.observe.then(|| OBSERVES.to_owned());
        let simulates = self.provider == NodeProvider::Kwok;
        let sentences = observes.into_iter().chain(simulates.then(|| SIMULATES.to_owned()));
        let unmet = self.inherited.unmet().into_iter().chain(sentences).chain(self.feature_gates.unmet()).collect();
        Settings {
            provider: self.provider,
            cluster_name: self.cluster_name,
            cluster_endpoint: self.cluster_endpoint,
            cluster_ca_bundle: self.cluster_ca_bundle,
            cluster_cidr: self.cluster_cidr,
            region: self.region,
            namespace: own,
            endpoint_url: self.endpoint_url,
            memory_overhead_per_mille: self.vm_memory_overhead_percent,
            reserved_enis: self.reserved_enis,
            isolated_vpc: self.isolated_vpc,
            eks_control_plane: self.eks_control_plane,
            disable_dry_run: self.disable_dry_run,
            risk_premium: self.risk_premium,
            class_refresh: self.ami_refresh_interval.min(self.subnet_refresh_interval),
            batch: BatchWindow { idle: self.batch_idle_duration, max: self.batch_max_duration },
            gates,
            permissions: Permissions { packing: self.packing && !self.observe, surge: self.surge && !self.observe },
            planning,
            metrics: (self.listen_address, self.metrics_port).into(),
            probes: (self.listen_address, self.health_probe_port).into(),
            debug_port: Some(self.debug_port).filter(|port| *port != 0),
            max_view_age: self.max_view_age,
            observe: self.observe,
            lease: (!self.disable_leader_election).then_some(lease),
            interruption_queue: Some(if simulates { EMULATED_QUEUE.to_owned() } else { self.interruption_queue })
                .filter(|name| !name.is_empty() && !self.observe),
            zonal_shift: self.enable_zonal_shift,
            log_level: self.log_level,
            log_format: self.log_format,
            unmet,
            metrics_detail: self.metrics_detail,
            cost_label: Some(self.cost_label).filter(|label| !label.is_empty()),
            exports_cluster_state: !self.inherited.disable_cluster_state_observability,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Args, Duration, EMULATED_QUEUE, MetricsDetail, MicroDollars, MinValuesPolicy, PreferencePolicy,
        PreferencePremium, per_mille,
    };
    use clap::Parser;

    fn args(more: &[&str]) -> Result<Args, clap::Error> {
        let always = ["--cluster-name=demo", "--cluster-endpoint=https://localhost", "--region=r"];
        let flag = |given: &str| given.split('=').next().map(str::to_owned);
        let left = always.into_iter().filter(|one| !more.iter().any(|given| flag(given) == flag(one)));
        Args::try_parse_from(["kerf-controller"].into_iter().chain(left).chain(more.iter().copied()))
    }

    #[test]
    fn settings_have_karpenters_defaults_except_the_idle_time() {
        let settings = args(&[]).map(Args::settings);
        let settings = settings.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(settings.batch.idle, Duration::from_millis(200));
        assert_eq!(settings.batch.max, Duration::from_secs(10));
        assert_eq!(settings.memory_overhead_per_mille, 75);
        assert_eq!(settings.class_refresh, Duration::from_secs(60));
        assert_eq!(settings.lease.map(|lease| lease.namespace), Some("kube-system".to_owned()));
    }

    #[test]
    fn args_fail_with_a_hint_when_a_value_is_invalid() {
        let rows = [
            ("--batch-idle-duration=soon", "write it like 10s"),
            ("--cluster-endpoint=localhost", "absolute URL"),
            ("--cluster-endpoint=http://a.example", "is not https; write https://HOST"),
            ("--log-level=loud", "use debug, info or error"),
            ("--provider=gce", "write aws or kwok"),
            ("--ami-refresh-interval=30s", "at most once a minute"),
            ("--subnet-refresh-interval=often", "write it like 10s"),
            ("--vm-memory-overhead-percent=7.5", "between 0 and 1"),
            ("--preference-policy=ignore", "write Respect or Ignore"),
            ("--preference-premium=10", "write a whole percentage"),
            ("--min-values-policy=Loose", "write Strict or BestEffort"),
            ("--feature-gates=NodeOverlays=true", "known are NodeRepair"),
            ("--isolated-vpc=yes", "is neither true nor false"),
            ("--metrics-detail=full", "write aggregated or karpenter"),
            ("--max-view-age=2m", "write 150s or more"),
            ("--max-view-age=soon", "write it like 10s"),
            ("--cost-label=a b", "not the key of a label"),
        ];
        for (flag, cure) in rows {
            let message = args(&[flag]).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(cure), "{flag}: {message}");
        }
    }

    #[test]
    fn settings_select_detail_and_scope_of_cluster_metrics() {
        let exported = |flags: &[&str]| {
            let settings = args(flags).map(Args::settings).unwrap_or_else(|error| panic!("{error}"));
            (settings.metrics_detail, settings.exports_cluster_state)
        };
        assert_eq!(exported(&[]), (MetricsDetail::Aggregated, true));
        let flags = ["--metrics-detail=karpenter", "--disable-cluster-state-observability=true"];
        assert_eq!(exported(&flags), (MetricsDetail::Karpenter, false));
    }

    /// The chart grants these permissions only on request.
    #[test]
    fn settings_have_optional_permissions_only_on_request() {
        let granted = |flags: &[&str]| {
            let settings = args(flags).map(Args::settings).unwrap_or_else(|error| panic!("{error}"));
            (settings.permissions.packing, settings.permissions.surge)
        };
        assert_eq!(granted(&[]), (false, false));
        assert_eq!(granted(&["--packing=true", "--surge=false"]), (true, false));
        assert_eq!(granted(&["--surge=true"]), (false, true));
    }

    /// Users keep the variables of Karpenter, whose parser is Go's.
    #[test]
    fn settings_accept_booleans_in_the_forms_of_go() {
        for (flag, expected) in [("--isolated-vpc=True", true), ("--isolated-vpc=1", true), ("--isolated-vpc=F", false)]
        {
            let settings = args(&[flag]).map(Args::settings).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(settings.isolated_vpc, expected, "{flag}");
        }
        let unmet = |flag| args(&[flag]).map(|args| args.settings().unmet).unwrap_or_else(|error| panic!("{error}"));
        assert!(unmet("--feature-gates=Drift=True,NodeRepair=True").is_empty());
        assert!(unmet("--feature-gates=Drift=false")[0].contains("feature gate Drift=false has no effect"));
    }

    /// An observer beside Karpenter must take neither its Lease nor the messages of its queue.
    #[test]
    fn observer_has_its_own_lease_and_no_queue() {
        let settings = |flags: &[&str]| args(flags).map(Args::settings).unwrap_or_else(|error| panic!("{error}"));
        let lease = |settings: &super::Settings| settings.lease.as_ref().map(|lease| lease.name.clone());
        let acting = settings(&["--interruption-queue=demo"]);
        assert_eq!(lease(&acting).as_deref(), Some("karpenter-leader-election"));
        assert_eq!((acting.interruption_queue.as_deref(), acting.unmet.len()), (Some("demo"), 0));
        let observing = settings(&["--observe=true", "--interruption-queue=demo", "--surge=true"]);
        assert_eq!(lease(&observing).as_deref(), Some("kerf-observer"));
        assert_eq!((observing.interruption_queue, observing.permissions.surge), (None, false));
        assert!(observing.unmet[0].contains("INTERRUPTION_QUEUE, PACKING and SURGE have no effect"));
        let simulating = settings(&["--provider=kwok", "--interruption-queue=demo"]);
        assert_eq!(simulating.interruption_queue.as_deref(), Some(EMULATED_QUEUE));
        assert!(simulating.unmet[0].contains("AWS_ENDPOINT_URL and INTERRUPTION_QUEUE have no effect"));
        assert_eq!(lease(&settings(&["--observe=true", "--leader-election-name=own"])).as_deref(), Some("own"));
    }

    /// An EC2NodeClass is refreshed as a whole, so the shorter interval applies to both.
    #[test]
    fn class_refresh_is_the_shorter_of_both_intervals() {
        let flags = ["--ami-refresh-interval=10m", "--subnet-refresh-interval=5m"];
        let settings = args(&flags).map(Args::settings).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(settings.class_refresh, Duration::from_secs(300));
    }

    #[test]
    fn settings_report_unmet_requests_of_karpenters_flags() {
        let flags = ["--interruption-queue=demo", "--cpu-requests=4000", "--ignore-dra-requests=false"];
        let settings = args(&flags).map(Args::settings).unwrap_or_else(|error| panic!("{error}"));
        assert!(settings.unmet.iter().any(|sentence| sentence.contains("IGNORE_DRA_REQUESTS")), "{:?}", settings.unmet);
        assert_eq!(settings.interruption_queue.as_deref(), Some("demo"));
    }

    #[test]
    fn settings_pass_policies_and_gates_to_the_planner() {
        let planning = |flags: &[&str]| args(flags).map(|args| args.settings().planning).unwrap_or_default();
        let defaults = planning(&[]);
        assert_eq!((defaults.preferences, defaults.min_values), (PreferencePolicy::Respect, MinValuesPolicy::Strict));
        assert_eq!(defaults.preference_premium, PreferencePremium::default());
        assert!(!defaults.static_pools && !defaults.spot_to_spot, "these gates are closed by default");
        assert_eq!(defaults.node_repair, snapshot::NodeRepair::WithAgent);
        let flags = [
            "--preference-policy=Ignore",
            "--preference-premium=unlimited",
            "--max-cost-per-hour=12.5",
            "--min-values-policy=BestEffort",
            "--feature-gates=StaticCapacity=true,NodeRepair=true,SpotToSpotConsolidation=true",
        ];
        let settings = planning(&flags);
        assert_eq!(
            (settings.preferences, settings.min_values),
            (PreferencePolicy::Ignore, MinValuesPolicy::BestEffort)
        );
        assert_eq!(settings.preference_premium, PreferencePremium::Unlimited);
        assert_eq!((defaults.cost_limit, settings.cost_limit), (None, Some(MicroDollars(12_500_000))));
        assert!(settings.static_pools && settings.spot_to_spot);
        assert_eq!(settings.node_repair, snapshot::NodeRepair::All);
    }

    #[test]
    fn per_mille_parses_a_fraction_into_thousandths() {
        assert_eq!(per_mille("0.075"), Ok(75));
        assert_eq!(per_mille("0"), Ok(0));
        assert_eq!(per_mille("1"), Ok(1000));
        assert!(per_mille("0.07x").is_err());
    }
}
