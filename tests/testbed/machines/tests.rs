//! Tests of the node simulator without a cluster. Agents are a shell script, so that only their handling by the simulator is
//! tested.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud::fake::FakeCloud;
use cloud::{Cloud, Filter, FleetConfig, FleetOverride, FleetRequest, LaunchTemplateRequest};
use jiff::{SignedDuration, Timestamp};
use tokio::net::TcpStream;

use super::systemctl::{self, Units};
use super::{Machine, NodeSimulator, Options, Phase, Programs, facts};
use crate::eventually;
use crate::kubelet::{self, Hardware, Timing};
use crate::pki::Authority;
use crate::process::RunFolder;

const LIMIT: Duration = Duration::from_secs(120);

/// Script whose first bootstrap fails, and whose `run` ignores SIGTERM.
const AGENT: &str = r#"#!/bin/sh
echo "$1 root=$KERF_ROOT imds=$AWS_EC2_METADATA_SERVICE_ENDPOINT extra=$EXTRA systemctl=$(command -v systemctl)"
case $1 in
    bootstrap) [ -e "$KERF_ROOT/tried" ] || { : > "$KERF_ROOT/tried"; exit 1; } ;;
    run) trap '' TERM; while :; do sleep 0.05; done ;;
esac
"#;

const USER_DATA: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n";
const BY_ID: &str =
    "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  featureGates:\n    InstanceIdNodeName: true\n";

struct Fixture {
    cloud: FakeCloud,
    simulator: NodeSimulator,
    // Removed last, because it contains the logs of running processes.
    folder: RunFolder,
}

impl Fixture {
    async fn start() -> Result<Self> {
        let folder = RunFolder::create("node-simulator")?;
        let agent = folder.path().join("kerf-agent");
        std::fs::write(&agent, AGENT)?;
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755))?;
        let programs = Programs { agent: agent.clone(), systemctl: agent };
        let cloud = FakeCloud::builder("us-west-2").only_types(&["m5.large"]).build()?;
        let authority = Authority::create()?;
        let sign = Arc::new(move |user: &str| authority.client(user, "system:nodes"));
        let mut options = Options::new(cloud.clone(), sign, folder.path().join("machines"), programs);
        options.environment = [("EXTRA".to_owned(), "given".to_owned())].into();
        options.grace = Duration::from_millis(100);
        Ok(Self { simulator: NodeSimulator::start(options).await?, cloud, folder })
    }

    async fn launch(&self, count: u32, user_data: &str) -> Result<Vec<String>> {
        let subnet = self.cloud.subnets(&Filter::default()).await?.into_iter().next().context("a subnet")?;
        let images = self.cloud.images(&Filter::default()).await?;
        let image = images.into_iter().find(|image| image.architecture == "x86_64").context("an image")?;
        let template = LaunchTemplateRequest {
            name: format!("template-{}", self.cloud.template_names().len()),
            image_id: image.id.clone(),
            user_data: STANDARD.encode(user_data),
            ..LaunchTemplateRequest::default()
        };
        self.cloud.create_launch_template(&template).await?;
        let choice = FleetOverride {
            instance_type: "m5.large".to_owned(),
            zone: subnet.zone,
            subnet_id: subnet.id,
            image_id: image.id,
            priority: 1,
        };
        let request = FleetRequest {
            client_token: template.name.clone(),
            target: count,
            capacity_type: "spot".to_owned(),
            configs: vec![FleetConfig { launch_template: template.name, overrides: vec![choice] }],
            ..FleetRequest::default()
        };
        let answer = self.cloud.create_fleet(&request).await?;
        ensure!(answer.instances.len() == count as usize, "{:?}", answer.errors);
        Ok(answer.instances.into_iter().map(|instance| instance.id).collect())
    }

    async fn machine(&self, id: &str) -> Result<Arc<Machine>> {
        eventually("the machine", LIMIT, async || Ok(self.simulator.machine(id))).await
    }

    /// Returns a machine whose agent has reached `run`.
    async fn running(&self, id: &str) -> Result<Arc<Machine>> {
        let machine = self.machine(id).await?;
        reaches(&machine, &Phase::Running).await?;
        eventually("the agent", LIMIT, async || Ok(machine.agent_pid())).await?;
        Ok(machine)
    }
}

