//! containerd's configuration for an EKS node, in both schemas.

use toml::{Table, toml};

use super::{BASE_RUNTIME_SPEC, soci, uses_soci};
use crate::bootstrap::facts::{Facts, NVIDIA_RUNTIME};

/// Name of the CRI plugin of containerd 1.
pub(super) const CRI: &str = "io.containerd.grpc.v1.cri";
/// Name of the image half of the CRI plugin of containerd 2.
pub(super) const IMAGES: &str = "io.containerd.cri.v1.images";
/// Name of the runtime half of the CRI plugin of containerd 2.
pub(super) const RUNTIME: &str = "io.containerd.cri.v1.runtime";

/// The sandbox image. The machine image contains it, so it is never pulled.
pub(crate) const SANDBOX_IMAGE: &str = "localhost/kubernetes/pause";
const REGISTRY_FOLDERS: &str = "/etc/containerd/certs.d:/etc/docker/certs.d";
/// First minor release of Kubernetes whose containers receive devices by CDI.
const CDI_SINCE: u32 = 32;

/// Schema of containerd's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Schema {
    /// Schema of containerd 1.
    V2,
    /// Schema of containerd 2.
    V3,
}

impl Schema {
    /// Returns the schema that a major version of containerd reads.
    pub(super) fn for_version(major: u32) -> Self {
        if major >= 2 { Self::V3 } else { Self::V2 }
    }

    /// Returns the version number in the file.
    pub(super) fn version(self) -> i64 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

/// Returns the configuration without the user's settings.
pub(super) fn render(facts: &Facts, schema: Schema) -> Table {
    let mut config = toml! {
        root = "/var/lib/containerd"
        state = "/run/containerd"
        [grpc]
        address = "/run/containerd/containerd.sock"
    };
    let (name, runtime) = runtime(facts);
    let mut runtimes = Table::new();
    runtimes.insert(name.to_owned(), runtime.into());
    let mut containerd = Table::new();
    containerd.insert("default_runtime_name".to_owned(), name.into());
    containerd.insert("runtimes".to_owned(), runtimes.into());
    let plugins = match schema {
        Schema::V2 => one_plugin(facts, containerd),
        Schema::V3 => two_plugins(facts, containerd),
    };
    config.insert("version".to_owned(), schema.version().into());
    config.insert("plugins".to_owned(), plugins.into());
    if uses_soci(facts) {
        config.insert("proxy_plugins".to_owned(), soci::proxy_plugins().into());
    }
    config
}

/// Returns name and settings of the runtime of all containers.
fn runtime(facts: &Facts) -> (&'static str, Table) {
    let (name, program) =
        if facts.software.nvidia_runtime { ("nvidia", NVIDIA_RUNTIME) } else { ("runc", "/usr/sbin/runc") };
    let mut runtime = toml! {
        runtime_type = "io.containerd.runc.v2"
        [options]
        SystemdCgroup = true
    };
    runtime.insert("base_runtime_spec".to_owned(), BASE_RUNTIME_SPEC.into());
    if let Some(options) = runtime.get_mut("options").and_then(toml::Value::as_table_mut) {
        options.insert("BinaryName".to_owned(), program.into());
    }
    (name, runtime)
}

fn cni() -> Table {
    toml! {
        bin_dir = "/opt/cni/bin"
        conf_dir = "/etc/cni/net.d"
    }
}

fn registry() -> Table {
    Table::from_iter([("config_path".to_owned(), REGISTRY_FOLDERS.into())])
}

/// Returns the settings of the snapshotter: for the image half in schema 3, for the table `containerd` in schema 2.
fn snapshots(facts: &Facts) -> Table {
    if uses_soci(facts) {
        soci::snapshots()
    } else {
        toml! { discard_unpacked_layers = true }
    }
}

fn one_plugin(facts: &Facts, mut containerd: Table) -> Table {
    containerd.extend(snapshots(facts));
    let mut cri = Table::new();
    cri.insert("sandbox_image".to_owned(), SANDBOX_IMAGE.into());
    cri.insert("enable_cdi".to_owned(), enables_cdi(facts).into());
    cri.insert("registry".to_owned(), registry().into());
    cri.insert("cni".to_owned(), cni().into());
    cri.insert("containerd".to_owned(), containerd.into());
    if !enables_cdi(facts) {
        cri.remove("enable_cdi");
    }
    Table::from_iter([(CRI.to_owned(), cri.into())])
}

fn two_plugins(facts: &Facts, containerd: Table) -> Table {
    let mut images = snapshots(facts);
    images.insert("pinned_images".to_owned(), Table::from_iter([("sandbox".to_owned(), SANDBOX_IMAGE.into())]).into());
    images.insert("registry".to_owned(), registry().into());
    let mut runtime = Table::new();
    runtime.insert("enable_cdi".to_owned(), enables_cdi(facts).into());
    runtime.insert("cni".to_owned(), cni().into());
    runtime.insert("containerd".to_owned(), containerd.into());
    Table::from_iter([(IMAGES.to_owned(), images.into()), (RUNTIME.to_owned(), runtime.into())])
}

fn enables_cdi(facts: &Facts) -> bool {
    facts.software.kubelet.at_least(CDI_SINCE)
}
