//! Karpenter's labels, summaries and buckets of metrics that are sums by default, for `MetricsDetail::Karpenter`.

use api::label;
use daemon::metric::{Description, Gauge, Kind};
use daemon::metrics;

use super::buckets::{DURATIONS, OBJECTS};
use super::labels::ByControllerSchedulingId;
use super::{aws, conditions, disruption, fleet, nodes, scheduler};

/// Quantiles of Karpenter's summaries.
const QUANTILES: &[f64] = &[0.0, 0.5, 0.9, 0.99, 1.0];

/// Node labels that Karpenter's node gauges have, with their names there.
pub(in crate::metrics) const WELL_KNOWN: [(&str, &str); 36] = [
    (label::NODEPOOL, "nodepool"),
    (label::INSTANCE_TYPE, "instance_type"),
    (label::CAPACITY_TYPE, "capacity_type"),
    (label::ZONE, "zone"),
    (label::ARCH, "arch"),
    (label::OS, "os"),
    (label::REGION, "region"),
    (label::ZONE_ID, "zone_id"),
    (label::WINDOWS_BUILD, "windows_build"),
    (label::CAPACITY_RESERVATION_ID, "capacity_reservation_id"),
    (label::CAPACITY_RESERVATION_INTERRUPTIBLE, "capacity_reservation_interruptible"),
    (label::CAPACITY_RESERVATION_TYPE, "capacity_reservation_type"),
    (label::INSTANCE_ACCELERATOR_COUNT, "instance_accelerator_count"),
    (label::INSTANCE_ACCELERATOR_MANUFACTURER, "instance_accelerator_manufacturer"),
    (label::INSTANCE_ACCELERATOR_NAME, "instance_accelerator_name"),
    (label::INSTANCE_CAPABILITY_FLEX, "instance_capability_flex"),
    (label::INSTANCE_CATEGORY, "instance_category"),
    (label::INSTANCE_CPU, "instance_cpu"),
    (label::INSTANCE_CPU_MANUFACTURER, "instance_cpu_manufacturer"),
    (label::INSTANCE_CPU_CLOCK, "instance_cpu_sustained_clock_speed_mhz"),
    (label::INSTANCE_EBS_BANDWIDTH, "instance_ebs_bandwidth"),
    (label::INSTANCE_ENCRYPTION, "instance_encryption_in_transit_supported"),
    (label::INSTANCE_FAMILY, "instance_family"),
    (label::INSTANCE_GENERATION, "instance_generation"),
    (label::INSTANCE_GPU_COUNT, "instance_gpu_count"),
    (label::INSTANCE_GPU_MANUFACTURER, "instance_gpu_manufacturer"),
    (label::INSTANCE_GPU_MEMORY, "instance_gpu_memory"),
    (label::INSTANCE_GPU_NAME, "instance_gpu_name"),
    (label::INSTANCE_HYPERVISOR, "instance_hypervisor"),
    (label::INSTANCE_LOCAL_NVME, "instance_local_nvme"),
    (label::INSTANCE_MEMORY, "instance_memory"),
    (label::INSTANCE_NETWORK_BANDWIDTH, "instance_network_bandwidth"),
    (label::INSTANCE_SIZE, "instance_size"),
    (label::INSTANCE_TENANCY, "instance_tenancy"),
    (label::PLACEMENT_GROUP_ID, "placement_group_id"),
    (label::PLACEMENT_GROUP_PARTITION, "placement_group_partition"),
];

/// Labels of gauges of nodes. The name comes first: it alone tells the series apart.
pub(in crate::metrics) const NODE_LABELS: [&str; WELL_KNOWN.len() + 3] = node_labels("node_name");
const NODE_RESOURCE_LABELS: [&str; NODE_LABELS.len() + 1] = node_labels("resource_type");

/// Labels of the gauge of pods.
pub(in crate::metrics) const POD_LABELS: &[&str] = &[
    "name",
    "namespace",
    "owner",
    "node",
    "scheduled",
    "nodepool",
    "zone",
    "arch",
    "capacity_type",
    "instance_type",
    "phase",
    "ready",
    "managed",
];

/// Returns the labels of nodes, filled up with `last`.
const fn node_labels<const N: usize>(last: &'static str) -> [&'static str; N] {
    let mut names = [last; N];
    names[0] = "node_name";
    names[1] = "phase";
    names[2] = "managed";
    let mut position = 0;
    while position < WELL_KNOWN.len() {
        names[3 + position] = WELL_KNOWN[position].1;
        position += 1;
    }
    names
}

metrics! {
    table RUNNING_PLAN_METRICS;
    QUEUE_DEPTH: Gauge<ByControllerSchedulingId> = (
        "karpenter_scheduler_queue_depth",
        "Pending pods of the running plan; 0 after the plan"
    );
    UNFINISHED_WORK: Gauge<ByControllerSchedulingId> = (
        "karpenter_scheduler_unfinished_work_seconds",
        "Seconds since the start of the running plan; no series without one"
    );
}

