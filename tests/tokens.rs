//! Tokens against a real API server with a webhook for authentication, as in EKS. A token of the instance's role authenticates
//! the agent as its Node. An invalid token is refused, and the agent's error names the fix.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use serde_json::json;
use testbed::controlplane::{ControlPlane, Options};
use testbed::eks::{Eks, ROLE, RoleKeys};
use testbed::eventually;
use testbed::imds::{Facts, Imds, Role};
use testbed::machines::Programs;
use testbed::process::{Process, RunFolder};

const CLUSTER: &str = "kerf-tokens";
const REGION: &str = "us-west-2";
const NODE: &str = "ip-10-0-0-1.us-west-2.compute.internal";
const INSTANCE: &str = "i-0123456789abcdef0";
const SOON: Duration = Duration::from_secs(120);

struct Fixture {
    eks: Eks,
    control_plane: ControlPlane,
    folder: RunFolder,
}

impl Fixture {
    async fn set() -> Result<Self> {
        let eks = Eks::start(CLUSTER, REGION).await?;
        let control_plane = ControlPlane::start(eks.with_webhook(Options::api_server("tokens"))).await?;
        Ok(Self { eks, control_plane, folder: RunFolder::create("tokens")? })
    }

    /// Runs an agent on a machine with these keys, bootstrapped for `cluster`, until its log contains every one of `words`.
    async fn agent_reports(&self, case: &str, keys: RoleKeys, cluster: &str, parts: &[&str]) -> Result<()> {
        let root = self.folder.path().join(case);
        let facts = Facts {
            instance_id: INSTANCE.to_owned(),
            instance_type: "m5.large".to_owned(),
            local_hostname: NODE.to_owned(),
            region: REGION.to_owned(),
            zone: format!("{REGION}a"),
            role: Some(Role { name: ROLE.to_owned(), keys }),
            ..Facts::default()
        };
        let imds = Imds::start(IpAddr::V4(Ipv4Addr::LOCALHOST), facts).await?;
        std::fs::create_dir_all(root.join("var/lib/kubelet"))?;
        std::fs::write(root.join("var/lib/kubelet/kubeconfig"), self.kubeconfig(cluster))?;
        let mut command = Command::new(Programs::find()?.agent);
        command.arg("run").env("KERF_ROOT", &root).env("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.url());
        let log = self.folder.path().join(format!("{case}.log"));
        let mut agent = Process::spawn(case, command, &log)?;
        let what = format!("{case}: {parts:?} in {}", log.display());
        let outcome = eventually(&what, SOON, async || {
            let text = std::fs::read_to_string(&log)?;
            Ok(parts.iter().all(|word| text.contains(word)).then_some(text))
        });
        let outcome = outcome.await.map(drop);
        agent.stop(Duration::from_secs(10)).await?;
        outcome
    }

    /// Returns a kubeconfig as bootstrap writes it on a machine without a client certificate.
    fn kubeconfig(&self, cluster: &str) -> String {
        let authority = STANDARD.encode(self.control_plane.authority().certificate());
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "aws",
            "args": ["eks", "get-token", "--cluster-name", cluster, "--region", REGION],
        });
        let document = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kubernetes", "cluster": {
                "server": self.control_plane.url(),
                "certificate-authority-data": authority,
            }}],
            "contexts": [{"name": "kubelet", "context": {"cluster": "kubernetes", "user": "kubelet"}}],
            "current-context": "kubelet",
            "users": [{"name": "kubelet", "user": {"exec": exec}}],
        });
        document.to_string()
    }
}

#[tokio::test]
async fn api_server_accepts_only_tokens_of_the_instance_role() -> Result<()> {
    let fixture = Fixture::set().await?;
    let good = || fixture.eks.issue(INSTANCE, NODE);

    let here = [&format!("waiting for kubelet to register Node {NODE}")[..]];
    fixture.agent_reports("good", good(), CLUSTER, &here).await?;
    let user = fixture.eks.results().pop().context("no token was checked")?.user;
    ensure!(user == Ok(format!("system:node:{NODE}")), "{user:?}");

    let refused = ["unauthorized (401", "access entry of type EC2_LINUX"];
    let mut forged = good();
    forged.session.secret_key = "a guess".to_owned();
    fixture
        .agent_reports("forged", forged, CLUSTER, &refused)
        .await
        .and_then(|()| last_result_contains(&fixture, "SignatureDoesNotMatch"))?;

    fixture.agent_reports("elsewhere", good(), "another-cluster", &refused).await?;
    last_result_contains(&fixture, "SignatureDoesNotMatch")?;

    fixture.eks.set_ahead(SignedDuration::from_mins(16));
    fixture.agent_reports("expired", good(), CLUSTER, &refused).await?;
    last_result_contains(&fixture, "the token has expired")?;
    fixture.eks.set_ahead(SignedDuration::ZERO);

    let keys = good();
    fixture.eks.revoke(INSTANCE);
    fixture.agent_reports("revoked", keys, CLUSTER, &refused).await?;
    last_result_contains(&fixture, "no such access key")
}

fn last_result_contains(fixture: &Fixture, why: &str) -> Result<()> {
    let user = fixture.eks.results().pop().context("no token was checked")?.user;
    ensure!(user.as_ref().is_err_and(|message| message.contains(why)), "{why}: {user:?}");
    Ok(())
}
