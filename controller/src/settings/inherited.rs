//! Karpenter's settings that have no effect in Kerf, or none yet. A Deployment for Karpenter must start, an invalid value must
//! be refused as in Karpenter, and a request without effect must be reported.

use clap::Args;
use daemon::flag::boolean;

/// Flags and environment variables as written.
#[derive(Args, Clone, Debug)]
pub struct Inherited {
    /// No effect: ResourceClaims of pods are always ignored.
    #[arg(long, env = "IGNORE_DRA_REQUESTS", default_value_t = true, action = clap::ArgAction::Set, value_parser = boolean)]
    ignore_dra_requests: bool,
    /// No effect: there is no profiler.
    #[arg(long, env = "ENABLE_PROFILING", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    enable_profiling: bool,
    /// No effect: watches always start before leadership.
    #[arg(long, env = "DISABLE_CONTROLLER_WARMUP", default_value_t = true, action = clap::ArgAction::Set, value_parser = boolean)]
    disable_controller_warmup: bool,
    /// No metrics of nodes, NodePools and pods, and none of conditions of NodeClaims, NodePools and nodes (docs/metrics.md).
    #[arg(long, env = "DISABLE_CLUSTER_STATE_OBSERVABILITY", default_value_t = false, action = clap::ArgAction::Set, value_parser = boolean)]
    pub(super) disable_cluster_state_observability: bool,
    /// No effect: the name of the metrics Service.
    #[arg(long, env = "KARPENTER_SERVICE", default_value = "")]
    karpenter_service: String,
    /// No effect: the API server's fairness limits the client, which has no limit of its own.
    #[arg(long, env = "KUBE_CLIENT_QPS", default_value_t = 200)]
    kube_client_qps: u32,
    /// No effect, as KUBE_CLIENT_QPS.
    #[arg(long, env = "KUBE_CLIENT_BURST", default_value_t = 300)]
    kube_client_burst: u32,
    /// No effect: there is no memory collector to tune.
    #[arg(long, env = "MEMORY_LIMIT", default_value_t = -1)]
    memory_limit: i64,
    /// No effect: the runtime uses all cores that it finds.
    #[arg(long, env = "CPU_REQUESTS", default_value_t = 1000)]
    cpu_requests: u32,
    /// No effect: logs are written to standard output.
    #[arg(long, env = "LOG_OUTPUT_PATHS", default_value = "stdout")]
    log_output_paths: String,
    /// No effect, as LOG_OUTPUT_PATHS.
    #[arg(long, env = "LOG_ERROR_OUTPUT_PATHS", default_value = "stderr")]
    log_error_output_paths: String,
}

impl Inherited {
    /// Returns one sentence for each request without effect.
    #[must_use]
    pub fn unmet(&self) -> Vec<String> {
        let unsupported = [(
            !self.ignore_dra_requests,
            "IGNORE_DRA_REQUESTS=false has no effect: ResourceClaims are not supported yet",
        )];
        unsupported.iter().filter(|(is_set, _)| *is_set).map(|(_, sentence)| (*sentence).to_owned()).collect()
    }
}
