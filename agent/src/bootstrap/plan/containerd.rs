//! Files of containerd: its configuration for the installed major version, merged with the user's; the base OCI specification
//! of all containers; and the SOCI snapshotter where fast image pulls are enabled.

mod base_spec;
mod migrate;
mod soci;
mod template;

use machine::nodeconfig::{FAST_IMAGE_PULL, NodeConfig, NodeConfigError, merge_toml};
use machine::quote::quote;
use machine::tables;
use toml::{Table, Value};

use super::{BootstrapPlan, PlanPart};
use crate::bootstrap::facts::Facts;
use template::Schema;

pub use soci::{SOCI_CONFIG, SOCI_DROP_IN, SOCI_ENDPOINT};
pub(crate) use template::SANDBOX_IMAGE;

/// Socket on which containerd serves kubelet.
pub const ENDPOINT: &str = "unix:///run/containerd/containerd.sock";
/// Configuration of containerd.
pub const CONFIG: &str = "/etc/containerd/config.toml";
/// Base OCI specification of all containers.
pub const BASE_RUNTIME_SPEC: &str = "/etc/containerd/base-runtime-spec.json";

const FIELD: &str = "spec.containerd.config";

/// Paths of registry hosts in the configuration itself; `*` matches any host.
const REGISTRY_HOSTS: [&[&str]; 2] = [&["mirrors"], &["configs", "*", "tls"]];

/// Least number of CPUs for the SOCI snapshotter, which unpacks layers in parallel.
const SOCI_CPUS: u32 = 4;
/// Least memory for the SOCI snapshotter, in bytes: 7 GiB, which the kernel reports for a machine with 8 GiB.
const SOCI_MEMORY_BYTES: u64 = 7 << 30;

pub(super) fn add(plan: &mut BootstrapPlan, facts: &Facts) -> Result<(), NodeConfigError> {
    let spec = &facts.user_data.config.spec.containerd;
    let Some(version) = facts.software.containerd else {
        plan.warn(
            "unknown version of containerd, its files are not changed; install it, or write its version to \
             /etc/eks/containerd-version.txt",
        );
        return Ok(());
    };
    let user = user_config(&spec.config)?;
    let schema = Schema::for_version(version.major);
    let mut config = match (schema, is_version_3(&user)) {
        (Schema::V2, true) => return Err(not_for_version_1(&user)),
        (Schema::V3, false) if !user.is_empty() => {
            migrate::to_version_3(laid_over(plan, template::render(facts, Schema::V2), user))
        }
        _ => laid_over(plan, template::render(facts, schema), user),
    };
    config.insert("version".to_owned(), Value::Integer(schema.version()));
    migrate::to_minor(&mut config, version);
    plan.put(PlanPart::Containerd, CONFIG, tables::pretty(&config));
    plan.put(PlanPart::Containerd, BASE_RUNTIME_SPEC, base_spec::render(&spec.base_runtime_spec));
    soci::add(plan, facts);
    Ok(())
}

/// Reports whether the SOCI snapshotter pulls images: its feature gate is on, and the machine is large enough.
pub(super) fn uses_soci(facts: &Facts) -> bool {
    let is_large = facts.hardware.cpus >= SOCI_CPUS && facts.hardware.memory_bytes >= SOCI_MEMORY_BYTES;
    asks_for_soci(&facts.user_data.config) && is_large && facts.software.containerd.is_some()
}

fn asks_for_soci(config: &NodeConfig) -> bool {
    config.gate(FAST_IMAGE_PULL)
}

fn user_config(text: &str) -> Result<Table, NodeConfigError> {
    tables::parse(text).map_err(|_| NodeConfigError::Invalid {
        field: FIELD,
        value: quote(text),
        cure: "write TOML, as in containerd's config.toml",
    })
}

/// Reports whether the user wrote for containerd 2: by the plugins that the text names or by its version.
fn is_version_3(user: &Table) -> bool {
    let plugins = user.get("plugins").and_then(Value::as_table);
    let names_new = plugins.is_some_and(|plugins| plugins.keys().any(|name| name.starts_with("io.containerd.cri.v1.")));
    names_new || user.get("version").and_then(Value::as_integer) == Some(3)
}

fn not_for_version_1(user: &Table) -> NodeConfigError {
    let plugins = user.get("plugins").and_then(Value::as_table);
    let named = plugins.and_then(|plugins| plugins.keys().find(|name| name.starts_with("io.containerd.cri.v1.")));
    NodeConfigError::Invalid {
        field: FIELD,
        value: quote(named.map_or("version = 3", String::as_str)),
        cure: "this machine has containerd 1, which reads version 2: write plugins.\"io.containerd.grpc.v1.cri\"",
    }
}

/// Merges the user's configuration over the template. containerd refuses a folder of registry hosts beside hosts in the
/// configuration itself, so the template's folder is removed where the user sets hosts.
fn laid_over(plan: &mut BootstrapPlan, mut template: Table, user: Table) -> Table {
    for plugin in [template::CRI, template::IMAGES] {
        let path = ["plugins", plugin, "registry"];
        let given = lookup(&user, &path).and_then(|registry| REGISTRY_HOSTS.iter().find(|hosts| has(registry, hosts)));
        if let Some(given) = given
            && let Some(registry) = lookup_mut(&mut template, &path)
            && registry.remove("config_path").is_some()
        {
            let (given, table) = (given.join("."), path.join("."));
            plan.warn(format!("{FIELD} sets {given} of {table}; config_path is not written"));
        }
    }
    merge_toml(&mut template, user);
    template
}

/// Reports whether a table has a value at `path`; `*` in `path` matches every key.
fn has(table: &Table, path: &[&str]) -> bool {
    let Some((key, rest)) = path.split_first() else { return true };
    let goes_on = |value: &Value| rest.is_empty() || value.as_table().is_some_and(|table| has(table, rest));
    table.iter().any(|(name, value)| (*key == "*" || name == key) && goes_on(value))
}

fn lookup<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Table> {
    path.iter().try_fold(table, |table, key| table.get(*key)?.as_table())
}

fn lookup_mut<'a>(table: &'a mut Table, path: &[&str]) -> Option<&'a mut Table> {
    path.iter().try_fold(table, |table, key| table.get_mut(*key)?.as_table_mut())
}
