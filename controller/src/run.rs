//! Assembly, start and orderly shutdown of the controller.

mod debug_pages;
mod decision_store;
mod health;
mod kwok;
pub mod log;
mod observer;
mod probes;
mod provider;
mod published_market;

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, NodeReport, PersistentVolume, PersistentVolumeClaim,
    Pod, PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
    VolumeAttachment,
};
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy,
    endpoint,
};
use cloud::Cloud;
use daemon::admin::Admin;
use daemon::metric::Metrics;
use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::{Client, Config};
use planner::CapacityType;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::capacity::offerings::Offerings;
use crate::capacity::{launch, measured, rate_limits};
use crate::gc::drift::DriftDetection;
use crate::gc::instances::GarbageCollection;
use crate::gc::periodic::{TaskContext, run_for_ever};
use crate::gc::profiles::ProfileCollection;
use crate::gc::tags::Tagging;
use crate::informer::interruption::queue::Listener;
use crate::informer::interruption::{Notices, status_checks};
use crate::informer::zonal_shifts::ZonalShifts;
use crate::informer::{cluster_dns, cluster_info, watch};
use crate::lease::{self, Keeper, Leading};
use crate::provision::batcher::{PlanTrigger, discard_triggers};
use crate::provision::{Provisioner, Rules};
use crate::reconcile::Reconciler;
use crate::reconcile::disruption::Disruptor;
use crate::reconcile::resize::Resizer;
use crate::reconcile::work::Triggers;
use crate::settings::{Gates, Settings};
use crate::state::cluster::Cluster;
use crate::state::index::Indexed;
use crate::state::panics;
use crate::state::plans::results::PlanResultStore;
use crate::state::shared::Shared;
use crate::state::span;
use crate::write::events::{self, EventRecorder, ObjectReference};
use crate::write::writer::{Clients, Writer};
use debug_pages::DebugPages;
use decision_store::DecisionStore;
use kwok::KwokNodes;
use probes::Probes;
use provider::Provider;

