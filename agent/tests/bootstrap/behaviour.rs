//! Behaviour of bootstrap under faults. Bootstrap reports the reason, waits, and continues as soon as possible. A second run
//! changes nothing.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use agent::bootstrap::timeline::Timeline;
use agent::bootstrap::{BootstrapPlan, BootstrapState};
use tokio::net::TcpListener;

use crate::imds::{FakeImds, Fault};
use crate::test_host::{TestHost, USER_DATA, metadata};

const ALL_UNITS: [&str; 3] = ["daemon-reload", "restart containerd.service", "restart kubelet.service"];
const IDENTITY: &str = "dynamic/instance-identity/document";

fn assert_done(test_host: &TestHost, plan: &BootstrapPlan) {
    let BootstrapState::Done { node_name, .. } = test_host.state() else { unreachable!("{:?}", test_host.state()) };
    assert_eq!(node_name, plan.node_name);
}

#[tokio::test]
async fn bootstrap_finishes_when_imds_appears_late() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let test_host = TestHost::new("v1.36.0");
    let bootstrap = test_host.bootstrap(&format!("http://{address}"));
    let refused = bootstrap.attempt(&mut Timeline::default()).await.unwrap_err();
    assert!(format!("{refused:#}").starts_with("cannot connect to IMDS at 127.0.0.1:"), "{refused:#}");
    let running = tokio::spawn(async move { bootstrap.run().await.plan().unwrap() });
    let fake = FakeImds::on(TcpListener::bind(address).await.unwrap(), metadata(USER_DATA));
    let plan = running.await.unwrap();
    assert_eq!(plan.node_name, "ip-172-16-34-43.us-west-2.compute.internal");
    assert_eq!(plan.provider_id, "aws:///us-west-2f/i-1234567890abcdef0");
    assert!(fake.tokens() > 0);
    assert_done(&test_host, &plan);
}

#[tokio::test]
async fn bootstrap_finishes_when_imds_faults_are_transient() {
    for faults in [
        vec![Fault::Status(404); 3],
        vec![Fault::Status(503); 5],
        vec![Fault::Status(403); 3],
        vec![Fault::Status(401); 4],
        vec![Fault::CloseMidBody; 3],
        vec![Fault::CloseAfter; 3],
        vec![Fault::Status(500), Fault::CloseMidBody, Fault::Status(404), Fault::Status(503)],
    ] {
        for path in [IDENTITY, "meta-data/local-hostname", "user-data"] {
            let test_host = TestHost::new("v1.36.0");
            let fake = FakeImds::start(metadata(USER_DATA)).await;
            fake.fail(path, &faults);
            let plan = test_host.bootstrap(&fake.endpoint).run().await.plan().unwrap();
            assert_done(&test_host, &plan);
            assert_eq!(test_host.systemctl_calls(), ALL_UNITS, "{path} {faults:?}");
        }
    }
}

#[tokio::test]
async fn bootstrap_retries_and_reports_reason_when_user_data_is_bad() {
    let noise = String::from_utf8(vec![b'~'; 16_384]).unwrap();
    let typo = USER_DATA.replace("cidr: 10.100.0.0/16", "enableOutpost: maybe");
    for (user_data, reason) in [
        ("#!/bin/bash\necho hello\n", "cannot use user data: this is no mapping of fields"),
        (noise.as_str(), "cannot use user data: this is no mapping of fields"),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\nx\n--//--\n",
            "user data has no application/node.eks.aws part, only text/plain",
        ),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\nx\n",
            "user data is invalid MIME multipart: the closing line",
        ),
        ("apiVersion: v1\nkind: Pod\n", "cannot use user data: this is v1 Pod"),
        ("a: [\n", "cannot use user data: line 1, column 4: "),
        (&typo, "cannot use user data: line 8, column 20, spec.cluster.enableOutpost: "),
        (
            &USER_DATA.replace("    name: my-cluster\n", ""),
            "invalid NodeConfig in user data: spec.cluster.name is missing",
        ),
        ("", "user data is empty"),
    ] {
        let test_host = TestHost::new("v1.36.0");
        let fake = FakeImds::start(metadata(user_data)).await;
        let bootstrap = test_host.bootstrap(&fake.endpoint);
        let running = tokio::spawn(async move { bootstrap.run().await.plan().unwrap() });
        fake.asked("user-data", 3).await;
        let BootstrapState::Failed { reason: found, .. } = test_host.state() else {
            unreachable!("{:?}", test_host.state())
        };
        assert!(found.starts_with(reason), "{found}");
        assert!(!found.contains('\n'), "{found}");
        assert_eq!(test_host.systemctl_calls(), Vec::<String>::new());
        fake.set("user-data", USER_DATA);
        let plan = running.await.unwrap();
        assert_done(&test_host, &plan);
        assert_eq!(test_host.systemctl_calls(), ALL_UNITS);
    }
}

