//! The machine image. The test runs Packer's scripts on a machine from EKS's image, under a real systemd, and boots the result.
//! Each fault of an image ends the build with an error message.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::path::Path;

use crate::api::Api;
use crate::machine::{INSTANCE, Machine, NAME, node};
use systemd_container::{Layer, System};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const STAGING: &str = "opt/staging";
const RUN: &str = "kerf-agent.service";
const BOOTSTRAP: &str = "kerf-agent-bootstrap.service";
/// Fake nodeadm of EKS: it writes a kubeconfig and the flags of kubelet, once the machine has a cluster to join.
const NODEADM: &str = "#!/bin/sh -e\nif [ -d /opt/joins ]; then cp -r /opt/joins/. /; fi\n";
/// Parts of an image that Kerf changes or uses.
const IMAGE: &[&str] = &[
    "usr/bin/kerf-agent",
    "usr/bin/kubelet",
    "usr/bin/containerd",
    "usr/bin/nodeadm",
    "usr/bin/setup-local-disks",
    "usr/lib/systemd/system/kerf-agent.service",
    "usr/lib/systemd/system/kerf-agent-bootstrap.service",
    "usr/lib/systemd/system/kerf-local-disks.service",
    "usr/lib/systemd/system/kerf-volumes.service",
    "usr/lib/systemd/system/kubelet.service.d",
    "usr/lib/systemd/system-preset/80-kerf.preset",
    "usr/lib/systemd/journald.conf.d",
    "usr/lib/systemd/logind.conf.d",
    "usr/lib/tmpfiles.d/kerf.conf",
    "etc/kerf",
    "etc/systemd/system",
];

/// Boots a machine from EKS's image with the files that Packer uploads.
fn machine_of_eks() -> System {
    let layer = Layer::of_eks();
    layer.script("usr/bin/nodeadm", NODEADM);
    layer.program(&format!("{STAGING}/kerf-agent"), Path::new(env!("CARGO_BIN_EXE_kerf-agent")));
    for folder in ["systemd", "packer/al2023/files"] {
        for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            layer.write(&format!("{STAGING}/{name}"), &fs::read_to_string(&path).unwrap());
        }
    }
    for script in ["provision", "verify"] {
        layer.script(&format!("opt/{script}"), &fs::read_to_string(format!("{ROOT}/packer/al2023/{script}")).unwrap());
    }
    let system = System::boot(layer);
    system.systemctl(&["enable", "nodeadm-config", "nodeadm-run"]);
    system
}

