//! `nodeadm init` from user data to started daemons: phases, cache, disks, and a metadata service that appears late.

use std::path::PathBuf;

use agent::aws::imds::Imds;
use agent::bootstrap::Bootstrap;
use agent::nodeadm::command::{Init, Nodeadm, Phase, Sources};
use agent::nodeadm::{Machine, run};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

use super::ec2::{Fault, NAME, Proxy};
use super::fixture::{Fixture, node_config};
use super::program;
use crate::imds::FakeImds;
use crate::test_host::{USER_DATA, metadata};

const CACHE: &str = "run/eks/nodeadm/config.json";
const KUBELET: &str = "etc/kubernetes/kubelet/config.json";
const ENVIRONMENT: &str = "etc/eks/kubelet/environment";
const STARTED: [&str; 5] = [
    "daemon-reload",
    "restart containerd.service",
    "is-active --quiet containerd.service",
    "restart kubelet.service",
    "is-active --quiet kubelet.service",
];

fn init(sources: &[&str], skip: &[Phase]) -> Init {
    Init {
        sources: Sources { sources: sources.iter().map(|source| source.parse().unwrap()).collect() },
        config_cache: Some(PathBuf::from("/").join(CACHE)),
        skip: skip.to_vec(),
        daemons: ["containerd", "kubelet"].map(str::to_owned).to_vec(),
        development: false,
    }
}

async fn boot(machine: &Machine, options: Init) -> anyhow::Result<()> {
    run(machine, &Nodeadm::Init(options)).await
}

fn cached_spec(fixture: &Fixture) -> Value {
    let document: Value = serde_json::from_str(&fixture.read(CACHE).unwrap()).unwrap();
    document["spec"].clone()
}

#[tokio::test]
async fn init_writes_files_then_starts_daemons() {
    let fixture = Fixture::new(USER_DATA).await;
    boot(&fixture.machine(), init(&["imds://user-data"], &[])).await.unwrap();
    let environment = fixture.read(ENVIRONMENT).unwrap();
    assert!(environment.contains(&format!("--hostname-override={NAME} ")), "{environment}");
    assert!(environment.contains("--node-ip=172.16.34.43 "), "{environment}");
    let kubelet: Value = serde_json::from_str(&fixture.read(KUBELET).unwrap()).unwrap();
    assert_eq!(
        (&kubelet["maxPods"], &kubelet["providerID"]),
        (&58.into(), &"aws:///us-west-2f/i-1234567890abcdef0".into())
    );
    assert!(
        fixture.read("etc/kubernetes/pki/ca.crt").is_some() && fixture.read("var/lib/kubelet/kubeconfig").is_some()
    );
    assert!(fixture.read("run/nodeadm/init").is_some());
    assert_eq!(fixture.test_host.systemctl_calls(), STARTED);
}

#[tokio::test]
async fn init_omits_skipped_phases_and_daemons() {
    let fixture = Fixture::new(USER_DATA).await;
    boot(&fixture.machine(), init(&["imds://user-data"], &[Phase::Run])).await.unwrap();
    assert!(fixture.read(KUBELET).is_some() && fixture.read("run/nodeadm/init").is_none());
    assert_eq!(fixture.test_host.systemctl_calls(), Vec::<String>::new());

    let fixture = Fixture::new(USER_DATA).await;
    boot(&fixture.machine(), init(&["imds://user-data"], &[Phase::Config])).await.unwrap();
    assert!(fixture.read(KUBELET).is_none() && fixture.read("run/nodeadm/init").is_some());
    assert_eq!(fixture.test_host.systemctl_calls(), STARTED);

    let fixture = Fixture::new(USER_DATA).await;
    let daemons = vec!["containerd".to_owned()];
    boot(&fixture.machine(), Init { daemons, ..init(&["imds://user-data"], &[]) }).await.unwrap();
    assert!(fixture.read(KUBELET).is_none() && fixture.read("etc/containerd/config.toml").is_some());
    assert_eq!(fixture.test_host.systemctl_calls(), STARTED[..3]);
}

