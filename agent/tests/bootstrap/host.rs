//! `Host`: atomic replacement of files, CPUs and memory as the kernel lists them, programs that fail.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use agent::host::Host;

fn machine() -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::new(folder.path(), "/usr/bin:/bin");
    (folder, host)
}

#[test]
fn write_replaces_file_only_when_content_or_mode_changes() {
    let (folder, host) = machine();
    assert_eq!(host.read("/a/b/c").unwrap(), None);
    assert!(host.write("/a/b/c", b"one", 0o600).unwrap());
    assert!(!host.write("/a/b/c", b"one", 0o600).unwrap(), "nothing to change");
    assert!(host.write("/a/b/c", b"one", 0o644).unwrap(), "the mode changes");
    let mode = fs::metadata(host.at("/a/b/c")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    assert!(host.write("/a/b/c", b"two", 0o644).unwrap());
    assert_eq!(host.read_text("/a/b/c").unwrap().as_deref(), Some("two"));
    assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1, "no draft is left behind");
    assert!(host.remove("/a/b/c").unwrap() && !host.remove("/a/b/c").unwrap());
}

#[test]
fn file_operations_name_the_path_when_it_is_a_folder() {
    let (_folder, host) = machine();
    host.write("/a/b", b"", 0o644).unwrap();
    for error in
        [host.read("/a").unwrap_err(), host.write("/a", b"x", 0o644).unwrap_err(), host.remove("/a").unwrap_err()]
    {
        assert!(error.to_string().contains("/a; check that it is a file"), "{error}");
    }
}

#[test]
fn cpus_counts_only_online_cpus() {
    for (what, folders, online, expected) in [
        (
            "NUMA nodes, all online",
            vec!["node/node0/cpu0", "node/node0/cpu1", "node/node1/cpu2", "node/node1/cpu3"],
            "0-3",
            4,
        ),
        ("NUMA nodes, some offline", vec!["node/node0/cpu0", "node/node0/cpu1", "node/node1/cpu2"], "0,2\n", 2),
        ("no NUMA", vec!["cpu/cpu0", "cpu/cpu1", "cpu/cpu2", "cpu/cpufreq", "cpu/cpuidle"], "0-2", 3),
        ("no list of those online", vec!["cpu/cpu0", "cpu/cpu1"], "", 2),
    ] {
        let (folder, host) = machine();
        for cpu in folders {
            fs::create_dir_all(folder.path().join("sys/devices/system").join(cpu)).unwrap();
        }
        host.write("/sys/devices/system/cpu/online", online.as_bytes(), 0o644).unwrap();
        assert_eq!(host.cpus(), expected, "{what}");
    }
    let (_folder, host) = machine();
    assert!(host.cpus() > 0, "a machine that lists none still has one");
}

#[test]
fn memory_bytes_counts_only_online_blocks() {
    let (_folder, host) = machine();
    assert_eq!(host.memory_bytes(), 0, "a machine that says nothing");
    host.write("/proc/meminfo", b"MemFree: 1 kB\nMemTotal:        8000000 kB\n", 0o644).unwrap();
    assert_eq!(host.memory_bytes(), 8_000_000 * 1024, "without blocks");
    host.write("/sys/devices/system/memory/block_size_bytes", b"8000000\n", 0o644).unwrap();
    for (block, online) in [("memory0", "1\n"), ("memory1", "0\n"), ("memory22", "1\n"), ("memoryless", "1\n")] {
        host.write(&format!("/sys/devices/system/memory/{block}/online"), online.as_bytes(), 0o644).unwrap();
    }
    assert_eq!(host.memory_bytes(), 2 * 0x800_0000, "two blocks of 128 MiB");
}

#[test]
fn has_pci_vendor_finds_device_by_vendor_id() {
    let (_folder, host) = machine();
    assert!(!host.has_pci_vendor("0x10de"), "no bus");
    host.write("/sys/bus/pci/devices/0000:00:03.0/vendor", b"0x1d0f\n", 0o644).unwrap();
    host.write("/sys/bus/pci/devices/0000:00:04.0/class", b"0x030200\n", 0o644).unwrap();
    assert!(!host.has_pci_vendor("0x10de"), "a network interface, and a device that does not say");
    host.write("/sys/bus/pci/devices/0000:00:1e.0/vendor", b"0x10de\n", 0o644).unwrap();
    assert!(host.has_pci_vendor("0x10de"));
}

#[tokio::test]
async fn containerd_version_reads_the_version_file_of_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = Host::new(folder.path(), "/nowhere");
    assert_eq!(nowhere.containerd_version().await.unwrap(), None, "not installed");
    nowhere.write("/etc/eks/containerd-version.txt", b"containerd containerd.io 1.7.27 abc\n", 0o644).unwrap();
    let version = nowhere.containerd_version().await.unwrap().unwrap();
    assert_eq!((version.major, version.minor), (1, 7));
}

#[tokio::test]
async fn output_quotes_stderr_when_program_fails() {
    let (_folder, host) = machine();
    assert_eq!(host.output("echo", &["a", "b"]).await.unwrap(), "a b\n");
    let failed = host.output("sh", &["-c", "echo one >&2; echo two >&2; exit 3"]).await.unwrap_err().to_string();
    assert!(failed.ends_with("failed (exit status: 3): two"), "{failed}");
    let nowhere = Host::new("/", "/nowhere");
    let absent = nowhere.systemctl(&["daemon-reload"]).await.unwrap_err().to_string();
    assert!(absent.starts_with("cannot run `systemctl daemon-reload`; install it or put it on PATH"), "{absent}");
}
