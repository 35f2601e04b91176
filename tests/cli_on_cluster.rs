//! `kerf` on a real API server, as a user who has only the role of `docs/live.md` or `docs/replay.md`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testbed::controlplane::{Component, ControlPlane, Options};
use testbed::machines::find_program;
use testbed::{apply, eventually};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const USER: &str = "reader";
const SOON: Duration = Duration::from_secs(60);

const REPLAY: &str = include_str!("../docs/replay.md");

/// Returns the text of the first object of a kind in a page.
fn documented(page: &'static str, kind: &str) -> Result<&'static str> {
    let texts = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let of_kind = |text: &&str| text.contains(&format!("\nkind: {kind}\n"));
    texts.into_iter().find(of_kind).with_context(|| format!("the page has no {kind}"))
}

/// Returns the role in a page, and its binding to the user.
fn role(page: &'static str) -> Result<[Value; 2]> {
    let role: Value = serde_saphyr::from_str(documented(page, "ClusterRole")?)?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    Ok([role, binding])
}

/// Returns a NodePool with its class. No controller creates the ServiceAccount of pods here.
fn objects() -> [Value; 3] {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "general"});
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}),
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "general"},
            "spec": {
                "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}], "userData": "TOKEN=hunter2",
                "subnetSelectorTerms": [{"id": "subnet-0a1"}], "securityGroupSelectorTerms": [{"id": "sg-0a1"}],
            },
        }),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        }),
    ]
}

/// Returns a pod that no kube-scheduler has seen.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "web", "env": [{"name": "TOKEN", "value": "hunter2"}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }],
        },
    })
}

fn program() -> Result<PathBuf> {
    find_program("kerf", "KERF_CLI", "cargo build --workspace")
}

/// Starts an API server with these objects and pods, and writes the user's kubeconfig into the folder.
async fn cluster(options: Options, pods: &[&str], folder: &Path) -> Result<(ControlPlane, Client, PathBuf)> {
    let control_plane = ControlPlane::start(options).await?;
    control_plane.apply_crds().await?;
    let admin = control_plane.admin().await?;
    for object in objects().into_iter().chain(pods.iter().map(|name| pod(name))) {
        apply(&admin, object).await?;
    }
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, control_plane.kubeconfig(USER, "readers")?)?;
    Ok((control_plane, admin, kubeconfig))
}

/// Returns exit code, standard output and standard error of `kerf` with the user's kubeconfig.
async fn kerf(kubeconfig: &Path, words: &[&str]) -> Result<(i32, String, String)> {
    let output = Command::new(program()?).args(words).env("KUBECONFIG", kubeconfig).output().await?;
    let code = output.status.code().context("kerf was killed")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_role_is_enough_for_live_commands() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (control_plane, admin, kubeconfig) =
        cluster(Options::api_server("cli-on-cluster"), &["web"], folder.path()).await?;

    let (code, _, refused) = kerf(&kubeconfig, &["plan", "--live"]).await?;
    ensure!(code == 2 && refused.contains("you need verb list on resource ec2nodeclasses"), "{code} {refused}");

    for object in role(include_str!("../docs/live.md"))? {
        apply(&admin, object).await?;
    }
    eventually("the role to take effect", SOON, async || {
        let (code, out, error) = kerf(&kubeconfig, &["plan", "--live"]).await?;
        ensure!(code == 0 && out.contains("0 new nodes"), "{code} {out}{error}");
        Ok(Some(()))
    })
    .await?;
    let (code, out, error) = kerf(&kubeconfig, &["why", "pod", "web", "--live"]).await?;
    ensure!(code == 0 && out.contains("Not marked unschedulable by kube-scheduler"), "{code} {out}{error}");

    // kube-scheduler does not run here.
    let refusal = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    });
    let pods: Api<Pod> = Api::default_namespaced(admin.clone());
    pods.patch_status("web", &PatchParams::default(), &Patch::Merge(&refusal)).await?;
    let (code, out, error) = kerf(&kubeconfig, &["why", "pod", "web", "--live"]).await?;
    ensure!(code == 0 && out.contains("It goes to new node general-1"), "{code} {out}{error}");

    for (pod, message) in [("web", "Pod should schedule on: nodeclaim/general-x2k9p"), ("other", "about another pod")] {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": pod, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": pod}, "reason": "Nominated",
            "message": message, "source": {"component": "karpenter"}, "lastTimestamp": "2026-11-21T10:00:00Z", "count": 1,
        });
        apply(&admin, event).await?;
    }
    let (_, out, error) = kerf(&kubeconfig, &["why", "pod", "web", "--live"]).await?;
    let (_, events) = out.split_once("EVENTS\n").context("no events")?;
    let nominated = events.contains("ago: Nominated: Pod should schedule on: nodeclaim/general-x2k9p");
    ensure!(nominated && !out.contains("about another pod"), "{out}{error}");
    control_plane.stop().await?;
    Ok(())
}

