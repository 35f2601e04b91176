//! Tests of a release: one version everywhere, all files with valid checksums, and the same bytes in two builds. The upload is
//! a draft with its section of the changelog.
//!
//! `make e2e` builds one without the images, which `images.rs` tests.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use ship::{Outcome, ran, root, run};
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const REGISTRY: &str = "registry.example/kerf";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Builds parts of a release below `folder`, without variables of the environment.
fn build(folder: &Path, parts: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(root().join("images/release/build"));
    command.arg(folder).args(parts).env_remove("TAG").env_remove("REGISTRY").env("SOURCE_DATE_EPOCH", "1700000000");
    run(command.envs(environment.iter().copied()))
}

/// A new version changes these places and the lock file; cargo checks the lock file against the manifest.
#[test]
fn version_is_the_same_in_all_manifests() {
    assert_eq!(ran(&mut Command::new(root().join("images/release/version"))).trim(), VERSION);
    for chart in ["chart", "chart-crd"] {
        let about: Value = serde_saphyr::from_str(&read(&format!("controller/{chart}/Chart.yaml"))).unwrap();
        for field in ["version", "appVersion"] {
            assert_eq!(about[field], VERSION, "{field} of controller/{chart}/Chart.yaml");
        }
    }
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap();
        let package: toml::Table = read(&format!("{member}/Cargo.toml")).parse().unwrap();
        let version = package["package"]["version"].get("workspace").and_then(toml::Value::as_bool);
        assert_eq!(version, Some(true), "{member}/Cargo.toml has a version of its own");
    }
}

#[test]
fn changelog_begins_with_the_current_version() {
    let changelog = read("CHANGELOG.md");
    let headings: Vec<&str> = changelog.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(headings.first(), Some(&VERSION), "the newest first");
    let newest = changelog.split("\n## ").nth(1).unwrap();
    let sections: Vec<&str> = newest.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(sections, ["Added", "Changed", "Known limits"]);
}

#[test]
fn release_build_fails_when_part_tag_or_registry_is_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        ("chart", ("TAG", ""), "there is no part `chart`: known are images charts agent cli rights"),
        ("charts", ("TAG", "v0.0.9"), "TAG is `v0.0.9`, but the version in Cargo.toml is"),
        ("charts", ("REGISTRY", "registry.example/kerf|x"), "REGISTRY is `registry.example/kerf|x`"),
        ("charts", ("REGISTRY", "registry.example/kerf:1.0"), "an image or a tag"),
    ];
    for (part, variable, expected) in rows {
        let Outcome { well, output } = build(folder.path(), &[part], &[variable]);
        assert!(!well && output.contains(expected), "{part} {variable:?}: {output}");
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "something is left of a refusal");
    }
}

/// Folder in the state that `make release` leaves, with a `gh` that prints its arguments.
struct Forge {
    folder: TempDir,
}

impl Forge {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join(VERSION);
        fs::create_dir(&made).unwrap();
        fs::write(made.join("kerf.bash"), "complete").unwrap();
        let sums = ran(Command::new("bash").args(["-c", "cd \"$1\" && sha256sum kerf.bash", "sums"]).arg(&made));
        fs::write(made.join("SHA256SUMS"), sums).unwrap();
        let gh = folder.path().join("gh");
        fs::write(&gh, "#!/bin/sh\nprintf '%s\\n' \"$@\"\ncat\n").unwrap();
        fs::set_permissions(gh, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn made(&self, name: &str) -> PathBuf {
        self.folder.path().join(VERSION).join(name)
    }

    fn publish(&self) -> Outcome {
        self.publish_with(&[])
    }

    fn publish_with(&self, variables: &[(&str, &str)]) -> Outcome {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let publish = root().join("images/release/publish");
        run(Command::new(publish).arg(self.folder.path()).env("PATH", path).envs(variables.iter().copied()))
    }
}

#[test]
fn publish_uploads_a_draft_with_its_notes() {
    let forge = Forge::new();
    let Outcome { well, output } = forge.publish();
    assert!(well, "{output}");
    let tag = format!("v{VERSION}");
    let words = output.lines().collect::<Vec<_>>();
    assert_eq!(words[..5], ["release", "create", &tag, "--draft", "--verify-tag"]);
    for name in ["SHA256SUMS", "kerf.bash"] {
        assert!(words.contains(&forge.made(name).to_str().unwrap()), "{name}: {output}");
    }
    assert!(words.contains(&"### Known limits") && !output.contains(&format!("## {VERSION}\n")), "{output}");
}

#[test]
fn publish_fails_when_a_checksum_does_not_match() {
    let forge = Forge::new();
    fs::write(forge.made("kerf.bash"), "something else").unwrap();
    let Outcome { well, output } = forge.publish();
    assert!(!well && output.contains("does not match its checksums"), "{output}");
    fs::remove_file(forge.made("SHA256SUMS")).unwrap();
    let Outcome { well, output } = forge.publish();
    assert!(!well && output.contains("run `make release` first"), "{output}");
}

/// A job that may write must not take files of another build, nor files beside those that the build has listed.
#[test]
fn publish_fails_when_files_are_not_those_of_the_build() {
    let forge = Forge::new();
    let sums = ran(Command::new("sha256sum").arg(forge.made("SHA256SUMS")));
    let Outcome { well, output } = forge.publish_with(&[("SUMS", sums.split(' ').next().unwrap())]);
    assert!(well, "{output}");
    let Outcome { well, output } = forge.publish_with(&[("SUMS", &"0".repeat(64))]);
    assert!(!well && output.contains("is not the one of the build"), "{output}");
    fs::write(forge.made("kerf-linux-amd64"), "not listed").unwrap();
    let Outcome { well, output } = forge.publish();
    assert!(!well && output.contains("files that SHA256SUMS does not list"), "{output}");
}

/// Returns the names and contents of a release's files.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder.join(VERSION)).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect();
    files.sort();
    files
}

