//! A real systemd with Kerf's real units: PID 1 of its own namespaces on an overlay of this machine's root. Only the network is
//! shared, so that what runs in it finds the servers of the test on loopback.
//!
//! Everything here is for tests, so what should work and does not ends the test with a sentence.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use tempfile::TempDir;

/// Leaves out what needs it.
const LEAVE_OUT: &str = "KERF_WITHOUT_SYSTEMD";
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../systemd");
const ENTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/enter");
/// How long anything here may take; a boot takes a second or two, unless the machine does much else.
const PATIENCE: Duration = Duration::from_secs(180);

/// The running system; it is powered off with this value, and ends with the process that has it.
#[derive(Debug)]
pub struct System {
    namespaces: Child,
    init: u32,
    group: String,
    _layer: TempDir,
}

/// What is laid over the machine's root before it boots.
pub struct Layer(TempDir);

const OUR_UNITS: [&str; 3] = ["kerf-agent.service", "kerf-agent-bootstrap.service", "kerf-local-disks.service"];

impl Layer {
    /// A machine of EKS's without anything of Kerf.
    #[must_use]
    pub fn bare() -> Self {
        let layer = Self(tempfile::tempdir().unwrap());
        layer.write("etc/systemd/system/runtime.slice", "[Slice]\n");
        layer.write("etc/eks/kubelet-version.txt", "v1.36.3\n");
        layer
    }

    /// A machine that was started from EKS's image of Amazon Linux: stand-ins for its programs, and units of nodeadm that do what the
    /// program `usr/bin/nodeadm` says; it says nothing. They are not enabled yet.
    #[must_use]
    pub fn of_eks() -> Self {
        let layer = Self::bare().with_stand_ins();
        for name in ["nodeadm-config", "nodeadm-run"] {
            let unit = "[Service]\nType=oneshot\nExecStart=/usr/bin/nodeadm\n[Install]\nWantedBy=multi-user.target\n";
            layer.write(&format!("etc/systemd/system/{name}.service"), unit);
        }
        for program in ["containerd", "kubelet", "nodeadm", "setup-local-disks"] {
            layer.script(&format!("usr/bin/{program}"), "#!/bin/sh\n");
        }
        layer
    }

    /// Kerf's units and the program `agent` as an image has them, and metadata at `imds`.
    #[must_use]
    pub fn new(agent: &Path, imds: &str) -> Self {
        let layer = Self::bare();
        for (name, folder) in [("80-kerf.preset", "systemd/system-preset"), ("kerf.conf", "tmpfiles.d")] {
            layer.write(&format!("usr/lib/{folder}/{name}"), &fs::read_to_string(Path::new(UNITS).join(name)).unwrap());
        }
        for name in OUR_UNITS {
            let unit = fs::read_to_string(Path::new(UNITS).join(name)).unwrap();
            layer.write(&format!("etc/systemd/system/{name}"), &unit);
        }
        layer.program("usr/bin/kerf-agent", agent);
        layer.with_metadata(imds)
    }

    /// Tells Kerf's units that metadata is at `imds`.
    #[must_use]
    pub fn with_metadata(self, imds: &str) -> Self {
        let environment = format!("[Service]\nEnvironment=AWS_EC2_METADATA_SERVICE_ENDPOINT={imds}\n");
        for name in OUR_UNITS {
            self.write(&format!("etc/systemd/system/{name}.d/test.conf"), &environment);
        }
        self
    }

    /// With units of the names containerd and kubelet that run and do nothing.
    #[must_use]
    pub fn with_stand_ins(self) -> Self {
        for name in ["containerd", "kubelet"] {
            self.write(&format!("etc/systemd/system/{name}.service"), "[Service]\nExecStart=/usr/bin/sleep infinity\n");
        }
        self
    }