/// Runs until a signal arrives or leadership is lost.
///
/// # Errors
/// Returns an error if a requirement of the start is missing: the cluster, the ports, AWS.
pub async fn run(mut settings: Settings) -> anyhow::Result<()> {
    // The program has no other TLS provider; a second installation would be a bug of ours.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for sentence in &settings.unmet {
        tracing::warn!("{sentence}");
    }
    let config = Config::infer().await.context("no cluster configured: set KUBECONFIG, or run inside a cluster")?;
    let clients = clients(&config)?;
    let provider = Provider::connect(&mut settings, &clients.general).await?;
    let metrics = Arc::new(Metrics::new(&settings.metrics_detail.table()));
    let leading = if settings.lease.is_some() { Leading::not_yet() } else { Leading::without_election() };
    // Without leadership, neither the writer nor the client of AWS changes anything.
    let acting = if settings.observe { Leading::not_yet() } else { leading.clone() };
    let cloud = rate_limits::limited(lease::led(provider.cloud(), acting.clone()), Arc::clone(&metrics));

    let (notes, outgoing) = EventRecorder::new();
    let (plan, mut triggers) = unbounded_channel();
    let cluster = Cluster::with_max_view_age(plan, notes, settings.max_view_age);
    cluster.change(|index| {
        index.permissions = settings.permissions;
        index.is_ec2_emulated = provider.emulation().is_some();
        Triggers::default()
    });
    let mut tasks = JoinSet::new();
    let probes = Probes::new(&settings, &cluster, &metrics, &leading);
    let known_market = Arc::clone(&probes.offerings);
    serve_admin(&settings, probes, &mut tasks).await?;
    serve_debug(&settings, &cluster, &mut tasks).await;
    watch_all(&clients.general, &cluster, settings.gates, &mut tasks);
    send_events(&settings, &clients.general, outgoing, &mut tasks);

    let lease = lead(&settings, &config, &leading, &mut tasks, &mut triggers).await?;
    simulate_nodes(&settings, &provider, &clients.general, &cluster, &mut tasks).await?;
    let offerings = Arc::new(offerings(&settings, &config, &clients.general, Arc::clone(&cloud)).await?);
    known_market.get_or_init(|| Arc::clone(&offerings));
    tasks.spawn(Arc::clone(&offerings).refresh_for_ever(Arc::clone(&cluster)).instrument(span::task("instance types")));
    let version = cluster_info::follow_version(
        settings.clone(),
        clients.general.clone(),
        Arc::clone(&offerings),
        Arc::clone(&cluster),
    );
    tasks.spawn(version.instrument(span::task("cluster version")));
    follow_market(&settings, &clients.general, &cluster, &offerings, &metrics, &mut tasks);
    let client = clients.general.clone();
    let writer = Writer::new(clients, cloud, Arc::clone(&cluster), Arc::clone(&metrics), acting);
    let rules = Rules { window: settings.batch, planning: settings.planning };
    let notices = Arc::new(Notices::default());
    let shared = Shared {
        cluster: Arc::clone(&cluster),
        offerings: Arc::clone(&offerings),
        metrics: Arc::clone(&metrics),
        plan_results: Arc::new(PlanResultStore::default()),
        notices: Arc::clone(&notices),
        nominations: Arc::default(),
    };
    let store = start_publishing(&settings, &client, &shared, &leading, &mut tasks);
    let resizer = Resizer::new(client, Arc::clone(&cluster), writer.clone(), Arc::clone(&metrics));
    let disruptor = Arc::new(Disruptor::new(Arc::clone(&cluster), writer.clone(), Arc::clone(&metrics)));
    let provisioner = Provisioner::new(shared.clone(), writer.clone(), Arc::clone(&disruptor), resizer, rules);
    let sources = NoticeSources { cluster: &cluster, offerings: &offerings, notices: &notices, metrics: &metrics };
    listen(&settings, &sources, &mut tasks);
    if settings.observe {
        tasks.spawn(observer::observe(cluster, offerings).instrument(span::task("observer")));
        tasks.spawn(provisioner.only_observing().run(triggers));
    } else {
        start_acting(&settings, shared, writer, disruptor, &mut tasks);
        tasks.spawn(provisioner.run(triggers));
    }

    let outcome = until_the_end(&leading, &mut tasks).await;
    store.finish().await;
    leading.end();
    tasks.abort_all();
    if let Some(lease) = lease {
        lease.release().await;
    }
    outcome
}

/// Starts the simulation of nodes if the provider needs one. In observe mode nothing is launched.
async fn simulate_nodes(
    settings: &Settings,
    provider: &Provider,
    client: &Client,
    cluster: &Arc<Cluster>,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    if let Some(ec2) = provider.emulation().filter(|_| !settings.observe) {
        let nodes = KwokNodes::restore(ec2.clone(), client.clone(), Arc::clone(cluster)).await?;
        tasks.spawn(nodes.run().instrument(span::task("nodes of KWOK")));
    }
    Ok(())
}

/// Sends events of objects. In observe mode they are dropped, as by any recorder without a receiver.
fn send_events(settings: &Settings, client: &Client, outgoing: Receiver<events::Event>, tasks: &mut JoinSet<()>) {
    if !settings.observe {
        tasks.spawn(events::send(client.clone(), outgoing).instrument(span::task("events")));
    }
}

/// Starts the tasks that write ConfigMaps for `kerf`, and returns the storage of the decision log for its last write.
fn start_publishing(
    settings: &Settings,
    client: &Client,
    shared: &Shared,
    leading: &Leading,
    tasks: &mut JoinSet<()>,
) -> Arc<DecisionStore> {
    let (cluster, offerings) = (|| Arc::clone(&shared.cluster), || Arc::clone(&shared.offerings));
    let namespace = &settings.namespace;
    let store = DecisionStore::new(client.clone(), namespace, cluster(), offerings(), leading.clone());
    tasks.spawn(Arc::clone(&store).run().instrument(span::task("decision log")));
    let market = published_market::publish(client.clone(), namespace.clone(), cluster(), offerings(), leading.clone());
    tasks.spawn(market.instrument(span::task("published market")));
    store
}