fn made(parts: &[&str], environment: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let Outcome { well, output } = build(folder.path(), parts, environment);
    assert!(well, "{output}");
    folder
}

/// Returns a file of a packed chart.
fn packed(folder: &Path, archive: &str, file: &str) -> String {
    ran(Command::new("tar").arg("-xzOf").arg(folder.join(VERSION).join(archive)).arg(file))
}

#[test]
#[ignore = "builds programs and Helm: make e2e"]
fn release_has_all_files_and_is_reproducible() {
    let [one, two] = [(); 2].map(|()| made(&["charts", "agent", "cli", "rights"], &[("REGISTRY", REGISTRY)]));
    let (one, two) = (one.path(), two.path());
    assert_eq!(files(one), files(two));
    let programs = ["kerf", "kerf-agent"].map(|name| ["amd64", "arm64"].map(|cpu| format!("{name}-linux-{cpu}")));
    let programs: Vec<String> = programs.into_iter().flatten().collect();
    let others = ["kerf.bash", "kerf.fish", "_kerf", "LICENSE", "CHANGELOG.md", "SHA256SUMS"].map(str::to_owned);
    let charts = ["kerf", "kerf-crd"].map(|chart| format!("{chart}-{VERSION}.tgz"));
    let packages = PACKAGES.map(|(name, _)| name.replace("VERSION", VERSION));
    let rights = ["cloudformation.yaml", "terraform.tar.gz"].map(|name| format!("kerf-{VERSION}-{name}"));
    let bills = programs.iter().map(|program| format!("{program}.cdx.json"));
    let expected = bills.chain(programs.clone()).chain(others).chain(charts).chain(packages).chain(rights);
    let expected: BTreeSet<String> = expected.collect();
    let found: BTreeSet<String> = files(one).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, expected);
    let sums = ran(Command::new("sh")
        .args(["-c", "cd \"$1\" && sha256sum --check --strict SHA256SUMS", "sums"])
        .arg(one.join(VERSION)));
    assert_eq!(sums.lines().filter(|line| line.ends_with(": OK")).count(), expected.len() - 1, "{sums}");
    for program in &programs {
        check_program(&one.join(VERSION).join(program));
    }
    check_charts(one);
    check_packages(one);
    let template = fs::read_to_string(one.join(VERSION).join(format!("kerf-{VERSION}-cloudformation.yaml"))).unwrap();
    assert_eq!(template, read("controller/rights/cloudformation.yaml"));
    let module = packed(one, &format!("kerf-{VERSION}-terraform.tar.gz"), "./main.tf");
    assert_eq!(module, read("controller/rights/terraform/main.tf"));
}

/// Packages of the agent, and their words for the architecture.
const PACKAGES: [(&str, &str); 4] = [
    ("kerf-agent_VERSION-1_amd64.deb", "amd64"),
    ("kerf-agent_VERSION-1_arm64.deb", "arm64"),
    ("kerf-agent-VERSION-1.x86_64.rpm", "amd64"),
    ("kerf-agent-VERSION-1.aarch64.rpm", "arm64"),
];

/// Returns the path and mode of each file that a build of an AMI installs.
fn provisioned() -> BTreeSet<(String, String)> {
    let script = "lib=/usr/lib/systemd folder=.; put() { printf '%s 10%s\\n' \"$3\" \"$1\"; }; eval \"$1\"";
    let text = read("packer/al2023/provision");
    let begin = text.find("put 0755").unwrap();
    let end = text.find("# The image's own settings").unwrap();
    let list = ran(Command::new("bash").args(["-c", script, "list", &text[begin..end]]));
    paths_and_modes(&list)
}

