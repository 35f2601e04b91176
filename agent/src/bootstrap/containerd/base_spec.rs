//! The base of every container's OCI runtime specification, with the user's laid over it. It differs from containerd's
//! own base in the limit of open files: enough for servers, and not so high that programs which close every possible
//! file at their start take minutes for it.

use machine::json;
use machine::nodeconfig::merge_json;
use serde_json::{Map, Value, json};

/// Capabilities of a container that asks for none.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// Of the kernel's files, those that would tell a container about the machine.
const MASKED: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
];

/// And those that would let it change the machine.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The file's text.
pub(super) fn render(user: &Map<String, Value>) -> String {
    let mut base = Map::new();
    for (section, value) in [("linux", linux()), ("mounts", mounts()), ("process", process())] {
        base.insert(section.to_owned(), value);
    }
    base.insert("ociVersion".to_owned(), "1.1.0".into());
    base.insert("root".to_owned(), json!({"path": "rootfs"}));
    merge_json(&mut base, user.clone());
    json::pretty(&Value::Object(base))
}

fn linux() -> Value {
    let namespaces = ["ipc", "mount", "network", "pid", "uts"].map(|kind| json!({"type": kind}));
    json!({
        "maskedPaths": MASKED,
        "namespaces": namespaces,
        "readonlyPaths": READ_ONLY,
        "resources": {"devices": [{"access": "rwm", "allow": false}]},
    })
}

fn mounts() -> Value {
    let sealed = ["nosuid", "noexec", "nodev"];
    json!([
        mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount("/dev/mqueue", "mqueue", &sealed),
        mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
        mount("/proc", "proc", &sealed),
        mount("/sys", "sysfs", &[&sealed[..], &["ro"]].concat()),
    ])
}

/// A mount of a file system of the kernel's, whose source is called as it is.
fn mount(destination: &str, kind: &str, options: &[&str]) -> Value {
    json!({"destination": destination, "options": options, "source": kind, "type": kind})
}

fn process() -> Value {
    json!({
        "capabilities": {"bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES},
        "cwd": "/",
        "noNewPrivileges": true,
        "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 65_536, "hard": 1_048_576}],
        "user": {"gid": 0, "uid": 0},
    })
}
