//! What a machine is told before it exists: from a class, and what is asked of one of its machines, to the document that crate
//! `machine` writes and the machine reads (aws 2.4).

use api::nodeclass::{AmiFamily, EC2NodeClassSpec, InstanceStorePolicy};
use api::{Taint, label, taint};
use machine::userdata::{self, Al2023, RenderError};
use serde_json::{Map, Value};

use crate::launch::Ask;
use crate::nodeclass::ResolvedClass;
use crate::settings::Settings;

/// What of a machine is known before it is bought.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: &'a str,
    /// The image that it starts from, one of the class's.
    pub image_id: &'a str,
    /// How many pods kubelet admits.
    pub max_pods: u32,
}

/// What the machine is told, before base64. Images of family Custom get the class's user data as it is.
///
/// A class whose images carry the agent adds the agent's startup taint here: only at registration can a node get taints.
///
/// # Errors
/// When the class's user data cannot be merged, or the result is too large for EC2.
pub fn render(
    class: &ResolvedClass,
    settings: &Settings,
    ask: &Ask,
    machine: Machine<'_>,
) -> Result<String, RenderError> {
    let own = class.spec.user_data.clone();
    if class.family == AmiFamily::Custom {
        let own = own.unwrap_or_default();
        return userdata::check_size(own.len()).map(|()| own);
    }
    let mut labels = ask.labels.clone();
    labels.insert(label::CAPACITY_TYPE.to_owned(), machine.capacity_type.to_owned());
    userdata::render_al2023(&Al2023 {
        cluster_name: settings.cluster_name.clone(),
        cluster_endpoint: settings.cluster_endpoint.clone(),
        cluster_ca: settings.cluster_ca.clone(),
        cluster_cidr: settings.cluster_cidr.clone(),
        labels,
        taints: taints(class, ask),
        max_pods: Some(machine.max_pods),
        cluster_dns: cluster_dns(class, settings),
        kubelet: kubelet(&class.spec),
        raid0: class.spec.instance_store_policy == Some(InstanceStorePolicy::Raid0),
        user_data: own,
        agent: class.agent_settings.clone(),
    })
}

fn taints(class: &ResolvedClass, ask: &Ask) -> Vec<Taint> {
    let mut all: Vec<Taint> = ask.taints.iter().chain(&ask.startup_taints).cloned().collect();
    let agent = Taint::new(taint::AGENT_NOT_READY, taint::NO_EXECUTE);
    if class.agent && !all.iter().any(|one| one.matches(&agent)) {
        all.push(agent);
    }
    all
}

fn cluster_dns(class: &ResolvedClass, settings: &Settings) -> Vec<String> {
    let own = class.spec.kubelet.as_ref().and_then(|kubelet| kubelet.cluster_dns.clone());
    own.unwrap_or_else(|| settings.cluster_dns.clone())
}

/// The class's kubelet block as KubeletConfiguration fields, without those that have a place of their own.
fn kubelet(spec: &EC2NodeClassSpec) -> Map<String, Value> {
    let mut fields = match serde_json::to_value(&spec.kubelet) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    fields.remove("maxPods");
    fields.remove("clusterDNS");
    fields
}
