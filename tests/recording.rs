//! `kerf record` on a real API server, as a user who has only the role of `docs/replay.md`, and `kerf replay` of its files.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, Client};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testbed::controlplane::{ControlPlane, Options};
use testbed::machines::find_program;
use testbed::{apply, eventually};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const USER: &str = "recorder";
const SOON: Duration = Duration::from_secs(60);

/// Returns the role in the page.
fn role() -> Result<Value> {
    let page = include_str!("../docs/replay.md");
    let role = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    Ok(serde_saphyr::from_str(role.context("docs/replay.md has no role")?)?)
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "kerf-recorder"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kerf-recorder"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    })
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

/// Returns exit code, standard output and standard error of `kerf`.
async fn kerf(kubeconfig: &Path, words: &[&str]) -> Result<(i32, String, String)> {
    let output = Command::new(program()?).args(words).env("KUBECONFIG", kubeconfig).output().await?;
    let code = output.status.code().context("kerf was killed")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
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
    let control_plane = ControlPlane::start(Options::api_server("recording")).await?;
    control_plane.apply_crds().await?;
    let admin = control_plane.admin().await?;
    for object in objects().into_iter().chain([pod("first")]) {
        apply(&admin, object).await?;
    }
    let folder = tempfile::tempdir()?;
    let (kubeconfig, files) = (folder.path().join("kubeconfig"), folder.path().join("recording"));
    std::fs::write(&kubeconfig, control_plane.kubeconfig(USER, "recorders")?)?;
    let (code, _, refused) =
        kerf(&kubeconfig, &["record", "--out", files.to_str().context("a path in UTF-8")?]).await?;
    ensure!(code == 2 && refused.contains("you need verbs list and watch on resource"), "{code} {refused}");
    apply(&admin, role()?).await?;
    apply(&admin, binding()).await?;

    let first =
        eventually("the role to take effect", SOON, async || recording(&kubeconfig, &files).await.map(Some)).await?;
    apply(&admin, pod("second")).await?;
    has_pods(&kubeconfig, &files, 2).await?;
    delete(&admin, "first").await?;
    has_pods(&kubeconfig, &files, 1).await?;
    let words = end(first).await?;
    ensure!(words.contains("recorded 0 h") && words.contains("objects at the end"), "{words}");

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

fn unpacked(path: &Path) -> Result<String> {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(std::fs::File::open(path)?), &mut text)?;
    Ok(text)
}