fn paths_and_modes(list: &str) -> BTreeSet<(String, String)> {
    let lines = list.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(path, mode)| (path.to_owned(), mode.to_owned())).collect()
}

/// Checks that packages install the files of an AMI and the settings, each with its mode.
fn check_packages(folder: &Path) {
    let mut expected = provisioned();
    expected.insert(("/etc/kerf/agent.yaml".to_owned(), "100644".to_owned()));
    for (name, architecture) in PACKAGES {
        let package = folder.join(VERSION).join(name.replace("VERSION", VERSION));
        let unpacked = tempfile::tempdir().unwrap();
        unpack(&package, unpacked.path());
        let list = "cd \"$1\" && find . -type f -printf '/%P 100%m\\n'";
        let found = ran(Command::new("bash").args(["-c", list, "list"]).arg(unpacked.path()));
        assert_eq!(paths_and_modes(&found), expected, "{name}");
        let program = fs::read(unpacked.path().join("usr/bin/kerf-agent")).unwrap();
        let built = fs::read(folder.join(VERSION).join(format!("kerf-agent-linux-{architecture}"))).unwrap();
        assert!(program == built, "{name} has another program");
    }
}

/// Unpacks a Debian package by dpkg, or an RPM package by rpm2cpio.
fn unpack(package: &Path, folder: &Path) {
    let is_deb = package.extension().is_some_and(|end| end == "deb");
    let script = if is_deb {
        "dpkg-deb --extract \"$1\" \"$2\""
    } else {
        "cd \"$2\" && rpm2cpio \"$1\" | cpio -idm --quiet --no-absolute-filenames"
    };
    ran(Command::new("bash").args(["-o", "pipefail", "-c", script, "unpack"]).arg(package).arg(folder));
}

/// Checks that the program is static, that its bill of materials belongs to it, and, if this machine can run it, that it has
/// this version.
fn check_program(path: &Path) {
    let headers = ran(Command::new("readelf").args(["--file-header", "--program-headers"]).arg(path));
    let machine = if path.display().to_string().ends_with("arm64") { "AArch64" } else { "X86-64" };
    assert!(headers.contains(machine) && !headers.contains("INTERP"), "{}: {headers}", path.display());
    let folders = ["-e", root().to_str().unwrap(), "-e", "/registry/src/"].map(str::to_owned);
    let Outcome { well, output } =
        run(Command::new("grep").args(["--text", "--only-matching", "-F"]).args(folders).arg(path));
    assert!(!well && output.is_empty(), "{} names a folder of this machine: {output}", path.display());
    let bill: Value = serde_json::from_slice(&fs::read(format!("{}.cdx.json", path.display())).unwrap()).unwrap();
    let sum = ran(Command::new("sha256sum").arg(path));
    assert_eq!(bill["metadata"]["component"]["hashes"][0]["content"].as_str(), sum.split(' ').next());
    let name = bill["metadata"]["component"]["name"].as_str().unwrap();
    if machine == "X86-64" && cfg!(target_arch = "x86_64") {
        assert_eq!(ran(Command::new(path).arg("--version")), format!("{name} {VERSION}\n"));
    }
}

/// Checks that both charts contain the files that they link to, and that the image is the requested one.
fn check_charts(folder: &Path) {
    let chart = format!("kerf-{VERSION}.tgz");
    let values: Value = serde_saphyr::from_str(&packed(folder, &chart, "kerf/values.yaml")).unwrap();
    assert_eq!(values["kerf"]["image"]["repository"], format!("{REGISTRY}/kerf-controller"));
    assert_eq!(values["kerf"]["page"]["image"]["repository"], format!("{REGISTRY}/kerf-cli"));
    assert_eq!(values["kerf"]["image"]["digest"], "", "this release has no images");
    assert_eq!(values["controller"]["image"]["repository"], "");
    assert_eq!(packed(folder, &chart, "kerf/monitoring/alerts.yaml"), read("controller/monitoring/alerts.yaml"));
    let definitions =
        packed(folder, &format!("kerf-crd-{VERSION}.tgz"), "kerf-crd/definitions/karpenter.sh_nodepools.yaml");
    assert_eq!(definitions, read("controller/chart/crds/karpenter.sh_nodepools.yaml"));
    let plain = made(&["charts"], &[]);
    let values: Value = serde_saphyr::from_str(&packed(plain.path(), &chart, "kerf/values.yaml")).unwrap();
    assert_eq!(values["kerf"]["image"]["repository"], "", "without REGISTRY nothing is guessed");
}
