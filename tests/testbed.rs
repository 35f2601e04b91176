//! Tests of the test infrastructure: processes, control plane and polling.

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, PostParams, WatchParams};
use nix::sys::signal::Signal;
use serde_json::json;
use testbed::controlplane::{Component, ControlPlane, Options};
use testbed::eventually;
use testbed::process::{Process, RunFolder};

const SOON: Duration = Duration::from_secs(120);

/// Variable that [`child_processes_end_when_their_parent_is_killed`] sets for the copy of this program that it kills.
const VICTIM: &str = "KERF_TEST_VICTIM";

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Reports whether a process exists and is not a zombie.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z')
}

async fn gone(pid: u32) -> Result<()> {
    eventually(&format!("process {pid} to end"), SOON, async || {
        ensure!(!is_alive(pid), "it lives");
        Ok(Some(()))
    })
    .await
}

async fn first_line(log: &Path) -> Result<String> {
    eventually("the first line of a log", SOON, async || {
        let text = std::fs::read_to_string(log)?;
        Ok(text.lines().next().map(str::to_owned))
    })
    .await
}

#[tokio::test]
async fn stop_lets_a_process_end_by_itself() -> Result<()> {
    let folder = RunFolder::create("stop")?;
    let log = folder.log("polite");
    let script = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done";
    let mut process = Process::spawn("polite", shell(script), &log)?;
    first_line(&log).await?;
    assert_eq!(process.ended()?, None);

    let status = process.stop(SOON).await?;
    assert_eq!(status.code(), Some(7));
    assert_eq!(process.log_tail(1), "bye");
    Ok(())
}

#[tokio::test]
async fn stop_kills_process_and_children_when_sigterm_is_ignored() -> Result<()> {
    let folder = RunFolder::create("stubborn")?;
    let log = folder.log("stubborn");
    let script = "trap '' TERM; sleep 600 & echo $!; while :; do sleep 0.01; done";
    let mut process = Process::spawn("stubborn", shell(script), &log)?;
    let grandchild: u32 = first_line(&log).await?.parse()?;
    assert!(is_alive(grandchild));

    let status = process.stop(Duration::from_millis(200)).await?;
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    gone(grandchild).await
}

#[tokio::test]
async fn process_group_ends_when_its_leader_exits() -> Result<()> {
    let folder = RunFolder::create("leader")?;
    let log = folder.log("leader");
    let mut process = Process::spawn("leader", shell("sleep 600 & echo $!; exit 3"), &log)?;
    let grandchild: u32 = first_line(&log).await?.parse()?;

    assert_eq!(process.wait().await?.code(), Some(3));
    assert!(process.exit_report().contains("exit code 3"));
    gone(grandchild).await
}

#[tokio::test]
async fn process_ends_when_it_is_dropped() -> Result<()> {
    let folder = RunFolder::create("dropped")?;
    let process = Process::spawn("dropped", shell("sleep 600"), &folder.log("dropped"))?;
    let pid = process.id();
    assert!(is_alive(pid));
    drop(process);
    assert!(!is_alive(pid));

    let path = folder.path().to_owned();
    drop(folder);
    assert!(!path.exists());
    Ok(())
}

#[test]
fn spawn_reports_the_program_when_it_is_missing() {
    let folder = RunFolder::create("missing").unwrap();
    let command = Command::new("/no/such/program");
    let error = Process::spawn("ghost", command, &folder.log("ghost")).unwrap_err();
    assert!(format!("{error:#}").contains("ghost (/no/such/program)"));
}

#[tokio::test]
async fn child_processes_end_when_their_parent_is_killed() -> Result<()> {
    let mut victim = Command::new(std::env::current_exe()?)
        .args(["--exact", "testbed::victim", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let output = BufReader::new(victim.stdout.take().context("no output")?);
    let line = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("child ").map(str::to_owned))
        .context("the victim did not say what it started")?;
    let (pid, folder) = line.split_once(' ').context("not a pid and a folder")?;
    let pid: u32 = pid.parse()?;
    assert!(is_alive(pid));
    assert!(Path::new(folder).exists());

    victim.kill()?;
    victim.wait()?;
    gone(pid).await?;
    eventually("the victim's run folder to go", SOON, async || {
        ensure!(!Path::new(folder).exists(), "{folder} is still there");
        Ok(Some(()))
    })
    .await
}

/// Program that [`child_processes_end_when_their_parent_is_killed`] kills; without its variable it does nothing.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let folder = RunFolder::create("victim").unwrap();
    let early = Process::spawn("early", shell("sleep 600"), &folder.log("early")).unwrap();
    drop(early);
    let process = Process::spawn("child", shell("sleep 600"), &folder.log("child")).unwrap();
    println!("\nchild {} {}", process.id(), folder.path().display());
    std::thread::sleep(Duration::from_secs(600));
}

