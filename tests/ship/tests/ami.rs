//! Tests of machine images with the real Packer: templates are valid, invalid variables are rejected with a message, and a
//! complete build runs against moto's EC2. The machine that is provisioned over SSH is a real systemd in a container.
//!
//! `make e2e` runs the ignored tests, because they need a build of Packer.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use ship::moto::{Moto, REGION};
use ship::{Outcome, commands, program, ran, root, run};
use systemd_container::{Layer, System};
use tempfile::TempDir;

const SUDO: &str = "#!/bin/sh\nif [ \"$1\" = -E ]; then shift; fi\nexec \"$@\"\n";
/// Bottlerocket's `sheltie`, which enters the host from the admin container, and its `ctr`, which keeps a list of the pulled
/// images.
const SHELTIE: &str = "#!/bin/sh\nexec \"$@\"\n";
const CTR: &str = "#!/bin/sh -e
for image; do :; done
case \" $* \" in
*\" pull \"*) echo \"$*\" >> /opt/pulls; echo \"$image\" >> /opt/images ;;
*\" ls \"*) cat /opt/images ;;
esac
";

/// Variables with which Packer calls a server that accepts any credentials.
const CREDENTIALS: [(&str, &str); 4] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_REGION", REGION),
    ("AWS_EC2_METADATA_DISABLED", "true"),
];

/// Messages of Packer's processes that lose their connection. Packer permits five seconds for a response, ten for a keepalive
/// and a minute for a start, and no setting changes these limits. On a busy machine, any build may fail with one of these
/// messages.
const LOST: [&str; 5] = [
    "unexpected EOF",
    "connection is shut down",
    "connection write timeout",
    "timeout waiting for accept",
    "timeout while waiting for plugin to start",
];
/// Most attempts for an operation with such a failure.
const ATTEMPTS: usize = 5;

/// Repeats an operation while Packer's processes lose their connection; any other failure is final.
fn patiently<T>(mut attempt: impl FnMut() -> (T, Outcome)) -> (T, Outcome) {
    for number in 1..ATTEMPTS {
        let (made, outcome) = attempt();
        if outcome.well || !LOST.iter().any(|words| outcome.output.contains(words)) {
            return (made, outcome);
        }
        eprintln!("Packer's processes lost each other, attempt {number} of {ATTEMPTS}: {}", outcome.output);
    }
    attempt()
}

fn packer(arguments: &[&str]) -> Outcome {
    run(Command::new(root().join("packer/run")).args(arguments).envs(CREDENTIALS).env("PACKER_NO_COLOR", "1"))
}

fn validate(template: &str, variables: &[String]) -> Outcome {
    let given: Vec<&str> = variables.iter().flat_map(|variable| ["-var", variable.as_str()]).collect();
    patiently(|| ((), packer(&[&["validate"], given.as_slice(), &[template]].concat()))).1
}

#[test]
#[ignore = "builds Packer: make e2e"]
fn packer_accepts_each_form_of_the_templates() {
    let agent = program("agent", "amd64");
    for architecture in ["amd64", "arm64"] {
        for variant in ["standard", "nvidia"] {
            for mode in ["observe", "bootstrap"] {
                let variables = [
                    "kubernetes=1.36".to_owned(),
                    format!("agent={}", agent.display()),
                    format!("architecture={architecture}"),
                    format!("variant={variant}"),
                    format!("mode={mode}"),
                ];
                let Outcome { well, output } = validate("packer/al2023", &variables);
                assert!(well, "{variables:?}: {output}");
            }
        }
        for variant in ["aws-k8s", "aws-k8s-nvidia", "aws-k8s-fips"] {
            let variables = [
                "kubernetes=1.36".to_owned(),
                r#"images=["docker.io/library/busybox:1"]"#.to_owned(),
                format!("architecture={architecture}"),
                format!("variant={variant}"),
            ];
            let Outcome { well, output } = validate("packer/bottlerocket", &variables);
            assert!(well, "{variables:?}: {output}");
        }
    }
    let Outcome { well, output } = packer(&["fmt", "-check", "-diff", "-recursive", "packer"]);
    assert!(well, "{output}");
}

