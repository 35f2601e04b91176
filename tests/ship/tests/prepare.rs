//! Tests of `prepare`, the first step of every Makefile target, on simulated machines. Each missing requirement is reported
//! with a remedy before anything is built. As root on Debian, missing packages are installed.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use ship::{Outcome, root, run};
use tempfile::TempDir;

/// Programs of a minimal Debian that the script itself needs.
const TOOLS: [&str; 16] = [
    "awk", "bash", "cat", "cut", "dirname", "env", "find", "grep", "head", "mkdir", "rm", "sed", "sort", "tail",
    "touch", "tr",
];
/// Programs that targets need, each a stub.
const PROGRAMS: [&str; 20] = [
    "chromium",
    "node",
    "npm",
    "script",
    "ip",
    "gh",
    "mount",
    "unshare",
    "gcc",
    "g++",
    "buildah",
    "rpm",
    "rpm2cpio",
    "cpio",
    "runc",
    "nsenter",
    "sshd",
    "ssh-keygen",
    "aarch64-linux-gnu-gcc",
    "rustup",
];
/// Files that targets need.
const FILES: [&str; 6] = [
    "usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf",
    "usr/lib/systemd/system/dbus.service",
    "usr/include/stdio.h",
    "usr/lib/systemd/systemd",
    "usr/lib/cni/loopback",
    "usr/aarch64-linux-gnu/include/stdio.h",
];

/// Targets that mount file systems.
const NEED_ROOT: [&str; 5] = ["amis", "bare", "e2e", "images", "node"];

/// Machine that has everything, until a test removes something.
struct Machine(TempDir);

