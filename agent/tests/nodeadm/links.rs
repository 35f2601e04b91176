//! Network interfaces: their owners (EKS's own test case 29), and the condition for the boot to continue (case 2).

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use agent::nodeadm::command::{Action, Internal, UdevNetManager};
use agent::nodeadm::link::hook::{Link, Links, awaited_of};
use agent::nodeadm::run_internal;

use super::fixture::Fixture;
use super::program;
use crate::imds::Fault;

const PRIMARY: &str = "0e:49:61:0f:c3:11";
const SECONDARY: &str = "02:00:00:00:00:02";
const OWNERS: &str = "etc/eks/nodeadm/udev-net-manager/i-1234567890abcdef0";
const STATES: [&str; 16] = [
    "missing",
    "off",
    "no-carrier",
    "dormant",
    "degraded-carrier",
    "carrier",
    "degraded",
    "enslaved",
    "routable",
    "pending",
    "initialized",
    "configuring",
    "configured",
    "unmanaged",
    "failed",
    "linger",
];
const NETWORKCTL: &str = "#!/bin/sh\nhere=${0%/*}\necho \"$*\" >> \"$here/networkctl.log\"\n[ \"$1\" = list ] && cat \"$here/links.json\"\nexit 0\n";

/// Creates a machine with interfaces of these names and hardware addresses.
async fn machine(interfaces: &[(&str, &str)]) -> Fixture {
    let fixture = Fixture::new("").await;
    for (name, mac) in interfaces {
        fixture.test_host.write(&format!("sys/class/net/{name}/address"), &format!("{mac}\n"));
    }
    fixture.test_host.program("networkctl", NETWORKCTL);
    fixture
}

fn links(states: &[(&str, &str)]) -> Links {
    let link =
        |(name, state): &(&str, &str)| Link { name: (*name).to_owned(), administrative_state: (*state).to_owned() };
    Links { interfaces: states.iter().map(link).collect() }
}

/// Sets the output of networkctl.
fn show(fixture: &Fixture, states: &[(&str, &str)]) {
    let link =
        |(name, state): &(&str, &str)| serde_json::json!({"Index": 1, "Name": name, "AdministrativeState": state});
    let document = serde_json::json!({"Interfaces": states.iter().map(link).collect::<Vec<_>>()});
    let draft = fixture.test_host.root().join("links.json");
    fs::write(&draft, document.to_string()).unwrap();
    fs::rename(draft, bin(fixture).join("links.json")).unwrap();
}

fn bin(fixture: &Fixture) -> std::path::PathBuf {
    fixture.test_host.search_path().split(':').next().unwrap().into()
}

fn networkctl_calls(fixture: &Fixture) -> Vec<String> {
    let log = bin(fixture).join("networkctl.log");
    let calls = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(log);
    calls.lines().map(str::to_owned).collect()
}

async fn udev(fixture: &Fixture, action: Action, interface: &str) -> anyhow::Result<()> {
    let options = UdevNetManager { action, interface: interface.parse().unwrap() };
    run_internal(&fixture.machine(), &Internal::UdevNetManager(options)).await
}

#[test]
fn awaited_of_returns_none_for_only_one_combination_of_states() {
    let names = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    for (managed, secondary) in [(names(&["eth0"]), "unmanaged"), (names(&["eth0", "eth1"]), "configured")] {
        for first in STATES {
            for second in STATES {
                for loopback in STATES {
                    let links = links(&[("eth0", first), ("eth1", second), ("lo", loopback)]);
                    let good = first == "configured" && second == secondary && loopback == "unmanaged";
                    assert_eq!(awaited_of(&links, &managed).is_none(), good, "{first} {second} {loopback}");
                }
            }
        }
    }
    let absent = awaited_of(&links(&[("lo", "unmanaged")]), &names(&["eth0"]));
    assert_eq!(absent.as_deref(), Some("eth0 is missing"));
}

