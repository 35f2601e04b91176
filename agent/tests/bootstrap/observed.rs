//! Observe mode beside another bootstrap program. The agent waits for the files of that program, reads them, and writes only
//! its own files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use agent::bootstrap::observe::Configurator;
use agent::bootstrap::timeline::{CONFIG, CONTAINERD, CREDENTIALS, IMDS, KUBELET, Timeline};
use agent::bootstrap::{BootstrapOutcome, BootstrapState};

use crate::imds::FakeImds;
use crate::test_host::{TestHost, USER_DATA, metadata};

const ENABLED: &str = "etc/systemd/system/multi-user.target.wants/nodeadm-run.service";
const KUBECONFIG: &str = "var/lib/kubelet/kubeconfig";
const ENVIRONMENT: &str = "etc/eks/kubelet/environment";

/// Returns every file below `folder`, links included.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() { folders.push(path) } else { found.extend([path]) }
        }
    }
    found
}

#[tokio::test]
async fn observe_waits_for_files_of_nodeadm_and_writes_no_other() {
    let test_host = TestHost::new("v1.36.0");
    test_host.write(ENABLED, "");
    // In observe mode even an invalid NodeConfig does not matter.
    let fake = FakeImds::start(metadata("kind: Nonsense")).await;
    let bootstrap = test_host.bootstrap(&fake.endpoint);
    let running = tokio::spawn(async move { bootstrap.run().await });
    fake.asked("user-data", 3).await;
    let BootstrapState::Waiting { reason, .. } = test_host.state() else { unreachable!("{:?}", test_host.state()) };
    assert!(reason.starts_with("nodeadm did not write kubelet's kubeconfig"), "{reason}");
    assert!(reason.ends_with("see `journalctl -u nodeadm-config -u nodeadm-run`"), "{reason}");

    test_host.write(KUBECONFIG, "kind: Config");
    fake.asked("user-data", 2).await;
    let BootstrapState::Waiting { reason, .. } = test_host.state() else { unreachable!("{:?}", test_host.state()) };
    assert!(reason.starts_with("nodeadm did not write kubelet's command line"), "{reason}");

    let mut before = files(&test_host.root());
    test_host.write(ENVIRONMENT, "NODEADM_KUBELET_ARGS=\"--hostname-override=node-1\"");
    let BootstrapOutcome::Observed { node_name, by, .. } = running.await.unwrap() else {
        unreachable!("it configured")
    };
    assert_eq!((node_name.as_str(), by), ("node-1", Some(Configurator::Nodeadm)));
    let BootstrapState::Done { node_name, .. } = test_host.state() else { unreachable!("{:?}", test_host.state()) };
    assert_eq!(node_name, "node-1");
    assert_eq!(test_host.systemctl_calls(), Vec::<String>::new());
    before.extend([ENVIRONMENT, "run/kerf/timeline.json"].map(|path| test_host.root().join(path)));
    assert_eq!(files(&test_host.root()), before);
    let timeline = Timeline::read(&test_host.root());
    assert!(timeline.stages.contains_key(IMDS) && timeline.stages.contains_key(CONFIG), "{timeline:?}");
}

#[tokio::test]
async fn mode_setting_takes_precedence_over_detection() {
    let with = |settings: &str| {
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
             Content-Type: application/node.eks.aws\n\n{USER_DATA}\n--//\n\
             Content-Type: application/kerf.sh-agent+yaml\n\n{settings}\n--//--\n"
        )
    };
    let test_host = TestHost::new("v1.36.0");
    let fake = FakeImds::start(metadata(&with("mode: observe"))).await;
    test_host.write(KUBECONFIG, "kind: Config");
    test_host.write(ENVIRONMENT, "X=--hostname-override=node-2");
    let observed = test_host.bootstrap(&fake.endpoint).run().await;
    assert_eq!((observed.node_name(), test_host.systemctl_calls().len()), ("node-2", 0));

    test_host.write(ENABLED, "");
    fake.set("user-data", with("mode: bootstrap"));
    let plan = test_host.bootstrap(&fake.endpoint).run().await.plan().unwrap();
    assert!(plan.warnings.iter().any(|warning| warning.contains("nodeadm is enabled too")), "{:?}", plan.warnings);
    assert_eq!(test_host.systemctl_calls().len(), 3);
}

#[tokio::test]
async fn timeline_contains_every_stage_of_bootstrap() {
    let test_host = TestHost::new("v1.36.0");
    let fake = FakeImds::start(metadata(USER_DATA)).await;
    fake.set("meta-data/iam/security-credentials/", "node");
    fake.set(
        "meta-data/iam/security-credentials/node",
        r#"{"Code":"Success","AccessKeyId":"A","SecretAccessKey":"s","Token":"t","Expiration":"2999-01-01T00:00:00Z"}"#,
    );
    test_host.bootstrap(&fake.endpoint).run().await;
    let timeline = Timeline::read(&test_host.root());
    let steps = timeline.steps();
    println!("milliseconds of a bootstrap whose metadata and systemctl answer: {steps:?}");
    let at = |stage: &str| steps.iter().find(|(name, _)| *name == stage).map(|(_, at)| *at);
    let order = [IMDS, CONFIG, CONTAINERD, KUBELET].map(|stage| at(stage).unwrap_or(i64::MAX));
    assert!(order.is_sorted() && order[3] < i64::MAX && at(CREDENTIALS).is_some(), "{steps:?}");
    test_host.bootstrap(&fake.endpoint).run().await;
    assert_eq!(Timeline::read(&test_host.root()), timeline, "a second run in the same boot tells nothing new");
}