/// Starts a recording, and returns it once it has written the first state.
async fn recording(kubeconfig: &Path, folder: &Path) -> Result<Child> {
    let mut command = Command::new(program()?);
    command.arg("record").arg("--out").arg(folder).env("KUBECONFIG", kubeconfig).kill_on_drop(true);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stderr.take().context("no standard error")?).lines();
    while let Some(line) = lines.next_line().await? {
        if line.contains("Ctrl-C ends it") {
            // The rest of the pipe is read, so that it never fills.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(child);
        }
    }
    anyhow::bail!("kerf record ended before its first state")
}

/// Ends a recording as Ctrl-C does, and returns its last words.
async fn end(child: Child) -> Result<String> {
    let id = child.id().context("kerf record has ended already")?;
    kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGINT)?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "kerf record: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

async fn replayed(kubeconfig: &Path, folder: &Path, words: &[&str]) -> Result<Value> {
    let words: Vec<&str> = [&["replay", folder.to_str().context("a path in UTF-8")?, "-o", "json"], words].concat();
    let (code, out, error) = kerf(kubeconfig, &words).await?;
    ensure!(code == 0, "{code} {error}");
    Ok(serde_json::from_str(&out)?)
}

/// Waits until a recording has this many pods, by its replay.
async fn has_pods(kubeconfig: &Path, folder: &Path, count: u64) -> Result<()> {
    eventually("the pods in the recording", SOON, async || {
        let report = replayed(kubeconfig, folder, &[]).await?;
        let pending = &report["figures"]["recorded"]["pending"];
        ensure!(*pending == count, "{pending} pods are pending, not {count}");
        Ok(Some(()))
    })
    .await
}

async fn delete(admin: &Client, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(admin.clone());
    pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn record_follows_a_cluster_and_replay_plays_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = folder.path().join("recording");
    let (control_plane, admin, kubeconfig) =
        cluster(Options::api_server("recording"), &["first"], folder.path()).await?;
    let (code, _, refused) =
        kerf(&kubeconfig, &["record", "--out", files.to_str().context("a path in UTF-8")?]).await?;
    ensure!(code == 2 && refused.contains("you need verbs list and watch on resource"), "{code} {refused}");
    for object in role(REPLAY)? {
        apply(&admin, object).await?;
    }

    let first =
        eventually("the role to take effect", SOON, async || recording(&kubeconfig, &files).await.map(Some)).await?;
    apply(&admin, pod("second")).await?;
    has_pods(&kubeconfig, &files, 2).await?;
    delete(&admin, "first").await?;
    has_pods(&kubeconfig, &files, 1).await?;
    let words = end(first).await?;
    ensure!(words.contains("recorded ") && words.contains("objects at the end"), "{words}");

    // What happens between two recordings is in the first state of the next one.
    delete(&admin, "second").await?;
    apply(&admin, pod("third")).await?;
    let second = recording(&kubeconfig, &files).await?;
    has_pods(&kubeconfig, &files, 1).await?;
    apply(&admin, pod("fourth")).await?;
    has_pods(&kubeconfig, &files, 2).await?;
    end(second).await?;

    let small = "nodepool.general.spec.limits.nodes=0";
    let report = replayed(&kubeconfig, &files, &["--set", small, "--karpenter"]).await?;
    let launches = |column: &str| report["figures"][column]["launches"].as_u64().context("no figure");
    ensure!(launches("recorded")? == 0, "{report:#}");
    ensure!(launches("replayed")? > 0 && launches("karpenter")? > 0, "{report:#}");
    ensure!(launches("changed")? == 0, "{report:#}");
    ensure!(report == replayed(&kubeconfig, &files, &["--set", small, "--karpenter"]).await?, "two replays differ");
    for file in std::fs::read_dir(&files)? {
        let text = unpacked(&file?.path())?;
        ensure!(!text.contains("hunter2") && text.contains("\"general\""), "{text}");
    }
    control_plane.stop().await?;
    Ok(())
}

