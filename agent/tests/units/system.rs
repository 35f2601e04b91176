//! A real systemd with Kerf's real units: PID 1 of its own namespaces on an overlay of this machine's root. Only the network is
//! shared, so that the agent finds the scripted servers of the test on loopback.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use tempfile::TempDir;

/// Leaves out the tests that need it, on a machine where nobody can become root.
pub const LEAVE_OUT: &str = "KERF_WITHOUT_SYSTEMD";
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd");
const BOOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/units/boot");
/// How long anything here may take; a boot takes a second or two.
const PATIENCE: Duration = Duration::from_secs(60);

/// The running system; it is powered off with this value.
pub struct System {
    namespaces: Child,
    init: u32,
    cgroup: PathBuf,
    _layer: TempDir,
}

/// What is laid over the machine's root before it boots.
pub struct Layer(TempDir);

impl Layer {
    /// Kerf's units and program as an image has them, with stand-ins for containerd and kubelet, and metadata at `imds`.
    pub fn new(imds: &str) -> Self {
        let layer = Self(tempfile::tempdir().unwrap());
        for (name, folder) in [("80-kerf.preset", "systemd/system-preset"), ("kerf.conf", "tmpfiles.d")] {
            layer.write(&format!("usr/lib/{folder}/{name}"), &fs::read_to_string(Path::new(UNITS).join(name)).unwrap());
        }
        for name in ["kerf-agent.service", "kerf-agent-bootstrap.service"] {
            let unit = fs::read_to_string(Path::new(UNITS).join(name)).unwrap();
            layer.write(&format!("etc/systemd/system/{name}"), &unit);
            let environment = format!("[Service]\nEnvironment=AWS_EC2_METADATA_SERVICE_ENDPOINT={imds}\n");
            layer.write(&format!("etc/systemd/system/{name}.d/test.conf"), &environment);
        }
        for name in ["containerd", "kubelet"] {
            layer
                .write(&format!("etc/systemd/system/{name}.service"), "[Service]\nExecStart=/usr/bin/sleep infinity\n");
        }
        layer.write("etc/systemd/system/runtime.slice", "[Slice]\n");
        layer.write("etc/eks/kubelet-version.txt", "v1.36.3\n");
        layer.program("usr/bin/kerf-agent", Path::new(env!("CARGO_BIN_EXE_kerf-agent")));
        layer
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, path: &str, from: &Path) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(from, &path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl System {
    /// Whether this machine can have one; it fails the test when it should but cannot.
    pub fn wanted() -> bool {
        if std::env::var_os(LEAVE_OUT).is_some() {
            eprintln!("{LEAVE_OUT} is set: systemd is not tested");
            return false;
        }
        let there = Path::new("/usr/lib/systemd/systemd").exists();
        assert!(
            there && geteuid().is_root(),
            "these tests boot a real systemd: run them as root with systemd and dbus installed, or set {LEAVE_OUT}=1"
        );
        true
    }

    /// Boots with `layer` and waits until systemd is up.
    pub fn boot(layer: Layer) -> Self {
        let cgroup = unified().join(format!(
            "kerf-units-{}-{}",
            std::process::id(),
            layer.0.path().file_name().unwrap().display()
        ));
        fs::create_dir(&cgroup).unwrap();
        let enter = "echo $$ >\"$1/cgroup.procs\" && exec unshare --pid --fork --mount --uts --ipc --cgroup --kill-child \"$2\" \"$3\"";
        let namespaces = Command::new("sh")
            .args(["-c", enter, "sh"])
            .args([cgroup.as_path(), Path::new(BOOT), layer.0.path()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", namespaces.id());
        let init = wait("the namespaces", || fs::read_to_string(&children).ok()?.trim().parse().ok());
        let system = Self { namespaces, init, cgroup, _layer: layer.0 };
        wait("systemd", || {
            let state = system.run(&["systemctl", "is-system-running"]);
            matches!(text(&state).as_str(), "running" | "degraded").then_some(())
        });
        system
    }

    /// Where `path` of the system is, seen from the test.
    pub fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.init)).join(path)
    }

    /// Lays the files of a test's machine over those of the system.
    pub fn take_over(&self, root: &Path) {
        let status = Command::new("cp").arg("-r").arg(root.join(".")).arg(self.at("")).status().unwrap();
        assert!(status.success());
    }

    pub fn run(&self, command: &[&str]) -> Output {
        Command::new("nsenter").args(["-t", &self.init.to_string(), "-a"]).args(command).output().unwrap()
    }

    /// Runs `systemctl` and gives what it says; it has to succeed.
    pub fn systemctl(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["systemctl"], arguments].concat());
        assert!(output.status.success(), "systemctl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        text(&output)
    }

    /// A property of a unit, as `systemctl show` gives it.
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.systemctl(&["show", unit, "--value", "--property", name])
    }

    /// Waits until a unit's property is what is asked for.
    pub fn until(&self, unit: &str, name: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = patient(|| {
            last = self.property(unit, name);
            wanted(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|| unreachable!("{name} of {unit} stays `{last}`:\n{}", self.log(unit)))
    }

    /// The unit's journal, one JSON object a line.
    pub fn journal(&self, unit: &str) -> Vec<serde_json::Value> {
        let output = self.run(&["journalctl", "--unit", unit, "--output", "json", "--no-pager"]);
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What systemd itself says about the unit.
    pub fn said_by_systemd(&self, unit: &str) -> Vec<String> {
        let by_init = |entry: &serde_json::Value| entry["_PID"] == "1" && entry["UNIT"] == unit;
        let message = |entry: &serde_json::Value| entry["MESSAGE"].as_str().unwrap_or_default().to_owned();
        self.journal(unit).iter().filter(|it| by_init(it)).map(message).collect()
    }

    fn log(&self, unit: &str) -> String {
        text(&self.run(&["journalctl", "--unit", unit, "--no-pager", "--lines", "40"]))
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = self.run(&["systemctl", "poweroff", "--force", "--force"]);
        let _ = self.namespaces.kill();
        let _ = self.namespaces.wait();
        // systemd's own groups below are empty now; the kernel lets go of them one level at a time.
        let _ = patient(|| {
            remove_groups(&self.cgroup);
            (!self.cgroup.exists()).then_some(())
        });
    }
}

fn remove_groups(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_groups(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// Where the version 2 hierarchy of control groups is mounted.
fn unified() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let found = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|fields| fields[2] == "cgroup2");
    PathBuf::from(found.expect("a cgroup2 file system is mounted")[1])
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn wait<T>(what: &str, there: impl FnMut() -> Option<T>) -> T {
    patient(there).unwrap_or_else(|| unreachable!("waited in vain for {what}"))
}

fn patient<T>(mut there: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(value) = there() {
            return Some(value);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}
