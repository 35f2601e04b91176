//! Tests of container images. Two builds give the same image, and the image contains one static program and nothing else. The
//! bill of materials matches the lock file, and the image runs on a bare kernel.
//!
//! `make e2e` builds the programs and runs the ignored tests.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use ship::{Outcome, program, ran, root, run};
use tempfile::TempDir;

/// Offset of the machine type in an ELF file; `MACHINES` has the values of the supported architectures.
const MACHINE: usize = 18;
const MACHINES: [(&str, u8); 2] = [("amd64", 62), ("arm64", 183)];

fn build(name: &str, program: &Path, architecture: &str, folder: &Path) -> Outcome {
    let own_bundle = [("SSL_CERT_FILE", "/dev/null")];
    let command = root().join("images/build");
    run(Command::new(command).arg(name).arg(program).arg(architecture).arg(folder).envs(own_bundle))
}

/// Built and unpacked image.
struct Image {
    folder: TempDir,
    name: String,
    config: Value,
    layers: Vec<PathBuf>,
}

impl Image {
    fn of(name: &str, program: &Path, architecture: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let Outcome { well, output } = build(name, program, architecture, folder.path());
        assert!(well, "{output}");
        let name = format!("{name}-{architecture}");
        let layout = folder.path().join("layout");
        fs::create_dir(&layout).unwrap();
        ran(Command::new("tar").arg("-xf").arg(folder.path().join(format!("{name}.tar"))).arg("-C").arg(&layout));
        let blob = |digest: &Value| layout.join("blobs").join(digest.as_str().unwrap().replace(':', "/"));
        let read = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
        let index = read(&layout.join("index.json"));
        let manifest = read(&blob(&index["manifests"][0]["digest"]));
        let config = read(&blob(&manifest["config"]["digest"]));
        let layers = manifest["layers"].as_array().unwrap().iter().map(|layer| blob(&layer["digest"])).collect();
        Self { folder, name, config, layers }
    }

    fn digest(&self) -> String {
        fs::read_to_string(self.folder.path().join(format!("{}.digest", self.name))).unwrap()
    }

    fn bill(&self) -> Value {
        let path = self.folder.path().join(format!("{}.cdx.json", self.name));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    /// Returns the folder of its unpacked files.
    fn unpacked(&self) -> PathBuf {
        let files = self.folder.path().join("rootfs");
        fs::create_dir_all(&files).unwrap();
        for layer in &self.layers {
            ran(Command::new("tar").arg("-xf").arg(layer).arg("-C").arg(&files));
        }
        files
    }

    /// Runs the image by runc with other arguments, without network and without a writable file.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let files = self.unpacked();
        let run_by = &self.config["config"];
        let words = |key: &str| run_by[key].as_array().cloned().unwrap_or_default();
        let ids: Vec<u32> = run_by["User"].as_str().unwrap_or("0:0").split(':').map(|id| id.parse().unwrap()).collect();
        let command: Vec<Value> = words("Entrypoint").into_iter().chain(arguments.iter().map(|it| json!(it))).collect();
        let bundle = json!({
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": ids[0], "gid": ids[1]}, "args": command, "env": words("Env"), "cwd": "/",
                        "noNewPrivileges": true},
            "root": {"path": files, "readonly": true},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "network"}]},
        });
        fs::write(self.folder.path().join("config.json"), bundle.to_string()).unwrap();
        let name = format!("kerf-ship-{}-{}", self.name, std::process::id());
        let state = self.folder.path().join("state");
        run(Command::new("runc").arg("--root").arg(state).args(["run", "--bundle"]).arg(self.folder.path()).arg(name))
    }
}

/// Checks the properties of every image.
fn check(image: &Image, architecture: &str, program: &Path, files: &[&str]) {
    assert_eq!((&image.config["architecture"], &image.config["os"]), (&json!(architecture), &json!("linux")));
    assert_eq!(image.config["created"], "1970-01-01T00:00:00Z");
    let unpacked = image.unpacked();
    let listed = ran(Command::new("find").arg(&unpacked).args(["-type", "f", "-printf", "%P\n"]));
    let listed: BTreeSet<&str> = listed.lines().collect();
    assert_eq!(listed, files.iter().copied().collect(), "nothing but the program and what it needs");
    let inside = fs::read(unpacked.join(files[files.len() - 1])).unwrap();
    assert_eq!(inside, fs::read(program).unwrap());
    let wanted = MACHINES.iter().find(|(name, _)| *name == architecture).unwrap().1;
    assert_eq!((&inside[..4], inside[MACHINE]), (&b"\x7fELF"[..], wanted));
}

/// Checks that the bill lists only crates of the lock file, each with its checksum, and that it contains some known ones.
fn check_bill(bill: &Value, certain: &[&str]) {
    let lock: toml::Table = fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let locked = lock["package"].as_array().unwrap();
    let parts = bill["components"].as_array().unwrap();
    for part in parts {
        let same = |key: &str, package: &toml::Value| package[key].as_str() == part[key].as_str();
        let package = locked.iter().find(|package| same("name", package) && same("version", package));
        let checksum = package.unwrap().get("checksum").and_then(toml::Value::as_str);
        assert_eq!(part["hashes"][0]["content"].as_str(), checksum, "{part}");
        assert!(part["licenses"][0]["expression"].is_string(), "{part}");
    }
    for name in certain {
        assert!(parts.iter().any(|part| part["name"] == *name), "{name} is missing");
    }
    assert!(!parts.iter().any(|part| part["name"] == "proptest"), "tests are not shipped");
}

