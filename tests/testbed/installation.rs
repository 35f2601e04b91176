//! Installation of the controller as its users run it: the chart's two replicas as pods of the image from `make images`, on a managed
//! node group with two real machines.

mod image;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::objects::Node;
use api::{NodePool, condition, label};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::{Cloud as _, ClusterDescription, LaunchTemplateRequest};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use systemd_container::System;
use tempfile::TempDir;

use crate::environment::{CLUSTER, Environment, Setup};
use crate::eventually;
use crate::helm::{Helm, Version};
use crate::machines::Machine;
use crate::machines::own_network::aws_url;
use crate::machines::real::{NODE_GROUP, NODE_GROUP_TAG, Parts};
use image::REPOSITORY;

/// Time limit of one step. The limit is high, because the machine may compile something else at the same time.
pub const LIMIT: Duration = Duration::from_secs(180);
/// Tag of the image of the previous version of the chart.
pub const PREVIOUS: &str = "0.0.9";
/// Tag of the image of the current version.
pub const CURRENT: &str = env!("CARGO_PKG_VERSION");
const NAMESPACE: &str = "kube-system";
const RELEASE: &str = "karpenter";

/// A cluster with two nodes, and a release of the chart on them.
pub struct Installation {
    /// The cluster.
    pub environment: Environment,
    /// Its client.
    pub client: Client,
    helm: Helm,
    folder: TempDir,
}

impl Installation {
    /// Returns the reason why this computer cannot run an installation.
    #[must_use]
    pub fn obstacle() -> Option<String> {
        Parts::obstacle().or_else(image::obstacle)
    }