#[test]
#[ignore = "builds Packer: make e2e"]
fn packer_reports_an_error_when_a_variable_is_invalid() {
    let program = format!("agent={}", program("agent", "amd64").display());
    let rows = [
        ("packer/al2023", vec!["kubernetes=1.36", program.as_str(), "mode=both"], "mode is observe or bootstrap"),
        ("packer/al2023", vec!["kubernetes=latest", &program], "a minor version, such as 1.36"),
        ("packer/al2023", vec!["kubernetes=1.36", &program, "architecture=x86_64"], "architecture is amd64 or arm64"),
        ("packer/al2023", vec!["kubernetes=1.36", &program, "variant=neuron"], "variant is standard or nvidia"),
        ("packer/al2023", vec!["kubernetes=1.36", "agent=/none/kerf-agent"], "/none/kerf-agent"),
        ("packer/bottlerocket", vec!["kubernetes=1.36", "images=[]"], "lists at least one image"),
        ("packer/bottlerocket", vec!["kubernetes=1.36", r#"images=["a b"]"#], "each by its full name"),
    ];
    for (template, variables, expected) in rows {
        let variables: Vec<String> = variables.into_iter().map(str::to_owned).collect();
        let Outcome { well, output } = validate(template, &variables);
        let line: String = output.replace(['│', '\n'], " ");
        assert!(
            !well && line.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected),
            "{variables:?}: {output}"
        );
    }
}

/// Machine with its own SSH server on loopback.
struct Machine {
    system: System,
    ssh: String,
    folder: TempDir,
}

impl Machine {
    fn boot(layer: Layer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["host", "user"] {
            let key = folder.path().join(name);
            ran(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key));
        }
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        // The server reports a conflict if another process takes the port before; no process on this machine requests a fixed
        // port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        layer.script("usr/bin/sudo", SUDO);
        layer.write("opt/ssh/host", &text("host"));
        layer.write("opt/ssh/user.pub", &text("user.pub"));
        layer.write(
            "opt/ssh/config",
            &format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey /opt/ssh/host\nAuthorizedKeysFile /opt/ssh/user.pub\nPermitRootLogin yes\n\
                 StrictModes no\nUsePAM no\nPidFile none\nSubsystem sftp internal-sftp\n"
            ),
        );
        let unit = "[Service]\nRuntimeDirectory=sshd\nExecStartPre=/bin/chmod 600 /opt/ssh/host\nExecStart=/usr/sbin/sshd -D -f /opt/ssh/config\n";
        layer.write("etc/systemd/system/test-ssh.service", unit);
        let system = System::boot(layer);
        system.systemctl(&["start", "test-ssh"]);
        let key = folder.path().join("user").display().to_string();
        let ssh = format!(r#"ssh={{username="root",host="127.0.0.1",port={port},private_key_file="{key}"}}"#);
        Self { system, ssh, folder }
    }

    /// Builds against moto, with this machine as the instance that EC2 has launched; returns Packer's output.
    fn build(&self, moto: &Moto, template: &str, variables: &[&str]) -> Outcome {
        let endpoint = format!("endpoint={}", moto.url());
        let manifest = format!("manifest={}", self.folder.path().join("manifest.json").display());
        let all = [&[self.ssh.as_str(), &endpoint, &manifest, "kubernetes=1.36"], variables].concat();
        let given: Vec<&str> = all.into_iter().flat_map(|variable| ["-var", variable]).collect();
        packer(&[&["build", "-color=false"], given.as_slice(), &[template]].concat())
    }

    /// Returns the image in Packer's manifest.
    fn image(&self) -> String {
        let text = fs::read_to_string(self.folder.path().join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        let artifact = manifest["builds"][0]["artifact_id"].as_str().unwrap();
        artifact.strip_prefix(&format!("{REGION}:")).unwrap().to_owned()
    }
}

/// Runs a build with a new server and machine each time, because Packer rejects an existing image name.
fn build(
    images: &[(&str, &str)],
    boot: impl Fn() -> Machine,
    template: &str,
    variables: &[&str],
) -> (Moto, Machine, Outcome) {
    let ((moto, machine), outcome) = patiently(|| {
        let (moto, machine) = (Moto::start(images), boot());
        let outcome = machine.build(&moto, template, variables);
        ((moto, machine), outcome)
    });
    (moto, machine, outcome)
}

/// Returns the images that a selector term of an EC2NodeClass finds: by filters, as in `docs/nodeclass.md`.
fn found(moto: &Moto, filters: &[(&str, &str)]) -> String {
    let mut parameters = vec![("Owner.1".to_owned(), "self")];
    for (index, (name, value)) in filters.iter().enumerate() {
        parameters.push((format!("Filter.{}.Name={name}&Filter.{}.Value.1", index + 1, index + 1), value));
    }
    moto.ec2("DescribeImages", &parameters.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>())
}

#[test]
#[ignore = "builds Packer: make e2e"]
fn packer_build_creates_an_image_that_the_selectors_find() {
    if !System::is_available() {
        return;
    }
    let images = [
        ("amazon-eks-node-al2023-x86_64-standard-1.36-v20260101", "x86_64"),
        ("amazon-eks-node-al2023-x86_64-standard-1.36-v20260201", "x86_64"),
        ("amazon-eks-node-al2023-x86_64-nvidia-1.36-v20260301", "x86_64"),
        ("amazon-eks-node-al2023-arm64-standard-1.36-v20260301", "arm64"),
        ("amazon-eks-node-al2023-x86_64-standard-1.35-v20260301", "x86_64"),
    ];
    let boot = || {
        let machine = Machine::boot(Layer::of_eks());
        machine.system.systemctl(&["enable", "nodeadm-config", "nodeadm-run"]);
        machine
    };
    let program = format!("agent={}", program("agent", "amd64").display());
    let variables = [&program, "mode=bootstrap", "version=1", r#"tags={team="nodes"}"#];
    let (moto, machine, Outcome { well, output }) = build(&images, boot, "packer/al2023", &variables);
    assert!(well && output.contains("verify: all checks passed, mode bootstrap"), "{output}");
    let image = machine.image();
    let by_name = found(&moto, &[("name", "kerf-al2023-*")]);
    assert!(by_name.contains(&image) && by_name.contains("kerf-al2023-x86_64-standard-1.36-1"), "{by_name}");
    for (tag, value) in [("kerf.sh/mode", "bootstrap"), ("kerf.sh/variant", "standard"), ("team", "nodes")] {
        assert!(found(&moto, &[(&format!("tag:{tag}"), value)]).contains(&image), "{tag}={value}");
    }
    assert!(by_name.contains("amazon-eks-node-al2023-x86_64-standard-1.36-v20260201"), "made of the newest: {by_name}");
    assert!(!machine.system.at("tmp/kerf").exists(), "what was uploaded is gone");
    assert!(machine.system.at("etc/systemd/system/multi-user.target.wants/kerf-agent.service").is_symlink());
}

#[test]
#[ignore = "builds Packer: make e2e"]
fn packer_build_creates_no_image_when_the_machine_is_invalid() {
    if !System::is_available() {
        return;
    }
    let images = [("amazon-eks-node-al2023-x86_64-standard-1.36-v20260101", "x86_64")];
    let boot = || {
        let layer = Layer::of_eks();
        layer.write("var/lib/kubelet/kubeconfig", "another node's");
        Machine::boot(layer)
    };
    let program = format!("agent={}", program("agent", "amd64").display());
    let (moto, _, Outcome { well, output }) = build(&images, boot, "packer/al2023", &[&program, "mode=bootstrap"]);
    assert!(!well && output.contains("it belongs to another node"), "{output}");
    assert!(!found(&moto, &[("name", "kerf-al2023-*")]).contains("kerf-al2023-x86_64"));
}

#[test]
#[ignore = "builds Packer: make e2e"]
fn packer_pulls_images_onto_bottlerockets_data_volume() {
    if !System::is_available() {
        return;
    }
    let published = [("bottlerocket-aws-k8s-1.36-x86_64-v1.46.0-0123abcd", "x86_64")];
    let boot = || {
        let layer = Layer::of_eks();
        for (program, text) in [("sheltie", SHELTIE), ("ctr", CTR)] {
            layer.script(&format!("usr/bin/{program}"), text);
        }
        let machine = Machine::boot(layer);
        machine.system.systemctl(&["start", "kubelet"]);
        machine
    };
    let images = r#"images=["docker.io/library/busybox:1","example.com/team/web@sha256:00"]"#;
    let variables = [images, "registry_user=AWS:word"];
    let (moto, machine, Outcome { well, output }) = build(&published, boot, "packer/bottlerocket", &variables);
    assert!(well && output.contains("2 images are on the data volume"), "{output}");
    assert!(!output.contains("AWS:word"), "a password is no part of a log: {output}");
    let pulls = fs::read_to_string(machine.system.at("opt/pulls")).unwrap();
    assert_eq!(pulls.lines().count(), 2, "{pulls}");
    assert!(
        pulls
            .lines()
            .all(|line| line.contains("k8s.io images pull --user AWS:word --label io.cri-containerd.image=managed"))
    );
    assert_eq!(machine.system.property("kubelet.service", "ActiveState"), "inactive");
    assert!(found(&moto, &[("tag:kerf.sh/image", "bottlerocket")]).contains(&machine.image()));
}

#[test]
#[ignore = "builds Packer: make e2e"]
fn ami_document_commands_lead_to_a_valid_template() {
    let lines = commands("docs/ami.md", "sh");
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let (verbs, others): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.starts_with("make "));
    assert!(!verbs.is_empty() && !others.is_empty(), "{lines:?}");
    for line in verbs {
        let verb = line.split_whitespace().nth(1).unwrap();
        assert!(makefile.contains(&format!("\n{verb}:")), "{line}: there is no such verb; make e2e has run the others");
    }
    // The program is in the user's cache, unless the test has another one.
    let home = tempfile::tempdir().unwrap();
    let built = home.path().join(".cache/kerf/agent");
    fs::create_dir_all(&built).unwrap();
    fs::copy(program("agent", "amd64"), built.join("kerf-agent")).unwrap();
    for line in others {
        let mut shell = Command::new("bash");
        shell.args(["-euc", line]).envs(CREDENTIALS).env("KERF_CACHE", ship::cache()).env("HOME", home.path());
        // Go's own folders are below the real home.
        for name in ["GOCACHE", "GOMODCACHE"] {
            shell.env(name, ran(Command::new("go").args(["env", name])).trim());
        }
        let (_, Outcome { well, output }) = patiently(|| ((), run(&mut shell)));
        assert!(well && output.contains("The configuration is valid."), "{line}: {output}");
    }
}
