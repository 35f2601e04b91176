//! Input of the renderer, which the rows change.

use std::error::Error;

use api::nodeclass::KubeletConfiguration;
use api::{DurationText, Quantity, Taint};
use machine::userdata::{AmiFamily, Bootstrap, Document, render};

/// Returns the input for an instance of a small cluster whose class has no settings.
pub fn input() -> Bootstrap {
    Bootstrap {
        cluster_name: "demo".to_owned(),
        cluster_endpoint: "https://127.0.0.1:6443".to_owned(),
        cluster_ca: "aGVsbG8=".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        labels: [
            ("team", "a"),
            ("kubernetes.io/arch", "arm64"),
            ("karpenter.sh/nodepool", "default"),
            ("karpenter.sh/capacity-type", "spot"),
            ("x.k8s.io/y", "z"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        taints: vec![taint("dedicated", "gpu", "NoSchedule"), taint("dedicated", "", "NoExecute")],
        max_pods: Some(29),
        cluster_dns: vec!["10.100.0.10".to_owned()],
        ..Bootstrap::default()
    }
}

/// Returns the same input with the class's own user data.
pub fn with(user_data: &str) -> Bootstrap {
    Bootstrap { user_data: Some(user_data.to_owned()), ..input() }
}

pub fn taint(key: &str, value: &str, effect: &str) -> Taint {
    let value = (!value.is_empty()).then(|| value.to_owned());
    Taint { value, ..Taint::new(key, effect) }
}

/// Returns a kubelet block with all fields.
pub fn whole_kubelet() -> KubeletConfiguration {
    fn map<T>(pairs: [(&str, &str); 2], value: impl Fn(String) -> T) -> Option<std::collections::BTreeMap<String, T>> {
        Some(pairs.into_iter().map(|(key, text)| (key.to_owned(), value(text.to_owned()))).collect())
    }
    KubeletConfiguration {
        cluster_dns: Some(vec!["10.0.100.10".to_owned()]),
        max_pods: Some(42),
        pods_per_core: Some(3),
        system_reserved: map([("memory", "100Mi"), ("cpu", "150m")], Quantity),
        kube_reserved: map([("memory", "600Mi"), ("cpu", "90m")], Quantity),
        eviction_hard: map([("nodefs.available", "10%"), ("memory.available", "5%")], |text| text),
        eviction_soft: map([("nodefs.available", "15%"), ("memory.available", "500Mi")], |text| text),
        eviction_soft_grace_period: map([("nodefs.available", "2m30s"), ("memory.available", "1m")], DurationText),
        eviction_max_pod_grace_period: Some(120),
        image_gc_high_threshold_percent: Some(80),
        image_gc_low_threshold_percent: Some(50),
        cpu_cfs_quota: Some(false),
    }
}

pub fn document(family: AmiFamily, input: &Bootstrap) -> Document {
    render(family, input).unwrap_or_else(|error| panic!("{family:?}: {}", chain(&error)))
}

pub fn chain(error: &dyn Error) -> String {
    let source = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", source.unwrap_or_default())
}