impl Machine {
    fn complete() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(machine.path("bin")).unwrap();
        for tool in TOOLS {
            let path = std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .map(|folder| folder.join(tool))
                .find(|path| path.is_file());
            symlink(path.unwrap(), machine.path(&format!("bin/{tool}"))).unwrap();
        }
        for program in PROGRAMS {
            machine.program(program, "");
        }
        for file in FILES {
            machine.write(file, "");
        }
        machine.write("etc/os-release", "ID=debian\n");
        machine.write("sys/class/net/lo/flags", "0x9\n");
        machine.write("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\n");
        machine.program("id", "echo 1000");
        machine.program("df", "echo Avail; echo 100000");
        machine.program("cargo", "");
        machine.program("rustc", "echo 'rustc 1.95.0 (abc 2026-01-01)'");
        machine.program("go", "echo 'go version go1.26.8 linux/amd64'");
        machine.program("python3", "case $* in *platform*) echo 3.11.2 ;; esac");
        machine.program("apt-get", "echo \"$*\" >>\"$KERF_CACHE/apt\"");
        machine
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn program(&self, name: &str, script: &str) {
        let path = format!("bin/{name}");
        self.write(&path, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn without(self, path: &str) -> Self {
        fs::remove_file(self.path(path)).unwrap();
        self
    }

    fn with(self, name: &str, script: &str) -> Self {
        self.program(name, script);
        self
    }

    fn with_file(self, path: &str, text: &str) -> Self {
        self.write(path, text);
        self
    }

    fn run_by_root(self) -> Self {
        self.with("id", "echo 0")
    }

    fn prepare(&self, verb: &str) -> Outcome {
        let mut command = Command::new(self.path("bin/bash"));
        command.arg(root().join("tests/steps/prepare")).arg(verb).env_clear();
        command.env("PATH", self.path("bin")).env("KERF_SYSROOT", self.0.path()).env("KERF_CACHE", self.path("cache"));
        command.env("CARGO_TARGET_DIR", self.path("cache/target/this"));
        run(&mut command)
    }

    /// Returns the calls of apt-get.
    fn installed(&self) -> String {
        fs::read_to_string(self.path("cache/apt")).unwrap_or_default()
    }
}

/// Asserts that the target stops, and that one line of the output starts with the target and contains `expected`.
fn assert_refused(machine: &Machine, verb: &str, expected: &str) {
    let Outcome { well, output } = machine.prepare(verb);
    assert!(!well, "{verb} goes on without: {expected}");
    assert!(
        output.lines().any(|line| line.starts_with(&format!("make {verb}: ")) && line.contains(expected)),
        "{output}"
    );
}

#[test]
fn prepare_is_silent_on_a_complete_machine() {
    let verbs: Vec<String> = Machine::verbs();
    assert!(verbs.len() > 20, "{verbs:?}");
    for (machine, is_root) in [(Machine::complete(), false), (Machine::complete().run_by_root(), true)] {
        for verb in verbs.iter().filter(|verb| is_root || !NEED_ROOT.contains(&verb.as_str())) {
            let Outcome { well, output } = machine.prepare(verb);
            assert!(well && output.is_empty(), "{verb}: {output}");
        }
        assert_eq!(machine.installed(), "");
    }
}

#[test]
fn prepare_names_root_where_a_verb_needs_it() {
    for verb in NEED_ROOT {
        assert_refused(&Machine::complete(), verb, "run it as root");
    }
}

impl Machine {
    /// Returns the targets of the Makefile that prepare the machine.
    fn verbs() -> Vec<String> {
        let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
        let prepared = makefile.lines().filter_map(|line| line.split_once(": prepare-")?.0.to_owned().into());
        prepared.collect()
    }
}

#[test]
fn prepare_is_the_first_step_of_every_verb() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let listed =
        makefile.lines().filter(|line| line.contains(":") && line.contains(" ## ") && !line.starts_with("help"));
    for line in listed {
        let (verb, rest) = line.split_once(": ").unwrap();
        assert!(rest.starts_with(&format!("prepare-{verb} ")), "{line}");
    }
}

#[test]
fn prepare_names_each_missing_requirement() {
    let rows = [
        ("demo", "bin/gcc", "sudo apt-get install --no-install-recommends gcc"),
        ("demo", "usr/include/stdio.h", "sudo apt-get install --no-install-recommends libc6-dev"),
        ("test", "bin/python3", "sudo apt-get install --no-install-recommends python3 python3-venv"),
        ("fuzz", "bin/g++", "sudo apt-get install --no-install-recommends g++"),
        ("images", "bin/buildah", "sudo apt-get install --no-install-recommends buildah"),
        ("e2e", "bin/rpm2cpio", "sudo apt-get install --no-install-recommends rpm2cpio"),
        ("e2e", "bin/sshd", "sudo apt-get install --no-install-recommends openssh-server"),
        ("e2e", "bin/ssh-keygen", "sudo apt-get install --no-install-recommends openssh-client"),
        ("e2e", "bin/ip", "sudo apt-get install --no-install-recommends iproute2"),
        ("release", "bin/aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        ("release", "usr/aarch64-linux-gnu/include/stdio.h", "libc6-dev-arm64-cross"),
        ("test", "bin/cargo", "cargo is missing: install Rust 1.95.0 with rustup (https://rustup.rs)"),
        ("test", "bin/go", "go is missing: install Go 1.26"),
    ];
    for (verb, missing, expected) in rows {
        assert_refused(&Machine::complete().without(missing), verb, expected);
    }
    let bare = PROGRAMS.iter().fold(Machine::complete(), |machine, program| machine.without(&format!("bin/{program}")));
    assert_refused(
        &bare,
        "e2e",
        "gcc gcc-aarch64-linux-gnu buildah runc rpm rpm2cpio cpio openssh-server openssh-client util-linux iproute2",
    );
}

#[test]
fn prepare_names_found_and_required_versions() {
    let rows = [
        ("rustc", "echo 'rustc 1.70.0 (abc 2023-01-01)'", "Rust 1.70.0 is too old, Rust 1.95.0 is required"),
        ("go", "echo 'go version go1.21.3 linux/amd64'", "Go 1.21.3 is too old, Go 1.26"),
        ("python3", "case $* in *platform*) echo 3.9.2 ;; esac", "Python 3.9.2 is too old, Python 3.11 or newer"),
        ("python3", "case $* in *platform*) echo 3.11.2 ;; *) exit 1 ;; esac", "python3-venv"),
    ];
    for (program, script, expected) in rows {
        assert_refused(&Machine::complete().with(program, script), "test", expected);
    }
}

#[test]
fn prepare_installs_a_missing_toolchain_with_rustup() {
    let late = "[ -e \"$KERF_CACHE/toolchain\" ] || exit 1; echo 'rustc 1.95.0 (abc 2026-01-01)'";
    let installs = "mkdir -p \"$KERF_CACHE\" && touch \"$KERF_CACHE/toolchain\"";
    let machine = Machine::complete().with("rustc", late).with("rustup", installs);
    let Outcome { well, output } = machine.prepare("demo");
    assert!(well && output.contains("installing Rust 1.95.0 with rustup"), "{output}");
    let offline = Machine::complete().with("rustc", "exit 1").with("rustup", "exit 1");
    assert_refused(&offline, "demo", "rustup did not reach the registry of Rust toolchains");
}

#[test]
fn prepare_names_too_little_disk_and_memory() {
    let little = Machine::complete().with("df", "echo Avail; echo 2048");
    assert_refused(&little, "test", "2 GB of free disk, `make test` needs 10 GB: free some, or set KERF_CACHE");
    let tiny = Machine::complete().with_file("proc/meminfo", "MemAvailable:   1048576 kB\n");
    assert_refused(&tiny, "demo", "1 GB of memory are available, `make demo` needs 8 GB");
    assert!(little.prepare("--done").well, "a verb that is done is recorded");
    let machine =
        Machine::complete().with("df", "echo Avail; echo 5000").with_file("cache/target/this/prepared/test", "");
    assert!(machine.prepare("test").well, "a second run needs less");
}

#[test]
fn prepare_removes_builds_of_other_checkouts_after_two_weeks() {
    let machine = Machine::complete();
    for (checkout, days) in [("this", 20), ("old", 15), ("recent", 13)] {
        let path = format!("cache/target/{checkout}/last-used");
        machine.write(&path, "");
        let stamp = fs::File::options().write(true).open(machine.path(&path)).unwrap();
        stamp.set_modified(SystemTime::now() - Duration::from_hours(24 * days)).unwrap();
    }
    let Outcome { well, output } = machine.prepare("demo");
    assert!(well && output.contains("cache/target/old, unused for two weeks"), "{output}");
    let left = |checkout: &str| machine.path("cache/target").join(checkout).exists();
    assert_eq!(["this", "old", "recent"].map(left), [true, false, true]);
}

#[test]
fn prepare_names_a_cache_that_cannot_be_written() {
    // A file in the place of the folder stops root as well.
    let machine = Machine::complete().with_file("cache/target", "");
    assert_refused(&machine, "demo", "cache/target/this is not writable, builds are stored there: set KERF_CACHE");
}

#[test]
fn prepare_names_loopback_that_is_down() {
    let machine = Machine::complete().with_file("sys/class/net/lo/flags", "0x8\n");
    assert_refused(&machine, "demo", "loopback is down");
}

#[test]
fn prepare_installs_packages_as_root_on_debian() {
    let machine = Machine::complete().run_by_root().without("bin/runc").without("usr/lib/systemd/systemd");
    let Outcome { well, output } = machine.prepare("test");
    assert!(well && output.contains("installing Debian packages: systemd runc"), "{output}");
    assert_eq!(machine.installed(), "update -qq\ninstall -y -qq --no-install-recommends systemd runc\n");
    let offline =
        Machine::complete().run_by_root().without("bin/gcc").with("apt-get", "echo 'E: Failed to fetch x'; exit 100");
    assert_refused(&offline, "test", "the registry of Debian packages was not reached; it is needed for: gcc");
}

#[test]
fn prepare_needs_no_systemd_without_root_or_debian() {
    let systemd =
        ["bin/runc", "usr/lib/systemd/system/dbus.service", "usr/lib/systemd/systemd", "usr/lib/cni/loopback"];
    let without = || systemd.iter().fold(Machine::complete(), |machine, path| machine.without(path));
    let fedora = || without().run_by_root().with_file("etc/os-release", "ID=fedora\n");
    for machine in [without(), fedora()] {
        for verb in ["demo", "test"] {
            let Outcome { well, output } = machine.prepare(verb);
            assert!(well, "{verb}: {output}");
        }
        assert_eq!(machine.installed(), "");
    }
    assert_refused(&fedora().without("bin/gcc"), "test", "missing: gcc: install what provides them");
}

#[test]
fn prepare_reports_all_problems_at_once_and_installs_nothing() {
    let machine = Machine::complete().run_by_root().without("bin/cargo").without("bin/go").without("bin/gcc");
    let output = machine.prepare("demo").output;
    assert!(output.contains("cargo is missing") && output.contains("go is missing"), "{output}");
    assert_eq!(machine.installed(), "");
}

#[test]
fn prepare_refuses_an_unknown_verb() {
    let Outcome { well, output } = Machine::complete().prepare("dmeo");
    assert!(!well && output.contains("no verb `dmeo`: `make help` lists them"), "{output}");
    assert!(Path::new(&root().join("Makefile")).exists());
}