    /// Starts the cluster and its two machines. Returns when both nodes are ready.
    ///
    /// # Errors
    /// Returns an error if a component is missing or does not start.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let archive = image::tagged(&[PREVIOUS, CURRENT], folder.path())?;
        let parts = tokio::task::spawn_blocking(Parts::find).await??.with_image(archive);
        let setup = Setup { real: Arc::new(parts.into()), without_rights: true, ..Setup::default() };
        let environment = Environment::start_with(setup).await?;
        let client = environment.client.clone();
        let helm = Helm::find(Version::Four)?.on(&environment.control_plane.admin_kubeconfig());
        let installation = Self { environment, client, helm, folder };
        installation.describe_cluster();
        installation.launch_node_group(2).await?;
        Ok(installation)
    }

    /// Sets what EKS returns for the cluster.
    fn describe_cluster(&self) {
        let control_plane = &self.environment.control_plane;
        let description = ClusterDescription {
            arn: format!("arn:aws:eks:us-west-2:123456789012:cluster/{CLUSTER}"),
            version: "1.36".to_owned(),
            endpoint: control_plane.url(),
            ca: STANDARD.encode(control_plane.authority().certificate()),
            service_cidr: "10.96.0.0/16".to_owned(),
        };
        self.environment.ec2.set_cluster(CLUSTER, description);
    }

    /// Launches the node group, one instance in each zone, and waits for its nodes.
    async fn launch_node_group(&self, count: usize) -> Result<()> {
        let ec2 = &self.environment.ec2;
        let parameter = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";
        let image_id = ec2.parameter(parameter).await?.context("there is no image for the node group")?;
        let template =
            LaunchTemplateRequest { image_id, user_data: self.user_data()?, ..LaunchTemplateRequest::default() };
        let tags = [(NODE_GROUP_TAG.to_owned(), NODE_GROUP.to_owned())];
        for subnet in ec2.subnets(&cloud::Filter::default()).await?.iter().take(count) {
            let launched = ec2.account().run_instance("m5.large", &subnet.id, template.clone(), tags.clone().into());
            launched.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        }
        eventually("the nodes of the node group", LIMIT, async || {
            let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?.items;
            let is_ready =
                |node: &&Node| node.condition(condition::READY).is_some_and(|it| it.status == condition::TRUE);
            let ready = nodes.iter().filter(is_ready).count();
            ensure!(ready == count, "{ready} of {} are ready", nodes.len());
            Ok(Some(()))
        })
        .await
    }

    /// Returns the user data of EKS for a node group, with the settings of this computer that the class of real machines has.
    fn user_data(&self) -> Result<String> {
        let class = include_str!("../node/class.yaml").split("\n---\n").next().unwrap_or_default();
        let class: Value = serde_saphyr::from_str(class)?;
        let own = class["spec"]["userData"].as_str().context("the class has no user data")?;
        let mut config: Value = serde_saphyr::from_str(own)?;
        let control_plane = &self.environment.control_plane;
        config["spec"]["cluster"] = json!({
            "name": CLUSTER,
            "apiServerEndpoint": control_plane.url(),
            "certificateAuthority": STANDARD.encode(control_plane.authority().certificate()),
            "cidr": "10.96.0.0/16",
        });
        Ok(STANDARD.encode(config.to_string()))
    }

    /// Installs the chart of this checkout.
    ///
    /// # Errors
    /// Returns an error with Helm's message if it fails.
    pub fn install(&self) -> Result<String> {
        self.install_chart(&Helm::chart("chart"))
    }

    /// Installs the previous version of the chart: a copy with its version and that of its image.
    ///
    /// # Errors
    /// Returns an error if the chart cannot be copied, or Helm's message if it fails.
    pub fn install_previous(&self) -> Result<String> {
        let previous = self.folder.path().join("previous");
        let copied = std::process::Command::new("cp").arg("-rL").arg(Helm::chart("chart")).arg(&previous).status()?;
        ensure!(copied.success(), "the chart cannot be copied");
        let chart = previous.join("Chart.yaml");
        let text = std::fs::read_to_string(&chart)?;
        ensure!(text.contains(&format!("ersion: {CURRENT}\n")), "the chart has another version than its image");
        std::fs::write(&chart, text.replace(&format!("ersion: {CURRENT}\n"), &format!("ersion: {PREVIOUS}\n")))?;
        self.install_chart(&previous)
    }

    fn install_chart(&self, chart: &Path) -> Result<String> {
        let (chart, values, endpoint) = (path(chart), values(), endpoint());
        self.helm.run(&["install", RELEASE, &chart, "--namespace", NAMESPACE, "--values", &values, &endpoint])
    }

    /// Upgrades the release to the chart of this checkout, as docs/install.md says.
    ///
    /// # Errors
    /// Returns an error with Helm's message if it fails.
    pub fn upgrade(&self) -> Result<String> {
        let chart = path(&Helm::chart("chart"));
        self.helm.run(&["upgrade", RELEASE, &chart, "--namespace", NAMESPACE, "--reset-then-reuse-values"])
    }

    /// Applies EC2NodeClass and NodePool of the getting-started example, and its CNI for the nodes of the NodePool, whose kubelets are
    /// stand-ins. Nothing is consolidated, so that each launch is for a pod.
    ///
    /// # Errors
    /// Returns an error if the API server refuses an object.
    pub async fn apply_pool(&self) -> Result<()> {
        self.environment.apply("getting-started/aws-node.yaml").await?;
        let launched =
            Patch::Merge(json!({"spec": {"template": {"spec": {"nodeSelector": {label::NODEPOOL: "default"}}}}}));
        let daemons = Api::<DaemonSet>::namespaced(self.client.clone(), NAMESPACE);
        daemons.patch("aws-node", &PatchParams::default(), &launched).await?;
        self.environment.apply("getting-started/ec2nodeclass.yaml").await?;
        self.environment.apply("getting-started/nodepool.yaml").await?;
        let never = Patch::Merge(json!({"spec": {"disruption": {"consolidateAfter": "Never"}}}));
        let pools = Api::<NodePool>::all(self.client.clone());
        pools.patch("default", &PatchParams::default(), &never).await?;
        Ok(())
    }

    /// Checks that the leader found the region by instance metadata, the API server by EKS, and its credentials by its token.
    ///
    /// # Errors
    /// Returns the one that was not requested.
    pub async fn surroundings_are_discovered(&self) -> Result<()> {
        let leader = self.leader().await?;
        let node = node_of(&leader).context("the leader is on no node")?;
        let imds = self.machine(node)?.imds().context("the machine is down")?;
        ensure!(imds.requests("meta-data/placement/region") > 0, "the region was not requested");
        let called = |action: &str| self.environment.wire.exchanges(action).iter().filter(|call| call.good).count();
        ensure!(called("DescribeCluster") > 0, "DescribeCluster was not called");
        ensure!(called("AssumeRoleWithWebIdentity") > 0, "the token of the ServiceAccount was not used");
        Ok(())
    }

    /// Returns the pods of the controller that are not being deleted.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn replicas(&self) -> Result<Vec<Pod>> {
        let labels = ListParams::default().labels("app.kubernetes.io/name=karpenter");
        let pods = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE).list(&labels).await?.items;
        Ok(pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
    }

    /// Waits until two replicas of the image with this tag are ready, on different nodes.
    ///
    /// # Errors
    /// Returns what is missing at the time limit.
    pub async fn two_ready(&self, tag: &str) -> Result<Vec<Pod>> {
        let image = format!("{REPOSITORY}:{tag}");
        eventually(&format!("two replicas of {image}"), LIMIT, async || {
            let pods = self.replicas().await?;
            let statuses: Vec<_> = pods.iter().filter_map(|pod| pod.status.clone()?.container_statuses).collect();
            let of_image =
                |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_ref() == Some(&image));
            ensure!(pods.iter().all(|pod| of_image(pod) && pod_is_ready(pod)), "{statuses:?}");
            let nodes: BTreeSet<&str> = pods.iter().filter_map(node_of).collect();
            ensure!((pods.len(), nodes.len()) == (2, 2), "{} pods on {nodes:?}", pods.len());
            Ok(Some(pods))
        })
        .await
    }

    /// Returns the replica that holds the Lease.
    ///
    /// # Errors
    /// Returns what is missing at the time limit.
    pub async fn leader(&self) -> Result<Pod> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), NAMESPACE);
        eventually("a leader", LIMIT, async || {
            let lease = leases.get("karpenter-leader-election").await?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity).context("the Lease has no holder")?;
            let pods = self.replicas().await?;
            let known: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
            let leads = |pod: &Pod| holder.starts_with(&pod.name_any());
            pods.into_iter().find(leads).map(Some).with_context(|| format!("{holder} is none of {known:?}"))
        })
        .await
    }

    /// Kills the process of a replica with `kill -9`; its pod remains.
    ///
    /// # Errors
    /// Returns an error if no process was killed.
    pub fn kill(&self, replica: &Pod) -> Result<()> {
        let find = "for comm in /proc/[0-9]*/comm; do read -r name <$comm || continue; \
                    if [ $name = kerf-controller ]; then pid=${comm#/proc/}; kill -KILL ${pid%/comm}; killed=1; fi; done; \
                    [ \"${killed:-}\" ]";
        let output = self.system_of(replica)?.run(&["sh", "-c", find]);
        ensure!(output.status.success(), "no process was killed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn system_of(&self, pod: &Pod) -> Result<Arc<System>> {
        let node = node_of(pod).context("the pod is on no node")?;
        self.machine(node)?.system().context("the machine is down")
    }

    fn machine(&self, node: &str) -> Result<Arc<Machine>> {
        let machines = self.environment.simulator.machines();
        machines.into_iter().find(|machine| machine.node_name() == node).with_context(|| format!("no machine {node}"))
    }

    /// Makes a node unschedulable, or schedulable again.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn cordon(&self, node: &str, unschedulable: bool) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": unschedulable}}));
        Api::<Node>::all(self.client.clone()).patch(node, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Evicts a replica, as `kubectl drain` does; returns false if a PodDisruptionBudget forbids it.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn evict(&self, replica: &Pod) -> Result<bool> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE);
        match pods.evict(&replica.name_any(), &EvictParams::default()).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 429 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a pod and waits until it is on a node that the controller launched for it: CreateFleet is called once more and
    /// not twice.
    ///
    /// # Errors
    /// Returns what is missing at the time limit, or the number of calls.
    pub async fn launches_for(&self, name: &str) -> Result<Node> {
        let before = self.fleets();
        self.environment.pod(name, "3", json!({label::NODEPOOL: "default"})).await?;
        let pods = Api::<Pod>::namespaced(self.client.clone(), "default");
        let labels = ListParams::default().labels(&format!("app={name}"));
        let node = eventually(&format!("a node for pod {name}"), LIMIT, async || {
            let pods = pods.list(&labels).await?.items;
            let pod = pods.first().context("no pod yet")?;
            Ok(node_of(pod).map(str::to_owned))
        })
        .await?;
        ensure!(self.fleets() == before + 1, "{} calls of CreateFleet for one pod", self.fleets() - before);
        Ok(Api::<Node>::all(self.client.clone()).get(&node).await?)
    }

    /// Returns the number of successful calls of CreateFleet.
    fn fleets(&self) -> usize {
        self.environment.wire.exchanges("CreateFleet").iter().filter(|call| call.good).count()
    }

    /// Ends the cluster and its machines.
    ///
    /// # Errors
    /// Returns an error if a component does not end.
    pub async fn stop(self) -> Result<()> {
        let Self { environment, client, .. } = self;
        drop(client);
        environment.stop().await
    }

    /// Prints the logs of the controller's containers and of the machines.
    pub fn print_logs(&self) {
        for machine in self.environment.simulator.machines() {
            let Some(system) = machine.system() else { continue };
            let show = "tail -n 40 /var/log/pods/kube-system_*/controller/*.log; journalctl --no-pager --lines 60";
            let output = system.run(&["sh", "-c", show]);
            eprintln!("{}:\n{}", machine.node_name(), String::from_utf8_lossy(&output.stdout));
        }
    }
}

fn pod_is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == condition::READY && it.status == condition::TRUE)
}

/// Returns the node of a pod.
#[must_use]
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Returns the value for AWS' endpoint, which is not AWS here.
fn endpoint() -> String {
    let variable = json!({"name": "AWS_ENDPOINT_URL", "value": aws_url()});
    format!("--set-json=controller.env[2]={variable}")
}

fn values() -> String {
    path(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("installation/values.yaml"))
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