/// Runs a script; returns whether it succeeded, and its whole output.
fn script(system: &System, command: &[&str]) -> (bool, String) {
    let output = system.run(command);
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn provisioned(mode: &str) -> System {
    let system = machine_of_eks();
    let (well, output) = script(&system, &["/opt/provision", &format!("/{STAGING}"), mode]);
    assert!(well && output.ends_with(&format!("provision: kerf-agent is installed, mode {mode}\n")), "{output}");
    let (well, output) = script(&system, &["/opt/verify", mode]);
    assert!(well, "{output}");
    system
}

#[tokio::test(flavor = "multi_thread")]
async fn image_in_observe_mode_boots_to_a_node_with_open_gates() {
    if !System::is_available() {
        return;
    }
    let image = provisioned("observe").image(IMAGE);
    let (api, machine) = (Api::start().await, Machine::ready_to_join().await);
    machine.join(&api);
    api.put_node(node(INSTANCE));
    for path in ["var/lib/kubelet/kubeconfig", "etc/eks/kubelet/environment"] {
        image.write(&format!("opt/joins/{path}"), &fs::read_to_string(machine.root.path().join(path)).unwrap());
    }
    image.write("etc/cni/net.d/10-aws.conflist", r#"{"plugins": [{"type": "aws-cni"}]}"#);
    image.script("opt/cni/bin/aws-cni", "");

    let system = System::boot(image.with_metadata(machine.endpoint()));
    system.until(BOOTSTRAP, "ActiveState", |state| state == "active");
    system.until(RUN, "StatusText", |text| text.starts_with("all gates are open"));
    assert_eq!(system.property("nodeadm-run.service", "UnitFileState"), "enabled");
    let wants = system.property("kubelet.service", "Wants");
    assert!(wants.contains(RUN), "{wants}");
    let manager = ["org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"];
    let patience = system.run(&[&["busctl", "get-property"], &manager[..], &["InhibitDelayMaxUSec"]].concat());
    assert_eq!(String::from_utf8_lossy(&patience.stdout).trim(), "t 120000000", "a shutdown waits for a drain");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_in_bootstrap_mode_boots_to_a_running_kubelet() {
    if !System::is_available() {
        return;
    }
    let image = provisioned("bootstrap").image(IMAGE);
    let machine = Machine::ready_to_join().await;
    let system = System::boot(image.with_metadata(machine.endpoint()));
    system.until(BOOTSTRAP, "ActiveState", |state| state == "active");
    assert_eq!(system.property(BOOTSTRAP, "StatusText"), format!("started kubelet as {NAME}"));
    assert_eq!(system.property("kubelet.service", "ActiveState"), "active");
    assert_eq!(system.property("nodeadm-run.service", "UnitFileState"), "disabled");
    system.until(RUN, "ActiveState", |state| state == "active");
}

#[test]
fn verify_rejects_an_image_with_a_fault() {
    if !System::is_available() {
        return;
    }
    let system = machine_of_eks();
    let (well, output) = script(&system, &["/opt/provision", &format!("/{STAGING}"), "both"]);
    assert!(!well && output.contains("`both` is neither observe nor bootstrap"), "{output}");
    let (well, output) = script(&system, &["/opt/provision", &format!("/{STAGING}"), "bootstrap"]);
    assert!(well, "{output}");

    let unit = "/usr/lib/systemd/system/kerf-agent.service";
    let rows: [(&str, &str, &str); 9] = [
        ("chmod 775 /usr/bin/kerf-agent", "chmod 755 /usr/bin/kerf-agent", "is 775:root:root, not 755:root:root"),
        ("mv /etc/kerf/agent.yaml /opt", "mv /opt/agent.yaml /etc/kerf", "agent.yaml is missing"),
        (
            &format!("cp {unit} /opt; sed -i /Protect/d {unit}"),
            &format!("cp /opt/kerf-agent.service {unit}"),
            "exceeds the exposure level",
        ),
        (
            &format!("sed -i s/^Type=.*/Type=tripel/ {unit}"),
            &format!("cp /opt/kerf-agent.service {unit}"),
            "reports errors in a unit",
        ),
        ("systemctl disable kerf-agent", "systemctl enable kerf-agent", "kerf-agent.service is not enabled"),
        ("systemctl enable nodeadm-run", "systemctl disable nodeadm-run", "nodeadm is enabled too"),
        ("rm /usr/bin/kubelet", "cp /usr/bin/containerd /usr/bin/kubelet", "kubelet is missing"),
        ("echo 'mode: [' > /etc/kerf/agent.yaml", "echo 'mode: bootstrap' > /etc/kerf/agent.yaml", "error settings"),
        ("install -D /dev/null /var/lib/kerf/journal.json", "rm -r /var/lib/kerf", "it belongs to another node"),
    ];
    for (fault, cure, expected) in rows {
        let shell = |line: &str| assert!(script(&system, &["sh", "-c", line]).0, "{line}");
        shell(fault);
        let (well, output) = script(&system, &["/opt/verify", "bootstrap"]);
        assert!(!well && output.contains(expected), "{fault}: {output}");
        shell(cure);
    }
    let (well, output) = script(&system, &["/opt/verify", "bootstrap"]);
    assert!(well, "{output}");
    let (well, output) = script(&system, &["/opt/verify", "observe"]);
    assert!(!well && output.contains("does not set mode observe"), "{output}");
}
