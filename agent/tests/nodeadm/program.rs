//! The real program, called by the names that EKS's units use.

use std::os::unix::process::CommandExt as _;
use std::process::Output;

use tokio::process::Command;

use super::fixture::Fixture;
use crate::test_host::USER_DATA;

/// Runs the program under the name `name` on the machine of `fixture`.
pub async fn run(fixture: &Fixture, name: &str, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kerf-agent"));
    command.arg0(format!("/usr/bin/{name}")).args(arguments).env_clear();
    command.env("KERF_ROOT", fixture.test_host.root()).env("PATH", fixture.test_host.search_path());
    command.envs(&fixture.environment).env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &fixture.imds.endpoint);
    Command::from(command).kill_on_drop(true).output().await.unwrap()
}

pub fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn config_check_reports_invalid_sources() {
    let fixture = Fixture::new(USER_DATA).await;
    fixture.test_host.write("good.yaml", USER_DATA);
    fixture.test_host.write("bad.yaml", &USER_DATA.replace("    name: my-cluster\n", ""));
    fixture.test_host.write("misspelt.yaml", &USER_DATA.replace("cidr:", "CIDR: 10.0.0.0/8\n    cidr:"));
    for (source, problem) in [
        ("file:///good.yaml", None),
        ("imds://user-data", None),
        ("file:///bad.yaml", Some("spec.cluster.name is missing")),
        ("file:///misspelt.yaml", Some("spec.cluster.CIDR is not a NodeConfig field")),
        ("file:///absent.yaml", Some("absent.yaml")),
        ("https://example.com", Some("write imds://user-data")),
    ] {
        let output = run(&fixture, "nodeadm", &["config", "check", "--config-source", source]).await;
        assert_eq!(output.status.success(), problem.is_none(), "{source}: {}", output_text(&output));
        assert!(output_text(&output).contains(problem.unwrap_or_default()), "{source}: {}", output_text(&output));
    }
}

#[tokio::test]
async fn config_dump_prints_merged_config() {
    let fixture = Fixture::new(USER_DATA).await;
    fixture.test_host.write("drop-ins/a.yaml", &super::fixture::node_config("{kubelet: {flags: [--v=4]}}"));
    let sources = ["config", "dump", "-c", "imds://user-data", "-c", "file:///drop-ins"];
    let output = run(&fixture, "nodeadm", &sources).await;
    assert!(output.status.success(), "{}", output_text(&output));
    let printed = machine::nodeconfig::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_eq!(printed.config.spec.cluster.name, "my-cluster");
    assert_eq!(printed.config.spec.kubelet.flags, ["--v=4"]);
    let joined = run(&fixture, "nodeadm", &["config", "dump", "-c", "imds://user-data,file:///drop-ins"]).await;
    assert!(joined.status.success(), "{}", output_text(&joined));
}

#[tokio::test]
async fn nodeadm_exits_with_1_on_failure_and_2_on_bad_arguments() {
    let fixture = Fixture::new("#!/bin/sh\n").await;
    let output = run(&fixture, "nodeadm", &["config", "check"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(output_text(&output).contains("no NodeConfig found, and none in the cache"), "{}", output_text(&output));
    for arguments in [&["init", "--skip", "everything"][..], &["boot-hook"], &[]] {
        assert_eq!(run(&fixture, "nodeadm", arguments).await.status.code(), Some(2), "{arguments:?}");
    }
    let unnamed = ["udev-net-manager", "--action", "add", "--interface", "../eth0"];
    assert_eq!(run(&fixture, "nodeadm-internal", &unnamed).await.status.code(), Some(2));
}
