//! Instance store disks under a real systemd: every unit sees the mounts of the disk unit, and its failures are reported.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use systemd_container::System;

use super::{BOOTSTRAP, DISKS, USER_DATA, layer};
use crate::api::until;
use crate::machine::Machine;

/// Stand-in for the image's own program, with memory as disks. The program mounts them, moves kubelet's folder there, and does
/// nothing when run again.
pub const PROGRAM: &str = r#"#!/bin/sh -e
mountpoint -q "$3" && exit
mkdir -p "$3" && mount -t tmpfs -o mode=755 disks "$3"
echo "$*" > "$3/arguments"
mkdir "$3/kubelet" && cp -a /var/lib/kubelet/. "$3/kubelet" && mount --bind "$3/kubelet" /var/lib/kubelet
"#;
const BROKEN: &str = "#!/bin/sh\necho looking for disks\necho 'mdadm: no array' >&2\nexit 3\n";
/// Path with a blank, as one argument.
const STORAGE: &str =
    "  instance: {localStorage: {strategy: RAID0, mountPath: /mnt/fast disks, disabledMounts: [Containerd, SOCI]}}\n";

pub fn install(system: &System, program: &str) {
    let path = "usr/bin/setup-local-disks";
    system.write(path, program);
    fs::set_permissions(system.at(path), fs::Permissions::from_mode(0o755)).unwrap();
}

fn configured() -> String {
    format!("{USER_DATA}{STORAGE}")
}

/// Returns the mounts that the main process of a unit sees.
fn mounts(system: &System, unit: &str) -> String {
    let output = system.run(&["cat", &format!("/proc/{}/mountinfo", system.property(unit, "MainPID"))]);
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_unit_mounts_are_visible_to_containerd_and_kubelet() {
    if !System::is_available() {
        return;
    }
    let machine = Machine::ready_to_join().await;
    machine.answer("user-data", 200, &configured());
    let system = System::boot(layer(machine.endpoint()));
    install(&system, PROGRAM);
    system.systemctl(&["start", "--no-block", BOOTSTRAP]);
    system.until(BOOTSTRAP, "ActiveState", |state| state == "active");
    for unit in ["containerd.service", "kubelet.service"] {
        let mounts = mounts(&system, unit);
        assert!(mounts.contains(r" /mnt/fast\040disks ") && mounts.contains(" /var/lib/kubelet "), "{unit}: {mounts}");
    }
    let arguments = fs::read_to_string(system.at("mnt/fast disks/arguments")).unwrap();
    assert_eq!(arguments, "raid0 --dir /mnt/fast disks --no-bind-containerd --no-bind-soci-snapshotter\n");
    let since = |unit, what| system.property(unit, what).parse::<u64>().unwrap();
    let prepared = since(DISKS, "ActiveEnterTimestampMonotonic");
    assert!(
        prepared > 0 && prepared <= since("containerd.service", "InactiveExitTimestampMonotonic"),
        "disks come first"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_unit_reports_and_retries_when_disks_fail() {
    if !System::is_available() {
        return;
    }
    let machine = Machine::ready_to_join().await;
    machine.answer("user-data", 200, &configured());
    let system = System::boot(layer(machine.endpoint()));
    system.systemctl(&["start", "--no-block", BOOTSTRAP]);
    let waits_because = |why: &str| {
        let cure = "repair it, or remove spec.instance.localStorage from the NodeConfig";
        let sentence = format!("waiting: instance store disks are not prepared: {why}; {cure}");
        system.until(BOOTSTRAP, "StatusText", |text| text == sentence);
        assert_eq!(system.property("kubelet.service", "ActiveState"), "inactive", "it would fill the root disk");
    };
    waits_because("the image has no program setup-local-disks");
    install(&system, BROKEN);
    waits_because("setup-local-disks exited with status 3 and `mdadm: no array` (see /run/kerf/local-disks.log)");
    install(&system, PROGRAM);
    system.until(BOOTSTRAP, "ActiveState", |state| state == "active");
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_unit_writes_kubeconfig_to_mounted_disks() {
    if !System::is_available() {
        return;
    }
    let machine = Machine::ready_to_join().await;
    machine.answer("user-data", 200, &configured());
    let image = layer(machine.endpoint());
    let held = "[Service]\nExecStartPre=/usr/bin/test -e /run/go-on\n";
    image.write("etc/systemd/system/containerd.service.d/held.conf", held);
    let system = System::boot(image);
    install(&system, PROGRAM);
    system.systemctl(&["start", "--no-block", BOOTSTRAP]);
    system.until(BOOTSTRAP, "StatusText", |text| text.contains("restart containerd.service"));
    machine.answer("user-data", 200, &configured().replace("https://example.com", "https://other.example.com"));
    let kubeconfig = system.at("mnt/fast disks/kubelet/kubeconfig");
    until("the other address, on the disks", || {
        let text = fs::read_to_string(&kubeconfig).unwrap();
        text.contains("https://other.example.com").then_some(())
    })
    .await;
    system.write("run/go-on", "");
    system.until(BOOTSTRAP, "ActiveState", |state| state == "active");
}