#[tokio::test]
async fn boot_hook_returns_when_every_link_has_its_expected_state() {
    for (record, second) in [
        (Some("io.systemd.Network"), "configured"),
        (Some(r#"{"mac":"02:00:00:00:00:02","manager":"io.systemd.Network"}"#), "configured"),
        (Some("io.systemd.Network\n02:00:00:00:00:99\n"), "unmanaged"),
        (Some("cni"), "unmanaged"),
        (None, "unmanaged"),
    ] {
        let fixture = machine(&[("eth0", PRIMARY), ("eth1", SECONDARY), ("lo", "00:00:00:00:00:00")]).await;
        if let Some(record) = record {
            fixture.test_host.write(&format!("{OWNERS}/eth1"), record);
        }
        let mut machine = fixture.machine();
        machine.links.limit = Duration::from_secs(600);
        let hook = tokio::spawn(async move { run_internal(&machine, &Internal::BootHook).await });
        for (first, other) in [("pending", "configuring"), ("unmanaged", second), ("configured", "failed")] {
            show(&fixture, &[("eth0", first), ("eth1", other), ("lo", "unmanaged")]);
            networkctl_calls(&fixture);
            for _ in 0..2 {
                while networkctl_calls(&fixture).is_empty() && !hook.is_finished() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            assert!(!hook.is_finished(), "{first} {other}");
        }
        show(&fixture, &[("eth0", "configured"), ("eth1", second), ("lo", "unmanaged")]);
        hook.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn boot_hook_reports_reason_when_links_do_not_settle() {
    let fixture = machine(&[("eth0", PRIMARY), ("eth1", SECONDARY)]).await;
    let mut machine = fixture.machine();
    machine.links.limit = Duration::from_millis(300);
    show(&fixture, &[("eth0", "configuring"), ("eth1", "unmanaged")]);
    let error = run_internal(&machine, &Internal::BootHook).await.unwrap_err().to_string();
    assert!(error.ends_with("eth0 is configuring, not configured"), "{error}");
    fs::write(bin(&fixture).join("links.json"), "<html>").unwrap();
    let error = run_internal(&machine, &Internal::BootHook).await.unwrap_err().to_string();
    assert!(error.contains("networkctl printed no list of links"), "{error}");
    fixture.test_host.write("sys/class/net/eth0/address", "02:00:00:00:00:09");
    let error = run_internal(&machine, &Internal::BootHook).await.unwrap_err().to_string();
    assert!(error.ends_with(&format!("no interface has the primary hardware address {PRIMARY}")), "{error}");
}

#[tokio::test]
async fn udev_net_manager_leaves_primary_to_networkd_before_init() {
    let fixture = machine(&[("eth0", PRIMARY)]).await;
    fixture.imds.fail("meta-data/mac", &[Fault::Status(404)]);
    let device = format!("meta-data/network/interfaces/macs/{PRIMARY}/device-number");
    fixture.imds.set(&device, "0");
    let (file, record) = ("run/systemd/network/70-eks-eth0.network", format!("{OWNERS}/eth0"));
    udev(&fixture, Action::Add, "eth0").await.unwrap();
    let written = fixture.read(file).unwrap();
    for line in ["[Match]\nPermanentMACAddress=0e:49:61:0f:c3:11\n", "DHCP=yes\n", "RouteMetric=512\n"] {
        assert!(written.contains(line), "{line} is not in {written}");
    }
    assert!(!written.contains("Table="));
    assert!(fixture.read(&record).unwrap().starts_with("io.systemd.Network\n"));
    let default_off = fixture.read("run/systemd/network/80-ec2.network.d/10-eks-disable.conf").unwrap();
    assert!(default_off.contains("[Link]\nUnmanaged=yes\n"));
    assert_eq!(networkctl_calls(&fixture), ["reload"]);

    udev(&fixture, Action::Remove, "eth0").await.unwrap();
    assert_eq!((fixture.read(file), networkctl_calls(&fixture)), (None, vec!["reload".to_owned()]));
    fixture.test_host.write("run/nodeadm/init", "");
    udev(&fixture, Action::Add, "eth0").await.unwrap();
    assert_eq!(fixture.read(file), Some(written));

    udev(&fixture, Action::Remove, "eth0").await.unwrap();
    fs::remove_dir_all(fixture.test_host.root().join("etc/eks/nodeadm")).unwrap();
    networkctl_calls(&fixture);
    udev(&fixture, Action::Add, "eth0").await.unwrap();
    assert_eq!((fixture.read(file), networkctl_calls(&fixture)), (None, vec![]));
    assert!(fixture.read(&record).unwrap().starts_with("cni\n"));
}

#[tokio::test]
async fn udev_net_manager_writes_own_route_table_for_secondary() {
    let of = |name: &str| format!("meta-data/network/interfaces/macs/{SECONDARY}/{name}");
    for (card, metric, table) in [(None, 513, 10_001), (Some("0"), 513, 10_001), (Some("2"), 713, 10_201)] {
        let fixture = machine(&[("eth1", SECONDARY)]).await;
        fixture.imds.set(&of("device-number"), "1");
        fixture.imds.set(&of("local-ipv4s"), "172.16.40.7\n172.16.40.8");
        if let Some(card) = card {
            fixture.imds.set(&of("network-card"), card);
        }
        udev(&fixture, Action::Add, "eth1").await.unwrap();
        let written = fixture.read("run/systemd/network/70-eks-eth1.network").unwrap();
        let rule = format!("[RoutingPolicyRule]\nFrom=172.16.40.7\nPriority=32765\nTable={table}\n");
        let routes = ["_dhcp4", "_ipv6ra"].map(|gateway| format!("[Route]\nGateway={gateway}\nTable={table}\n"));
        for part in [
            rule,
            routes.concat().replace("[Route]\nGateway=_ipv6ra", "\n[Route]\nGateway=_ipv6ra"),
            format!("RouteMetric={metric}\n"),
        ] {
            assert!(written.contains(&part), "{part} is not in {written}");
        }
        assert_eq!(fixture.read("run/systemd/network/80-ec2.network.d/10-eks-disable.conf"), None);
    }
}

#[tokio::test]
async fn udev_net_manager_ignores_record_when_mac_changed() {
    let fixture = machine(&[("eth1", SECONDARY)]).await;
    udev(&fixture, Action::Add, "eth1").await.unwrap();
    fixture.test_host.write("run/nodeadm/init", "");
    udev(&fixture, Action::Add, "eth1").await.unwrap();
    assert!(fixture.read(&format!("{OWNERS}/eth1")).unwrap().starts_with("io.systemd.Network\n"));
    udev(&fixture, Action::Remove, "eth1").await.unwrap();
    fixture.test_host.write("sys/class/net/eth1/address", "02:00:00:00:00:55\n");
    udev(&fixture, Action::Add, "eth1").await.unwrap();
    assert!(fixture.read(&format!("{OWNERS}/eth1")).unwrap().starts_with("cni\n"));
    assert_eq!(fixture.read("run/systemd/network/70-eks-eth1.network"), None);
}

#[tokio::test]
async fn nodeadm_internal_exits_with_error_when_interface_is_missing() {
    let fixture = machine(&[("eth0", PRIMARY)]).await;
    let add = |interface| ["udev-net-manager", "--action", "add", "--interface", interface];
    let output = program::run(&fixture, "nodeadm-internal", &add("eth0")).await;
    assert!(output.status.success(), "{}", program::output_text(&output));
    show(&fixture, &[("eth0", "configured")]);
    let output = program::run(&fixture, "nodeadm-internal", &["boot-hook"]).await;
    assert!(output.status.success(), "{}", program::output_text(&output));
    let output = program::run(&fixture, "nodeadm-internal", &add("eth7")).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        program::output_text(&output).contains("this machine has no network interface eth7"),
        "{}",
        program::output_text(&output)
    );
    fixture.test_host.program("systemctl", "#!/bin/sh\nexit 3\n");
    fixture.test_host.program("networkctl", "#!/bin/sh\nexit 1\n");
    fs::remove_file(fixture.test_host.root().join("run/systemd/network/70-eks-eth0.network")).unwrap();
    let output = program::run(&fixture, "nodeadm-internal", &add("eth0")).await;
    assert!(
        output.status.success(),
        "a networkd that is not up reads its files later: {}",
        program::output_text(&output)
    );
}
