//! Puts the controller together, starts it, and stops it in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use api::objects::{DaemonSet, Node, PersistentVolumeClaim, Pod, PodDisruptionBudget, VolumeAttachment};
use api::{EC2NodeClass, NodeClaim, NodePool};
use cloud::Cloud;
use daemon::admin::Admin;
use daemon::metric::Metrics;
use kube::{Client, Config};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

use crate::act::Act;
use crate::cluster::Cluster;
use crate::event::{self, Notes};
use crate::index::Index;
use crate::lease::Leadership;
use crate::market::Market;
use crate::provision::Provisioner;
use crate::reconcile::Reconciler;
use crate::settings::Settings;
use crate::{garbage, launch, metrics, watch};

/// Runs until a signal comes or leadership is lost.
///
/// # Errors
/// When something that must be there at the start is not: the cluster, the ports, AWS.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    // Ours is the only TLS provider in the program; a second installation would be our own mistake.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for sentence in &settings.unmet {
        log::warn!("{sentence}");
    }
    let config = Config::infer().await.context("no cluster: set KUBECONFIG, or run inside a cluster")?;
    let clients = clients(&config)?;
    let aws = aws::Settings {
        region: Some(settings.region.clone()),
        endpoint_url: settings.endpoint_url.clone(),
        ..aws::Settings::default()
    };
    let cloud: Arc<dyn Cloud> = Arc::new(aws::AwsCloud::connect(&aws).await);
    let metrics = Arc::new(Metrics::new(metrics::TABLE));

    let (notes, outgoing) = Notes::new();
    let (plan, triggers) = unbounded_channel();
    let cluster = Cluster::new(plan, notes);
    let leading = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    serve_admin(&settings, &cluster, &metrics, &mut tasks).await?;
    watch_all(&clients.0, &cluster, &mut tasks);
    tasks.spawn(event::send(clients.0.clone(), outgoing));

    let mut leadership = lead(&settings, &clients.0, &leading).await;
    let market = Arc::new(market(&settings, &config, &clients.0, Arc::clone(&cloud)).await?);
    tasks.spawn(Arc::clone(&market).refresh_for_ever(Arc::clone(&cluster)));
    let act = Act::new(clients, cloud, Arc::clone(&cluster), Arc::clone(&metrics), Arc::clone(&leading));
    let launcher = launch::Launcher::new(Arc::clone(&cluster), Arc::clone(&market), act.clone(), Arc::clone(&metrics));
    let provisioner =
        Provisioner::new(Arc::clone(&cluster), Arc::clone(&market), act.clone(), Arc::clone(&metrics), settings.batch);
    tasks.spawn(garbage::collect_for_ever(Arc::clone(&cluster), Arc::clone(&market), act.clone()));
    tasks.spawn(Arc::new(Reconciler::new(cluster, market, act, launcher, metrics)).run());
    tasks.spawn(provisioner.run(triggers));

    let outcome = until_the_end(&mut leadership).await;
    leading.store(false, Ordering::Release);
    tasks.shutdown().await;
    if let Some(leadership) = &mut leadership {
        leadership.release().await;
    }
    outcome
}

/// One client for everything, and one for evictions that must not retry by itself.
fn clients(config: &Config) -> anyhow::Result<(Client, Client)> {
    let mut without_retry = config.clone();
    without_retry.default_retry = false;
    let client = Client::try_from(config.clone()).context("the kubeconfig cannot be used")?;
    let evictions = Client::try_from(without_retry).context("the kubeconfig cannot be used")?;
    Ok((client, evictions))
}

fn watch_all(client: &Client, cluster: &Arc<Cluster>, tasks: &mut JoinSet<()>) {
    tasks.spawn(watch::watch::<Pod>(client.clone(), Arc::clone(cluster)));
    tasks.spawn(watch::watch::<Node>(client.clone(), Arc::clone(cluster)));
    tasks.spawn(watch::watch::<NodeClaim>(client.clone(), Arc::clone(cluster)));
    tasks.spawn(watch::watch::<NodePool>(client.clone(), Arc::clone(cluster)));
    tasks.spawn(watch::watch::<EC2NodeClass>(client.clone(), Arc::clone(cluster)));
    tasks.spawn(watch::watch::<DaemonSet>(client.clone(), Arc::clone(cluster)));
    tasks.spawn(watch::watch::<PodDisruptionBudget>(client.clone(), Arc::clone(cluster)));
    tasks.spawn(watch::watch::<VolumeAttachment>(client.clone(), Arc::clone(cluster)));
    tasks.spawn(watch::watch::<PersistentVolumeClaim>(client.clone(), Arc::clone(cluster)));
}

/// Waits for leadership if replicas share the work.
async fn lead(settings: &Settings, client: &Client, leading: &AtomicBool) -> Option<Leadership> {
    let mut leadership = settings.lease.clone().map(|name| {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "kerf-controller".to_owned());
        let life = format!("{host}_{}_{}", std::process::id(), jiff::Timestamp::now().as_nanosecond());
        Leadership::new(client.clone(), name, life)
    });
    if let Some(leadership) = &mut leadership {
        log::info!("waiting for the lease");
        leadership.acquire().await;
    }
    leading.store(true, Ordering::Release);
    log::info!("leading");
    leadership
}

async fn until_the_end(leadership: &mut Option<Leadership>) -> anyhow::Result<()> {
    let lost = async {
        match leadership {
            Some(leadership) => leadership.hold().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        signal = daemon::signal::stopped() => {
            log::info!(signal = signal.context("cannot listen for signals")?; "stopping");
            Ok(())
        }
        () = lost => anyhow::bail!("lost the lease: another replica leads now"),
    }
}

async fn market(
    settings: &Settings,
    config: &Config,
    client: &Client,
    cloud: Arc<dyn Cloud>,
) -> anyhow::Result<Market> {
    let version = client.apiserver_version().await.context("the API server does not tell its version")?;
    let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    let facts = crate::market::cluster_facts(settings, config, format!("{}.{minor}", version.major));
    Ok(Market::new(cloud, facts))
}

struct Probes {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
}

impl Admin for Probes {
    fn healthy(&self) -> Result<(), String> {
        Ok(())
    }

    fn ready(&self) -> Result<(), String> {
        let missing = self.cluster.read(Index::missing);
        if missing.is_empty() { Ok(()) } else { Err(format!("not listed yet: {}", missing.join(", "))) }
    }

    fn metrics(&self) -> String {
        let synced = self.cluster.read(Index::is_synced);
        self.metrics.set(&metrics::SYNCED, &[], f64::from(u8::from(synced)));
        self.metrics.render()
    }
}

async fn serve_admin(
    settings: &Settings,
    cluster: &Arc<Cluster>,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let probes: Arc<dyn Admin> = Arc::new(Probes { cluster: Arc::clone(cluster), metrics: Arc::clone(metrics) });
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
