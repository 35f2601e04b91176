//! One life of the controller: its launcher, reconciler and collector, until it is killed between any two steps.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use api::objects::{
    CSINode, DaemonSet, Deployment, Namespace, Node, NodeReport, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodTemplate, ReplicaSet, StatefulSet, StorageClass, VolumeAttachment,
};
use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use cloud::fake::{Clock, FakeCloud};
use cloud::guard::{Guard, Guarded};
use cloud::nodeclass::{Memory, fetch, queries, resolve};
use cloud::{Cloud, CloudError, Kind};
use controller::act::{Act, Step};
use controller::cluster::Cluster;
use controller::event::Notes;
use controller::interruption::Notices;
use controller::launch::Launcher;
use controller::market::Market;
use controller::moves::Mover;
use controller::reconcile::Reconciler;
use controller::settings::Gates;
use controller::verdicts::Verdicts;
use controller::work::{Consequences, Work};
use controller::{garbage, metrics};
use daemon::metric::Metrics;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

use super::api_server::{ApiServer, Event};
use super::chance::Chance;

/// How much faster the clock runs.
const SPEED: u32 = 20;
static START: LazyLock<(Instant, Timestamp)> = LazyLock::new(|| (Instant::now(), Timestamp::now()));

/// The time of the soak.
pub fn fast_now() -> Timestamp {
    let passed = START.0.elapsed() * SPEED;
    START.1 + SignedDuration::try_from(passed).unwrap()
}

/// The same for the fake.
pub struct FastClock;

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        fast_now()
    }
}

/// EC2 as a life sees it: slow, refusing, silent; and gone once the life is over.
struct Trouble {
    alive: Arc<AtomicBool>,
    chance: Arc<Chance>,
}

impl Guard for Trouble {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        Box::pin(async move {
            if !self.alive.load(Ordering::Acquire) {
                std::future::pending::<()>().await;
            }
            if self.chance.strikes(10) {
                tokio::time::sleep(Duration::from_millis(self.chance.below(200) as u64)).await;
            }
            let error =
                |kind, code: &str| CloudError { call, kind, code: code.to_owned(), message: "bad luck".to_owned() };
            if !self.chance.strikes(6) {
                return Ok(());
            }
            Err(match self.chance.below(4) {
                0 => error(Kind::Throttled, "RequestLimitExceeded"),
                1 => error(Kind::Server, "InternalError"),
                2 => error(Kind::Unauthorized, "UnauthorizedOperation"),
                _ => error(Kind::Transport, ""),
            })
        })
    }

    fn after(&self, call: &'static str, _: Duration, error: Option<&CloudError>) -> Option<CloudError> {
        let lost = || CloudError { call, kind: Kind::Transport, code: String::new(), message: "lost".to_owned() };
        (error.is_none() && self.chance.strikes(6)).then(lost)
    }
}

/// A life.
pub struct Life {
    alive: Arc<AtomicBool>,
    leading: Arc<AtomicBool>,
    cluster: Arc<Cluster>,
    market: Arc<Market>,
    act: Act,
    told: Arc<Mutex<Vec<String>>>,
    tasks: JoinSet<()>,
}

impl Life {
    /// Starts one under bad luck and the fast clock: it lists what there is and goes on from there.
    pub async fn begin(ec2: &FakeCloud, server: &Arc<ApiServer>, chance: &Arc<Chance>) -> Self {
        let alive = Arc::new(AtomicBool::new(true));
        let trouble = Trouble { alive: Arc::clone(&alive), chance: Arc::clone(chance) };
        let cloud: Arc<dyn Cloud> = Arc::new(Guarded::new(Arc::new(ec2.clone()), Arc::new(trouble)));
        let client = client(server, &alive, chance);
        Self::on((cloud, ec2), (server, client), fast_now, alive).await
    }

