//! One run: a cluster of two NodePools grows, some of its nodes are hostile, a user deletes their NodeClaims, and new pods come
//! meanwhile and afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::label;
use api::objects::{Node, Pod};
use api::status::Conditioned;
use cloud::fake::FakeCloud;
use controller::capacity::measured;
use controller::settings::Gates;
use jiff::SignedDuration;
use serde_json::{Value, json};
use simulator::api_server::{ApiServer, BUDGETS, CLAIMS, NODES, PODS, POOLS, merge};
use simulator::chance::Chance;
use simulator::clock::{OfTokio, of_tokio};
use simulator::cluster::{ModelCluster, pool};
use simulator::controller_run::ControllerRun;
use simulator::hostile_node::{HostileNode, taint_unready_nodes};
use simulator::middleware::{PassThrough, client};
use simulator::surroundings::Workload;
use snapshot::NodeRepair;

use super::invariants::{HostileNodes, check};
use super::metrics::Scraper;
use super::outcome::{Outcome, types};

const WEB: usize = 8;
const SPARE: usize = 4;
/// Maximum number of hostile nodes.
const HOSTILE: usize = 3;
/// Maximum number of hostile nodes in NodePool `spare`. Two honest nodes remain: what a type has is what two nodes agree on.
const HOSTILE_SPARE: usize = SPARE - 2;
/// Number of new pods that each need a node of their own.
const NEW: usize = 4;
/// Interval of the hostile programs.
const PAUSE: Duration = Duration::from_secs(5);
/// `terminationGracePeriod` of the NodePools, in minutes.
const GRACE: i64 = 2;
/// Taint of the NodePool `spare`.
const TEAM: &str = "example.com/team";

/// Random properties of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    seed: u64,
    repairs: bool,
    consolidates: bool,
    packs: bool,
    hostile: usize,
}

impl Setting {
    pub fn new(seed: u64) -> Self {
        let chance = Chance::new(seed);
        let (repairs, consolidates, packs) = (chance.one_in(2), chance.one_in(2), chance.one_in(2));
        Self { seed, repairs, consolidates, packs, hostile: 1 + chance.below(HOSTILE) }
    }

    /// Returns the numbers of the hostile nodes, in the order of their registration.
    fn numbers(self) -> BTreeSet<usize> {
        let chance = Chance::new(self.seed ^ 0x5eed);
        let mut numbers = BTreeSet::new();
        while numbers.len() < self.hostile {
            numbers.insert(chance.below(WEB + SPARE));
        }
        numbers
    }

    fn pools(self) -> Vec<Value> {
        let after = if self.consolidates { "0s" } else { "Never" };
        let disruption = json!({"consolidateAfter": after, "budgets": [{"nodes": "100%"}]});
        let mut web = pool(&["m5.large"], disruption.clone());
        let mut spare = pool(&["m5.xlarge"], disruption);
        let utilization = if self.packs { "pack" } else { "observe" };
        for pool in [&mut web, &mut spare] {
            pool["metadata"]["annotations"] = json!({api::annotation::UTILIZATION: utilization});
            let grace = format!("{GRACE}m");
            // The nodes of the run need a quarter of this.
            let limits = json!({"cpu": "100", "memory": "1000Gi", "nodes": "100"});
            merge(pool, &json!({"spec": {"limits": limits, "template": {"spec": {"terminationGracePeriod": grace}}}}));
        }
        spare["metadata"]["name"] = json!("spare");
        spare["spec"]["template"]["spec"]["taints"] =
            json!([{"key": TEAM, "value": "a", "effect": "PreferNoSchedule"}]);
        let spot = json!([label::CAPACITY_SPOT]);
        spare["spec"]["template"]["spec"]["requirements"][2]["values"] = spot;
        vec![web, spare]
    }
}

/// Runs a setting, with or without hostile programs.
pub async fn outcome(setting: Setting, is_hostile: bool) -> Outcome {
    Run::begin(setting, is_hostile).play().await
}

struct Run {
    setting: Setting,
    is_hostile: bool,
    cluster: ModelCluster,
    controller: ControllerRun,
    hostile: HostileNodes,
    scraper: Scraper,
    outcome: Outcome,
}