/// EKS's own test case 3.
#[tokio::test]
async fn init_updates_config_cache_when_sources_change() {
    let fixture = Fixture::new(USER_DATA).await;
    let machine = fixture.machine();
    boot(&machine, init(&["imds://user-data"], &[Phase::Run])).await.unwrap();
    let first = cached_spec(&fixture);
    let cluster = serde_json::json!({
        "apiServerEndpoint": "https://example.com", "certificateAuthority": "Y2VydGlmaWNhdGVBdXRob3JpdHk=",
        "cidr": "10.100.0.0/16", "name": "my-cluster",
    });
    let expected = serde_json::json!({
        "cluster": cluster, "containerd": {}, "instance": {"localStorage": {}, "network": {}}, "kubelet": {},
    });
    assert_eq!(first, expected);

    let asked = fixture.ec2.requests().len();
    boot(&machine, init(&["imds://user-data"], &[Phase::Config, Phase::Run])).await.unwrap();
    assert_eq!(cached_spec(&fixture), first);
    fixture.test_host.write("empty/readme.md", "");
    boot(&machine, init(&["file:///empty"], &[Phase::Config, Phase::Run])).await.unwrap();
    assert_eq!((cached_spec(&fixture), fixture.ec2.requests().len()), (first, asked), "no second request is sent");

    let toml = "|\n      version = 2\n\n      [grpc]\n      address = \"/run/foo/foo.sock\"\n\n      \
                [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n      discard_unpacked_layers = false\n";
    fixture
        .test_host
        .write("etc/eks/nodeadm.d/test.yaml", &node_config(&format!("\n  containerd:\n    config: {toml}")));
    let partial = boot(&machine, init(&["file:///etc/eks/nodeadm.d"], &[Phase::Config, Phase::Run])).await;
    let partial = format!("{:#}", partial.unwrap_err());
    assert!(partial.contains("spec.cluster.name is missing"), "{partial}");

    let both = ["imds://user-data", "file:///etc/eks/nodeadm.d"];
    std::fs::remove_file(fixture.test_host.root().join(KUBELET)).unwrap();
    boot(&machine, init(&both, &[Phase::Config, Phase::Run])).await.unwrap();
    assert!(fixture.read(KUBELET).is_some(), "what changed is configured although that is to be skipped");
    let spec = cached_spec(&fixture);
    let config: toml::Table = spec["containerd"]["config"].as_str().unwrap().parse().unwrap();
    let socket = toml::Table::from_iter([("address".to_owned(), "/run/foo/foo.sock".into())]);
    assert_eq!((config["version"].as_integer(), config["grpc"].as_table()), (Some(2), Some(&socket)));
    assert_eq!(spec["cluster"], cluster);
    assert!(fixture.ec2.requests().len() > asked, "the machine is asked again");
}

