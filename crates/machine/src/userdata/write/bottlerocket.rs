//! Bottlerocket: Kerf's settings merged over the user's settings, as TOML. Fields that the class's kubelet block does not set
//! keep the user's values. Kerf always sets the cluster, the number of pods and the taints.

mod known;

use std::collections::{BTreeMap, BTreeSet};

use api::Taint;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toml::{Table, Value};

use super::{Bootstrap, Document, RenderError, Warning};
use crate::agent::HOST_CONTAINER;
use crate::nodeconfig::labels;
use crate::quote::{problem, quote};
use crate::tables;

/// Command that gives the instance store disks to pods; its name sorts before the user's commands.
const STORAGE_COMMAND: &str = "000-mount-instance-storage";
/// First release that binds the directories on the instance store disks without a list.
const BINDS_DEFAULT_DIRECTORIES: [u64; 3] = [1, 46, 0];
/// Settings of containers on the host.
const HOST_CONTAINERS: &str = "host-containers";
/// Host containers whose source is Bottlerocket's or checked elsewhere.
const OWN_CONTAINERS: [&str; 3] = ["admin", "control", HOST_CONTAINER];
/// Directories that only earlier releases need in the command.
const DIRECTORIES: [&str; 3] = ["/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"];

pub(super) fn render(input: &Bootstrap) -> Result<Document, RenderError> {
    let mut warnings = Vec::new();
    let mut settings = user_settings(input.user_text(), &mut warnings)?;
    let kubernetes = table_at(&mut settings, "kubernetes", "settings.kubernetes")?;
    warnings.extend(unknown_settings(kubernetes));
    set_cluster(input, kubernetes);
    warnings.extend(set_labels(input, kubernetes)?);
    warnings.extend(set_taints(input, kubernetes)?);
    set_kubelet(input, kubernetes);
    if input.raid0 {
        let commands = table_at(&mut settings, "bootstrap-commands", "settings.bootstrap-commands")?;
        commands.insert(STORAGE_COMMAND.to_owned(), Value::Table(storage(input.image_release.as_deref())));
    }
    warnings.extend(containers_without_source(&settings));
    if input.agent.is_some() {
        warnings.extend(set_agent(input.agent_settings(), &mut settings)?);
    }
    let document: Table = [("settings".to_owned(), Value::Table(settings))].into_iter().collect();
    Ok(Document { text: tables::pretty(&document), warnings })
}

/// Returns the user's settings; other tables are reported and omitted.
fn user_settings(text: &str, warnings: &mut Vec<Warning>) -> Result<Table, RenderError> {
    let text = text.replace("\r\n", "\n");
    let mut document: Table = tables::parse(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        RenderError::NotToml { line, problem: problem(error.message()) }
    })?;
    let settings = std::mem::take(table_at(&mut document, "settings", "settings")?);
    document.remove("settings");
    warnings.extend(document.keys().map(|name| Warning::IgnoredTable { name: quote(name) }));
    Ok(settings)
}

/// Returns the table of this name, and creates it if it is missing.
fn table_at<'a>(table: &'a mut Table, name: &str, path: &str) -> Result<&'a mut Table, RenderError> {
    match table.entry(name).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => Ok(inner),
        other => Err(RenderError::NotATable { path: path.to_owned(), found: other.type_str() }),
    }
}

fn unknown_settings(kubernetes: &Table) -> Vec<Warning> {
    let unknown = kubernetes.keys().filter(|name| !known::SETTINGS.contains(&name.as_str()));
    let warning = |name: &String| Warning::UnknownSetting {
        name: quote(name),
        nearest: api::similar::nearest(name, &known::SETTINGS).map(str::to_owned),
    };
    unknown.map(warning).collect()
}

