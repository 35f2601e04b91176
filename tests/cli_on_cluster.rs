//! `kerf` with `--live` on a real API server, as a user who has only the role of `docs/live.md`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testbed::controlplane::{ControlPlane, Options};
use testbed::machines::find_program;
use testbed::{apply, eventually};
use tokio::process::Command;

const USER: &str = "reader";
const SOON: Duration = Duration::from_secs(60);

/// Returns the role in the page.
fn role() -> Result<Value> {
    let page = include_str!("../docs/live.md");
    let role = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    Ok(serde_saphyr::from_str(role.context("docs/live.md has no role")?)?)
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "kerf-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kerf-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    })
}

/// Returns a NodePool with its class, and a pod that no kube-scheduler has seen. No controller creates its ServiceAccount here.
fn objects() -> [Value; 4] {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "general"});
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}),
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "general"},
            "spec": {
                "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"id": "subnet-0a1"}], "securityGroupSelectorTerms": [{"id": "sg-0a1"}],
            },
        }),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "web", "resources": {"requests": {"cpu": "1"}}}],
            },
        }),
    ]
}

/// Returns exit code, standard output and standard error of `kerf` with the user's kubeconfig.
async fn kerf(kubeconfig: &Path, words: &[&str]) -> Result<(i32, String, String)> {
    let program = find_program("kerf", "KERF_CLI", "cargo build --workspace")?;
    let output = Command::new(program).args(words).env("KUBECONFIG", kubeconfig).output().await?;
    let code = output.status.code().context("kerf was killed")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_role_is_enough_for_live_commands() -> Result<()> {
    let control_plane = ControlPlane::start(Options::api_server("cli-on-cluster")).await?;
    control_plane.apply_crds().await?;
    let admin = control_plane.admin().await?;
    for object in objects() {
        apply(&admin, object).await?;
    }
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, control_plane.kubeconfig(USER, "readers")?)?;

    let (code, _, refused) = kerf(&kubeconfig, &["plan", "--live"]).await?;
    ensure!(code == 2 && refused.contains("you need verb list on resource ec2nodeclasses"), "{code} {refused}");

    apply(&admin, role()?).await?;
    apply(&admin, binding()).await?;
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
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::default_namespaced(admin);
    pods.patch_status("web", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&refusal)).await?;
    let (code, out, error) = kerf(&kubeconfig, &["why", "pod", "web", "--live"]).await?;
    ensure!(code == 0 && out.contains("It goes to new node general-1"), "{code} {out}{error}");
    control_plane.stop().await?;
    Ok(())
}
