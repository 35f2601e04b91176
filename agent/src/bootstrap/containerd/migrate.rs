//! From schema 2 of containerd's configuration to schema 3, for users who wrote for containerd 1: containerd 2 has the
//! CRI plugin in two halves, images and runtime, and leaves only its streaming server where all of it was.

use toml::{Table, Value};

use super::template::{CRI, IMAGES, RUNTIME};

/// Keys of the CRI plugin that went to its image half under the same name.
const TO_IMAGES: [&str; 6] = [
    "registry",
    "image_decryption",
    "max_concurrent_downloads",
    "image_pull_progress_timeout",
    "image_pull_with_sync_fs",
    "stats_collect_period",
];

/// Keys of its table `containerd` that went there too.
const SNAPSHOTS_TO_IMAGES: [&str; 3] = ["snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers"];

/// Keys of the streaming server, which stay.
const STREAMING: [&str; 6] = [
    "disable_tcp_service",
    "stream_server_address",
    "stream_server_port",
    "stream_idle_timeout",
    "enable_tls_streaming",
    "x509_key_pair_streaming",
];

/// Plugins that were taken into others or renamed, under their old and new names.
const RENAMED: [(&str, &str); 4] = [
    ("io.containerd.monitor.v1.cgroups", "io.containerd.monitor.task.v1.cgroups"),
    ("io.containerd.internal.v1.restart", "io.containerd.monitor.container.v1.restart"),
    ("io.containerd.snapshotter.v1.aufs", ""),
    ("io.containerd.runtime.v1.linux", ""),
];

/// The same configuration in schema 3. What schema 3 has no place for goes; what we do not know stays as it is.
pub(super) fn to_version_3(mut config: Table) -> Table {
    config.insert("version".to_owned(), Value::Integer(3));
    if let Some(plugins) = config.get_mut("plugins").and_then(Value::as_table_mut) {
        split_cri(plugins);
        rename(plugins);
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

/// The table `containerd` of schema 2: how images are kept goes to the image half, how containers run to the other.
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

/// Plugins under the names that containerd 2 knows; those that it has no more go.
fn rename(plugins: &mut Table) {
    for (old, new) in RENAMED {
        let moved = plugins.remove(old).filter(|_| !new.is_empty());
        if let Some(settings) = moved {
            plugins.entry(new).or_insert(settings);
        }
    }
}

fn taken(table: &mut Table, keys: &[&str]) -> Table {
    keys.iter().filter_map(|key| table.remove_entry(*key)).collect()
}