    /// The same on any cloud, under any clock. The second cloud tells of the class, so that this costs no calls of the first.
    pub async fn on(
        (cloud, informant): (Arc<dyn Cloud>, &dyn Cloud),
        (server, client): (&Arc<ApiServer>, kube::Client),
        now: fn() -> Timestamp,
        alive: Arc<AtomicBool>,
    ) -> Self {
        let leading = Arc::new(AtomicBool::new(true));
        let (notes, mut told) = Notes::new();
        let (plan, mut asked) = unbounded_channel();
        let cluster = Cluster::new(plan, notes);
        let (claims, mut events) = server.watch();
        fill(&cluster, claims);
        let market = Arc::new(Market::new(Arc::clone(&cloud), settings(), Gates::default()));
        learn(informant, &market).await;
        let metrics = Arc::new(Metrics::new(metrics::TABLE));
        let clients = (client.clone(), client);
        let act = Act::new(clients, cloud, Arc::clone(&cluster), Arc::clone(&metrics), Arc::clone(&leading));
        let launcher =
            Launcher::new(Arc::clone(&cluster), Arc::clone(&market), act.clone(), Arc::clone(&metrics)).with_clock(now);
        let mut tasks = JoinSet::new();
        let said = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&said);
        tasks.spawn(async move {
            while let Some(note) = told.recv().await {
                hears.lock().unwrap().push(format!("{}: {}", note.reason(), note.message()));
            }
        });
        tasks.spawn(async move { while asked.recv().await.is_some() {} });
        let heard = Arc::clone(&cluster);
        tasks.spawn(async move {
            while let Some(event) = events.recv().await {
                hear(&heard, event);
            }
        });
        tasks.spawn(Arc::clone(&market).refresh_for_ever(Arc::clone(&cluster)));
        tasks.spawn(collect(Arc::clone(&cluster), Arc::clone(&market), act.clone(), now));
        let parts = (Arc::clone(&cluster), Arc::clone(&market), act.clone());
        let mover = Arc::new(Mover::new(Arc::clone(&cluster), act.clone(), Arc::clone(&metrics)));
        let reports = (Arc::new(Verdicts::default()), Arc::new(Notices::default()), Arc::default());
        let reconciler = Reconciler::new(parts.0, parts.1, parts.2, (launcher, mover), metrics, reports);
        tasks.spawn(Arc::new(reconciler).run());
        let life = Self { alive, leading, cluster, market, act, told: said, tasks };
        life.gather();
        life
    }

    /// What a plan does when it has written its claims.
    pub fn gather(&self) {
        self.cluster.queue.add(Work::Gather);
    }

    /// What it has published so far, each event as its reason and message.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// How many addresses of the subnets it counts as taken by launches that subnets do not show yet.
    pub async fn addresses_under_way(&self, ec2: &FakeCloud, now: Timestamp) -> i64 {
        let (_, in_flight) = self.market.knowledge(now);
        let subnets = ec2.subnets(&cloud::Filter::default()).await.unwrap();
        subnets.iter().map(|subnet| in_flight.of(&subnet.id, now)).sum()
    }

    /// The class selects nothing any more: nothing is bought for it until it does.
    pub fn unresolve(&self) {
        self.market.forget("default");
    }

    /// The class resolves again.
    pub async fn learn(&self, informant: &dyn Cloud) {
        learn(informant, &self.market).await;
    }

    /// Ends it where it stands: nothing that it has under way gets another answer.
    pub fn kill(mut self) {
        self.alive.store(false, Ordering::Release);
        self.leading.store(false, Ordering::Release);
        self.tasks.abort_all();
    }

    /// Has the collector look at launch templates as of `now`.
    pub async fn collect_templates(&self, now: Timestamp) {
        for step in garbage::unused_templates(&self.cluster, &self.market, now).await {
            assert!(matches!(step, Step::DeleteLaunchTemplate(_)));
            self.act.run(step).await.unwrap();
        }
    }

    /// What happened, in a line.
    pub fn story(&self, ec2: &FakeCloud, chance: &Chance) -> String {
        let count = |call: &str| ec2.count(call);
        format!(
            "{} CreateFleet, {} machines ever, {} TerminateInstances, {} CreateLaunchTemplate, {} faults",
            count("CreateFleet"),
            ec2.machines().len(),
            count("TerminateInstances"),
            count("CreateLaunchTemplate"),
            chance.faults()
        )
    }
}