/// Starts the reconcilers, and the tasks that check the whole cluster periodically.
fn start_acting(
    settings: &Settings,
    shared: Shared,
    writer: Writer,
    disruptor: Arc<Disruptor>,
    tasks: &mut JoinSet<()>,
) {
    let context = TaskContext {
        cluster: Arc::clone(&shared.cluster),
        offerings: Arc::clone(&shared.offerings),
        writer: writer.clone(),
        metrics: Arc::clone(&shared.metrics),
    };
    start_periodic_tasks(settings, &context, tasks);
    let TaskContext { cluster, offerings, metrics, .. } = context;
    let launcher = launch::Launcher::new(cluster, offerings, writer.clone(), metrics);
    tasks.spawn(Arc::new(Reconciler::new(shared, writer, launcher, disruptor)).run());
}

/// Starts the tasks that check the whole cluster periodically.
fn start_periodic_tasks(settings: &Settings, context: &TaskContext, tasks: &mut JoinSet<()>) {
    tasks.spawn(run_for_ever(GarbageCollection::default(), context.clone()));
    tasks.spawn(run_for_ever(DriftDetection, context.clone()));
    tasks.spawn(run_for_ever(ProfileCollection::default(), context.clone()));
    tasks.spawn(run_for_ever(Tagging::default(), context.clone()));
    if settings.zonal_shift {
        let shifts = ZonalShifts::new(&settings.cluster_name, Arc::clone(&context.metrics));
        tasks.spawn(run_for_ever(shifts, context.clone()));
    }
}

/// Starts the background updates of offerings: prices from AWS, the address of cluster DNS, real memory from nodes.
fn follow_market(
    settings: &Settings,
    client: &Client,
    cluster: &Arc<Cluster>,
    offerings: &Arc<Offerings>,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<()>,
) {
    for capacity_type in [CapacityType::OnDemand, CapacityType::Spot] {
        let (cluster, metrics) = (Arc::clone(cluster), Arc::clone(metrics));
        let prices = Arc::clone(offerings).follow_prices(capacity_type, settings.isolated_vpc, cluster, metrics);
        tasks.spawn(prices.instrument(span::task("prices")));
    }
    let dns = cluster_dns::follow(client.clone(), Arc::clone(offerings));
    tasks.spawn(dns.instrument(span::task("cluster DNS")));
    let namespace = settings.namespace.clone();
    let measured = measured::follow(client.clone(), namespace, Arc::clone(cluster), Arc::clone(offerings));
    tasks.spawn(measured.instrument(span::task("measured amounts")));
}

fn clients(config: &Config) -> anyhow::Result<Clients> {
    let server = config.cluster_url.to_string();
    anyhow::ensure!(
        !endpoint::is_plain_remote(&server),
        "kubeconfig: server {server} is not https; {}",
        endpoint::CURE
    );
    let mut without_retry = config.clone();
    without_retry.default_retry = false;
    let general = Client::try_from(config.clone()).context("invalid kubeconfig")?;
    let eviction = Client::try_from(without_retry).context("invalid kubeconfig")?;
    Ok(Clients { general, eviction })
}

