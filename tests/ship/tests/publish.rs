//! Tests of a published release: images and charts in a real registry, signed, installed by Helm without the checkout.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use ship::registry::{Registry, go_programs};
use ship::{Outcome, cache, ran, root, run};
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the command behind `make publish REGISTRY=...`.
fn push(folder: &Path, registry: &str, environment: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(root().join("images/release/push"));
    command.arg(folder).arg(registry).env_remove("KEY").env_remove("DOCKER_CONFIG").env_remove("SUMS");
    run(command.envs(environment.iter().copied()))
}

/// Writes the checksums of a folder in the state that `make release` leaves.
fn sum(made: &Path) {
    let list = "cd \"$1\" && rm -f SHA256SUMS && LC_ALL=C sha256sum -- * >../sums && mv ../sums SHA256SUMS";
    ran(Command::new("bash").args(["-c", list, "sums"]).arg(made));
}

/// Returns a release without content: files with the names of a release, and a chart whose image is in `registry`.
fn empty_release(registry: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join(VERSION);
    fs::create_dir_all(made.join("kerf")).unwrap();
    for name in ["controller", "agent", "cli"] {
        fs::write(made.join(format!("kerf-{name}-image.tar")), "").unwrap();
    }
    let values = format!("kerf:\n  image:\n    repository: {registry}/kerf-controller\n");
    fs::write(made.join("kerf/values.yaml"), values).unwrap();
    for chart in ["kerf", "kerf-crd"] {
        let archive = made.join(format!("{chart}-{VERSION}.tgz"));
        ran(Command::new("tar").arg("-czf").arg(archive).arg("-C").arg(&made).arg("kerf/values.yaml"));
    }
    fs::remove_dir_all(made.join("kerf")).unwrap();
    sum(&made);
    folder
}

#[test]
fn publish_fails_before_it_pushes_when_input_is_invalid() {
    let release = empty_release("registry.example/kerf");
    let none = tempfile::tempdir().unwrap();
    let part = empty_release("registry.example/kerf");
    fs::remove_file(part.path().join(VERSION).join("kerf-cli-image.tar")).unwrap();
    sum(&part.path().join(VERSION));
    let rows = [
        (&release, "https://registry.example/kerf", ("KEY", ""), "without a scheme"),
        (&release, "registry.example/kerf:1.0", ("KEY", ""), "an image or a tag"),
        (&release, "Registry.example", ("KEY", ""), "in lowercase"),
        (&release, "registry.example/kerf", ("KEY", "/none.key"), "KEY is `/none.key`, which is no file"),
        (&none, "registry.example/kerf", ("KEY", ""), "run `make release` first"),
        (&part, "registry.example/kerf", ("KEY", ""), "has no kerf-cli-image.tar"),
        (
            &release,
            "other.example",
            ("KEY", ""),
            "the chart's image is registry.example/kerf/kerf-controller, not in other.example",
        ),
    ];
    for (release, registry, variable, expected) in rows {
        let Outcome { well, output } = push(release.path(), registry, &[variable]);
        assert!(!well && output.contains(expected), "{registry} {variable:?}: {output}");
    }
}

/// Registry with clients, and a release of the images in the cache for it.
struct Published {
    registry: Registry,
    release: TempDir,
    keys: TempDir,
}

impl Published {
    /// Builds a release for a new registry, and a pair of keys.
    fn prepare() -> Self {
        let (registry, release, keys) = (Registry::start(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut build = Command::new(root().join("images/release/build"));
        build.arg(release.path()).args(["images", "charts"]).env_remove("TAG").env("REGISTRY", registry.name());
        ran(build.env("KERF_CACHE", cache()));
        for name in ["kerf", "other"] {
            let mut generate = Command::new(Self::cosign());
            generate.arg("generate-key-pair").arg("--output-key-prefix").arg(keys.path().join(name));
            ran(generate.env("COSIGN_PASSWORD", "password"));
        }
        Self { registry, release, keys }
    }

    fn cosign() -> PathBuf {
        go_programs("images/release/cosign").join("cosign")
    }

    fn key(&self, name: &str) -> String {
        self.keys.path().join(name).display().to_string()
    }

    fn push(&self) -> Outcome {
        let (login, key) = (self.registry.login().display().to_string(), self.key("kerf.key"));
        let variables = [("DOCKER_CONFIG", login.as_str()), ("KEY", &key), ("COSIGN_PASSWORD", "password")];
        push(self.release.path(), &self.registry.name(), &variables)
    }

    fn crane(&self, words: &[&str]) -> String {
        self.registry.ran(&go_programs("images/release/crane").join("crane"), words)
    }

    fn digest(&self, image: &str) -> String {
        fs::read_to_string(self.release.path().join(VERSION).join(format!("kerf-{image}-image.digest"))).unwrap()
    }

    /// Verifies a signature, or a signed bill of materials, with a public key.
    fn verify(&self, verb: &[&str], key: &str, reference: &str) -> Outcome {
        let mut command = Command::new(Self::cosign());
        command.args(verb).args(["--key", &self.key(key), "--insecure-ignore-tlog", reference]);
        run(command.env("DOCKER_CONFIG", self.registry.login()))
    }

    /// Returns the objects that the installation by `docs/install.md` creates from the registry alone, with the page.
    fn installed(&self) -> Vec<Value> {
        let page = fs::read_to_string(root().join("docs/install.md")).unwrap();
        let section = page.split("\n## From a registry\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let commands = section.lines().filter_map(|line| line.strip_prefix("    helm upgrade --install "));
        let objects: Vec<Vec<Value>> = commands.map(|command| self.template(command)).collect();
        assert_eq!(objects.len(), 2, "{section}");
        objects.into_iter().flatten().collect()
    }

    fn template(&self, arguments: &str) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        let page = if arguments.contains("crd") { "" } else { "--set kerf.page.enabled=true" };
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("\"$HELM\" template --plain-http {page} {arguments}")]).current_dir(folder.path());
        shell.env("HELM", go_programs("tests/helm/helm4").join("helm")).env("DOCKER_CONFIG", self.registry.login());
        shell.env("REGISTRY", self.registry.name()).env("VERSION", VERSION).env("NAMESPACE", "n").env("CLUSTER", "c");
        for variable in ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"] {
            shell.env(variable, folder.path());
        }
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
    }
}

