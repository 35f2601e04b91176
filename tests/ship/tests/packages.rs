//! Tests of the agent's packages by dpkg and rpm themselves, in a real systemd.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ship::registry::go_programs;
use ship::{program, ran, root};
use systemd_container::{Layer, System};

/// Package manager, with its commands without the package.
struct Manager {
    format: &'static str,
    install: &'static [&'static str],
    upgrade: &'static [&'static str],
    remove: &'static [&'static str],
}

/// The tree of the test has no RPM packages, so rpm knows of no dependency.
const MANAGERS: [Manager; 2] = [
    Manager {
        format: "deb",
        install: &["dpkg", "--install"],
        upgrade: &["dpkg", "--install"],
        remove: &["dpkg", "--remove"],
    },
    Manager {
        format: "rpm",
        install: &["rpm", "--install", "--nodeps"],
        upgrade: &["rpm", "--upgrade", "--nodeps"],
        remove: &["rpm", "--erase"],
    },
];
const UNIT: &str = "etc/systemd/system/multi-user.target.wants/kerf-agent.service";
const SETTINGS: &str = "etc/kerf/agent.yaml";

/// Builds a package as a release does.
fn package(folder: &Path, format: &str, version: &str) -> PathBuf {
    let target = folder.join(format!("{version}.{format}"));
    let mut nfpm = Command::new(go_programs("images/release/nfpm").join("nfpm"));
    nfpm.args(["package", "--config", "images/agent/package.yaml", "--packager", format, "--target"]).arg(&target);
    nfpm.env("ARCHITECTURE", "amd64").env("VERSION", version).env("PROGRAM", program("agent", "amd64"));
    ran(nfpm.current_dir(root()));
    target
}

/// Runs a command in the system, which must succeed.
fn must(system: &System, command: &[&str]) {
    let output = system.run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
    );
}

/// Runs a command of a package manager with a package, which is copied into the system.
fn with(system: &System, command: &[&str], package: &Path) {
    let name = package.file_name().unwrap().to_str().unwrap();
    fs::copy(package, system.at("opt").join(name)).unwrap();
    must(system, &[command, &[&format!("/opt/{name}")]].concat());
}

#[test]
#[ignore = "builds nfpm and needs rpm: make e2e"]
fn package_enables_units_once_keeps_settings_and_leaves_no_unit() {
    if !System::is_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for Manager { format, install, upgrade, remove } in MANAGERS {
        let system = System::boot(Layer::of_eks());
        let packages = ["1.0.0", "1.0.1"].map(|version| package(folder.path(), format, version));
        with(&system, install, &packages[0]);
        must(&system, &["kerf-agent", "--version"]);
        assert!(system.at(UNIT).is_symlink(), "{format}");
        assert_eq!(system.property("kerf-agent.service", "ActiveState"), "inactive", "{format} starts nothing");
        let shipped = fs::read_to_string(system.at(SETTINGS)).unwrap();
        assert_eq!(shipped, fs::read_to_string(root().join("images/agent/agent.yaml")).unwrap(), "{format}");

        system.systemctl(&["disable", "kerf-agent"]);
        system.write(SETTINGS, "mode: bootstrap\n");
        with(&system, upgrade, &packages[1]);
        assert!(!system.at(UNIT).is_symlink(), "{format}: the administrator has disabled it");
        assert_eq!(fs::read_to_string(system.at(SETTINGS)).unwrap(), "mode: bootstrap\n", "{format}");

        system.systemctl(&["enable", "kerf-agent"]);
        must(&system, &[remove, &["kerf-agent"]].concat());
        assert!(!system.at(UNIT).is_symlink() && !system.at("usr/bin/kerf-agent").exists(), "{format}");
    }
}
