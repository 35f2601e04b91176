//! The real program, called by the names that EKS's units use.

use std::os::unix::process::CommandExt as _;
use std::process::Output;

use tokio::process::Command;

use super::stage::Stage;
use crate::room::USER_DATA;

/// Runs the program under the name `name` on the machine of `stage`.
pub async fn run(stage: &Stage, name: &str, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kerf-agent"));
    command.arg0(format!("/usr/bin/{name}")).args(arguments).env_clear();
    command.env("KERF_ROOT", stage.room.root()).env("PATH", stage.room.search_path());
    command.envs(&stage.environment).env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &stage.imds.endpoint);
    Command::from(command).kill_on_drop(true).output().await.unwrap()
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn config_check_reports_invalid_sources() {
    let stage = Stage::new(USER_DATA).await;
    stage.room.write("good.yaml", USER_DATA);
    stage.room.write("bad.yaml", &USER_DATA.replace("    name: my-cluster\n", ""));
    stage.room.write("misspelt.yaml", &USER_DATA.replace("cidr:", "CIDR: 10.0.0.0/8\n    cidr:"));
    for (source, problem) in [
        ("file:///good.yaml", None),
        ("imds://user-data", None),
        ("file:///bad.yaml", Some("spec.cluster.name is missing")),
        ("file:///misspelt.yaml", Some("spec.cluster.CIDR is not a NodeConfig field")),
        ("file:///absent.yaml", Some("absent.yaml")),
        ("https://example.com", Some("write imds://user-data")),
    ] {
        let output = run(&stage, "nodeadm", &["config", "check", "--config-source", source]).await;
        assert_eq!(output.status.success(), problem.is_none(), "{source}: {}", said(&output));
        assert!(said(&output).contains(problem.unwrap_or_default()), "{source}: {}", said(&output));
    }
}

#[tokio::test]
async fn config_dump_prints_merged_config() {
    let stage = Stage::new(USER_DATA).await;
    stage.room.write("drop-ins/a.yaml", &super::stage::node_config("{kubelet: {flags: [--v=4]}}"));
    let sources = ["config", "dump", "-c", "imds://user-data", "-c", "file:///drop-ins"];
    let output = run(&stage, "nodeadm", &sources).await;
    assert!(output.status.success(), "{}", said(&output));
    let printed = machine::nodeconfig::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_eq!(printed.config.spec.cluster.name, "my-cluster");
    assert_eq!(printed.config.spec.kubelet.flags, ["--v=4"]);
    let joined = run(&stage, "nodeadm", &["config", "dump", "-c", "imds://user-data,file:///drop-ins"]).await;
    assert!(joined.status.success(), "{}", said(&joined));
}

#[tokio::test]
async fn nodeadm_exits_with_1_on_failure_and_2_on_bad_arguments() {
    let stage = Stage::new("#!/bin/sh\n").await;
    let output = run(&stage, "nodeadm", &["config", "check"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("no NodeConfig found, and none in the cache"), "{}", said(&output));
    for arguments in [&["init", "--skip", "everything"][..], &["boot-hook"], &[]] {
        assert_eq!(run(&stage, "nodeadm", arguments).await.status.code(), Some(2), "{arguments:?}");
    }
    let unnamed = ["udev-net-manager", "--action", "add", "--interface", "../eth0"];
    assert_eq!(run(&stage, "nodeadm-internal", &unnamed).await.status.code(), Some(2));
}