async fn reaches(machine: &Machine, phase: &Phase) -> Result<()> {
    eventually(&format!("{phase:?}"), LIMIT, async || {
        ensure!(machine.phase() == *phase, "it is {:?}", machine.phase());
        Ok(Some(()))
    })
    .await
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn agent_restarts_bootstrap_when_it_fails_while_run_runs() -> Result<()> {
    let fixture = Fixture::start().await?;
    let ids = fixture.launch(1, USER_DATA).await?;
    let machine = fixture.running(&ids[0]).await?;
    eventually("three starts in the log", LIMIT, async || {
        let log = std::fs::read_to_string(machine.log())?;
        let mut verbs: Vec<&str> = log.lines().filter_map(|line| line.split(' ').next()).collect();
        // Both units start concurrently.
        verbs.sort_unstable();
        ensure!(verbs == ["bootstrap", "bootstrap", "run"], "{verbs:?}");
        let imds = machine.imds().context("no metadata")?;
        let folder = machine.folder().display();
        let expected =
            format!("run root={folder}/root imds={} extra=given systemctl={folder}/bin/systemctl", imds.url());
        ensure!(log.lines().any(|line| line == expected), "{log}");
        Ok(Some(()))
    })
    .await?;
    assert_eq!(machine.agent_starts(), 3);
    let pid = machine.agent_pid().context("no agent")?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), nix::sys::signal::Signal::SIGKILL)?;
    eventually("another start", LIMIT, async || Ok((machine.agent_starts() == 4).then_some(()))).await?;
    fixture.simulator.stop().await
}

#[tokio::test]
async fn reboot_ends_all_processes_and_keeps_the_disk() -> Result<()> {
    let fixture = Fixture::start().await?;
    let ids = fixture.launch(1, USER_DATA).await?;
    let machine = fixture.running(&ids[0]).await?;
    let root = machine.folder().join("root");
    let boot_id = || std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
    let (before, imds) = (boot_id()?, machine.imds().context("no metadata")?);
    let pids = machine.pids();
    std::fs::write(root.join("run/kept-in-memory"), "")?;
    std::fs::write(root.join("var/lib/kerf/kept-on-disk"), "")?;
    machine.reboot().await?;
    assert!(!root.join("run/kept-in-memory").exists() && root.join("var/lib/kerf/kept-on-disk").exists());
    assert_ne!(boot_id()?, before);
    reaches(&machine, &Phase::Running).await?;
    eventually("the agent", LIMIT, async || Ok(machine.agent_pid())).await?;
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "something of the boot before is left");
    assert_eq!(machine.imds().context("no metadata")?.address(), imds.address());
    fixture.simulator.stop().await
}

#[tokio::test]
async fn install_writes_the_files_of_the_image() -> Result<()> {
    let fixture = Fixture::start().await?;
    let ids = fixture.launch(1, USER_DATA).await?;
    let machine = fixture.running(&ids[0]).await?;
    let read = |path: &str| std::fs::read_to_string(machine.folder().join("root").join(path)).context(path.to_owned());
    assert_eq!(read("etc/eks/kubelet-version.txt")?, "v1.36.3\n");
    assert_eq!(read("sys/devices/system/cpu/online")?, "0-1\n", "an m5.large has two processors");
    assert!(machine.folder().join("root/sys/devices/system/node/node0/cpu1").is_dir());
    assert_eq!(read("proc/sys/kernel/random/boot_id")?.len(), 37);
    let bundle = "var/lib/kubelet/pki/kubelet-client-current.pem";
    let text = read(bundle)?;
    assert!(text.contains("BEGIN CERTIFICATE") && text.contains("BEGIN PRIVATE KEY"));
    let mode = std::fs::metadata(machine.folder().join("root").join(bundle))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fixture.simulator.stop().await
}

#[tokio::test]
async fn machine_receives_notices_and_ends_all_processes_at_its_end() -> Result<()> {
    let fixture = Fixture::start().await?;
    let ids = fixture.launch(1, USER_DATA).await?;
    let machine = fixture.running(&ids[0]).await?;
    let imds = machine.imds().context("no metadata")?;
    let pid = machine.agent_pid().context("no agent")?;
    assert_eq!(machine.systemctl(&["is-active", "kubelet"]).await?, (3, "inactive\n".to_owned()));
    assert!(imds.facts().interruption.is_none() && imds.facts().rebalance.is_none());
    assert!(fixture.cloud.recommend_rebalance(&ids[0]));
    let deadline = Timestamp::now() + SignedDuration::from_secs(2);
    assert!(fixture.cloud.interrupt(&ids[0], deadline));
    eventually("both notices", LIMIT, async || {
        let facts = imds.facts();
        let noticed = facts.interruption.filter(|notice| notice.time == deadline).and(facts.rebalance);
        Ok(noticed.map(drop))
    })
    .await?;
    reaches(&machine, &Phase::Ended).await?;
    assert!(Timestamp::now() >= deadline, "it ended before its time");
    assert!(!is_alive(pid), "the agent, which ignores SIGTERM, is left");
    assert!(machine.agent_pid().is_none() && machine.imds().is_none());
    assert!(TcpStream::connect(imds.address()).await.is_err(), "metadata still answers");
    assert!(machine.systemctl(&["daemon-reload"]).await.is_err(), "its service manager still answers");
    assert!(machine.log().exists(), "logs stay");
    fixture.simulator.stop().await
}

