//! Karpenter's settings that mean nothing to Kerf, or nothing yet: a Deployment that was written for Karpenter must
//! start, a wrong value must be refused as there, and a wish that is not granted must be told.

use clap::Args;

/// Karpenter's feature gates with their defaults (core 7.3).
const GATES: [(&str, bool); 6] = [
    ("NodeRepair", false),
    ("ReservedCapacity", true),
    ("SpotToSpotConsolidation", false),
    ("NodeOverlay", false),
    ("StaticCapacity", false),
    ("CapacityBuffer", false),
];

/// Flags and environment as written.
#[derive(Args, Clone, Debug)]
pub struct Inherited {
    /// Respect or Ignore; preferences are not weighed yet.
    #[arg(long, env = "PREFERENCE_POLICY", default_value = "Respect", value_parser = ["Respect", "Ignore"])]
    preference_policy: String,
    /// Strict or BestEffort; Strict is what happens.
    #[arg(long, env = "MIN_VALUES_POLICY", default_value = "Strict", value_parser = ["Strict", "BestEffort"])]
    min_values_policy: String,
    /// Comma-separated NAME=true|false.
    #[arg(long, env = "FEATURE_GATES", default_value = "", value_parser = gates)]
    feature_gates: Gates,
    /// Name of an SQS queue with EC2's notices; agents hear of them without one.
    #[arg(long, env = "INTERRUPTION_QUEUE", default_value = "")]
    interruption_queue: String,
    /// ResourceClaims of pods are not looked at, whatever this says.
    #[arg(long, env = "IGNORE_DRA_REQUESTS", default_value_t = true, action = clap::ArgAction::Set)]
    ignore_dra_requests: bool,
    /// No effect: nothing is validated by dry-run calls.
    #[arg(long, env = "DISABLE_DRY_RUN", default_value_t = false, action = clap::ArgAction::Set)]
    disable_dry_run: bool,
    /// No effect: prices and IAM are not asked for over the public network.
    #[arg(long, env = "ISOLATED_VPC", default_value_t = false, action = clap::ArgAction::Set)]
    isolated_vpc: bool,
    /// No effect: the API server tells its version.
    #[arg(long, env = "EKS_CONTROL_PLANE", default_value_t = false, action = clap::ArgAction::Set)]
    eks_control_plane: bool,
    /// Zonal shifts of ARC are not followed.
    #[arg(long, env = "ENABLE_ZONAL_SHIFT", default_value_t = false, action = clap::ArgAction::Set)]
    enable_zonal_shift: bool,
    /// No effect: there is no profiler to switch on.
    #[arg(long, env = "ENABLE_PROFILING", default_value_t = false, action = clap::ArgAction::Set)]
    enable_profiling: bool,
    /// No effect: watches are warm before leadership in any case.
    #[arg(long, env = "DISABLE_CONTROLLER_WARMUP", default_value_t = true, action = clap::ArgAction::Set)]
    disable_controller_warmup: bool,
    /// No effect: metrics cost a look at the index.
    #[arg(long, env = "DISABLE_CLUSTER_STATE_OBSERVABILITY", default_value_t = false, action = clap::ArgAction::Set)]
    disable_cluster_state_observability: bool,
    /// No effect: the name of the metrics Service.
    #[arg(long, env = "KARPENTER_SERVICE", default_value = "")]
    karpenter_service: String,
    /// No effect: the client does not limit itself, the API server's fairness does.
    #[arg(long, env = "KUBE_CLIENT_QPS", default_value_t = 200)]
    kube_client_qps: u32,
    /// No effect, as KUBE_CLIENT_QPS.
    #[arg(long, env = "KUBE_CLIENT_BURST", default_value_t = 300)]
    kube_client_burst: u32,
    /// No effect: there is no garbage collector to tune.
    #[arg(long, env = "MEMORY_LIMIT", default_value_t = -1)]
    memory_limit: i64,
    /// No effect: the runtime takes the cores that it finds.
    #[arg(long, env = "CPU_REQUESTS", default_value_t = 1000)]
    cpu_requests: u32,
    /// No effect: logs go to standard output.
    #[arg(long, env = "LOG_OUTPUT_PATHS", default_value = "stdout")]
    log_output_paths: String,
    /// No effect, as LOG_OUTPUT_PATHS.
    #[arg(long, env = "LOG_ERROR_OUTPUT_PATHS", default_value = "stderr")]
    log_error_output_paths: String,
}

/// Gates as written, known ones only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Gates(Vec<(String, bool)>);

fn gates(text: &str) -> Result<Gates, String> {
    let mut all = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let parsed = pair.split_once('=').and_then(|(name, value)| Some((name, value.parse::<bool>().ok()?)));
        let (name, value) = parsed.ok_or_else(|| format!("{pair:?} is not NAME=true or NAME=false"))?;
        if !GATES.iter().any(|(known, _)| *known == name) {
            let known: Vec<&str> = GATES.iter().map(|(known, _)| *known).collect();
            return Err(format!("there is no feature gate {name:?}; known are {}", known.join(", ")));
        }
        all.push((name.to_owned(), value));
    }
    Ok(Gates(all))
}

impl Inherited {
    /// One sentence for every wish that is not granted.
    #[must_use]
    pub fn unmet(&self) -> Vec<String> {
        let mut unmet = Vec::new();
        for (name, value) in &self.feature_gates.0 {
            if *value && GATES.iter().any(|(known, default)| known == name && !default) {
                unmet.push(format!("feature gate {name} is on, but Kerf does not have that feature yet"));
            }
        }
        let wishes = [
            (
                self.preference_policy == "Ignore",
                "PREFERENCE_POLICY Ignore is what happens in any case: preferences are not weighed yet",
            ),
            (
                self.min_values_policy == "BestEffort",
                "MIN_VALUES_POLICY BestEffort is not supported yet: Strict applies",
            ),
            (!self.interruption_queue.is_empty(), "INTERRUPTION_QUEUE is not read: spot notices come from the agents"),
            (self.enable_zonal_shift, "ENABLE_ZONAL_SHIFT is not supported yet: zonal shifts are not followed"),
            (
                !self.ignore_dra_requests,
                "IGNORE_DRA_REQUESTS=false is not supported yet: ResourceClaims of pods are not looked at",
            ),
        ];
        unmet.extend(wishes.iter().filter(|(wished, _)| *wished).map(|(_, sentence)| (*sentence).to_owned()));
        unmet
    }
}

#[cfg(test)]
mod tests {
    use super::{Gates, gates};

    #[test]
    fn gates_are_read_as_karpenter_reads_them() {
        let on = |name: &str| (name.to_owned(), true);
        assert_eq!(
            gates("NodeRepair=true, StaticCapacity=true"),
            Ok(Gates(vec![on("NodeRepair"), on("StaticCapacity")]))
        );
        assert_eq!(gates(""), Ok(Gates::default()));
        assert!(gates("NodeRepair").is_err_and(|message| message.contains("NAME=true")));
        assert!(gates("NodeRepairs=true").is_err_and(|message| message.contains("known are NodeRepair")));
    }
}
