//! The reviewed documents, and their warnings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use api::nodeclass::KubeletConfiguration;
use machine::userdata::{AmiFamily, Bootstrap};

use super::support::{document, input, taint, whole_kubelet, with};

const NODE_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: not-this-one}
  kubelet:
    config: {maxPods: 1, podPidsLimit: 4096}
    flags: [--v=4]
";
const SCRIPT: &str = "#!/bin/bash\r\necho hello\r\n";
const PARTS: &str = "Content-Type: multipart/mixed; boundary=\"EDGE\"
MIME-Version: 1.0

--EDGE
Content-Type: text/cloud-config; charset=\"us-ascii\"
Content-Disposition: attachment; filename=\"a.yaml\"

runcmd: [\"true\"]

--EDGE
Content-Type: text/x-shellscript
Content-Transfer-Encoding: base64

IyEvYmluL3NoCmVjaG8gaGVsbG8K
--EDGE--
";
const SETTINGS: &str = r#"# what the team sets
[settings.kernel.sysctl]
"net.core.somaxconn" = "4096"

[settings.kubernetes]
cluster-name = "not-this-one"
max-pods = 1
cluster-dns-ip = "10.0.0.53"
pod-pids-limit = 4096
image-gc-high-threshold-percent = "85"

[settings.kubernetes.node-labels]
team = "not-this-one"
rack = "r1"

[settings.kubernetes.eviction-hard]
"memory.available" = "15%"

[settings.bootstrap-commands.010-greet]
commands = [["apiclient", "set", "motd=hello"]]
mode = "once"
essential = false
"#;
const RESERVED: &str = r#"[settings.kubernetes.kube-reserved]
cpu = "70m"
memory = "900Mi"
ephemeral-storage = "2Gi"

[settings.kubernetes.system-reserved]
memory = "300Mi"

[settings.kubernetes.eviction-hard]
"memory.available" = "15%"
"#;
const CONTAINER: &str = "[settings.host-containers.kerf-agent]\nsource = \"example.com/kerf-agent:1\"\n";

fn raid0(release: Option<&str>, user_data: &str) -> Bootstrap {
    Bootstrap { raid0: true, image_release: release.map(str::to_owned), ..with(user_data) }
}

fn agent(settings: &str, user_data: &str) -> Bootstrap {
    Bootstrap { agent: Some(settings.to_owned()), ..with(user_data) }
}

/// Returns an input with reservations in the user data, and one of them in the class too.
fn one_reservation() -> Bootstrap {
    let kube_reserved = whole_kubelet().kube_reserved;
    Bootstrap { kubelet: KubeletConfiguration { kube_reserved, ..KubeletConfiguration::default() }, ..with(RESERVED) }
}

/// Returns rows of family, case, input, and the beginning of each warning.
fn rows() -> Vec<(AmiFamily, &'static str, Bootstrap, &'static [&'static str])> {
    use AmiFamily::{Al2, Al2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025};
    let kubelet = || Bootstrap { max_pods: None, kubelet: whole_kubelet(), ..input() };
    let ipv6 = || Bootstrap { cluster_cidr: "fd00:10::/108".into(), cluster_dns: vec!["fd00:10::a".into()], ..input() };
    let ipv6_bare = || Bootstrap { cluster_dns: Vec::new(), ..ipv6() };
    let bare = || Bootstrap { max_pods: None, cluster_dns: Vec::new(), taints: Vec::new(), ..input() };
    let strange = "[settings.kubernetes]\nmaxpods = 3\nquantum-mode = true\n[network]\na = 1\n";
    let tainted = "[settings.kubernetes.node-taints]\ndedicated = [\"gpu:NoSchedule\"]\nmine = [\"yes:NoExecute\"]\n";
    let own_block = "<PowerShell>\r\nWrite-Host 'hi'\r\n</powershell>\n<persist>true</persist>\n";
    let registered = Bootstrap { taints: vec![taint("karpenter.sh/unregistered", "", "NoExecute")], ..input() };
    let quoted = Bootstrap { cluster_name: "it's".into(), ..input() };
    vec![
        (Al2, "nothing-but-the-cluster", bare(), &[]),
        (Al2, "a-script-goes-first", with(SCRIPT), &[]),
        (Al2, "parts-keep-their-headers", with(PARTS), &[]),
        (Al2, "the-kubelet-block", kubelet(), &[]),
        (Al2, "ipv6", ipv6(), &[]),
        (Al2, "ipv6-without-a-dns-address", ipv6_bare(), &[]),
        (Al2, "disks-as-one-array", Bootstrap { raid0: true, ..input() }, &[]),
        (Al2, "quotes-are-escaped", quoted.clone(), &[]),
        (Al2023, "nothing-but-the-cluster", bare(), &[]),
        (Al2023, "a-script-goes-first", Bootstrap { raid0: true, ..with(SCRIPT) }, &[]),
        (Al2023, "parts-keep-their-headers", with(PARTS), &[]),
        (Al2023, "a-nodeconfig-goes-first", with(NODE_CONFIG), &[]),
        (Al2023, "the-kubelet-block", kubelet(), &[]),
        (Al2023, "ipv6", ipv6(), &[]),
        (Al2023, "ipv6-without-a-dns-address", ipv6_bare(), &[]),
        (Al2023, "unregistered-is-there-once", registered, &[]),
        (Al2023, "the-agent-is-a-part", agent("gates: {csiDrivers: [ebs.csi.aws.com]}\n", SCRIPT), &[]),
        (Al2023, "an-agent-without-settings-needs-no-part", agent(" ", SCRIPT), &[]),
        (Bottlerocket, "nothing-but-the-cluster", bare(), &[]),
        (Bottlerocket, "ipv6", ipv6(), &[]),
        (Bottlerocket, "ipv6-without-a-dns-address", ipv6_bare(), &[]),
        (Bottlerocket, "settings-are-merged", with(SETTINGS), &[]),
        (
            Bottlerocket,
            "the-kubelet-block-wins",
            Bootstrap { max_pods: None, kubelet: whole_kubelet(), ..with(SETTINGS) },
            &[],
        ),
        (Bottlerocket, "the-users-reservations-stay", with(RESERVED), &[]),
        (Bottlerocket, "the-class-replaces-the-reservation-that-it-sets", one_reservation(), &[]),
        (
            Bottlerocket,
            "unknown-settings-are-kept-and-reported",
            with(strange),
            &[
                "network in spec.userData is ignored",
                "unknown setting settings.kubernetes.maxpods in spec.userData; did you mean max-pods",
                "unknown setting settings.kubernetes.quantum-mode in spec.userData; check its name",
            ],
        ),
        (
            Bottlerocket,
            "taints-that-the-pool-lacks-are-reported",
            with(tainted),
            &["settings.kubernetes.node-taints in spec.userData has mine, which the NodePool does not"],
        ),
        (Bottlerocket, "disks-by-alias-latest", raid0(Some("latest"), ""), &[]),
        (Bottlerocket, "disks-since-1.46", raid0(Some("1.46.0"), SETTINGS), &[]),
        (Bottlerocket, "disks-before-1.46", raid0(Some("v1.45.9"), ""), &[]),
        (Bottlerocket, "disks-of-an-unknown-release", raid0(None, ""), &[]),
        (Bottlerocket, "the-agent-is-a-host-container", agent("usage: {period: 30s}\n", CONTAINER), &[]),
        (
            Bottlerocket,
            "user-settings-extend-the-agents-container",
            agent("", &format!("{CONTAINER}enabled = false\nuser-data = \"e30=\"\n")),
            &[],
        ),
        (Bottlerocket, "an-agent-in-the-image", agent("", ""), &["no host container runs the agent"]),
        (Windows2019, "nothing-but-the-cluster", bare(), &[]),
        (Windows2022, "commands-go-first", with("Write-Host 'hi'\n"), &[]),
        (Windows2022, "a-block-of-the-users-own", with(own_block), &[]),
        (Windows2025, "the-dns-address-of-the-cluster", input(), &[]),
        (Windows2025, "the-kubelet-block", kubelet(), &[]),
        (Windows2025, "quotes-are-escaped", quoted, &[]),
        (Custom, "verbatim", with("#!/bin/sh\r\nexec join --token x\r\n"), &[]),
        (Custom, "nothing", input(), &[]),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents")
}

fn place(family: AmiFamily, case: &str) -> PathBuf {
    let ending = match family {
        AmiFamily::Bottlerocket => ".toml",
        family if family.is_windows() => ".ps1",
        _ => ".txt",
    };
    folder().join(family.as_str().to_lowercase()).join(format!("{case}{ending}"))
}

#[test]
fn render_returns_the_reviewed_documents() {
    for (family, case, input, warnings) in rows() {
        let (found, place) = (document(family, &input), place(family, case));
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(&place, &found.text).unwrap();
        }
        let expected = std::fs::read_to_string(&place).unwrap_or_default();
        assert_eq!(found.text, expected, "{}; review with BLESS=1", place.display());
        let message: Vec<String> = found.warnings.iter().map(ToString::to_string).collect();
        let as_expected = message.iter().zip(warnings).all(|(message, expected)| message.starts_with(expected));
        assert!(as_expected && message.len() == warnings.len(), "{case}: {message:?}");
        assert_eq!(document(family, &input), found, "the same input is the same document");
    }
}

#[test]
fn rows_contain_every_document() {
    let expected: BTreeSet<PathBuf> = rows().iter().map(|(family, case, ..)| place(*family, case)).collect();
    let families = folder().read_dir().unwrap().map(|family| family.unwrap().path());
    let found: BTreeSet<PathBuf> =
        families.flat_map(|family| family.read_dir().unwrap()).map(|file| file.unwrap().path()).collect();
    assert_eq!(found, expected);
}

#[test]
fn render_warns_about_a_second_call_of_the_bootstrap_script() {
    let rows = [
        (AmiFamily::Al2, "#!/bin/bash\n/etc/eks/bootstrap.sh shop\n", "kubelet is configured twice"),
        (AmiFamily::Al2, "#!/bin/bash\n# /etc/eks/bootstrap.sh shop\n", ""),
        (AmiFamily::Al2023, "#!/bin/bash\nset -e; /etc/eks/bootstrap.sh shop\n", "kubelet is configured twice"),
        (AmiFamily::Windows2022, "& 'C:\\x\\Start-EKSBootstrap.ps1' -a b\n", "kubelet is configured twice"),
        (AmiFamily::Custom, "#!/bin/bash\n/etc/eks/bootstrap.sh shop\n", ""),
    ];
    for (family, text, expected) in rows {
        let input = Bootstrap { user_data: Some(text.to_owned()), ..input() };
        let warnings = document(family, &input).warnings;
        let message: String = warnings.iter().map(ToString::to_string).collect();
        assert!(message.contains(expected) && warnings.is_empty() == expected.is_empty(), "{family:?}: {message}");
    }
}
