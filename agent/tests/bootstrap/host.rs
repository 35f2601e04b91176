//! The machine below bootstrap: files that are replaced whole, CPUs as the kernel lists them, programs that fail.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use agent::host::Host;

fn machine() -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::new(folder.path(), "/usr/bin:/bin");
    (folder, host)
}

#[test]
fn a_file_is_written_once_and_with_its_mode() {
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
fn a_folder_in_the_way_is_named() {
    let (_folder, host) = machine();
    host.write("/a/b", b"", 0o644).unwrap();
    for error in
        [host.read("/a").unwrap_err(), host.write("/a", b"x", 0o644).unwrap_err(), host.remove("/a").unwrap_err()]
    {
        assert!(error.to_string().contains("/a; check that it is a file"), "{error}");
    }
}

#[test]
fn cpus_are_counted_as_the_kernel_lists_them() {
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

#[tokio::test]
async fn programs_that_fail_are_quoted() {
    let (_folder, host) = machine();
    assert_eq!(host.output("echo", &["a", "b"]).await.unwrap(), "a b\n");
    let failed = host.output("sh", &["-c", "echo one >&2; echo two >&2; exit 3"]).await.unwrap_err().to_string();
    assert!(failed.ends_with("failed (exit status: 3): two"), "{failed}");
    let nowhere = Host::new("/", "/nowhere");
    let absent = nowhere.systemctl(&["daemon-reload"]).await.unwrap_err().to_string();
    assert!(absent.starts_with("cannot run `systemctl daemon-reload`; install it or put it on PATH"), "{absent}");
}