#[tokio::test]
async fn bootstrap_waits_when_user_data_is_absent() {
    let test_host = TestHost::new("v1.36.0");
    let fake = FakeImds::start(metadata("")).await;
    fake.remove("user-data");
    let bootstrap = test_host.bootstrap(&fake.endpoint);
    let running = tokio::spawn(async move { bootstrap.run().await.plan().unwrap() });
    fake.asked("user-data", 3).await;
    let BootstrapState::Waiting { reason, .. } = test_host.state() else { unreachable!("{:?}", test_host.state()) };
    assert_eq!(reason, "the instance has no user data; launch it with a NodeConfig");
    fake.set("user-data", USER_DATA);
    assert_done(&test_host, &running.await.unwrap());
}

#[tokio::test]
async fn bootstrap_changes_nothing_when_run_twice() {
    let test_host = TestHost::new("v1.36.0");
    let fake = FakeImds::start(metadata(USER_DATA)).await;
    let first = test_host.bootstrap(&fake.endpoint).run().await.plan().unwrap();
    assert_eq!(test_host.systemctl_calls(), ALL_UNITS);
    let inodes = |plan: &BootstrapPlan| -> Vec<u64> {
        let path = |file: &agent::bootstrap::PlannedFile| test_host.host().at(&file.path);
        plan.files.iter().map(|file| fs::metadata(path(file)).unwrap().ino()).collect()
    };
    let before = inodes(&first);
    let second = test_host.bootstrap(&fake.endpoint).run().await.plan().unwrap();
    assert_eq!(first, second);
    assert_eq!(before, inodes(&second), "an unchanged file is not replaced");
    assert_eq!(test_host.systemctl_calls(), Vec::<String>::new());
}

#[tokio::test]
async fn bootstrap_restarts_units_when_a_file_changed() {
    let test_host = TestHost::new("v1.36.0");
    let fake = FakeImds::start(metadata(USER_DATA)).await;
    test_host.bootstrap(&fake.endpoint).run().await;
    test_host.systemctl_calls();
    test_host.write("etc/eks/kubelet/environment", "NODEADM_KUBELET_ARGS=\"\"\n");
    test_host.bootstrap(&fake.endpoint).run().await;
    assert_eq!(test_host.systemctl_calls(), ALL_UNITS);
}

#[tokio::test]
async fn bootstrap_removes_drop_in_when_config_no_longer_needs_it() {
    let test_host = TestHost::new("v1.36.0");
    let with_config = format!("{USER_DATA}  kubelet:\n    config:\n      maxPods: 5\n");
    let fake = FakeImds::start(metadata(&with_config)).await;
    test_host.bootstrap(&fake.endpoint).run().await;
    let drop_in = test_host.root().join("etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf");
    assert!(drop_in.exists());
    test_host.systemctl_calls();
    fake.set("user-data", USER_DATA);
    test_host.bootstrap(&fake.endpoint).run().await;
    assert!(!drop_in.exists());
    assert_eq!(test_host.systemctl_calls(), ALL_UNITS);
}

#[tokio::test]
async fn bootstrap_repeats_all_units_when_systemctl_fails_once() {
    let test_host = TestHost::new("v1.36.0");
    test_host.break_systemctl_once();
    let fake = FakeImds::start(metadata(USER_DATA)).await;
    let bootstrap = test_host.bootstrap(&fake.endpoint);
    let failed = bootstrap.attempt(&mut Timeline::default()).await.unwrap_err();
    assert_eq!(format!("{failed:#}"), "`systemctl daemon-reload` failed (exit status: 1): Job for  failed.");
    let plan = bootstrap.run().await.plan().unwrap();
    assert_done(&test_host, &plan);
    let expected: Vec<&str> = [&ALL_UNITS[..1], &ALL_UNITS[..]].concat();
    assert_eq!(test_host.systemctl_calls(), expected);
}

#[tokio::test]
async fn bootstrap_restarts_units_when_machine_rebooted() {
    let test_host = TestHost::new("v1.36.0");
    let fake = FakeImds::start(metadata(USER_DATA)).await;
    test_host.bootstrap(&fake.endpoint).run().await;
    test_host.systemctl_calls();
    fs::remove_dir_all(test_host.root().join("run")).unwrap();
    test_host.bootstrap(&fake.endpoint).run().await;
    assert_eq!(test_host.systemctl_calls(), ALL_UNITS);
}

#[tokio::test]
async fn bootstrap_names_the_path_when_file_is_not_writable() {
    let test_host = TestHost::new("v1.36.0");
    test_host.write("etc/kubernetes", "a file where a folder should be");
    let fake = FakeImds::start(metadata(USER_DATA)).await;
    let error = test_host.bootstrap(&fake.endpoint).attempt(&mut Timeline::default()).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.starts_with("cannot write ") && error.contains("etc/kubernetes/pki/ca.crt"), "{error}");
}

#[tokio::test]
async fn bootstrap_fails_when_kubelet_version_is_invalid() {
    let test_host = TestHost::new("who knows");
    let fake = FakeImds::start(metadata(USER_DATA)).await;
    let error = test_host.bootstrap(&fake.endpoint).attempt(&mut Timeline::default()).await.unwrap_err().to_string();
    assert!(error.starts_with("invalid version of kubelet `who knows`"), "{error}");
}

