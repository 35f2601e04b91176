//! EBS volumes of a NodeConfig: file systems, content and mount units, with programs that record their calls.

use std::fs;

use agent::bootstrap::plan::volumes::PlannedVolume;
use agent::bootstrap::prepare::volumes::{PLAN_FILE, mount, mount_planned};

use super::fixture::Fixture;
use super::program;
use crate::test_host::{TestHost, USER_DATA};

/// Calls of programs are recorded in one file, in order.
const RECORD: &str = "#!/bin/sh\nhere=${0%/*}\necho \"${0##*/} $*\" >> \"$here/calls\"\n";
const EBS: &str = "Amazon Elastic Block Store";
const CONTAINERD: &str = "/var/lib/containerd";

/// Installs the programs of a machine whose volume has this model and file system.
fn install(test_host: &TestHost, model: &str, file_system: &str) {
    let lsblk = format!("case $* in *MODEL*) printf '{model}\\n';; *) echo '{file_system}';; esac\n");
    for (name, action) in [
        ("lsblk", lsblk.as_str()),
        ("blkid", "echo 0b2c6f4e-8a7d-4c1e-9f00-1234567890ab\n"),
        ("systemctl", "[ \"$1\" = is-active ] && [ ! -e \"$here/mounted\" ] && exit 3\nexit 0\n"),
        ("mkfs.xfs", ""),
        ("mkfs.ext4", ""),
        ("mount", ""),
        ("umount", ""),
        ("cp", ""),
    ] {
        test_host.program(name, &format!("{RECORD}{action}"));
    }
    test_host.write("dev/xvdb", "");
}

/// Returns the calls since the last ones, without those that only read.
fn calls(test_host: &TestHost) -> Vec<String> {
    let path = test_host.search_path();
    let file = format!("{}/calls", path.split(':').next().unwrap());
    let calls = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(file);
    let changes = calls
        .lines()
        .filter(|call| !["lsblk", "blkid", "systemctl is-active"].iter().any(|read| call.starts_with(read)));
    changes.map(str::to_owned).collect()
}

fn volume(file_system: &str, mounted_on: Option<&str>, targets: &[&str]) -> PlannedVolume {
    PlannedVolume {
        device: "/dev/xvdb".to_owned(),
        file_system: file_system.to_owned(),
        mounted_on: mounted_on.map(str::to_owned),
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
    }
}

/// EKS's own cases with a volume for containerd, and beside instance store disks.
#[tokio::test]
async fn init_mounts_volumes_before_disks_and_daemons() {
    let storage = "{localStorage: {strategy: RAID0}, storage: {volumes: [{device: /dev/xvdb, mountTarget: /var/lib/containerd}]}}";
    let fixture = Fixture::new(format!("{USER_DATA}  instance: {storage}\n")).await;
    install(&fixture.test_host, EBS, "");
    fixture.test_host.program("setup-local-disks", RECORD);
    fixture.test_host.write("var/lib/containerd/images", "content of the image");
    let output = program::run(&fixture, "nodeadm", &["init", "--daemon="]).await;
    assert!(output.status.success(), "{}", program::output_text(&output));
    let expected = [
        "mkfs.xfs /dev/xvdb",
        "systemctl stop containerd.service",
        "mount /dev/xvdb /run/kerf/volume",
        "cp -a /var/lib/containerd/. /run/kerf/volume/",
        "umount /run/kerf/volume",
        "systemctl daemon-reload",
        "systemctl enable --now var-lib-containerd.mount",
        "setup-local-disks raid0 --dir /mnt/k8s-disks/",
    ];
    assert_eq!(calls(&fixture.test_host), expected);
    let unit = fixture.read("etc/systemd/system/var-lib-containerd.mount").unwrap();
    let expected = "[Unit]\nDescription=EBS volume /dev/xvdb on /var/lib/containerd\nBefore=containerd.service kubelet.service\n\n\
        [Mount]\nWhere=/var/lib/containerd\nWhat=/dev/disk/by-uuid/0b2c6f4e-8a7d-4c1e-9f00-1234567890ab\nType=xfs\n\
        Options=defaults,noatime\n\n[Install]\nWantedBy=multi-user.target\n";
    assert_eq!(unit, expected);
}