#[test]
#[ignore = "builds images, cosign and a registry: make e2e"]
fn published_release_is_signed_and_installs_from_its_registry_alone() {
    let published = Published::prepare();
    let name = published.registry.name();
    let Outcome { well, output } = push(published.release.path(), &name, &[("DOCKER_CONFIG", "/none")]);
    assert!(!well && output.contains("for credentials: docker login 127.0.0.1:"), "{output}");
    let Outcome { well, output } = published.push();
    assert!(well, "{output}");
    for image in ["controller", "agent", "cli"] {
        check_image(&published, image);
    }
    for chart in ["kerf", "kerf-crd"] {
        let reference = format!("{name}/charts/{chart}:{VERSION}");
        assert!(published.verify(&["verify"], "kerf.pub", &reference).well, "{chart}");
    }
    let objects = published.installed();
    let images: Vec<&str> = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment")
        .filter_map(|object| object["spec"]["template"]["spec"]["containers"][0]["image"].as_str())
        .collect();
    let definitions = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition").count();
    assert!(definitions > 0, "the chart of CRDs has none");
    let expected = ["controller", "cli"].map(|image| format!("{name}/kerf-{image}@{}", published.digest(image)));
    assert_eq!(images, expected);
}

/// Checks the tag, the architectures, the signature and the bills of materials of an image.
fn check_image(published: &Published, image: &str) {
    let repository = format!("{}/kerf-{image}", published.registry.name());
    let digest = published.digest(image);
    assert_eq!(published.crane(&["digest", &format!("{repository}:{VERSION}")]).trim(), digest);
    let index: Value =
        serde_json::from_str(&published.crane(&["manifest", &format!("{repository}@{digest}")])).unwrap();
    let architectures = index["manifests"].as_array().unwrap().iter().map(|it| &it["platform"]["architecture"]);
    assert_eq!(architectures.collect::<Vec<_>>(), ["amd64", "arm64"], "{image}");
    let signed = published.verify(&["verify"], "kerf.pub", &format!("{repository}@{digest}"));
    assert!(signed.well, "{image}: {}", signed.output);
    let other = published.verify(&["verify"], "other.pub", &format!("{repository}@{digest}"));
    assert!(!other.well && other.output.contains("invalid signature"), "{image}: {}", other.output);
    for manifest in index["manifests"].as_array().unwrap() {
        let reference = format!("{repository}@{}", manifest["digest"].as_str().unwrap());
        let attested = published.verify(&["verify-attestation", "--type", "cyclonedx"], "kerf.pub", &reference);
        assert!(attested.well, "{reference}: {}", attested.output);
        assert!(published.verify(&["verify"], "kerf.pub", &reference).well, "{reference}");
    }
}

#[test]
#[ignore = "builds images, cosign and a registry: make e2e"]
fn second_push_continues_and_refuses_other_content() {
    let published = Published::prepare();
    assert!(published.push().well);
    let Outcome { well, output } = published.push();
    assert!(well, "{output}");
    // The chart is another one, as after a change without a new version.
    let made = published.release.path().join(VERSION);
    let chart = made.join(format!("kerf-{VERSION}.tgz"));
    let change = "mkdir x && tar -xzf \"$1\" -C x && echo '# x' >>x/kerf/values.yaml && tar -czf \"$1\" -C x kerf";
    ran(Command::new("bash").args(["-c", &format!("cd \"$(mktemp -d)\" && {change}"), "change"]).arg(&chart));
    sum(&made);
    let Outcome { well, output } = published.push();
    assert!(!well && output.contains("has other content than this release: use a new version"), "{output}");
    // So is an image.
    fs::write(made.join("kerf-controller-image.digest"), format!("sha256:{}", "0".repeat(64))).unwrap();
    sum(&made);
    let Outcome { well, output } = published.push();
    assert!(!well && output.contains(&format!("kerf-controller:{VERSION} is sha256:")), "{output}");
}