#[tokio::test]
async fn bootstrap_restarts_only_units_of_agent_settings() {
    let test_host = TestHost::new("");
    let user_data = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: application/node.eks.aws\n\n{USER_DATA}\n--//\n\
         Content-Type: application/kerf.sh-agent+yaml\n\nunits: [kubelet.service]\n--//--\n"
    );
    let fake = FakeImds::start(metadata(&user_data)).await;
    test_host.bootstrap(&fake.endpoint).run().await;
    assert_eq!(test_host.systemctl_calls(), ["daemon-reload", "restart kubelet.service"]);
}

#[tokio::test]
async fn bootstrap_retries_local_disks_before_starting_daemons() {
    let test_host = TestHost::new("v1.36.0");
    let fake =
        FakeImds::start(metadata(&format!("{USER_DATA}  instance: {{localStorage: {{strategy: RAID0}}}}\n"))).await;
    let disks = format!("{}/run/kerf/local-disks", test_host.root().display());
    test_host.unit_exits(3, &format!("echo no array > {disks}.log; exit 1"));
    let bootstrap = test_host.bootstrap(&fake.endpoint);
    let running = tokio::spawn(async move { bootstrap.run().await });
    fake.asked("user-data", 5).await;
    let BootstrapState::Waiting { reason, .. } = test_host.state() else { unreachable!("{:?}", test_host.state()) };
    assert_eq!(
        reason,
        "instance store disks are not prepared: setup-local-disks exited with status 3 and `no array` (see \
         /run/kerf/local-disks.log); repair it, or remove spec.instance.localStorage from the NodeConfig"
    );
    assert_eq!(test_host.systemctl_calls(), Vec::<String>::new());
    test_host.unit_exits(0, "");
    running.await.unwrap();
    assert_eq!(test_host.systemctl_calls(), [&["restart kerf-local-disks.service"][..], &ALL_UNITS].concat());
    let settings = fs::read_to_string(format!("{disks}.env")).unwrap();
    assert_eq!(settings, "STRATEGY=\"raid0\"\nDIR=\"/mnt/k8s-disks/\"\nKEPT=\"\"\n");
    assert!(test_host.host().exists("/run/nodeadm/init"));
}

#[tokio::test]
async fn bootstrap_mounts_volumes_before_starting_daemons() {
    let test_host = TestHost::new("v1.36.0");
    let storage = "{volumes: [{device: /dev/xvdb, mountTargets: [/var/lib/containerd], fsType: xfs}]}";
    let fake = FakeImds::start(metadata(&format!("{USER_DATA}  instance: {{storage: {storage}}}\n"))).await;
    let log = format!("{}/run/kerf/volumes.log", test_host.root().display());
    test_host.unit_exits(1, &format!("echo 'kerf-agent: /dev/xvdb does not exist' > {log}; exit 1"));
    let bootstrap = test_host.bootstrap(&fake.endpoint);
    let running = tokio::spawn(async move { bootstrap.run().await });
    fake.asked("user-data", 5).await;
    let BootstrapState::Waiting { reason, .. } = test_host.state() else { unreachable!("{:?}", test_host.state()) };
    assert_eq!(
        reason,
        "EBS volumes are not prepared: kerf-agent volumes exited with status 1 and `kerf-agent: /dev/xvdb does not \
         exist` (see /run/kerf/volumes.log); repair it, or remove spec.instance.storage from the NodeConfig"
    );
    assert_eq!(test_host.systemctl_calls(), Vec::<String>::new());
    test_host.unit_exits(0, "");
    running.await.unwrap();
    assert_eq!(test_host.systemctl_calls(), [&["restart kerf-volumes.service"][..], &ALL_UNITS].concat());
    let plan = fs::read_to_string(test_host.root().join("run/kerf/volumes.json")).unwrap();
    assert_eq!(
        plan,
        r#"[{"device":"/dev/xvdb","file_system":"xfs","mounted_on":null,"targets":["/var/lib/containerd"]}]"#
    );
}

#[tokio::test]
async fn bootstrap_names_node_by_instance_id_on_amazon_linux_2027() {
    for (release, gates, expected) in [
        ("ID=\"amzn\"\nVERSION_ID=\"2027\"\n", "", "i-1234567890abcdef0"),
        ("ID=amzn\nVERSION_ID=2023\n", "", "ip-172-16-34-43.us-west-2.compute.internal"),
        (
            "ID=amzn\nVERSION_ID=2027\n",
            "  featureGates: {InstanceIdNodeName: false}\n",
            "ip-172-16-34-43.us-west-2.compute.internal",
        ),
        ("", "", "ip-172-16-34-43.us-west-2.compute.internal"),
    ] {
        let test_host = TestHost::new("v1.36.0");
        test_host.write("etc/os-release", release);
        let fake = FakeImds::start(metadata(&format!("{USER_DATA}{gates}"))).await;
        let outcome = test_host.bootstrap(&fake.endpoint).run().await;
        assert_eq!(outcome.node_name(), expected, "{release}");
    }
}
