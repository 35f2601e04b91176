//! Command line of kubelet, for images whose bootstrap is a script.

use std::collections::BTreeMap;
use std::fmt::Display;

use api::Taint;

use super::Bootstrap;

/// Returns kubelet's arguments in a fixed order, lists by key.
pub(super) fn kubelet_arguments(input: &Bootstrap) -> String {
    let kubelet = &input.kubelet;
    let taints: Vec<String> = input.node_taints().iter().map(taint).collect();
    let all = [
        list("node-labels", "=", &input.node_labels()),
        Some(format!("--register-with-taints=\"{}\"", taints.join(","))),
        single("max-pods", input.pods()),
        single("pods-per-core", kubelet.pods_per_core),
        kubelet.system_reserved.as_ref().and_then(|all| list("system-reserved", "=", &texts(all, |one| &one.0))),
        kubelet.kube_reserved.as_ref().and_then(|all| list("kube-reserved", "=", &texts(all, |one| &one.0))),
        kubelet.eviction_hard.as_ref().and_then(|all| list("eviction-hard", "<", &texts(all, |one| one))),
        kubelet.eviction_soft.as_ref().and_then(|all| list("eviction-soft", "<", &texts(all, |one| one))),
        kubelet
            .eviction_soft_grace_period
            .as_ref()
            .and_then(|all| list("eviction-soft-grace-period", "=", &texts(all, |one| &one.0))),
        single("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period),
        single("image-gc-high-threshold", kubelet.image_gc_high_threshold_percent),
        single("image-gc-low-threshold", kubelet.image_gc_low_threshold_percent),
        single("cpu-cfs-quota", kubelet.cpu_cfs_quota),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn single(name: &str, value: Option<impl Display>) -> Option<String> {
    value.map(|value| format!("--{name}={value}"))
}

fn list(name: &str, between: &str, all: &BTreeMap<&str, &str>) -> Option<String> {
    let pairs: Vec<String> = all.iter().map(|(key, value)| format!("{key}{between}{value}")).collect();
    (!pairs.is_empty()).then(|| format!("--{name}=\"{}\"", pairs.join(",")))
}

fn texts<T>(all: &BTreeMap<String, T>, text: impl Fn(&T) -> &str) -> BTreeMap<&str, &str> {
    all.iter().map(|(key, value)| (key.as_str(), text(value))).collect()
}

/// Returns a taint in kubelet's format.
fn taint(taint: &Taint) -> String {
    let Taint { key, effect, .. } = taint;
    match taint.value() {
        "" => format!("{key}:{effect}"),
        value => format!("{key}={value}:{effect}"),
    }
}