/// Watches every kind that plans and reconciles depend on. A kind behind a closed gate is not even listed.
fn watch_all(client: &Client, cluster: &Arc<Cluster>, gates: Gates, tasks: &mut JoinSet<()>) {
    let mut kinds = Kinds { client, cluster, tasks };
    kinds.watch::<Pod>(true);
    kinds.watch::<Node>(true);
    kinds.watch::<NodeClaim>(true);
    kinds.watch::<NodePool>(true);
    kinds.watch::<EC2NodeClass>(true);
    kinds.watch::<DaemonSet>(true);
    kinds.watch::<PodDisruptionBudget>(true);
    kinds.watch::<VolumeAttachment>(true);
    kinds.watch::<PersistentVolumeClaim>(true);
    kinds.watch::<PersistentVolume>(true);
    kinds.watch::<StorageClass>(true);
    kinds.watch::<CSINode>(true);
    kinds.watch::<Namespace>(true);
    kinds.watch::<LimitRange>(true);
    kinds.watch::<RuntimeClass>(true);
    kinds.watch::<PriorityClass>(true);
    kinds.watch::<NodeReport>(true);
    kinds.watch::<SpendPolicy>(true);
    kinds.watch::<Commitment>(true);
    kinds.watch::<ProvisioningRequest>(true);
    kinds.watch::<PodTemplate>(true);
    kinds.watch::<NodeOverlay>(gates.node_overlay);
    kinds.watch::<CapacityBuffer>(gates.capacity_buffer);
    kinds.watch::<Deployment>(gates.capacity_buffer);
    kinds.watch::<ReplicaSet>(gates.capacity_buffer);
    kinds.watch::<StatefulSet>(gates.capacity_buffer);
}

struct Kinds<'a> {
    client: &'a Client,
    cluster: &'a Arc<Cluster>,
    tasks: &'a mut JoinSet<()>,
}

impl Kinds<'_> {
    fn watch<K: Indexed + DeserializeOwned>(&mut self, wanted: bool) {
        if wanted {
            let watch = watch::watch::<K>(self.client.clone(), Arc::clone(self.cluster));
            self.tasks.spawn(watch.instrument(span::task("watch")));
        } else {
            self.cluster.change(|index| {
                index.do_without::<K>();
                Triggers::default()
            });
        }
    }
}

/// Shared state of the sources of notices.
struct NoticeSources<'a> {
    cluster: &'a Arc<Cluster>,
    offerings: &'a Arc<Offerings>,
    notices: &'a Arc<Notices>,
    metrics: &'a Arc<Metrics>,
}

/// Starts the sources of EC2's notices, including the queue if there is one.
fn listen(settings: &Settings, sources: &NoticeSources<'_>, tasks: &mut JoinSet<()>) {
    let NoticeSources { cluster, offerings, notices, metrics } = sources;
    let all = || (Arc::clone(cluster), Arc::clone(offerings), Arc::clone(notices), Arc::clone(metrics));
    let (cluster, offerings, notices, metrics) = all();
    let checks = status_checks::watch_for_ever(cluster, offerings, notices, metrics);
    tasks.spawn(checks.instrument(span::task("status checks")));
    if let Some(queue) = settings.interruption_queue.clone() {
        let (cluster, offerings, notices, metrics) = all();
        let controller = lease_object(settings);
        let listener = Arc::new(Listener { queue, controller, cluster, offerings, notices, metrics });
        tasks.spawn(listener.run().instrument(span::task("interruption queue")));
    }
}

/// Returns the controller's Lease, which represents the controller in events. An event needs only a name, so the Lease need not
/// exist.
fn lease_object(settings: &Settings) -> ObjectReference {
    let (namespace, name) = match &settings.lease {
        Some(lease) => (lease.namespace.clone(), lease.name.clone()),
        None => (settings.namespace.clone(), "karpenter-leader-election".to_owned()),
    };
    let meta = ObjectMeta { namespace: Some(namespace), name: Some(name), ..ObjectMeta::default() };
    ObjectReference::new("coordination.k8s.io/v1", "Lease", &meta)
}

/// Waits for leadership if leader election is enabled.
async fn lead(
    settings: &Settings,
    config: &Config,
    leading: &Leading,
    tasks: &mut JoinSet<()>,
    triggers: &mut UnboundedReceiver<PlanTrigger>,
) -> anyhow::Result<Option<Keeper>> {
    let mut lease = None;
    if let Some(name) = settings.lease.clone() {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "kerf-controller".to_owned());
        let life = format!("{host}_{}_{}", std::process::id(), Timestamp::now().as_nanosecond());
        tracing::info!("waiting for the lease");
        let keeper = Keeper::start(config.clone(), name, life, leading.clone());
        let mut keeper = keeper.context("cannot start the thread of the lease")?;
        tokio::select! {
            biased;
            acquired = keeper.acquired() => acquired.context("the thread of the lease ended")?,
            panic = panics::of_any(tasks) => anyhow::bail!("a task of the controller ended: {panic}"),
            () = discard_triggers(triggers) => anyhow::bail!("the watches of the controller ended"),
        }
        lease = Some(keeper);
    }
    tracing::info!("leading");
    Ok(lease)
}

