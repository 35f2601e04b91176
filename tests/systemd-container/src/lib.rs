//! A real systemd with Kerf's real units: PID 1 of its own namespaces on an overlay of this machine's root. The network is shared,
//! so that programs in it can reach the servers of the test on loopback, unless the test asks for a network of its own.
//!
//! The crate is for tests only, so every unexpected failure is a panic with a message.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption should fail the test")]

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::unistd::geteuid;
use tempfile::TempDir;

/// Variable that disables the tests with systemd.
const LEAVE_OUT: &str = "KERF_WITHOUT_SYSTEMD";
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../systemd");
const ENTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/enter");
/// Time limit of every wait. A boot takes one or two seconds, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// Running system; powered off on drop, and ended with the process that owns it.
#[derive(Debug)]
pub struct System {
    namespaces: Child,
    init: u32,
    group: String,
    _layer: TempDir,
}

/// Files that are laid over the machine's root before the boot.
pub struct Layer(TempDir);

const OUR_UNITS: [&str; 4] =
    ["kerf-agent.service", "kerf-agent-bootstrap.service", "kerf-local-disks.service", "kerf-volumes.service"];

impl Layer {
    /// Returns a machine of EKS without Kerf.
    #[must_use]
    pub fn bare() -> Self {
        let layer = Self(tempfile::tempdir().unwrap());
        layer.write("etc/systemd/system/runtime.slice", "[Slice]\n");
        layer.write("etc/eks/kubelet-version.txt", "v1.36.3\n");
        layer
    }

    /// Returns a machine that was started from EKS's image of Amazon Linux. Its programs are stand-ins, and its units of
    /// nodeadm run the program `usr/bin/nodeadm`, which does nothing. The units are not enabled yet.
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

    /// Returns Kerf's units and the program `agent` as an image has them, with a metadata service at `imds`.
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

    /// Sets the endpoint of the metadata service in Kerf's units.
    #[must_use]
    pub fn with_metadata(self, imds: &str) -> Self {
        let environment = format!("[Service]\nEnvironment=AWS_EC2_METADATA_SERVICE_ENDPOINT={imds}\n");
        for name in OUR_UNITS {
            self.write(&format!("etc/systemd/system/{name}.d/test.conf"), &environment);
        }
        self
    }

    /// Adds units containerd and kubelet that run and do nothing.
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