fn set_cluster(input: &Bootstrap, kubernetes: &mut Table) {
    let mut set = |name: &str, value: &str| kubernetes.insert(name.to_owned(), Value::from(value));
    set("cluster-name", &input.cluster_name);
    set("api-server", &input.cluster_endpoint);
    set("cluster-certificate", &input.cluster_ca);
    if let Some(pods) = input.pods() {
        kubernetes.insert("max-pods".to_owned(), Value::from(pods));
    }
    let own = input.kubelet.cluster_dns.as_ref().is_some_and(|addresses| !addresses.is_empty());
    match input.dns() {
        [] => {}
        _ if !own && kubernetes.contains_key("cluster-dns-ip") => {}
        [address] => drop(kubernetes.insert("cluster-dns-ip".to_owned(), Value::from(address.as_str()))),
        addresses => drop(kubernetes.insert("cluster-dns-ip".to_owned(), Value::from(addresses.to_vec()))),
    }
}

/// Adds the labels of the NodeClaim to the user's. Leaves out those of the user with which kubelet does not start.
fn set_labels(input: &Bootstrap, kubernetes: &mut Table) -> Result<Option<Warning>, RenderError> {
    let user = table_at(kubernetes, "node-labels", "settings.kubernetes.node-labels")?;
    let keys: Vec<String> = user.keys().filter(|key| labels::is_refused_by_kubelet(key)).cloned().collect();
    user.retain(|key, _| !labels::is_refused_by_kubelet(key));
    user.extend(input.node_labels().into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))));
    let keys: Vec<String> = keys.iter().map(|key| quote(key)).collect();
    Ok((!keys.is_empty()).then_some(Warning::IgnoredLabels { keys }))
}

/// Reports containers that Bottlerocket cannot start. Its own host containers need no source in the user's settings.
fn containers_without_source(settings: &Table) -> Vec<Warning> {
    let of_kind = |kind: &'static str| {
        let containers = settings.get(kind).and_then(Value::as_table).into_iter().flatten();
        containers
            .filter(move |(name, container)| {
                let is_own = kind == HOST_CONTAINERS && OWN_CONTAINERS.contains(&name.as_str());
                container.as_table().is_some_and(|container| !container.contains_key("source")) && !is_own
            })
            .map(move |(name, _)| Warning::NoSource { kind, name: quote(name) })
    };
    of_kind("bootstrap-containers").chain(of_kind(HOST_CONTAINERS)).collect()
}

/// Replaces the user's taints with those of the NodeClaim. With a taint that is unknown to the planner, nodes would be launched
/// repeatedly for pods that can never run on them.
fn set_taints(input: &Bootstrap, kubernetes: &mut Table) -> Result<Option<Warning>, RenderError> {
    let user = std::mem::take(table_at(kubernetes, "node-taints", "settings.kubernetes.node-taints")?);
    let mut own_taints: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let taints = input.node_taints();
    for taint in &taints {
        let Taint { key, effect, .. } = taint;
        own_taints.entry(key).or_default().push(format!("{}:{effect}", taint.value()));
    }
    let ignored: BTreeSet<String> = user
        .iter()
        .filter(|(key, value)| !has_all(value, own_taints.get(key.as_str())))
        .map(|(key, _)| quote(key))
        .collect();
    let own_taints: Table = own_taints.into_iter().map(|(key, values)| (key.to_owned(), Value::from(values))).collect();
    kubernetes.insert("node-taints".to_owned(), Value::Table(own_taints));
    Ok((!ignored.is_empty()).then(|| Warning::IgnoredTaints { keys: ignored.into_iter().collect() }))
}

/// Reports whether the NodeClaim has all `value:Effect` of the user's entry; a single string is a list of one.
fn has_all(user: &Value, own_taints: Option<&Vec<String>>) -> bool {
    let wanted: Vec<&Value> = user.as_array().map_or_else(|| vec![user], |values| values.iter().collect());
    let known =
        |value: &&Value| own_taints.is_some_and(|own_taints| own_taints.iter().any(|one| value.as_str() == Some(one)));
    wanted.iter().all(known)
}

