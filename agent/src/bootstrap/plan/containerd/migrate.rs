//! Migration of containerd's configuration from schema 2 to schema 3, for users who wrote for containerd 1. containerd 2 splits
//! the CRI plugin into an image half and a runtime half, and keeps only its streaming server in the old plugin. The module also
//! applies the changes of minor versions of containerd 2.

use toml::{Table, Value};

use super::lookup_mut;
use super::template::{CRI, IMAGES, RUNTIME};
use crate::host::ContainerdVersion;

/// Keys of the CRI plugin that moved to its image half under the same name.
const TO_IMAGES: [&str; 6] = [
    "registry",
    "image_decryption",
    "max_concurrent_downloads",
    "image_pull_progress_timeout",
    "image_pull_with_sync_fs",
    "stats_collect_period",
];

/// Keys of the CRI plugin's table `containerd` that moved to the image half too.
const SNAPSHOTS_TO_IMAGES: [&str; 3] = ["snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers"];

/// Keys of the streaming server, which remain in the old plugin.
const STREAMING: [&str; 6] = [
    "disable_tcp_service",
    "stream_server_address",
    "stream_server_port",
    "stream_idle_timeout",
    "enable_tls_streaming",
    "x509_key_pair_streaming",
];

/// Plugins that were merged into others or renamed: old and new names. An empty new name means that the plugin was removed.
const RENAMED: [(&str, &str); 4] = [
    ("io.containerd.monitor.v1.cgroups", "io.containerd.monitor.task.v1.cgroups"),
    ("io.containerd.internal.v1.restart", "io.containerd.monitor.container.v1.restart"),
    ("io.containerd.snapshotter.v1.aufs", ""),
    ("io.containerd.runtime.v1.linux", ""),
];

/// First minor version of containerd 2 that reads CNI programs from several folders. From 2.4 on, a single folder is no longer
/// read.
const FOLDERS_SINCE: u32 = 1;
/// First minor version of containerd 2 in which CDI devices are always enabled.
const CDI_ALWAYS_SINCE: u32 = 4;

/// Adapts a configuration in schema 3 to the minor version of containerd that reads it.
pub(super) fn to_minor(config: &mut Table, version: ContainerdVersion) {
    let since = |minor| version >= ContainerdVersion { major: 2, minor };
    let Some(runtime) = lookup_mut(config, &["plugins", RUNTIME]) else { return };
    if since(CDI_ALWAYS_SINCE) && runtime.get("enable_cdi") == Some(&Value::Boolean(true)) {
        runtime.remove("enable_cdi");
    }
    let Some(cni) = lookup_mut(runtime, &["cni"]) else { return };
    if since(FOLDERS_SINCE)
        && let Some(folder) = cni.remove("bin_dir")
    {
        cni.entry("bin_dirs").or_insert_with(|| Value::Array(vec![folder]));
    }
}

/// Returns the same configuration in schema 3. Settings without an equivalent in schema 3 are dropped; unknown settings are
/// kept.
pub(super) fn to_version_3(mut config: Table) -> Table {
    config.insert("version".to_owned(), Value::Integer(3));
    if let Some(plugins) = config.get_mut("plugins").and_then(Value::as_table_mut) {
        split_cri(plugins);
        rename(plugins);
        move_core_scheduling(plugins);
    }
    config
}

fn split_cri(plugins: &mut Table) {
    let Some(Value::Table(mut cri)) = plugins.remove(CRI) else { return };
    let containerd = match cri.remove("containerd") {
        Some(Value::Table(containerd)) => containerd,
        _ => Table::new(),
    };
    let sandbox = cri.remove("sandbox_image");
    let mut images = taken(&mut cri, &TO_IMAGES);
    if let Some(sandbox) = sandbox {
        images.insert("pinned_images".to_owned(), Table::from_iter([("sandbox".to_owned(), sandbox)]).into());
    }
    let streaming = taken(&mut cri, &STREAMING);
    let mut runtime = cri;
    split_containerd(containerd, &mut images, &mut runtime);
    for (name, table) in [(CRI, streaming), (IMAGES, images), (RUNTIME, runtime)] {
        if !table.is_empty() {
            plugins.insert(name.to_owned(), table.into());
        }
    }
}

/// Splits the table `containerd` of schema 2: image storage moves to the image half, container execution to the runtime half.
fn split_containerd(mut containerd: Table, images: &mut Table, runtime: &mut Table) {
    images.extend(taken(&mut containerd, &SNAPSHOTS_TO_IMAGES));
    let mut platforms = Table::new();
    let runtimes = containerd.get_mut("runtimes").and_then(Value::as_table_mut);
    for (name, settings) in runtimes.into_iter().flatten() {
        let Some(settings) = settings.as_table_mut() else { continue };
        if let Some(mode) = settings.remove("sandbox_mode") {
            settings.entry("sandboxer").or_insert(mode);
        }
        if let Some(snapshotter) = settings.get("snapshotter").filter(|name| name.as_str() != Some("")) {
            let platform = Table::from_iter([("snapshotter".to_owned(), snapshotter.clone())]);
            platforms.insert(name.clone(), platform.into());
        }
    }
    if !platforms.is_empty() {
        images.insert("runtime_platforms".to_owned(), platforms.into());
    }
    if !containerd.is_empty() {
        runtime.insert("containerd".to_owned(), containerd.into());
    }
}

/// Renames plugins to their names in containerd 2, and drops plugins that containerd 2 does not have.
fn rename(plugins: &mut Table) {
    for (old, new) in RENAMED {
        let moved = plugins.remove(old).filter(|_| !new.is_empty());
        if let Some(settings) = moved {
            plugins.entry(new).or_insert(settings);
        }
    }
}

/// Moves core scheduling to the shim manager, which expects it as an environment variable.
fn move_core_scheduling(plugins: &mut Table) {
    let task = lookup_mut(plugins, &["io.containerd.runtime.v2.task"]);
    if task.and_then(|task| task.remove("sched_core")) == Some(Value::Boolean(true)) {
        let environment = Value::Array(vec!["SCHED_CORE=1".into()]);
        let manager = plugins.entry("io.containerd.shim.v1.manager").or_insert_with(|| Table::new().into());
        manager.as_table_mut().map(|manager| manager.insert("env".to_owned(), environment));
    }
}

fn taken(table: &mut Table, keys: &[&str]) -> Table {
    let mut taken = Table::new();
    taken.extend(keys.iter().filter_map(|key| table.remove_entry(*key)));
    taken
}