#[tokio::test]
async fn mount_keeps_file_system_and_content_of_a_volume() {
    let test_host = TestHost::new("v1.36.0");
    install(&test_host, EBS, "ext4");
    test_host.write("var/lib/containerd/images", "content of the image");
    // The content of a volume from a snapshot.
    test_host.write("run/kerf/volume/images", "content of the snapshot");
    mount(&test_host.host(), &[volume("xfs", None, &[CONTAINERD])]).await.unwrap();
    let calls = calls(&test_host);
    assert!(!calls.iter().any(|call| call.starts_with("mkfs") || call.starts_with("cp")), "{calls:?}");
    let unit = fs::read_to_string(test_host.root().join("etc/systemd/system/var-lib-containerd.mount")).unwrap();
    assert!(unit.contains("Type=ext4\n"), "{unit}");
}

#[tokio::test]
async fn mount_does_nothing_when_a_volume_is_mounted() {
    let test_host = TestHost::new("v1.36.0");
    install(&test_host, EBS, "xfs");
    let bin = test_host.search_path();
    fs::write(format!("{}/mounted", bin.split(':').next().unwrap()), "").unwrap();
    mount(&test_host.host(), &[volume("xfs", None, &[CONTAINERD])]).await.unwrap();
    assert_eq!(calls(&test_host), Vec::<String>::new());
}

#[tokio::test]
async fn mount_binds_several_folders_of_one_volume() {
    let test_host = TestHost::new("v1.36.0");
    install(&test_host, EBS, "");
    test_host.write("var/log/pods/a", "log");
    let volume = volume("ext4", Some("/mnt/kerf-volumes/xvdb"), &[CONTAINERD, "/var/log/pods"]);
    mount(&test_host.host(), &[volume]).await.unwrap();
    let expected = [
        "mkfs.ext4 /dev/xvdb",
        "systemctl stop containerd.service",
        "systemctl stop kubelet.service",
        "systemctl daemon-reload",
        r"systemctl enable --now mnt-kerf\x2dvolumes-xvdb.mount",
        "systemctl daemon-reload",
        "systemctl enable --now var-lib-containerd.mount",
        "cp -a /var/log/pods/. /mnt/kerf-volumes/xvdb/var/log/pods/",
        "systemctl daemon-reload",
        "systemctl enable --now var-log-pods.mount",
    ];
    assert_eq!(calls(&test_host), expected);
    let unit = fs::read_to_string(test_host.root().join("etc/systemd/system/var-log-pods.mount")).unwrap();
    assert!(unit.contains("What=/mnt/kerf-volumes/xvdb/var/log/pods\nType=none\nOptions=bind\n"), "{unit}");
}

#[tokio::test]
async fn mount_refuses_other_disks_before_any_change() {
    let planned = [volume("xfs", None, &[CONTAINERD])];
    for (model, file, expected) in [
        ("Amazon EC2 NVMe Instance Storage", "dev/xvdb", "is not an EBS volume but `Amazon EC2 NVMe Instance Storage`"),
        ("", "dev/xvdb", "is not an EBS volume but ``"),
        ("Amazon Elastic Block Store\\n", "dev/xvdb", "has partitions; use a volume without partitions"),
        (EBS, "dev/other", "does not exist; add it to blockDeviceMappings"),
    ] {
        let test_host = TestHost::new("v1.36.0");
        install(&test_host, model, "");
        fs::remove_file(test_host.root().join("dev/xvdb")).unwrap();
        test_host.write(file, "");
        let error = mount(&test_host.host(), &planned).await.unwrap_err().to_string();
        assert!(error.starts_with("/dev/xvdb ") && error.contains(expected), "{error}");
        assert_eq!(calls(&test_host), Vec::<String>::new(), "{model}");
    }
}

#[tokio::test]
async fn mount_planned_reads_what_bootstrap_wrote() {
    let test_host = TestHost::new("v1.36.0");
    install(&test_host, EBS, "");
    let error = mount_planned(&test_host.host()).await.unwrap_err().to_string();
    assert_eq!(error, "/run/kerf/volumes.json is missing; kerf-agent bootstrap writes it");
    let plan = serde_json::to_string(&[volume("xfs", None, &["/data"])]).unwrap();
    test_host.write(PLAN_FILE.trim_start_matches('/'), &plan);
    mount_planned(&test_host.host()).await.unwrap();
    assert_eq!(
        calls(&test_host),
        ["mkfs.xfs /dev/xvdb", "systemctl daemon-reload", "systemctl enable --now data.mount"]
    );
}