/// Sets the fields of the class's kubelet block. Bottlerocket has no setting for `podsPerCore`, so the catalogue does not use
/// it either.
fn set_kubelet(input: &Bootstrap, kubernetes: &mut Table) {
    let kubelet = &input.kubelet;
    let percent = |number: Option<i32>| number.map(|number| Value::from(number.to_string()));
    let all = [
        ("system-reserved", kubelet.system_reserved.as_ref().map(|all| texts(all, |one| &one.0))),
        ("kube-reserved", kubelet.kube_reserved.as_ref().map(|all| texts(all, |one| &one.0))),
        ("eviction-hard", kubelet.eviction_hard.as_ref().map(|all| texts(all, |one| one))),
        ("eviction-soft", kubelet.eviction_soft.as_ref().map(|all| texts(all, |one| one))),
        ("eviction-soft-grace-period", kubelet.eviction_soft_grace_period.as_ref().map(|all| texts(all, |one| &one.0))),
        ("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period.map(Value::from)),
        ("image-gc-high-threshold-percent", percent(kubelet.image_gc_high_threshold_percent)),
        ("image-gc-low-threshold-percent", percent(kubelet.image_gc_low_threshold_percent)),
        ("cpu-cfs-quota-enforced", kubelet.cpu_cfs_quota.map(Value::from)),
    ];
    let given = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    kubernetes.extend(given);
}

fn texts<T>(all: &BTreeMap<String, T>, text: impl Fn(&T) -> &str) -> Value {
    Value::Table(all.iter().map(|(key, value)| (key.clone(), Value::from(text(value)))).collect())
}

/// Returns the command that makes one array of the instance store disks and binds the directories with pod data to it.
fn storage(release: Option<&str>) -> Table {
    let ephemeral_storage = |words: &[&str]| Value::from([&["apiclient", "ephemeral-storage"], words].concat());
    let bind = match release {
        Some(release) if binds_default_directories(release) => ephemeral_storage(&["bind"]),
        _ => ephemeral_storage(&[&["bind", "--dirs"][..], &DIRECTORIES].concat()),
    };
    let mut command = Table::new();
    command.insert("commands".to_owned(), Value::from(vec![ephemeral_storage(&["init"]), bind]));
    command.insert("essential".to_owned(), Value::from(true));
    command.insert("mode".to_owned(), Value::from("always"));
    command
}

fn binds_default_directories(release: &str) -> bool {
    if release == api::nodeclass::Alias::LATEST {
        return true;
    }
    let plain = release.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    let numbers: Option<Vec<u64>> = plain.split('.').map(|number| number.parse().ok()).collect();
    numbers.is_some_and(|numbers| numbers.as_slice() >= BINDS_DEFAULT_DIRECTORIES.as_slice())
}

/// Completes the host container that runs the agent. The user must set its image; other fields get a default unless the user
/// sets them.
fn set_agent(agent_settings: Option<&str>, settings: &mut Table) -> Result<Option<Warning>, RenderError> {
    let path = format!("settings.host-containers.{HOST_CONTAINER}");
    let containers = table_at(settings, "host-containers", "settings.host-containers")?;
    if !containers.contains_key(HOST_CONTAINER) {
        if containers.is_empty() {
            settings.remove("host-containers");
        }
        return if agent_settings.is_none() {
            Ok(Some(Warning::AgentFromImage))
        } else {
            Err(RenderError::NoAgentSource)
        };
    }
    let agent = table_at(containers, HOST_CONTAINER, &path)?;
    if !agent.contains_key("source") {
        return Err(RenderError::NoAgentSource);
    }
    for privilege in ["enabled", "superpowered"] {
        agent.entry(privilege).or_insert(Value::from(true));
    }
    if let Some(agent_settings) = agent_settings {
        agent.insert("user-data".to_owned(), Value::from(STANDARD.encode(agent_settings)));
    }
    Ok(None)
}