/// Returns the image of program `name` after the checks that apply on any machine.
fn checked(name: &str, architecture: &str, files: &[&str], certain: &[&str]) -> Image {
    let program = program(name, architecture);
    let (image, again) = (Image::of(name, &program, architecture), Image::of(name, &program, architecture));
    assert_eq!(image.digest(), again.digest(), "the same program, the same image");
    assert!(image.digest().starts_with("sha256:"));
    check(&image, architecture, &program, files);
    check_bill(&image.bill(), certain);
    image
}

fn agent(architecture: &str) -> Image {
    checked("agent", architecture, &["usr/bin/kerf-agent"], &["api", "rustls", "tokio"])
}

#[test]
#[ignore = "needs what make e2e builds"]
fn agent_image_runs_on_amd64() {
    let image = agent("amd64");
    assert_eq!(image.config["config"]["Cmd"], json!(["run"]));
    let Outcome { well, output } = image.run(&["--version"]);
    assert!(well && output.starts_with("kerf-agent "), "{output}");
    // The agent searches for the host where Bottlerocket mounts it in a superpowered host container.
    let Outcome { well, output } = image.run(&["doctor", "--offline"]);
    assert!(!well && output.contains("kubelet is missing"), "{output}");
}

#[test]
#[ignore = "needs what make e2e builds"]
fn agent_image_is_built_for_arm64() {
    assert_eq!(agent("arm64").config["config"]["Cmd"], json!(["run"]));
}

const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

fn controller(architecture: &str) -> Image {
    let files = [AUTHORITIES, "usr/bin/kerf-controller"];
    let image = checked("controller", architecture, &files, &["aws-sdk-ec2", "kube", "planner"]);
    assert_eq!(image.config["config"]["User"], "65532:65532");
    let authorities = fs::read_to_string(image.unpacked().join(AUTHORITIES)).unwrap();
    let bundle = fs::read_to_string(root().join("images/controller/ca-certificates.crt")).unwrap();
    assert!(authorities == bundle, "the bundle is not the one of the tree");
    image
}

/// The bundle is the one of the tree, whatever the build machine trusts.
#[test]
fn ca_bundle_has_its_checksum_and_only_certificates() {
    let folder = root().join("images/controller");
    let check = "cd \"$1\" && sha256sum --check --strict ca-certificates.crt.sha256";
    ran(Command::new("bash").args(["-c", check, "check"]).arg(&folder));
    let bundle = fs::read_to_string(folder.join("ca-certificates.crt")).unwrap();
    assert!(bundle.contains("# Amazon Root CA 1\n") && !bundle.contains("PRIVATE"));
    assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), bundle.matches("END CERTIFICATE").count());
    let build = fs::read_to_string(root().join("images/build")).unwrap();
    assert!(!build.contains("/etc/ssl") && !build.contains("SSL_CERT_FILE"), "the build reads the machine's bundle");
}

#[test]
#[ignore = "needs what make e2e builds"]
fn controller_image_runs_as_nonroot_on_amd64() {
    let Outcome { well, output } = controller("amd64").run(&["--help"]);
    assert!(well && output.contains("Usage: kerf-controller"), "{output}");
}

#[test]
#[ignore = "needs what make e2e builds"]
fn controller_image_is_built_for_arm64() {
    assert_eq!(controller("arm64").config["config"]["Entrypoint"], json!(["/usr/bin/kerf-controller"]));
}

fn cli(architecture: &str) -> Image {
    let image = checked("cli", architecture, &["usr/bin/kerf"], &["clap", "kube", "planner"]);
    assert_eq!(image.config["config"]["User"], "65532:65532");
    image
}

#[test]
#[ignore = "needs what make e2e builds"]
fn cli_image_refuses_to_serve_without_a_cluster_on_amd64() {
    let Outcome { well, output } = cli("amd64").run(&["ui", "--live", "--listen", "127.0.0.1:8877"]);
    assert!(!well && output.contains("no cluster"), "{output}");
}

#[test]
#[ignore = "needs what make e2e builds"]
fn cli_image_is_built_for_arm64() {
    assert_eq!(cli("arm64").config["config"]["Entrypoint"], json!(["/usr/bin/kerf"]));
}

#[test]
#[ignore = "needs what make e2e builds"]
fn build_fails_when_program_or_architecture_is_invalid() {
    let (agent, folder) = (program("agent", "amd64"), tempfile::tempdir().unwrap());
    let dynamic = Path::new("/bin/true");
    let rows = [
        ("agent", agent.as_path(), "arm64", "is no program for arm64"),
        ("agent", agent.as_path(), "riscv", "is neither amd64 nor arm64"),
        ("agent", dynamic, "amd64", "is not static"),
        ("gateway", agent.as_path(), "amd64", "there is no image `gateway`"),
    ];
    for (name, program, architecture, expected) in rows {
        let Outcome { well, output } = build(name, program, architecture, folder.path());
        assert!(!well && output.contains(expected), "{name} {architecture}: {output}");
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is left of a refusal");
    }
}
