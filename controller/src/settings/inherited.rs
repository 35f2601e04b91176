//! Karpenter's settings that mean nothing to Kerf, or nothing yet: a Deployment that was written for Karpenter must
//! start, a wrong value must be refused as there, and a request that is not granted must be reported.

use clap::Args;

/// Flags and environment as written.
#[derive(Args, Clone, Debug)]
pub struct Inherited {
    /// ResourceClaims of pods are not looked at, whatever this says.
    #[arg(long, env = "IGNORE_DRA_REQUESTS", default_value_t = true, action = clap::ArgAction::Set)]
    ignore_dra_requests: bool,
    /// Zonal shifts of ARC are not followed.
    #[arg(long, env = "ENABLE_ZONAL_SHIFT", default_value_t = false, action = clap::ArgAction::Set)]
    enable_zonal_shift: bool,
    /// No effect: there is no profiler to switch on.
    #[arg(long, env = "ENABLE_PROFILING", default_value_t = false, action = clap::ArgAction::Set)]
    enable_profiling: bool,
    /// No effect: watches are warm before leadership in any case.
    #[arg(long, env = "DISABLE_CONTROLLER_WARMUP", default_value_t = true, action = clap::ArgAction::Set)]
    disable_controller_warmup: bool,
    /// Leaves out what is reported of nodes, pools, pods and conditions at each scrape (docs/metrics.md).
    #[arg(long, env = "DISABLE_CLUSTER_STATE_OBSERVABILITY", default_value_t = false, action = clap::ArgAction::Set)]
    pub(super) disable_cluster_state_observability: bool,
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

impl Inherited {
    /// One sentence for every request that is not granted.
    #[must_use]
    pub fn unmet(&self) -> Vec<String> {
        let wishes = [
            (self.enable_zonal_shift, "ENABLE_ZONAL_SHIFT has no effect: zonal shifts are not supported yet"),
            (
                !self.ignore_dra_requests,
                "IGNORE_DRA_REQUESTS=false has no effect: ResourceClaims are not supported yet",
            ),
        ];
        wishes.iter().filter(|(wished, _)| *wished).map(|(_, sentence)| (*sentence).to_owned()).collect()
    }
}