#[tokio::test]
async fn eventually_reports_the_last_error_when_time_is_over() {
    let begin = Instant::now();
    let limit = Duration::from_millis(300);
    let mut asked = 0;
    let error = eventually::<()>("five pods", limit, async || {
        asked += 1;
        bail!("{asked} pods");
    })
    .await
    .unwrap_err()
    .to_string();
    assert!(error.contains("waiting for five pods"), "{error}");
    assert!(error.contains(&format!("{asked} pods")), "{error}");
    assert!(asked > 1 && begin.elapsed() < SOON);
}

#[tokio::test]
async fn eventually_returns_an_error_when_a_check_hangs() {
    let limit = Duration::from_millis(300);
    let error = eventually::<()>("an answer", limit, async || std::future::pending().await).await.unwrap_err();
    assert!(error.to_string().contains("nothing yet"));
}

#[tokio::test]
async fn control_plane_reports_component_and_log_when_one_ends() -> Result<()> {
    let options = Options::api_server("broken").with_flag(Component::Etcd, "--no-such-flag=1");
    let Err(error) = ControlPlane::start(options).await else {
        bail!("it started in spite of a wrong flag");
    };
    let text = format!("{error:#}");
    assert!(text.contains("etcd ended with exit code 2"), "{text}");
    assert!(text.contains("no-such-flag"), "{text}");
    let folder = text.split("its logs are in ").nth(1).and_then(|rest| rest.split(": ").next());
    let folder = Path::new(folder.context("no folder named")?);
    assert!(folder.join("etcd.log").exists());
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

#[tokio::test]
async fn control_plane_schedules_pods_and_removes_all_files_on_stop() -> Result<()> {
    let control_plane = ControlPlane::start(Options::full("whole")).await?;
    let pids = control_plane.pids();
    let folder = control_plane.folder().to_owned();
    assert_eq!(pids.len(), 4);

    deployment_becomes_unschedulable_pods(&control_plane).await?;
    a_node_is_only_itself(&control_plane).await?;

    // An open watch must not block the stop.
    let pods: Api<Pod> = Api::default_namespaced(control_plane.admin().await?);
    let watch = pods.watch(&WatchParams::default(), "0").await?;
    let killed = control_plane.stop().await?;
    drop(watch);

    assert_eq!(killed, Vec::<String>::new());
    for (component, pid) in pids {
        assert!(!is_alive(pid), "{} lives", component.name());
    }
    assert!(!folder.exists());
    Ok(())
}

async fn deployment_becomes_unschedulable_pods(control_plane: &ControlPlane) -> Result<()> {
    let admin = control_plane.admin().await?;
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "inflate"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "inflate"}},
            "template": {
                "metadata": {"labels": {"app": "inflate"}},
                "spec": {"containers": [{
                    "name": "inflate",
                    "image": "pause",
                    "resources": {"requests": {"cpu": "1"}},
                }]},
            },
        },
    }))?;
    Api::<Deployment>::default_namespaced(admin.clone()).create(&PostParams::default(), &deployment).await?;
    let pods: Api<Pod> = Api::default_namespaced(admin);
    eventually("three unschedulable pods", SOON, async || {
        let listed = pods.list(&ListParams::default()).await?.items;
        let waiting = listed.iter().filter(|pod| is_unschedulable(pod)).count();
        ensure!(waiting == 3 && listed.len() == 3, "{waiting} of {} pods are", listed.len());
        Ok(Some(()))
    })
    .await
}

fn is_unschedulable(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    status.and_then(|status| status.phase.as_deref()) == Some("Pending")
        && conditions.into_iter().flatten().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("Unschedulable")
        })
}

async fn a_node_is_only_itself(control_plane: &ControlPlane) -> Result<()> {
    let client = control_plane.client_for("system:node:alpha", "system:nodes").await?;
    let nodes: Api<Node> = Api::all(client);
    let node = |name: &str| serde_json::from_value::<Node>(json!({"metadata": {"name": name}}));
    nodes.create(&PostParams::default(), &node("alpha")?).await?;
    let refused = nodes.create(&PostParams::default(), &node("beta")?).await;
    let Err(kube::Error::Api(status)) = refused else {
        bail!("alpha could create the Node beta: {refused:?}");
    };
    assert_eq!(status.code, 403);
    Ok(())
}
