//! Rules that a folder of files does not show: disks, units, programs and their order.

use std::net::IpAddr;

use agent::bootstrap::BootstrapPlan;
use agent::bootstrap::facts::{HOSTS_FILE, api_host};
use agent::bootstrap::plan::containerd::{SOCI_CONFIG, SOCI_DROP_IN};
use agent::bootstrap::plan::{PlanPart, plan};
use machine::nodeconfig::{DisabledMount, LocalStorageStrategy};
use serde_json::{Value, json};

use super::facts::{CLUSTER, Machine};

fn planned(machine: &Machine, rest: &str) -> BootstrapPlan {
    plan(&machine.facts(&format!("{CLUSTER}{rest}"))).unwrap()
}

#[test]
fn plan_prepares_disks_only_when_a_strategy_is_set() {
    let usual = Machine::default();
    let disks = |storage: &str| planned(&usual, &format!("  instance: {{localStorage: {storage}}}\n")).disks;
    assert_eq!(disks("{}"), None);
    assert_eq!(disks("{mountPath: /data, disabledMounts: [SOCI]}"), None);
    for (name, strategy) in [
        ("RAID0", LocalStorageStrategy::Raid0),
        ("RAID10", LocalStorageStrategy::Raid10),
        ("Mount", LocalStorageStrategy::Mount),
    ] {
        let disks = disks(&format!("{{strategy: {name}}}")).unwrap();
        assert_eq!((disks.strategy, disks.mount_path.as_str()), (strategy, "/mnt/k8s-disks/"));
        assert_eq!(disks.disabled_mounts, []);
    }
    let disks = disks("{strategy: RAID0, mountPath: /data, disabledMounts: [Containerd, PodLogs, SOCI]}").unwrap();
    assert_eq!(disks.mount_path, "/data");
    assert_eq!(disks.disabled_mounts, [DisabledMount::Containerd, DisabledMount::PodLogs, DisabledMount::Soci]);
}

#[test]
fn plan_normalizes_and_confines_the_mount_path_of_disks() {
    let usual = Machine::default();
    let planned = |path: &str| {
        let storage = format!("  instance: {{localStorage: {{strategy: RAID0, mountPath: '{path}'}}}}\n");
        plan(&usual.facts(&format!("{CLUSTER}{storage}"))).map(|plan| plan.disks.unwrap().mount_path)
    };
    for (path, mount_path) in [
        ("/data/", "/data"),
        ("//mnt///fast disks/", "/mnt/fast disks"),
        ("/var/lib/disks", "/var/lib/disks"),
        ("/etcd", "/etcd"),
    ] {
        assert_eq!(planned(path).ok().as_deref(), Some(mount_path));
    }
    for path in
        ["/", "data", "/mnt/../etc", "/mnt/./a", "/etc", "/etc/kubernetes", "/usr//bin", "/dev/shm", "/run", "/var/"]
    {
        let error = planned(path).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("spec.instance.localStorage.mountPath is `{path}`; write the path")),
            "{error}"
        );
    }
}

#[test]
fn plan_restarts_system_units_separately_and_in_order() {
    let usual = Machine::default();
    let plan = planned(&usual, "");
    assert_eq!(plan.units, ["containerd.service", "kubelet.service"]);
    assert_eq!(plan.system_units, Vec::<String>::new());
    let plan = planned(&usual, "  instance: {network: {domains: [a.example.com]}}\n");
    assert_eq!(plan.system_units, ["systemd-resolved.service"]);
}

#[test]
fn plan_assigns_each_file_to_its_part() {
    let everything = "  instance:
    network: {domains: [a.example.com]}
    environment: {default: {A: b}, kubelet: {C: d}}
  kubelet: {config: {maxPods: 5}}
";
    for file in planned(&Machine::default(), everything).files {
        let expected = match file.path.as_str() {
            path if path.starts_with("/etc/systemd/") || path.starts_with("/run/systemd/") => PlanPart::System,
            path if path.starts_with("/etc/containerd/") => PlanPart::Containerd,
            _ => PlanPart::Kubelet,
        };
        assert_eq!(file.part, expected, "{}", file.path);
    }
}

#[test]
fn plan_removes_files_that_an_earlier_plan_wrote() {
    let usual = Machine { cpus: 8, ..Machine::default() };
    let with = planned(&usual, "  kubelet: {config: {maxPods: 5}}\n  featureGates: {FastImagePull: true}\n");
    let without = planned(&usual, "");
    for path in ["/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf", SOCI_DROP_IN] {
        assert!(with.file(path).is_some() && !with.absent.iter().any(|absent| absent == path), "{path}");
        assert!(without.file(path).is_none() && without.absent.iter().any(|absent| absent == path), "{path}");
    }
    assert!(with.file(SOCI_CONFIG).is_some());
}