fn settings() -> cloud::Settings {
    cloud::Settings {
        cluster_name: "kerf".to_owned(),
        cluster_endpoint: "https://10.0.0.1".to_owned(),
        cluster_ca: "Q0E=".to_owned(),
        cluster_cidr: "10.100.0.0/16".to_owned(),
        kubernetes: "1.36".to_owned(),
        region: "us-west-2".to_owned(),
        ..cloud::Settings::default()
    }
}

/// The class, resolved without bad luck: how that goes wrong is told elsewhere.
async fn learn(ec2: &dyn Cloud, market: &Market) {
    let class: EC2NodeClass = serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "kerf"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "kerf"}}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "instanceProfile": "nodes",
        },
    }))
    .unwrap();
    let now = Timestamp::now();
    let answers = fetch(ec2, &queries(&class, &settings()), &Memory::default(), now).await;
    let resolution = resolve(&class, answers, &settings(), now);
    market.learn(&class, resolution.class).unwrap();
}

/// The API server as a life reaches it.
pub fn client(server: &Arc<ApiServer>, alive: &Arc<AtomicBool>, chance: &Arc<Chance>) -> kube::Client {
    let (server, alive, chance) = (Arc::clone(server), Arc::clone(alive), Arc::clone(chance));
    let service =
        tower::service_fn(move |request| Arc::clone(&server).serve(request, Arc::clone(&alive), Arc::clone(&chance)));
    kube::Client::new(service, "default")
}

/// The first list of claims; of everything else there is none.
fn fill(cluster: &Cluster, claims: Vec<NodeClaim>) {
    for claim in claims {
        cluster.change(|index| index.apply(claim, Timestamp::now(), false));
    }
    cluster.change(|index| {
        let seen = index.claims.keys().cloned().collect();
        let consequences = index.finish_relist::<NodeClaim>(&seen, Timestamp::now());
        index.do_without::<Pod>();
        index.do_without::<Node>();
        index.do_without::<NodePool>();
        index.do_without::<EC2NodeClass>();
        index.do_without::<DaemonSet>();
        index.do_without::<PodDisruptionBudget>();
        index.do_without::<VolumeAttachment>();
        index.do_without::<PersistentVolumeClaim>();
        index.do_without::<PersistentVolume>();
        index.do_without::<StorageClass>();
        index.do_without::<CSINode>();
        index.do_without::<Namespace>();
        index.do_without::<NodeReport>();
        index.do_without::<NodeOverlay>();
        index.do_without::<CapacityBuffer>();
        index.do_without::<PodTemplate>();
        index.do_without::<Deployment>();
        index.do_without::<ReplicaSet>();
        index.do_without::<StatefulSet>();
        consequences
    });
    assert!(cluster.read(|index| index.is_synced()));
}

fn hear(cluster: &Cluster, event: Event) {
    cluster.change(|index| -> Consequences {
        match event {
            Event::Applied(claim) => index.apply(*claim, Timestamp::now(), true),
            Event::Gone(name) => index.delete::<NodeClaim>(&name, Timestamp::now()),
        }
    });
}

/// The collector's loop at the clock's pace.
async fn collect(cluster: Arc<Cluster>, market: Arc<Market>, act: Act, now: fn() -> Timestamp) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let Ok(instances) = market.own_instances().await else { continue };
        for step in cluster.read(|index| garbage::decide(index, &instances, now())) {
            // What fails is decided again at the next look.
            let _ = act.run(step).await;
        }
    }
}