impl Run {
    fn begin(setting: Setting, is_hostile: bool) -> Self {
        let ec2 =
            FakeCloud::builder("us-west-2").only_types(&["m5.large", "m5.xlarge"]).clock(OfTokio).build().unwrap();
        let node_repair = NodeRepair::from_gate(Some(setting.repairs));
        let gates = Gates { node_repair, ..Gates::default() };
        let cluster = ModelCluster::on(ec2, setting.pools(), gates, Duration::from_millis(500));
        let hostile = HostileNodes::default();
        cluster.surroundings.change_new_nodes(Box::new(choose(setting, is_hostile, hostile.clone())));
        cluster.server.checked_by(check(hostile.clone()));
        let mut controller = cluster.controller_run();
        let client = client(&cluster.server, Arc::new(PassThrough));
        let (view, offerings) = (Arc::clone(&controller.cluster), Arc::clone(&controller.offerings));
        controller.does(measured::follow(client, "kerf".to_owned(), view, offerings));
        let (scraper, outcome) = (Scraper::new(of_tokio()), Outcome { hostile: setting.hostile, ..Outcome::default() });
        Self { setting, is_hostile, cluster, controller, hostile, scraper, outcome }
    }

    async fn play(mut self) -> Outcome {
        self.want("web", "default", WEB, 1500, false);
        self.want("spare", "spare", SPARE, 3000, false);
        self.cluster.server.create(BUDGETS, budget());
        self.expect_running(&["web", "spare"], 20).await;
        self.check_taints();
        let programs = self.programs();
        self.act(&programs, 4).await;
        self.want("new", "default", NEW, 1200, true);
        self.act(&programs, 1).await;
        self.expect_running(&["new"], 15).await;
        self.act(&programs, 6).await;
        self.delete_hostile_claims();
        self.act(&programs, GRACE + 4).await;
        self.check_ended();
        self.want("later", "default", NEW, 1200, true);
        self.expect_running(&["web", "spare", "new", "later"], 15).await;
        self.finish().await
    }

    fn want(&self, app: &str, pool: &str, replicas: usize, cpu: i64, apart: bool) {
        let mut template = json!({"spec": {"nodeSelector": {label::NODEPOOL: pool}}});
        if apart {
            let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": label::HOSTNAME});
            let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
            template["spec"]["affinity"] = affinity;
        }
        self.cluster.want(app, Workload { template, ..Workload::of(replicas, cpu) });
    }

    fn programs(&self) -> Vec<HostileNode> {
        let nodes = self.cluster.nodes();
        let honest: Vec<&Node> = nodes.iter().filter(|node| !self.hostile.has_node(node.name())).collect();
        let program = |(number, (name, id)): (usize, (String, String))| {
            let victim = &honest[number % honest.len()].spec.provider_id;
            HostileNode::new(&name, &id, victim, self.setting.seed.wrapping_mul(31) + number as u64)
        };
        self.hostile.all().into_iter().enumerate().filter(|_| self.is_hostile).map(program).collect()
    }

    /// Lets the programs write for some minutes.
    async fn act(&mut self, programs: &[HostileNode], minutes: i64) {
        let end = of_tokio() + SignedDuration::from_mins(minutes);
        while of_tokio() < end {
            let now = of_tokio();
            programs.iter().for_each(|program| program.write(&self.cluster.server, now));
            taint_unready_nodes(&self.cluster.server);
            self.controller.check_tasks();
            tokio::time::sleep(PAUSE).await;
        }
        self.observe();
    }

    fn observe(&mut self) {
        let series = self.scraper.scrape(&self.controller, of_tokio());
        self.outcome.series = self.outcome.series.max(series);
        let server = &self.cluster.server;
        let claims = server.claims().into_iter().map(|claim| (claim.metadata.name.clone(), json!(claim)));
        let pools = server.shared::<api::NodePool>(POOLS);
        let pools = pools.iter().map(|pool| (pool.metadata.name.clone(), json!(pool.as_ref())));
        for (name, object) in claims.chain(pools) {
            let size = object.to_string().len();
            if size > self.outcome.largest.1 {
                self.outcome.largest = (name.unwrap_or_default(), size);
            }
        }
    }

