//! Provisioning of five pending pods: fewer nodes are launched than there are pods, agents boot them, and the pods run.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::objects::Node;
use api::status::Conditioned;
use api::{condition, label, taint};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::ResourceExt;
use testbed::{controller, eventually};

use super::{Demo, PATIENCE, starts};

/// Number of pods in the first chapter.
pub const FIRST_WAVE: usize = 5;

pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("1. Provisioning: five pending pods");
    start(demo).await?;
    waiting_pods(demo).await?;
    launch(demo).await?;
    boot(demo).await?;
    identity(demo).await?;
    registration(demo).await?;
    running(demo).await?;
    starts::kept(demo).await
}

async fn start(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    for (file, what) in [
        ("ec2nodeclass.yaml", "the EC2NodeClass is accepted by the API server"),
        ("nodepool.yaml", "the NodePool is accepted by the API server"),
        ("aws-node.yaml", "a DaemonSet represents the CNI"),
        ("inflate.yaml", "inflate and its PodDisruptionBudget are created with no replicas"),
    ] {
        reporter.line(what, environment.apply(&format!("getting-started/{file}"))).await?;
    }
    environment.start_controller()?;
    let probes = environment.probes();
    let environment = &mut *environment;
    let ready = eventually("the controller to be ready", PATIENCE, async || {
        environment.ensure_controller_runs()?;
        controller::get(&probes, "/readyz").await.map(|_| Some(()))
    });
    reporter.line("the controller's /readyz is ok", ready).await?;
    let ready = eventually("pool and class to be ready", PATIENCE, async || Ok(cluster.ready().await?.then_some(())));
    reporter.line("NodePool and EC2NodeClass are Ready", ready).await
}

async fn waiting_pods(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, cluster, .. } = demo;
    reporter.line("inflate is scaled from 0 to 5", cluster.scale(FIRST_WAVE)).await?;
    let claims = eventually("NodeClaims", PATIENCE, async || {
        let claims = cluster.claims().await?;
        Ok((!claims.is_empty()).then_some(claims))
    });
    reporter.line("the controller creates NodeClaims for the pending pods", claims).await?;
    let named = eventually("an event on each pod", PATIENCE, async || {
        let demo = cluster.nominated().await?.len();
        ensure!(demo == FIRST_WAVE, "{demo} of {FIRST_WAVE} pods have a Nominated event");
        Ok(Some(()))
    });
    reporter.line("an event on each pod names its NodeClaim", named).await?;
    let fewer = async {
        let claims = cluster.claims().await?.len();
        ensure!((1..FIRST_WAVE).contains(&claims), "{claims} NodeClaims for {FIRST_WAVE} pods");
        Ok(())
    };
    reporter.line("several pods share a NodeClaim", fewer).await
}

