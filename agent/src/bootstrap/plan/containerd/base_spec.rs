//! Base OCI runtime specification of all containers, merged with the user's. The specification differs from containerd's own
//! base in the limit of open files. The limit is enough for servers. A higher limit would delay programs that close every
//! possible file descriptor at their start, by minutes.

use machine::json;
use machine::nodeconfig::merge_json;
use serde_json::{Map, Value, json};

/// Capabilities of a container that requests none.
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

/// Kernel files that would expose the machine to a container.
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

/// Kernel files through which a container could change the machine.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Returns the text of the file.
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

/// Returns the mount of a kernel file system, whose source has the name of its type.
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