    /// Writes a file, with all folders above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a file that can be run.
    pub fn script(&self, path: &str, text: &str) {
        self.write(path, text);
        fs::set_permissions(self.0.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Puts a program there.
    pub fn program(&self, path: &str, from: &Path) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(from, &path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl System {
    /// Returns why this machine cannot boot one, `None` where it can.
    #[must_use]
    pub fn obstacle() -> Option<String> {
        static OBSTACLE: OnceLock<Option<String>> = OnceLock::new();
        OBSTACLE.get_or_init(find_obstacle).clone()
    }

    /// Whether this machine can boot one. Where it cannot, the calling test is reported as skipped.
    #[must_use]
    pub fn is_available() -> bool {
        let obstacle = Self::obstacle();
        if let Some(reason) = &obstacle {
            skip::report(reason);
        }
        obstacle.is_none()
    }

    /// Boots with `layer` and waits until systemd is up.
    #[must_use]
    pub fn boot(layer: Layer) -> Self {
        let group = format!("kerf-systemd-{}-{}", std::process::id(), layer.0.path().file_name().unwrap().display());
        let mut namespaces =
            Command::new(ENTER).arg(&group).arg(layer.0.path()).stdin(Stdio::piped()).spawn().expect("bash is there");
        let init = wait("the namespaces", || {
            let ended = namespaces.try_wait().unwrap();
            assert!(ended.is_none(), "the namespaces cannot be entered: {ended:?}");
            only_child(namespaces.id())
        });
        let system = Self { namespaces, init, group, _layer: layer.0 };
        wait("systemd", || {
            let state = system.run(&["systemctl", "is-system-running"]);
            matches!(text(&state).as_str(), "running" | "degraded").then_some(())
        });
        system
    }

    /// Where `path` of the system is, seen from the test.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.init)).join(path)
    }

    /// Writes a file in the running system, with all folders above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Powers it off in good order, and returns when nothing of it runs.
    pub fn power_off(&self) {
        let _ = self.run(&["systemctl", "poweroff"]);
        self.is_off();
    }

    /// Waits until nothing of it runs: somebody has powered it off.
    pub fn is_off(&self) {
        let gone = format!("/proc/{}/root/proc", self.init);
        wait("the end of systemd", || (!Path::new(&gone).exists()).then_some(()));
    }

    /// Lays the files of a test's machine over those of the system.
    pub fn take_over(&self, root: &Path) {
        let status = Command::new("cp").arg("-r").arg(root.join(".")).arg(self.at("")).status().unwrap();
        assert!(status.success());
    }

    /// An image of it: the files at `paths`, which another system boots with. Links stay links.
    #[must_use]
    pub fn image(&self, paths: &[&str]) -> Layer {
        let layer = Layer::bare();
        let mut copy = Command::new("cp");
        copy.current_dir(self.at("")).args(["-a", "--parents"]).args(paths).arg(layer.0.path());
        assert!(copy.status().unwrap().success(), "{paths:?} cannot be copied");
        layer
    }

    /// Runs a program in the system.
    #[must_use]
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
    #[must_use]
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
    #[must_use]
    pub fn journal(&self, unit: &str) -> Vec<serde_json::Value> {
        let output = self.run(&["journalctl", "--unit", unit, "--output", "json", "--no-pager"]);
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What systemd itself says about the unit.
    #[must_use]
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
            let groups: Vec<PathBuf> = hierarchies().map(|folder| folder.join(&self.group)).collect();
            groups.iter().for_each(|group| remove_groups(group));
            groups.iter().all(|group| !group.exists()).then_some(())
        });
    }
}

/// The bus of a system. Debian has its program in another package than its units.
const BUS: &str = "/usr/lib/systemd/system/dbus.service";
/// What a system is made of, and the Debian package that has it.
const PARTS: [(&str, &str); 4] =
    [("systemd", "systemd"), ("dbus-daemon", "dbus"), ("nsenter", "util-linux"), ("unshare", "util-linux")];

fn find_obstacle() -> Option<String> {
    if std::env::var_os(LEAVE_OUT).is_some() {
        return Some(format!("{LEAVE_OUT} is set"));
    }
    if !geteuid().is_root() {
        return Some("a real systemd needs root".to_owned());
    }
    if let Some((program, package)) = PARTS.iter().find(|(program, _)| !is_installed(program)) {
        return Some(format!("{program} is missing: install the package {package}"));
    }
    if !Path::new(BUS).is_file() {
        return Some(format!("{BUS} is missing: install the package dbus"));
    }
    if !fs::read_to_string("/proc/filesystems").is_ok_and(|text| text.lines().any(|line| line.ends_with("\toverlay"))) {
        return Some("the kernel has no overlay file system".to_owned());
    }
    let arguments =
        ["--pid", "--fork", "--mount", "--uts", "--ipc", "--cgroup", "mount", "-t", "tmpfs", "none", "/mnt"];
    let entered = Command::new("unshare").args(arguments).stdin(Stdio::null()).output();
    match entered {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            Some(format!("namespaces are not allowed here: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Err(error) => Some(format!("unshare cannot be started: {error}")),
    }
}

/// Whether a program is on the path, or in a folder where Debian puts programs that are not.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/lib/systemd", "/usr/sbin"].map(PathBuf::from));
    folders.iter().any(|folder| folder.join(program).is_file())
}

fn remove_groups(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_groups(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// The child of `unshare`, once the process has become that.
fn only_child(parent: u32) -> Option<u32> {
    let is_unshare = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?.trim() == "unshare";
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.trim().parse().ok().filter(|_| is_unshare)
}

/// Where the hierarchies of control groups are mounted.
fn hierarchies() -> impl Iterator<Item = PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let folders: Vec<PathBuf> = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|fields| matches!(fields[2], "cgroup" | "cgroup2"))
        .map(|fields| PathBuf::from(fields[1]))
        .collect();
    folders.into_iter()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_outlive_the_test() {
        if !System::is_available() {
            return;
        }
        let mut system = System::boot(Layer::new(Path::new("/bin/true"), "http://127.0.0.1:1"));
        assert!(system.at("usr/bin/kerf-agent").exists());
        // As the kernel does for a process that is killed.
        drop(system.namespaces.stdin.take());
        system.is_off();
    }
}