#[tokio::test]
async fn simulator_leaves_no_process_when_stopped_or_dropped() -> Result<()> {
    for stopped in [true, false] {
        let fixture = Fixture::start().await?;
        let ids = fixture.launch(3, USER_DATA).await?;
        let mut addresses = Vec::new();
        for id in &ids {
            addresses.push(fixture.running(id).await?.imds().context("no metadata")?.address());
        }
        let pids = fixture.simulator.pids();
        assert_eq!((pids.len(), addresses.len()), (3, 3));
        let machines = fixture.simulator.machines();
        if stopped {
            fixture.simulator.stop().await?;
            assert!(machines.iter().all(|machine| machine.phase() == Phase::Ended));
        } else {
            drop(fixture.simulator);
        }
        eventually("all to be gone", LIMIT, async || {
            let left: Vec<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
            ensure!(left.is_empty(), "{left:?}");
            Ok(Some(()))
        })
        .await?;
        if stopped {
            for address in addresses {
                assert!(TcpStream::connect(address).await.is_err(), "{address} still answers");
            }
        }
        drop(fixture.folder);
    }
    Ok(())
}

#[tokio::test]
async fn machine_reports_the_reason_when_it_cannot_boot() -> Result<()> {
    let fixture = Fixture::start().await?;
    let ids = fixture.launch(1, USER_DATA).await?;
    // An existing file must not be used for this machine.
    let pki = fixture.folder.path().join("machines").join(&ids[0]).join("root/var/lib/kubelet/pki");
    std::fs::create_dir_all(&pki)?;
    std::fs::write(pki.join("kubelet-client-current.pem"), "another's")?;
    let machine = fixture.machine(&ids[0]).await?;
    eventually("the reason", LIMIT, async || match machine.phase() {
        Phase::Broken(why) => {
            ensure!(why.contains("kubelet-client-current.pem"), "{why}");
            Ok(Some(()))
        }
        other => anyhow::bail!("it is {other:?}"),
    })
    .await?;
    fixture.simulator.stop().await
}

#[tokio::test]
async fn facts_match_the_instance_in_ec2() -> Result<()> {
    let fixture = Fixture::start().await?;
    let ids = [fixture.launch(1, USER_DATA).await?, fixture.launch(1, BY_ID).await?].concat();
    let [plain, by_id] = [&ids[0], &ids[1]].map(|id| fixture.cloud.machine(id));
    let (plain, by_id) = (plain.context("plain")?, by_id.context("by id")?);
    assert_eq!(facts::node_name(&plain), plain.instance.private_dns_name);
    assert_eq!(facts::node_name(&by_id), ids[1]);
    let facts = facts::facts(&plain, "usw2-az1");
    assert_eq!(facts.user_data.as_deref(), Some(USER_DATA.as_bytes()));
    assert_eq!((facts.region.as_str(), facts.zone_id.as_str()), ("us-west-2", "usw2-az1"));
    assert!(facts.mac.starts_with("02:00:0a:00:") && facts.mac.len() == 17, "{}", facts.mac);
    fixture.simulator.stop().await
}

#[tokio::test]
async fn units_respond_like_systemctl() -> Result<()> {
    let folder = RunFolder::create("systemctl")?;
    let socket = folder.path().join("socket");
    let listener = systemctl::listen(&socket)?;
    let hardware = Hardware {
        instance_type: "m5.large".to_owned(),
        architecture: "x86_64".to_owned(),
        vcpus: 2,
        memory_bytes: 8 << 30,
        huge_page_bytes: 0,
        disk_bytes: 20 << 30,
        devices: BTreeMap::new(),
    };
    let mut units = Units::new(kubelet::Options {
        built_in_plugins: Vec::new(),
        root: folder.path().join("root"),
        hardware,
        pod_network: [0, 1],
        timing: Timing::default(),
        log: folder.log("kubelet"),
        plugin: None,
    });
    let calls = Mutex::default();
    let rows: [(&[&str], u8, &str); 11] = [
        (&["daemon-reload"], 0, ""),
        (&["is-active", "containerd.service"], 3, "inactive"),
        (&["restart", "--no-block", "containerd.service"], 0, ""),
        (&["is-active", "containerd"], 0, "active"),
        (&["is-active", "kubelet.service"], 3, "inactive"),
        (&["restart", "kubelet.service"], 1, "cannot read"),
        (&["stop", "kubelet.service", "containerd.service"], 0, ""),
        (&["restart", "kerf-local-disks.service"], 0, ""),
        (&["start", "docker.service"], 5, "Unit docker.service not found."),
        (&["explode", "kubelet.service"], 1, "Unknown command verb 'explode'."),
        (&[], 1, "Too few arguments."),
    ];
    let check = async {
        for (words, code, text) in rows {
            let answer = systemctl::call(&socket, words).await?;
            ensure!(answer.0 == code && answer.1.contains(text), "{words:?}: {answer:?}");
        }
        Ok(())
    };
    tokio::select! {
        checked = check => checked?,
        () = units.serve(&listener, &calls) => {}
    }
    let calls = calls.into_inner()?;
    assert_eq!((calls.len(), calls[2].as_str()), (rows.len(), "restart --no-block containerd.service"));
    Ok(())
}
