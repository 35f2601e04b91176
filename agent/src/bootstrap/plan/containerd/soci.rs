//! The SOCI snapshotter, which fetches and unpacks the layers of an image in parallel. The module has its own configuration and
//! its entries in containerd's. The sandbox image is imported, because the snapshotter's store lacks it when the machine boots.

use machine::tables;
use toml::{Table, toml};

use super::{asks_for_soci, uses_soci};
use crate::bootstrap::facts::{Facts, SANDBOX_ARCHIVE};
use crate::bootstrap::plan::{BootstrapPlan, PlanPart, Program};

/// Configuration of the snapshotter.
pub const SOCI_CONFIG: &str = "/etc/soci-snapshotter-grpc/config.toml";
/// Drop-in that delays containerd's start until the snapshotter is up.
pub const SOCI_DROP_IN: &str = "/etc/systemd/system/containerd.service.d/10-soci-snapshotter.conf";
/// Image service of the snapshotter. kubelet pulls images through it, so that the snapshotter has the credentials.
pub const SOCI_ENDPOINT: &str = "unix:///run/soci-snapshotter-grpc/soci-snapshotter-grpc.sock";

const UNIT: &str = "soci-snapshotter.service";

pub(super) fn add(plan: &mut BootstrapPlan, facts: &Facts) {
    let used = uses_soci(facts);
    if !used && asks_for_soci(&facts.user_data.config) {
        plan.warn("spec.featureGates.FastImagePull has no effect: it requires 4 CPUs and 7 GiB of memory");
    }
    if used {
        plan.put(PlanPart::Containerd, SOCI_CONFIG, tables::pretty(&config()));
        plan.programs.extend(facts.software.sandbox_archive.then(import_sandbox));
    }
    let drop_in = format!("[Unit]\nRequires={UNIT}\nAfter={UNIT}\n");
    plan.put_or_remove(PlanPart::Containerd, SOCI_DROP_IN, used.then_some(drop_in));
}

/// Returns the import of the sandbox image. The layers that the image build unpacked belong to another snapshotter.
fn import_sandbox() -> Program {
    let arguments =
        ["-n", "k8s.io", "images", "import", "--snapshotter", "soci", "--discard-unpacked-layers=false", "--local"];
    let arguments = arguments.into_iter().chain([SANDBOX_ARCHIVE]).map(str::to_owned).collect();
    Program { after: "containerd.service".to_owned(), program: "ctr".to_owned(), arguments }
}

/// Returns the snapshotter's entry in containerd's configuration.
pub(super) fn proxy_plugins() -> Table {
    toml! {
        [soci]
        type = "snapshot"
        address = "/run/soci-snapshotter-grpc/soci-snapshotter-grpc.sock"
        [soci.exports]
        root = "/var/lib/soci-snapshotter-grpc"
    }
}

/// Returns the image settings of the snapshotter: it needs annotations that describe the image, and discards layers itself.
pub(super) fn snapshots() -> Table {
    toml! {
        snapshotter = "soci"
        disable_snapshot_annotations = false
        discard_unpacked_layers = false
    }
}

fn config() -> Table {
    toml! {
        debug = false
        [content_store]
        type = "containerd"
        [cri_keychain]
        enable_keychain = true
        image_service_path = "/run/containerd/containerd.sock"
        [pull_modes.parallel_pull_unpack]
        enable = true
        concurrent_download_chunk_size = "16mb"
        discard_unpacked_layers = true
        max_concurrent_downloads = -1
        max_concurrent_downloads_per_image = 20
        max_concurrent_unpacks = -1
        max_concurrent_unpacks_per_image = 12
        [pull_modes.parallel_pull_unpack.decompress_streams.gzip]
        path = "/usr/bin/unpigz"
        args = ["-d", "-c"]
    }
}