/// Appends a copy of the last event to an audit log, about another pod and a minute later, so that a replay has time for launches.
fn continue_for_a_minute(log: &Path) -> Result<()> {
    let text = std::fs::read_to_string(log)?;
    let last = text.lines().rfind(|line| line.contains(r#""name":"second""#)).context("no event about pod second")?;
    let mut event: Value = serde_json::from_str(last)?;
    let at: Timestamp = event["stageTimestamp"].as_str().context("an event without time")?.parse()?;
    let later = (at + SignedDuration::from_mins(1)).to_string();
    for (pointer, value) in [
        ("/stageTimestamp", &later),
        ("/responseObject/metadata/creationTimestamp", &later),
        ("/responseObject/metadata/name", &"fourth".to_owned()),
        ("/responseObject/metadata/uid", &"a6ba2f8e-0000-4000-8000-000000000004".to_owned()),
        ("/objectRef/name", &"fourth".to_owned()),
    ] {
        *event.pointer_mut(pointer).with_context(|| format!("an event without {pointer}"))? = json!(value);
    }
    std::fs::write(log, format!("{text}{event}\n")).context("cannot write the log")
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_with_the_documented_policy_becomes_a_recording() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, documented(REPLAY, "Policy")?)?;
    let flag = format!("--audit-policy-file={}", policy.display());
    let options = Options::api_server("audit-recording").with_flag(Component::ApiServer, &flag);
    let (control_plane, admin, kubeconfig) = cluster(options, &["first"], folder.path()).await?;
    apply(&admin, pod("third")).await?;
    delete(&admin, "first").await?;
    apply(&admin, pod("second")).await?;

    let (log, files) = (folder.path().join("audit.log"), folder.path().join("recording"));
    eventually("the last write in the audit log", SOON, async || {
        std::fs::copy(control_plane.folder().join("audit.log"), &log)?;
        continue_for_a_minute(&log).map(Some)
    })
    .await?;
    let words: [&Path; 5] = [Path::new("record"), Path::new("--out"), &files, Path::new("--from"), &log];
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let (code, out, error) = kerf(&kubeconfig, &words.context("paths in UTF-8")?).await?;
    ensure!(code == 0 && out.contains("recorded "), "{code} {out}{error}");
    let mut report = replayed(&kubeconfig, &files, &[]).await?;
    let [recorded, replayed] = ["recorded", "replayed"].map(|column| report["figures"][column].take());
    ensure!(recorded["pending"] == 3 && recorded["launches"] == 0, "{recorded:#}");
    ensure!(replayed["launches"].as_u64().is_some_and(|launches| launches > 0), "{replayed:#}");
    for file in std::fs::read_dir(&files)? {
        let text = unpacked(&file?.path())?;
        ensure!(!text.contains("hunter2") && text.contains("\"general\""), "{text}");
    }
    control_plane.stop().await?;
    Ok(())
}

fn unpacked(path: &Path) -> Result<String> {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(std::fs::File::open(path)?), &mut text)?;
    Ok(text)
}