async fn until_the_end(leading: &Leading, tasks: &mut JoinSet<()>) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        signal = daemon::signal::stopped() => {
            let signal = signal.context("cannot install signal handlers")?;
            tracing::info!(signal, "stopping");
            Ok(())
        }
        () = leading.lost() => anyhow::bail!("lost the lease: it was not renewed in time, or another replica has it"),
        panic = panics::of_any(tasks) => anyhow::bail!("a task of the controller ended: {panic}"),
    }
}

async fn offerings(
    settings: &Settings,
    config: &Config,
    client: &Client,
    cloud: Arc<dyn Cloud>,
) -> anyhow::Result<Offerings> {
    let has_ca = !settings.cluster_ca_bundle.is_empty() || config.root_cert.is_some();
    let described = cluster_info::describe(cloud.as_ref(), settings, has_ca).await?;
    let eks_version = described.as_ref().filter(|_| settings.eks_control_plane).map(|found| found.version.clone());
    let version = match eks_version {
        Some(version) => version,
        None => cluster_info::served_version(client).await?,
    };
    let dns = cluster_dns::find(client).await;
    let facts = crate::capacity::cluster_facts(settings, config, described.unwrap_or_default(), version, dns);
    let offerings = Offerings::new(cloud, facts, settings.gates).with_risk(settings.risk_premium);
    let offerings = offerings.with_zonal_shift(settings.zonal_shift);
    Ok(offerings.with_class_refresh(settings.class_refresh))
}

async fn serve_admin(settings: &Settings, probes: Probes, tasks: &mut JoinSet<()>) -> anyhow::Result<()> {
    let probes: Arc<dyn Admin> = Arc::new(probes);
    let mut addresses = vec![settings.probes, settings.metrics];
    addresses.dedup();
    for address in addresses {
        let listener = daemon::admin::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let probes = Arc::clone(&probes);
        tasks.spawn(async move {
            daemon::admin::serve(listener, probes).await;
        });
    }
    Ok(())
}

/// Serves the debug pages. Without them the controller works: another process of a host network may have the port.
async fn serve_debug(settings: &Settings, cluster: &Arc<Cluster>, tasks: &mut JoinSet<()>) {
    let Some(port) = settings.debug_port else { return };
    match daemon::admin::bind((Ipv4Addr::LOCALHOST, port).into()).await {
        Ok(listener) => {
            let pages = Arc::new(DebugPages(Arc::clone(cluster)));
            tasks.spawn(async move {
                daemon::admin::serve_pages(listener, pages).await;
            });
        }
        Err(error) => {
            let error = daemon::error::chain(&error);
            tracing::warn!(
                port,
                error = error.as_str(),
                "no snapshots of failed plans: cannot listen on the debug port"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::{Client, Config};
    use tokio::task::JoinSet;

    use super::{Cluster, Gates, unbounded_channel, watch_all};
    use crate::write::events::EventRecorder;

    /// A closed gate excludes its kind from plans: the planner reads no object of that kind.
    #[tokio::test]
    async fn watch_all_skips_kinds_when_their_gate_is_closed() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let overlays = |node_overlay| {
            let client = Client::try_from(Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
            let (plan, _asked) = unbounded_channel();
            let cluster = Cluster::new(plan, EventRecorder::new().0);
            watch_all(&client, &cluster, Gates { node_overlay, ..Gates::default() }, &mut JoinSet::new());
            cluster.read(|index| (index.overlays.is_synced(), index.overlays.len()))
        };
        assert_eq!(overlays(false), (true, 0), "complete without a list");
        assert_eq!(overlays(true), (false, 0), "without an answer the list is missing");
    }
}
