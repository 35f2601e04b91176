//! Merge of several NodeConfigs. The rules are those of nodeadm, including their asymmetry, because existing user data depends
//! on them. A zero value does not override a typed field, but does override inside free-form JSON.

use serde_json::{Map, Value};
use toml::Table;

use super::{Cluster, Containerd, Instance, Kubelet, NodeConfig};
use crate::tables;

impl NodeConfig {
    /// Merges `later` over `self`.
    ///
    /// Typed fields: a value that is not zero replaces. `kubelet.flags` append. `kubelet.config` and
    /// `containerd.baseRuntimeSpec` merge as JSON, see [`merge_json`]. `instance.environment` merges by service and variable,
    /// `featureGates` by gate, `containerd.config` as TOML, see [`merge_toml`]. Other lists replace if they are not empty.
    pub fn merge(&mut self, later: Self) {
        replace(&mut self.api_version, later.api_version);
        replace(&mut self.kind, later.kind);
        merge_json(&mut self.metadata, later.metadata);
        self.spec.cluster.merge(later.spec.cluster);
        self.spec.containerd.merge(later.spec.containerd);
        self.spec.instance.merge(later.spec.instance);
        self.spec.kubelet.merge(later.spec.kubelet);
        self.spec.feature_gates.extend(later.spec.feature_gates);
    }
}

impl Cluster {
    fn merge(&mut self, later: Self) {
        replace(&mut self.name, later.name);
        replace(&mut self.api_server_endpoint, later.api_server_endpoint);
        replace(&mut self.certificate_authority, later.certificate_authority);
        replace(&mut self.cidr, later.cidr);
        replace(&mut self.id, later.id);
        if later.enable_outpost == Some(true) || self.enable_outpost.is_none() {
            self.enable_outpost = later.enable_outpost;
        }
    }
}

impl Containerd {
    fn merge(&mut self, later: Self) {
        merge_config(&mut self.config, later.config);
        merge_json(&mut self.base_runtime_spec, later.base_runtime_spec);
    }
}

impl Instance {
    fn merge(&mut self, later: Self) {
        if later.local_storage.strategy.is_some() {
            self.local_storage.strategy = later.local_storage.strategy;
        }
        replace(&mut self.local_storage.mount_path, later.local_storage.mount_path);
        replace(&mut self.local_storage.disabled_mounts, later.local_storage.disabled_mounts);
        replace(&mut self.storage.volumes, later.storage.volumes);
        replace(&mut self.network.nameservers, later.network.nameservers);
        replace(&mut self.network.domains, later.network.domains);
        for (service, variables) in later.environment {
            self.environment.entry(service).or_default().extend(variables);
        }
    }
}

impl Kubelet {
    fn merge(&mut self, later: Self) {
        merge_json(&mut self.config, later.config);
        self.flags.extend(later.flags);
        replace(&mut self.max_pods_expression, later.max_pods_expression);
    }
}

/// Merges one TOML text over another. Text that is not TOML is replaced; readers of documents reject such text before.
fn merge_config(base: &mut String, later: String) {
    match (tables::parse(base), tables::parse(&later)) {
        (Ok(mut merged), Ok(table)) if !base.is_empty() && !later.is_empty() => {
            merge_toml(&mut merged, table);
            *base = tables::pretty(&merged);
        }
        _ => replace(base, later),
    }
}

fn replace<T: Default + PartialEq>(field: &mut T, later: T) {
    if later != T::default() {
        *field = later;
    }
}

/// Merges `later` over `base`: objects merge key by key, all other values replace, including arrays and `null`, `""`, `0` and
/// `false`.
pub fn merge_json(base: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, value) in later {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => merge_json(inner, value),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Merges `later` over `base`: tables merge key by key, all other values replace, including arrays.
pub fn merge_toml(base: &mut Table, later: Table) {
    for (key, value) in later {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(value)) => merge_toml(inner, value),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