    /// Waits until all pods of these workloads run, for some minutes.
    async fn expect_running(&mut self, apps: &[&str], minutes: i64) {
        let end = of_tokio() + SignedDuration::from_mins(minutes);
        while !waiting(&self.cluster.server, apps).is_empty() {
            if of_tokio() > end {
                let pods = waiting(&self.cluster.server, apps).join(", ");
                return self.outcome.violations.push(format!("pods without a node after {minutes} minutes: {pods}"));
            }
            taint_unready_nodes(&self.cluster.server);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Checks that each registered node of `spare` has the taint of its NodePool.
    fn check_taints(&mut self) {
        let claims = self.cluster.claims();
        let registered =
            claims.iter().filter(|claim| claim.nodepool() == "spare" && claim.is_true(api::condition::REGISTERED));
        for claim in registered {
            let name = &claim.status.as_ref().unwrap().node_name;
            let node = self.cluster.server.get::<Node>(NODES, name);
            if node.is_some_and(|node| !node.spec.taints.iter().any(|taint| taint.key == TEAM)) {
                self.outcome.violations.push(format!("node {name} registered without the taint of its NodePool"));
            }
        }
    }

    fn delete_hostile_claims(&self) {
        let claims = self.cluster.claims().into_iter().filter(|claim| self.hostile.has_claim(claim));
        claims.for_each(|claim| self.cluster.server.delete(CLAIMS, &claim.metadata.name.unwrap_or_default()));
    }

    /// Checks that each hostile instance has ended.
    fn check_ended(&mut self) {
        let machines = self.cluster.ec2.machines();
        let alive = machines.iter().filter(|machine| !machine.instance.is_ending());
        let ids: BTreeSet<String> = alive.map(|machine| machine.instance.provider_id()).collect();
        for (name, _) in self.hostile.all().into_iter().filter(|(_, id)| ids.contains(id)) {
            self.outcome.violations.push(format!("{name} runs 4 minutes after its grace period"));
        }
    }

    async fn finish(mut self) -> Outcome {
        self.observe();
        let now = of_tokio();
        let metrics = self.controller.metrics();
        let panics = metrics.lines().filter(|line| line.starts_with("kerf_panics_total") && !line.ends_with(" 0.0"));
        self.outcome.panics = panics.map(str::to_owned).collect();
        self.outcome.types = types(&self.controller.offerings, now);
        self.outcome.events = self.controller.events().len();
        self.outcome.instances = self.cluster.ec2.machines().len();
        self.outcome.violations.extend(self.cluster.server.faults());
        self.controller.kill();
        self.outcome
    }
}

/// Returns the change of new Nodes, which records the hostile ones.
fn choose(setting: Setting, is_hostile: bool, hostile: HostileNodes) -> impl FnMut(&mut Value) + Send {
    let (numbers, mut count, mut in_spare) = (setting.numbers(), 0, 0);
    move |node: &mut Value| {
        // Nodes of `spare` alone are of this type.
        let is_spare = node["metadata"]["labels"][label::INSTANCE_TYPE].as_str().unwrap() == "m5.xlarge";
        if numbers.contains(&count) && !(is_spare && in_spare == HOSTILE_SPARE) {
            in_spare += usize::from(is_spare);
            let name = node["metadata"]["name"].as_str().unwrap().to_owned();
            let id = node["spec"]["providerID"].as_str().unwrap().to_owned();
            if is_hostile {
                HostileNode::new(&name, &id, "", setting.seed.wrapping_mul(17) + count as u64).write_at_boot(node);
            }
            hostile.add(&name, &id);
        }
        count += 1;
    }
}

/// Returns the pods of these workloads that do not run.
fn waiting(server: &ApiServer, apps: &[&str]) -> Vec<String> {
    let pods = server.shared::<Pod>(PODS);
    let app = |pod: &Pod| pod.metadata.labels.as_ref().and_then(|all| all.get("app")).cloned().unwrap_or_default();
    let missing = apps.iter().filter(|name| !pods.iter().any(|pod| app(pod) == **name)).map(|name| (*name).to_owned());
    let own = pods.iter().filter(|pod| apps.contains(&app(pod).as_str()) && !pod.is_bound());
    own.map(|pod| pod.name().to_owned()).chain(missing).collect()
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": WEB - HOSTILE, "selector": {"matchLabels": {"app": "web"}}},
    })
}