#[test]
fn plan_imports_sandbox_archive_after_containerd_starts() {
    let large = Machine { cpus: 8, ..Machine::default() };
    let gate = "  featureGates: {FastImagePull: true}\n";
    let programs = planned(&large, gate).programs;
    assert_eq!(programs.len(), 1);
    assert_eq!((programs[0].after.as_str(), programs[0].program.as_str()), ("containerd.service", "ctr"));
    assert_eq!(programs[0].arguments.last().map(String::as_str), Some("/etc/eks/pause.tar"));
    let without = Machine { cpus: 8, sandbox_archive: false, ..Machine::default() };
    assert_eq!(planned(&without, gate).programs, []);
    assert_eq!(planned(&large, "").programs, []);
}

#[test]
fn plan_leaves_hosts_file_unchanged_when_planned_again() {
    let outpost = CLUSTER.replace("    name:", "    enableOutpost: true\n    id: some-id\n    name:");
    let addresses: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    for before in ["", "127.0.0.1 localhost\n", "127.0.0.1 localhost"] {
        let machine = Machine { hosts: before.to_owned(), api_addresses: addresses.clone(), ..Machine::default() };
        let first = plan(&machine.facts(&outpost)).unwrap().file(HOSTS_FILE).unwrap().content.clone();
        let text = String::from_utf8(first).unwrap();
        assert!(text.contains("10.0.0.1\texample.com\n2001:db8::1\texample.com\n"), "{text}");
        assert!(text.starts_with(before), "{text}");
        let again = Machine { hosts: text.clone(), ..machine };
        let second = plan(&again.facts(&outpost)).unwrap().file(HOSTS_FILE).unwrap().content.clone();
        assert_eq!(String::from_utf8(second).unwrap(), text);
    }
}

#[test]
fn api_host_returns_host_of_endpoint() {
    for (endpoint, host) in [
        ("https://example.com", Some("example.com")),
        ("https://example.com:6443/path?query", Some("example.com")),
        ("example.com:443", Some("example.com")),
        ("https://[2001:db8::1]:6443", Some("2001:db8::1")),
        ("https://", None),
        ("https:///path", None),
        ("https://a b", None),
    ] {
        assert_eq!(api_host(endpoint).ok(), host, "{endpoint}");
    }
}

#[test]
fn kubeconfig_preserves_unusual_names() {
    for odd in [
        "plain",
        "1.0",
        "yes",
        "null",
        "a: b",
        "# no comment",
        "quote\"and\\\\slash",
        "'",
        "- x",
        "{}",
        "*a",
        "ü",
        "x:",
    ] {
        let config = format!(
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n",
            json!({"cluster": {
                "name": odd, "apiServerEndpoint": odd, "certificateAuthority": "YQ==", "cidr": "10.100.0.0/16",
            }})
        );
        let plan = plan(&Machine::default().facts(&config)).unwrap();
        let text = String::from_utf8(plan.file("/var/lib/kubelet/kubeconfig").unwrap().content.clone()).unwrap();
        let kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(kubeconfig["clusters"][0]["cluster"]["server"], odd);
        let arguments = json!(["eks", "get-token", "--cluster-name", odd, "--region", "us-west-2"]);
        assert_eq!(kubeconfig["users"][0]["user"]["exec"]["args"], arguments);
    }
}

/// Decodes a quoted value as systemd does: C escapes, then specifiers.
fn as_systemd_reads(quoted: &str) -> String {
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
    let (mut text, mut characters) = (String::new(), inner.chars());
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => match characters.next().unwrap() {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'x' => {
                    let digits: String = characters.by_ref().take(2).collect();
                    char::from(u8::from_str_radix(&digits, 16).unwrap())
                }
                protected @ ('"' | '\\') => protected,
                other => panic!("no escape: {other}"),
            },
            '%' => {
                assert_eq!(characters.next(), Some('%'), "a specifier");
                '%'
            }
            '"' => panic!("the value ends early"),
            other => other,
        });
    }
    text
}

#[test]
fn environment_drop_in_preserves_every_character() {
    for code in (1_u8..=126).chain([0xe9]) {
        let value = format!("a{}b", char::from(code));
        let config = format!("{CLUSTER}  instance: {}\n", json!({"environment": {"kubelet": {"NAME": value}}}));
        let plan = plan(&Machine::default().facts(&config)).unwrap();
        let file = plan.file("/etc/systemd/system/kubelet.service.d/environment.conf").unwrap();
        let text = String::from_utf8(file.content.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, "[Service]"), "{code}: {text}");
        assert_eq!(as_systemd_reads(lines[1].strip_prefix("Environment=").unwrap()), format!("NAME={value}"), "{code}");
    }
}

#[test]
fn plan_warns_when_disabled_mounts_have_no_effect() {
    let rest = "  instance: {localStorage: {strategy: Mount, disabledMounts: [SOCI]}}\n";
    let warnings = planned(&Machine::default(), rest).warnings;
    assert_eq!(warnings, ["spec.instance.localStorage.disabledMounts has no effect with strategy Mount"]);
}