async fn launch(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, cluster, observer, .. } = demo;
    let fleet = eventually("one CreateFleet", PATIENCE, async || Ok(environment.ec2.fleets().first().cloned()));
    let fleet = reporter.line("CreateFleet is called", fleet).await?;
    let asked = environment.wire.exchanges("CreateFleet");
    let instant = async {
        let first = asked.first().context("no call on the wire")?;
        ensure!(first.asked.contains("instant"), "the wire shows {}", first.asked);
        Ok(())
    };
    reporter.line("its type is instant", instant).await?;
    let wide = async {
        let overrides: Vec<_> = fleet.configs.iter().flat_map(|config| &config.overrides).collect();
        let types: BTreeSet<&str> = overrides.iter().map(|one| one.instance_type.as_str()).collect();
        let zones: BTreeSet<&str> = overrides.iter().map(|one| one.zone.as_str()).collect();
        ensure!(types.len() >= 5 && zones.len() >= 2, "{} types in {} zones", types.len(), zones.len());
        Ok(())
    };
    reporter.line("its overrides have several instance types in several zones", wide).await?;
    let spot = async {
        ensure!(fleet.capacity_type == label::CAPACITY_SPOT, "it asks for {}", fleet.capacity_type);
        Ok(())
    };
    reporter.line("spot is preferred", spot).await?;
    let tagged = async {
        for key in [label::NODEPOOL, label::EC2_NODE_CLASS, "eks:eks-cluster-name", cloud::tags::LAUNCH_TOKEN_TAG] {
            ensure!(fleet.tags.contains_key(key), "no tag {key} among {:?}", fleet.tags.keys());
        }
        Ok(())
    };
    reporter.line("its tags have cluster, NodePool, EC2NodeClass and launch token", tagged).await?;
    let template = async {
        let machine = environment.ec2.machines().into_iter().next().context("EC2 launched nothing")?;
        let text = STANDARD.decode(&machine.template.user_data).context("user data is not base64")?;
        let text = String::from_utf8(text).context("user data is not text")?;
        ensure!(text.contains("application/node.eks.aws"), "user data carries no NodeConfig:\n{text}");
        Ok(())
    };
    reporter.line("its launch template has a NodeConfig as user data", template).await?;
    let waited = observer.pods_since(jiff::Timestamp::UNIX_EPOCH);
    let unschedulable = waited.iter().find(|seen| seen.object.is_unschedulable()).map(|seen| seen.at);
    if let (Some(pending), Some(call)) = (unschedulable, asked.first()) {
        let took = Duration::try_from(call.at.duration_since(pending)).unwrap_or_default();
        reporter.figure("first pod unschedulable -> CreateFleet returned", took);
    }
    let enough = async {
        let (claims, machines) = (cluster.claims().await?.len(), environment.ec2.machines().len());
        ensure!(claims == machines, "{machines} instances for {claims} NodeClaims");
        Ok(())
    };
    reporter.line("EC2 launched one instance for each NodeClaim", enough).await
}

async fn boot(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, .. } = demo;
    let agents = eventually("an agent on each machine", PATIENCE, async || {
        let (machines, agents) = (environment.ec2.machines().len(), environment.simulator.pids().len());
        ensure!(agents == machines, "{agents} agents on {machines} machines");
        Ok(Some(()))
    });
    reporter.line("each node runs a real kerf-agent process", agents).await?;
    for (file, what) in [
        ("etc/kubernetes/kubelet/config.json", "it read IMDS and user data and wrote kubelet's configuration"),
        ("etc/eks/kubelet/environment", "it wrote kubelet's flags"),
        ("var/lib/kubelet/kubeconfig", "it wrote a kubeconfig with the identity of the node"),
    ] {
        let written = eventually(what, PATIENCE, async || {
            let machines = environment.simulator.machines();
            let missing = machines.iter().find(|machine| !machine.folder().join("root").join(file).exists());
            if let Some(machine) = missing {
                bail!("{} has no {file}", machine.instance_id());
            }
            Ok(Some(()))
        });
        reporter.line(what, written).await?;
    }
    let started = eventually("kubelet to be started", PATIENCE, async || {
        let calls: Vec<Vec<String>> =
            environment.simulator.machines().iter().map(|machine| machine.systemctl_calls()).collect();
        let all = calls.iter().all(|calls| calls.iter().any(|call| call.contains("kubelet.service")));
        ensure!(all, "systemctl was called with {calls:?}");
        Ok(Some(()))
    });
    reporter.line("it started kubelet through systemd", started).await
}

/// Checks node identity as on EKS: a webhook authenticates a token of the instance's role, and the Node authorizer limits the
/// node's permissions.
async fn identity(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, .. } = demo;
    let machines = environment.simulator.machines();
    let without = async {
        for machine in &machines {
            let root = machine.folder().join("root");
            let kubeconfig = std::fs::read_to_string(root.join("var/lib/kubelet/kubeconfig"))?;
            let pki = std::fs::read_dir(root.join("var/lib/kubelet/pki"))?.count();
            ensure!(kubeconfig.contains("get-token"), "{} asks for no token: {kubeconfig}", machine.instance_id());
            ensure!(pki == 0, "{} has a certificate", machine.instance_id());
        }
        Ok(())
    };
    reporter.line("no node has a certificate: its kubeconfig uses tokens of the instance role", without).await?;
    let verified = eventually("tokens of all nodes", PATIENCE, async || {
        let results = environment.eks.results();
        for machine in &machines {
            let user = format!("system:node:{}", machine.node_name());
            ensure!(results.iter().any(|result| result.user == Ok(user.clone())), "no request as {user}");
        }
        let refused = results.iter().find_map(|result| result.user.as_ref().err());
        ensure!(refused.is_none(), "a token was refused: {refused:?}");
        Ok(Some(()))
    });
    reporter.line("the API server's token webhook verified each signature and mapped each role", verified).await
}

