//! Inter-pod rules: spread, affinity and anti-affinity of pods in the order in which kube-scheduler binds them.

mod binding_order;
mod excluded_daemons;
mod topology_counts;

pub(super) use binding_order::{BindingState, check, possible};
pub(super) use excluded_daemons::ExcludedDaemons;