/// Returns the descriptions that replace those of sums.
pub(in crate::metrics) fn descriptions() -> Vec<Description> {
    let mut all = of_nodes();
    all.extend(of_pods());
    all.extend(of_types());
    all.extend(with_other_values());
    all.extend(conditions::ALL.iter().flat_map(|conditions| conditions.detailed_descriptions(OBJECTS)));
    all
}

fn of_nodes() -> Vec<Description> {
    let by_resource = [
        (fleet::ALLOCATABLE.description(), "Allocatable resources of a node, in cores, bytes or units"),
        (fleet::POD_REQUESTS.description(), "Requests of the pods of a node, including DaemonSet pods"),
        (fleet::POD_LIMITS.description(), "Limits of the pods of a node, including DaemonSet pods"),
        (fleet::DAEMON_REQUESTS.description(), "Requests of the DaemonSet pods of a node"),
        (fleet::DAEMON_LIMITS.description(), "Limits of the DaemonSet pods of a node"),
        (fleet::OVERHEAD.description(), "System overhead of a node: capacity less allocatable resources"),
    ];
    let labels: &'static [&'static str] = &NODE_RESOURCE_LABELS;
    let mut all: Vec<Description> =
        by_resource.into_iter().map(|(metric, help)| Description { help, labels, ..metric }).collect();
    let age = fleet::OLDEST_NODE.description();
    all.push(Description { help: "Age of a node, in seconds", labels: &NODE_LABELS, ..age });
    all
}

fn of_pods() -> Vec<Description> {
    let state = fleet::PODS.description();
    let waits = [
        (fleet::UNBOUND.description(), "Age of unscheduled pods in seconds"),
        (fleet::UNSTARTED.description(), "Age of pods that were not ready yet in seconds"),
        (fleet::UNDECIDED.description(), "Age of unscheduled pods that no plan has contained yet, in seconds"),
        (fleet::PLACED_UNBOUND.description(), "Seconds since the first nomination of unscheduled pods"),
        (fleet::PLACED_UNSTARTED.description(), "Seconds since the first nomination of pods that were not ready yet"),
    ];
    let waits = waits.into_iter().map(|(metric, help)| Description { help, ..metric });
    let state = Description { help: "1 for each pod, with its phase and its node", labels: POD_LABELS, ..state };
    waits.chain([state]).collect()
}

fn of_types() -> Vec<Description> {
    let all = [
        (fleet::OFFERING_PRICE.description(), "Price of offerings, in dollars per hour"),
        (fleet::OFFERING_AVAILABLE.description(), "1 if the offering is available, else 0"),
        (fleet::TYPE_CORES.description(), "Cores of instance types"),
        (fleet::TYPE_MEMORY.description(), "Memory of instance types, in bytes"),
    ];
    all.into_iter().map(|(metric, help)| Description { help, ..metric }).collect()
}

/// Returns metrics with the same labels whose observations Karpenter exports in another form.
fn with_other_values() -> Vec<Description> {
    let summaries = [
        (fleet::STARTUP.description(), "Seconds from the creation of a pod until it was ready"),
        (nodes::NODE_TERMINATION.description(), "Seconds from the deletion of a Node to its removal, by pool"),
    ];
    let summaries = summaries.into_iter().map(|(metric, help)| {
        let kind = Kind::Summary(QUANTILES);
        Description { help, kind, ..metric }
    });
    let durations = [
        aws::CLOUD_DURATION.description(),
        aws::BATCH_TIME.description(),
        disruption::EVALUATION_DURATION.description(),
        scheduler::DECISION.description(),
        fleet::PLACED_BOUND.description(),
        fleet::PLACED_STARTUP.description(),
    ];
    let durations = durations.into_iter().map(|metric| Description { kind: Kind::Histogram(DURATIONS), ..metric });
    summaries.chain(durations).collect()
}

#[cfg(test)]
mod tests {
    use super::{NODE_LABELS, NODE_RESOURCE_LABELS, WELL_KNOWN, label};

    /// Karpenter names the labels of its gauges after the keys of Node labels.
    #[test]
    fn well_known_has_each_key_with_the_name_of_karpenter() {
        for (key, name) in WELL_KNOWN {
            let own = key.split_once('/').map(|(_, own)| own.replace('-', "_"));
            assert_eq!(own.as_deref(), Some(name), "{key}");
        }
        let keys = label::CORE_WELL_KNOWN.into_iter().chain(label::AWS_WELL_KNOWN);
        // Karpenter's list lacks it.
        for key in keys.filter(|key| *key != label::EC2_NODE_CLASS) {
            assert!(WELL_KNOWN.iter().any(|(known, _)| *known == key), "{key} is missing");
        }
    }

    #[test]
    fn node_labels_end_with_the_resource_only_where_there_is_one() {
        assert_eq!(NODE_LABELS.last(), Some(&"placement_group_partition"));
        assert_eq!(NODE_RESOURCE_LABELS[..NODE_LABELS.len()], NODE_LABELS);
        assert_eq!(NODE_RESOURCE_LABELS.last(), Some(&"resource_type"));
    }
}
