//! Cluster with one real machine, and the assertions about both.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{NodePool, annotation, condition};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use systemd_container::System;
use testbed::environment::{Environment, Setup};
use testbed::eventually;
use testbed::machines::Machine;
use testbed::machines::real::{POOL, Parts};
use testbed::observer::Observer;

/// Time limit of one step. The limit is high, because the machine may compile something else at the same time.
pub const LIMIT: Duration = Duration::from_secs(120);

pub struct Fixture {
    pub environment: Environment,
    pub client: Client,
    pub machine: Arc<Machine>,
    pub observer: Observer,
}

impl Fixture {
    /// Applies EC2NodeClasses, NodePools and pods; returns when EC2 has started the real machine for them.
    pub async fn start() -> Result<Self> {
        let parts = tokio::task::spawn_blocking(Parts::find).await??;
        let mut environment =
            Environment::start_with(Setup { real: Arc::new(parts.into()), ..Setup::default() }).await?;
        let client = environment.client.clone();
        let observer = Observer::start(&client);
        environment.start_controller()?;
        environment.apply("getting-started/ec2nodeclass.yaml").await?;
        environment.apply("getting-started/nodepool.yaml").await?;
        let own = [include_str!("class.yaml"), include_str!("workload.yaml")];
        for document in own.iter().flat_map(|file| file.split("\n---\n")) {
            environment.apply_value(serde_saphyr::from_str(document)?).await?;
        }
        let simulator = &environment.simulator;
        let machine = eventually("a machine", LIMIT, async || Ok(simulator.machines().first().cloned())).await?;
        // The ports of this computer permit only one such machine: its replacement must come from the other NodePool.
        let closed = Patch::Merge(json!({"spec": {"limits": {"cpu": "0"}}}));
        Api::<NodePool>::all(client.clone()).patch(POOL, &PatchParams::default(), &closed).await?;
        eventually("systemd on it", LIMIT, async || Ok(machine.system())).await?;
        Ok(Self { environment, client, machine, observer })
    }

    /// Returns the outcome of steps. After an error the logs are kept, and the journal of the machine is printed.
    pub fn outcome<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.environment.keep_logs();
            let journal =
                self.machine.system().map(|system| system.run(&["journalctl", "--no-pager", "--lines", "150"]));
            eprintln!("{}", journal.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default());
        }
        outcome.with_context(|| format!("logs are in {}", self.environment.folder().display()))
    }

    pub async fn stop(self) -> Result<()> {
        let Self { environment, client, observer, .. } = self;
        drop((client, observer));
        environment.stop().await
    }

    pub fn system(&self) -> Result<Arc<System>> {
        self.machine.system().context("the machine is down")
    }

    pub async fn node(&self) -> Result<Node> {
        Ok(Api::<Node>::all(self.client.clone()).get(self.machine.node_name()).await?)
    }

    /// Returns the last renewal of the lease by the real kubelet.
    pub async fn lease(&self) -> Result<Timestamp> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let lease = leases.get(self.machine.node_name()).await?;
        Ok(lease.spec.and_then(|spec| spec.renew_time).context("it was never renewed")?.0)
    }

    /// Returns the last heartbeat of the agent.
    pub async fn heartbeat(&self) -> Result<Timestamp> {
        let node = self.node().await?;
        Ok(node.annotations().get(annotation::AGENT_HEARTBEAT).context("there was none yet")?.parse()?)
    }

    /// Waits until a condition of the Node has this status.
    pub async fn condition(&self, kind: &str, status: &str) -> Result<NodeCondition> {
        eventually(&format!("{kind}={status}"), LIMIT, async || {
            let node = self.node().await?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let found = conditions.into_iter().find(|it| it.type_ == kind).context("it is missing yet")?;
            ensure!(found.status == status, "{found:?}");
            Ok(Some(found))
        })
        .await
    }

    /// Returns the pods on the real machine with this label `app`, or all pods for `None`.
    pub async fn pods(&self, app: Option<&str>) -> Result<Vec<Pod>> {
        let labels = app.map(|app| format!("app={app}")).unwrap_or_default();
        let here = format!("spec.nodeName={}", self.machine.node_name());
        let asked = ListParams::default().labels(&labels).fields(&here);
        Ok(Api::<Pod>::all(self.client.clone()).list(&asked).await?.items)
    }

    /// Waits until `wanted` pods with the label run on the real machine and are Ready. The phase is not enough: a pod whose
    /// only container fails repeatedly is `Running` too.
    pub async fn running(&self, app: &str, wanted: usize) -> Result<Vec<Pod>> {
        eventually(&format!("{app} to run"), LIMIT, async || {
            let pods = self.pods(Some(app)).await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            let statuses: Vec<_> = pods.iter().map(|pod| pod.status.as_ref()?.container_statuses.clone()).collect();
            ensure!(ready == wanted && pods.len() == wanted, "{ready} of {} are ready: {statuses:?}", pods.len());
            Ok(Some(pods))
        })
        .await
    }

    /// Kills the main process of a unit with `kill -9`, and waits until systemd has started it again. Returns the time of the
    /// kill.
    pub fn kill(&self, unit: &str) -> Result<Timestamp> {
        let system = self.system()?;
        let before: u32 = system.property(unit, "NRestarts").parse()?;
        let at = Timestamp::now();
        system.systemctl(&["kill", "--kill-whom=main", "--signal=KILL", unit]);
        system.until(unit, "NRestarts", |count| count.parse::<u32>().is_ok_and(|count| count > before));
        system.until(unit, "ActiveState", |state| state == "active");
        Ok(at)
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let mut ready = conditions.filter(|it| it.type_ == condition::READY && it.status == condition::TRUE);
    ready.next().is_some() && pod.metadata.deletion_timestamp.is_none()
}