    /// Writes an executable file.
    pub fn script(&self, path: &str, text: &str) {
        self.write(path, text);
        fs::set_permissions(self.0.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Copies a program into the layer.
    pub fn program(&self, path: &str, from: &Path) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(from, &path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl System {
    /// Returns the reason why this machine cannot boot a system; `None` if it can.
    #[must_use]
    pub fn obstacle() -> Option<String> {
        static OBSTACLE: OnceLock<Option<String>> = OnceLock::new();
        OBSTACLE.get_or_init(find_obstacle).clone()
    }

    /// Reports whether this machine can boot a system. On a machine that cannot, the calling test is reported as skipped.
    #[must_use]
    pub fn is_available() -> bool {
        let obstacle = Self::obstacle();
        if let Some(reason) = &obstacle {
            skip::report(reason);
        }
        obstacle.is_none()
    }

    /// Boots a system with `layer` and waits until systemd is up.
    #[must_use]
    pub fn boot(layer: Layer) -> Self {
        Self::boot_with(layer, &[])
    }

    /// Boots a system as [`System::boot`] does, in its own network. The network has only loopback, with `addresses` besides its
    /// own; what listens there is what the system or [`System::listen`] opens.
    #[must_use]
    pub fn boot_in_own_network(layer: Layer, addresses: &[IpAddr]) -> Self {
        assert!(!addresses.is_empty(), "without an address the network is shared");
        assert!(is_installed("ip"), "ip is missing: install the package iproute2");
        Self::boot_with(layer, addresses)
    }

    fn boot_with(layer: Layer, addresses: &[IpAddr]) -> Self {
        let group = format!("kerf-systemd-{}-{}", std::process::id(), layer.0.path().file_name().unwrap().display());
        let mut enter = Command::new(ENTER);
        enter.arg(&group).arg(layer.0.path()).args(addresses.iter().map(IpAddr::to_string));
        let mut namespaces = enter.stdin(Stdio::piped()).spawn().expect("bash is there");
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

    /// Listens at an address of the system's network. The caller may accept connections from any thread.
    ///
    /// # Errors
    /// Returns an error if the address is in use or does not exist in the network.
    pub fn listen(&self, address: SocketAddr) -> std::io::Result<TcpListener> {
        let network = File::open(format!("/proc/{}/ns/net", self.init))?;
        // Only one thread changes its network, and the thread ends.
        let listen = move || {
            setns(network, CloneFlags::CLONE_NEWNET)?;
            TcpListener::bind(address)
        };
        std::thread::spawn(listen).join().expect("binding does not panic")
    }

    /// Returns the path of the system's `path` on the test's side.
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

    /// Powers the system off in order; returns when none of its processes runs.
    pub fn power_off(&self) {
        let _ = self.run(&["systemctl", "poweroff"]);
        self.is_off();
    }

    /// Waits until the system is powered off and none of its processes runs.
    pub fn is_off(&self) {
        let gone = format!("/proc/{}/root/proc", self.init);
        wait("the end of systemd", || (!Path::new(&gone).exists()).then_some(()));
    }

    /// Copies the files of a test's machine over those of the system.
    pub fn take_over(&self, root: &Path) {
        let status = Command::new("cp").arg("-r").arg(root.join(".")).arg(self.at("")).status().unwrap();
        assert!(status.success());
    }

    /// Returns an image of the system: the files at `paths`, for the boot of another system. Links remain links.
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
        let mut entered = Command::new("nsenter");
        entered.args(["-t", &self.init.to_string(), "-a"]).args(command).env("LC_ALL", "C").output().unwrap()
    }

    /// Runs `systemctl`, which must succeed; returns its output.
    pub fn systemctl(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["systemctl"], arguments].concat());
        assert!(output.status.success(), "systemctl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        text(&output)
    }

    /// Returns a property of a unit, as `systemctl show` prints it.
    #[must_use]
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.systemctl(&["show", unit, "--value", "--property", name])
    }

    /// Waits until a property of a unit has the wanted value; returns it.
    pub fn until(&self, unit: &str, name: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = patient(|| {
            last = self.property(unit, name);
            wanted(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|| unreachable!("{name} of {unit} stays `{last}`:\n{}", self.log(unit)))
    }

    /// Returns the journal of a unit, one JSON object per line.
    #[must_use]
    pub fn journal(&self, unit: &str) -> Vec<serde_json::Value> {
        let output = self.run(&["journalctl", "--unit", unit, "--output", "json", "--no-pager"]);
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the messages of systemd itself about the unit.
    #[must_use]
    pub fn systemd_messages(&self, unit: &str) -> Vec<String> {
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
        // systemd's own cgroups below are empty now; the kernel releases them one level at a time.
        let _ = patient(|| {
            let groups: Vec<PathBuf> = hierarchies().map(|folder| folder.join(&self.group)).collect();
            groups.iter().for_each(|group| remove_groups(group));
            groups.iter().all(|group| !group.exists()).then_some(())
        });
    }
}

/// Unit of the system bus. In Debian the program of the bus is in another package than its units.
const BUS: &str = "/usr/lib/systemd/system/dbus.service";
/// Programs that a system needs, each with its Debian package.
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

/// Reports whether a program is on the path, or in a folder where Debian puts programs outside of the path.
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

/// Returns the child of `unshare`, once the process has become `unshare`.
fn only_child(parent: u32) -> Option<u32> {
    let is_unshare = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?.trim() == "unshare";
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.trim().parse().ok().filter(|_| is_unshare)
}

/// Returns the mount points of the cgroup hierarchies.
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
    fn system_powers_off_when_its_process_ends() {
        if !System::is_available() {
            return;
        }
        let mut system = System::boot(Layer::new(Path::new("/bin/true"), "http://127.0.0.1:1"));
        assert!(system.at("usr/bin/kerf-agent").exists());
        // The kernel closes the pipe in the same way when a process is killed.
        drop(system.namespaces.stdin.take());
        system.is_off();
    }
}