#[tokio::test]
async fn init_sends_no_ec2_request_when_node_name_is_instance_id() {
    let fixture = Fixture::new(format!("{USER_DATA}  featureGates: {{InstanceIdNodeName: true}}\n")).await;
    fixture.ec2.hang();
    boot(&fixture.machine(), init(&["imds://user-data"], &[Phase::Run])).await.unwrap();
    assert!(fixture.read(ENVIRONMENT).unwrap().contains("--hostname-override=i-1234567890abcdef0 "));
    assert_eq!(fixture.ec2.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn init_requests_max_pods_from_ec2_when_type_is_unknown() {
    for (answer, pods) in [
        (
            Some(
                "<ipv4AddressesPerInterface>10</ipv4AddressesPerInterface><maximumNetworkInterfaces>4</maximumNetworkInterfaces>",
            ),
            38,
        ),
        (None, 110),
    ] {
        let fixture = Fixture::new(USER_DATA).await;
        let identity = String::from_utf8(metadata("")["dynamic/instance-identity/document"].clone()).unwrap();
        fixture.imds.set("dynamic/instance-identity/document", identity.replace("m4.xlarge", "mock-type.large"));
        if let Some(answer) = answer {
            fixture.ec2.set_instance_types(answer);
        }
        let machine = fixture.machine();
        boot(&machine, init(&["imds://user-data"], &[Phase::Run])).await.unwrap();
        let kubelet: Value = serde_json::from_str(&fixture.read(KUBELET).unwrap()).unwrap();
        assert_eq!(kubelet["maxPods"], pods);
        std::fs::remove_file(fixture.test_host.root().join(KUBELET)).unwrap();
        let environment = machine.environment.clone();
        Bootstrap { environment, ..fixture.test_host.bootstrap(&fixture.imds.endpoint) }.run().await;
        let kubelet: Value = serde_json::from_str(&fixture.read(KUBELET).unwrap()).unwrap();
        assert_eq!(kubelet["maxPods"], pods, "bootstrap asks too");
    }
}

/// EKS's own test case 15.
#[tokio::test]
async fn init_waits_for_imds_and_fails_when_it_never_appears() {
    let fixture = Fixture::new("").await;
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = deaf.local_addr().unwrap();
    let absent = || Arc::new(Imds::new(&format!("http://{address}"), Duration::from_secs(2)).unwrap());
    let mut machine = Machine { imds: absent(), ..fixture.machine() };
    machine.patience.attempts = 100_000;
    let booting = tokio::spawn(async move { boot(&machine, init(&["imds://user-data"], &[])).await });
    for _ in 0..3 {
        drop(deaf.accept().await.unwrap());
    }
    let late = FakeImds::on(deaf, metadata(USER_DATA));
    booting.await.unwrap().unwrap();
    assert!(late.tokens() > 0);
    assert_eq!(fixture.test_host.systemctl_calls(), STARTED);
    drop(late);

    let machine = Machine { imds: absent(), ..fixture.machine() };
    let error = boot(&machine, init(&["imds://user-data"], &[])).await.unwrap_err();
    assert!(format!("{error:#}").contains("cannot connect to IMDS at"), "{error:#}");
}

/// EKS's own test case 23.
#[tokio::test]
async fn init_runs_setup_local_disks_with_options_of_node_config() {
    for (storage, expected) in [
        ("{strategy: RAID0}", "raid0 --dir /mnt/k8s-disks/\n"),
        ("{strategy: RAID10, mountPath: /data}", "raid10 --dir /data\n"),
        ("{strategy: Mount}", "mount --dir /mnt/k8s-disks/\n"),
        (
            "{strategy: RAID0, disabledMounts: [Containerd, PodLogs]}",
            "raid0 --dir /mnt/k8s-disks/ --no-bind-containerd --no-bind-pods-logs\n",
        ),
    ] {
        let fixture = Fixture::new(format!("{USER_DATA}  instance: {{localStorage: {storage}}}\n")).await;
        let log = fixture.test_host.root().join("disks");
        fixture.test_host.program("setup-local-disks", &format!("#!/bin/sh\necho \"$*\" >> {}\n", log.display()));
        let output = program::run(&fixture, "nodeadm", &["init", "--daemon="]).await;
        assert!(output.status.success(), "{}", program::output_text(&output));
        assert_eq!(fixture.read("disks").unwrap(), expected);
        assert_eq!(fixture.test_host.systemctl_calls(), Vec::<String>::new());
        assert_eq!(fixture.read(KUBELET), None);
    }
}

#[tokio::test]
async fn init_starts_no_daemon_when_setup_local_disks_fails() {
    let fixture = Fixture::new(format!("{USER_DATA}  instance: {{localStorage: {{strategy: RAID0}}}}\n")).await;
    fixture.test_host.program("setup-local-disks", "#!/bin/sh\necho no array >&2\nexit 3\n");
    let error = boot(&fixture.machine(), init(&["imds://user-data"], &[])).await.unwrap_err();
    assert!(error.to_string().ends_with("(exit status: 3): no array"), "{error:#}");
    assert_eq!(fixture.test_host.systemctl_calls(), Vec::<String>::new());
}

/// EKS's own test case 27.
#[tokio::test]
async fn init_uses_proxy_of_node_config_only_for_ec2() {
    for skip in [&["--skip", "run"][..], &["--skip", "config"], &[], &["--skip=config,run"]] {
        let mut fixture = Fixture::new("").await;
        let proxy = Proxy::before(&fixture.ec2.address, None).await;
        fixture.set("AWS_ENDPOINT_URL", "http://ec2.test:5000");
        let variables = format!("{{HTTP_PROXY: '{0}', HTTPS_PROXY: '{0}'}}", proxy.url);
        fixture.imds.set("user-data", format!("{USER_DATA}  instance: {{environment: {{default: {variables}}}}}\n"));
        let arguments = [&["init", "--config-cache", "/run/eks/nodeadm/config.json"][..], skip].concat();
        let output = program::run(&fixture, "nodeadm", &arguments).await;
        assert!(output.status.success(), "{}", program::output_text(&output));
        assert_eq!(proxy.seen(), ["POST http://ec2.test:5000/ HTTP/1.1"], "{skip:?}");
        assert_eq!(fixture.ec2.requests().len(), 1);
        let again = program::run(&fixture, "nodeadm", &arguments).await;
        assert!(again.status.success() && proxy.seen().is_empty(), "the cache answers");
    }
}

#[tokio::test]
async fn init_writes_default_environment_before_daemons_start() {
    let fixture = Fixture::new(format!("{USER_DATA}  instance: {{environment: {{default: {{A: b}}}}}}\n")).await;
    boot(&fixture.machine(), init(&["imds://user-data"], &[Phase::Run])).await.unwrap();
    let drop_in = fixture.read("etc/systemd/system.conf.d/environment.conf").unwrap();
    assert!(drop_in.contains("DefaultEnvironment=\"A=b\""), "{drop_in}");
    assert_eq!(fixture.test_host.systemctl_calls(), ["daemon-reload"]);
    boot(&fixture.machine(), init(&["imds://user-data"], &[Phase::Run])).await.unwrap();
    assert_eq!(fixture.test_host.systemctl_calls(), Vec::<String>::new(), "nothing changed");
}

#[tokio::test]
async fn init_waits_for_unit_when_restart_fails_and_unit_exists() {
    let fixture = Fixture::new(USER_DATA).await;
    let script = |state: &str| {
        format!(
            "#!/bin/sh\nhere=${{0%/*}}\necho \"$*\" >> \"$here/log\"\ncase \"$1\" in\nrestart) exit 1;;\nshow) echo {state};;\n\
             is-active) [ -e \"$here/up\" ] || {{ : > \"$here/up\"; exit 3; }};;\nesac\n"
        )
    };
    fixture.test_host.program("systemctl", &script("loaded"));
    boot(&fixture.machine(), init(&["imds://user-data"], &[])).await.unwrap();
    let calls = fixture.test_host.systemctl_calls();
    let show = "show --property=LoadState --value containerd.service";
    let active = "is-active --quiet containerd.service";
    assert_eq!(calls[1..5], ["restart containerd.service", show, active, active]);
    fixture.test_host.program("systemctl", &script("not-found"));
    let error = boot(&fixture.machine(), init(&["imds://user-data"], &[])).await.unwrap_err();
    assert!(error.to_string().starts_with("`systemctl restart containerd.service` failed"), "{error:#}");
}

#[tokio::test]
async fn init_exits_with_ec2_error_when_ec2_refuses() {
    let fixture = Fixture::new(USER_DATA).await;
    fixture.ec2.fail(&[Fault::Refuse(403, "UnauthorizedOperation")]);
    let output = program::run(&fixture, "nodeadm", &["init"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        program::output_text(&output).contains("EC2 returned 403 UnauthorizedOperation"),
        "{}",
        program::output_text(&output)
    );
    assert_eq!(fixture.read(KUBELET), None);
}