async fn registration(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, cluster, observer, .. } = demo;
    let ready = eventually("initialized NodeClaims", PATIENCE, async || {
        let claims = cluster.claims().await?;
        for claim in &claims {
            for wanted in [condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED] {
                let found = api::status::find(claim.conditions(), wanted);
                let message = found.map(|found| found.message.clone()).unwrap_or_default();
                ensure!(claim.is_true(wanted), "{} is not {wanted}: {message}", claim.name_any());
            }
        }
        Ok((!claims.is_empty()).then_some(claims))
    });
    let claims = reporter.line("all NodeClaims become Launched, Registered and Initialized", ready).await?;
    let names: Vec<String> =
        claims.iter().filter_map(|claim| claim.status.as_ref()).map(|status| status.node_name.clone()).collect();
    let tainted = async {
        for name in &names {
            let history = observer.node(name);
            let first = &history.first().with_context(|| format!("{name} was never seen"))?.object;
            ensure!(first.has_taint(taint::AGENT_NOT_READY, taint::NO_EXECUTE), "{name} registered without it");
        }
        Ok(())
    };
    reporter.line("each Node registered with the taint kerf.sh/agent-not-ready", tainted).await?;
    let labelled = async {
        for claim in &claims {
            let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
            let node = cluster.node(&node).await?.context("the Node is gone")?;
            for (key, value) in claim.labels() {
                ensure!(node.label(key) == Some(value), "{} lacks {key}={value}", node.name());
            }
        }
        Ok(())
    };
    reporter.line("each Node has the labels of its NodeClaim", labelled).await?;
    let opened = async {
        for name in &names {
            let history = observer.node(name);
            let first = history.first().with_context(|| format!("{name} was never seen"))?;
            ensure!(agent_status(&first.object) != Some("True"), "{name} registered with kerf.sh/Ready already True");
            let ready = history.iter().find(|seen| agent_status(&seen.object) == Some("True"));
            let ready = &ready.with_context(|| format!("the agent of {name} never set kerf.sh/Ready"))?.object;
            ensure!(ready.is_ready(), "the agent of {name} set kerf.sh/Ready before kubelet was ready");
        }
        Ok(())
    };
    reporter.line("gates opened after kubelet and CNI were ready, then kerf.sh/Ready became True", opened).await?;
    let lifted = async {
        for name in &names {
            let history = observer.node(name);
            let free = history.iter().find(|seen| {
                let effects = [taint::NO_EXECUTE, taint::NO_SCHEDULE];
                !effects.iter().any(|effect| seen.object.has_taint(taint::AGENT_NOT_READY, effect))
            });
            let free = &free.with_context(|| format!("{name} still has the taint"))?.object;
            ensure!(agent_status(free) == Some("True"), "{name} lost the taint before kerf.sh/Ready was True");
        }
        Ok(())
    };
    reporter.line("the controller removed that taint only after kerf.sh/Ready was True", lifted).await
}

fn agent_status(node: &Node) -> Option<&str> {
    node.condition(condition::AGENT_READY).map(|found| found.status.as_str())
}

async fn running(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    let running = eventually("five running pods", PATIENCE, async || {
        let running = cluster.running().await?.len();
        ensure!(running == FIRST_WAVE, "{running} of {FIRST_WAVE} pods run");
        Ok(Some(()))
    });
    reporter.line("kube-scheduler binds all five pods, and they run", running).await?;
    // On a busy machine the pods may reach kube-scheduler so far apart that two plans launch nodes, each with its own call.
    let (fleets, claims) = (environment.ec2.fleets().len(), cluster.claims().await?.len());
    let enough = async {
        ensure!((1..=claims).contains(&fleets), "that is more than one for each");
        Ok(())
    };
    reporter.line(&format!("CreateFleet calls for {claims} NodeClaims: {fleets}"), enough).await
}
