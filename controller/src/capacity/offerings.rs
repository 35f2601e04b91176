//! What can be bought now: instance types, zones, prices and shortages of the region, and the classes as they
//! resolved last. Everything that a plan knows of EC2 comes from here, without a call.

mod pricing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodeClaim, annotation};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::launch::{InFlight, LaunchChoice, LaunchOffer, LaunchRequest, Templates, Token};
use cloud::nodeclass::{LaunchProbe, ResolutionCache, ResolvedClass};
use cloud::prices::PriceBook;
use cloud::settings::Settings as CloudSettings;
use cloud::types::{ClassSettings, LearnedMemory, MemoryUpdate, OfferingSource as Prices, Source, image_set};
use cloud::unavailable_offerings::{Scope, UnavailableOfferings};
use cloud::{Cloud, CloudError, ClusterDescription, FleetAnswer, Instance, InstanceTypeInfo};
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use planner::Catalogue;

use crate::capacity::memory_overhead::MemoryReading;
use crate::reconcile::nodeclaim;
use crate::reconcile::work::WorkItem;
use crate::settings::{Gates, Settings};
use crate::state::cluster::Cluster;

/// Types and zones change slowly (aws 3.1).
const REFRESH: Duration = Duration::from_secs(12 * 60 * 60);
/// What classes select (aws 8: subnets and images every minute).
const CLASS_REFRESH: Duration = Duration::from_secs(60);
/// A launch that AWS allowed once is taken for allowed so long (aws 1.4).
const TRIED: SignedDuration = SignedDuration::from_mins(30);
/// While EC2 has not answered once, nothing can be planned.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// What we know of EC2.
pub struct Offerings {
    cloud: Arc<dyn Cloud>,
    settings: CloudSettings,
    gates: Gates,
    memory: ResolutionCache,
    templates: Templates,
    class_refresh: Duration,
    state: Mutex<OfferingsState>,
}

#[derive(Default)]
struct OfferingsState {
    infos: Arc<Vec<InstanceTypeInfo>>,
    prices: Prices,
    /// Whether EC2 was asked for spot prices once, whatever it said: before, a plan would take on-demand prices for them.
    spot_asked: bool,
    learned: LearnedMemory,
    shortages: UnavailableOfferings,
    in_flight: InFlight,
    classes: BTreeMap<String, ClassOfferings>,
    /// Classes that this process has looked at, ready or not.
    judged: BTreeSet<String>,
    /// The cluster's version, once it was upgraded in the life of this process.
    kubernetes: Option<String>,
    /// By class, what a launch looked like that AWS allowed, and when.
    tried: BTreeMap<String, (u64, Timestamp)>,
    /// Catalogues of pools to which something of their own applies, as the last plan saw them; `None` before the first.
    pools: Option<BTreeMap<String, Arc<Catalogue>>>,
    /// Grows with every refresh; 0 while EC2 has not reported its types.
    version: u64,
}

impl OfferingsState {
    /// What was made of earlier answers is stale.
    fn renew(&mut self) {
        self.version += u64::from(self.version > 0);
    }
}

/// A class that is ready, and its catalogue for the versions of what it was made from.
struct ClassOfferings {
    resolved: Arc<ResolvedClass>,
    settings: ClassSettings,
    catalogue: Option<((u64, u64), Arc<Catalogue>)>,
}

/// What nodes must be informed about the cluster: what the settings say, else the kubeconfig, else EKS.
#[must_use]
pub fn cluster_facts(
    settings: &Settings,
    config: &kube::Config,
    described: ClusterDescription,
    kubernetes: String,
) -> CloudSettings {
    let said = |given: &String| Some(given.clone()).filter(|given| !given.is_empty());
    let own_ca = || config.root_cert.as_ref().map(|certificates| pem(certificates));
    CloudSettings {
        cluster_name: settings.cluster_name.clone(),
        cluster_endpoint: said(&settings.cluster_endpoint).unwrap_or(described.endpoint),
        cluster_ca: said(&settings.cluster_ca_bundle).or_else(own_ca).unwrap_or(described.ca),
        cluster_cidr: said(&settings.cluster_cidr).unwrap_or(described.service_cidr),
        cluster_dns: Vec::new(),
        kubernetes,
        region: settings.region.clone(),
        reserved_enis: settings.reserved_enis,
        memory_overhead_thousandths: settings.memory_overhead_per_mille,
        isolated_vpc: settings.isolated_vpc,
        reserved_capacity: settings.gates.reserved_capacity,
        min_values: settings.planning.min_values,
        disable_dry_run: settings.disable_dry_run,
    }
}

/// Base64 of the certificates as one PEM bundle.
fn pem(certificates: &[Vec<u8>]) -> String {
    let mut bundle = String::new();
    for certificate in certificates {
        bundle.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = STANDARD.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            bundle.push_str(&String::from_utf8_lossy(line));
            bundle.push('\n');
        }
        bundle.push_str("-----END CERTIFICATE-----\n");
    }
    STANDARD.encode(bundle)
}

impl Offerings {
    /// A market that has not asked EC2 anything yet.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>, settings: CloudSettings, gates: Gates) -> Self {
        let book = cloud::data::facts().map(PriceBook::embedded).unwrap_or_default();
        let state = OfferingsState { prices: Prices::with_prices(book), ..OfferingsState::default() };
        Self {
            cloud,
            settings,
            gates,
            memory: ResolutionCache::default(),
            templates: Templates::default(),
            class_refresh: CLASS_REFRESH,
            state: Mutex::new(state),
        }
    }

    /// Whether trouble with a pool raises the price by which it competes.
    #[must_use]
    pub fn with_risk(self, wanted: bool) -> Self {
        if !wanted {
            self.state().shortages = UnavailableOfferings::without_risk();
        }
        self
    }

    /// How long a class that is ready is left alone.
    #[must_use]
    pub fn with_class_refresh(self, class_refresh: Duration) -> Self {
        Self { class_refresh, ..self }
    }

    /// A class that is ready is looked at again after this long.
    #[must_use]
    pub fn class_refresh(&self) -> Duration {
        self.class_refresh
    }

    /// The calls.
    #[must_use]
    pub fn cloud(&self) -> &dyn Cloud {
        self.cloud.as_ref()
    }

    /// The calls, for someone who keeps them.
    #[must_use]
    pub fn calls(&self) -> Arc<dyn Cloud> {
        Arc::clone(&self.cloud)
    }

    /// The launch templates that exist.
    #[must_use]
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// What nodes must be informed about the cluster.
    #[must_use]
    pub fn settings(&self) -> &CloudSettings {
        &self.settings
    }

    /// As [`Self::settings`], with the version that the cluster has now: aliases of images depend on it.
    #[must_use]
    pub fn settings_of_today(&self) -> CloudSettings {
        let upgraded = self.state().kubernetes.clone();
        let settings = self.settings.clone();
        CloudSettings { kubernetes: upgraded.unwrap_or_else(|| settings.kubernetes.clone()), ..settings }
    }

    /// Takes over the cluster's version. Returns whether it is another one.
    pub fn follow(&self, kubernetes: &str) -> bool {
        let mut state = self.state();
        let known = state.kubernetes.as_deref().unwrap_or(&self.settings.kubernetes);
        let changed = known != kubernetes;
        if changed {
            state.kubernetes = Some(kubernetes.to_owned());
        }
        changed
    }

    /// What SSM and IAM said lately.
    #[must_use]
    pub fn memory(&self) -> &ResolutionCache {
        &self.memory
    }

    /// Asks EC2 for types and zones, soon again while it does not answer, then every 12 hours.
    pub async fn refresh_for_ever(self: Arc<Self>, cluster: Arc<Cluster>) {
        let mut retry = FIRST_RETRY;
        loop {
            match self.refresh().await {
                Ok(types) => {
                    log::info!(types = types as i64; "loaded instance types and zones");
                    retry = FIRST_RETRY;
                    let classes: Vec<String> = cluster.read(|index| index.classes.keys().cloned().collect());
                    classes.into_iter().for_each(|name| cluster.queue.add(WorkItem::Class(name)));
                    cluster.ask_for_plan("market".to_owned());
                    tokio::time::sleep(REFRESH).await;
                }
                Err(error) => {
                    log::warn!(
                        error = daemon::error::chain(&error).as_str();
                        "failed to load instance types, retrying"
                    );
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(LAST_RETRY);
                }
            }
        }
    }

    /// One refresh.
    pub(crate) async fn refresh(&self) -> Result<usize, CloudError> {
        let infos = self.cloud.instance_types().await?;
        let offerings = self.cloud.type_offerings().await?;
        let mut state = self.state();
        state.prices.set_offerings(offerings);
        state.infos = Arc::new(infos);
        state.version += 1;
        Ok(state.infos.len())
    }

    /// Takes in what a node told of its memory; `None` while nobody knows whether its image is still its class's.
    pub fn learn_memory(&self, reading: &MemoryReading, now: Timestamp) -> Option<MemoryUpdate> {
        let mut state = self.state();
        let images = &state.classes.get(&reading.class)?.resolved.images;
        if !images.iter().any(|known| known.image.id == reading.image) {
            return Some(MemoryUpdate::Nothing);
        }
        let images = image_set(images.iter().map(|known| known.image.id.as_str()));
        let news = state.learned.learn(&images, &reading.instance_type, reading.memory, now);
        if news == MemoryUpdate::Changed {
            state.renew();
        }
        Some(news)
    }

    /// Takes over what an earlier life of the controller learned.
    pub fn restore_memory(&self, memory: LearnedMemory) {
        let mut state = self.state();
        state.learned = memory;
        state.renew();
    }

    /// What was learned and is still believed, as a text.
    #[must_use]
    pub fn memory_text(&self, now: Timestamp) -> String {
        let mut state = self.state();
        state.learned.expire(now);
        state.learned.text()
    }

    /// Takes over a class that is ready.
    ///
    /// # Errors
    /// A sentence when its kubelet settings cannot be read.
    pub fn learn(&self, class: &EC2NodeClass, resolved: ResolvedClass) -> Result<(), String> {
        let settings = resolved.sizes(class).map_err(|error| daemon::error::chain(&error))?;
        let mut state = self.state();
        let known = state.classes.get(&resolved.name);
        if known.is_some_and(|known| *known.resolved == resolved && known.settings == settings) {
            return Ok(());
        }
        let name = resolved.name.clone();
        state.classes.insert(name, ClassOfferings { resolved: Arc::new(resolved), settings, catalogue: None });
        Ok(())
    }

    /// Notes that a class was looked at, whatever came of it.
    pub fn judged(&self, class: &str) {
        self.state().judged.insert(class.to_owned());
    }

    /// Whether EC2 has reported its types, was asked for spot prices, and every one of these classes was looked at. Before, a plan would call pools unready
    /// that only nobody has asked about yet.
    pub fn knows<'c>(&self, mut classes: impl Iterator<Item = &'c String>) -> bool {
        let state = self.state();
        state.version > 0 && state.spot_asked && classes.all(|class| state.judged.contains(class))
    }

    /// Whether AWS allowed a launch from the class lately, as it looks now.
    #[must_use]
    pub fn is_tried(&self, class: &str, print: u64, now: Timestamp) -> bool {
        let known = self.state().tried.get(class).copied();
        known.is_some_and(|(known, at)| known == print && now.duration_since(at) < TRIED)
    }

    /// Notes that AWS allowed a launch from the class.
    pub fn tried(&self, class: &str, print: u64, now: Timestamp) {
        self.state().tried.insert(class.to_owned(), (print, now));
    }

    /// The calls to try out for a class before it is ready; `None` while EC2 has not told its types, or nothing can be bought
    /// for the class.
    #[must_use]
    pub fn probe(
        &self,
        class: &EC2NodeClass,
        resolved: &ResolvedClass,
        pools: &[LaunchRequest],
        now: Timestamp,
    ) -> Option<LaunchProbe> {
        let settings = resolved.sizes(class).ok()?;
        let state = self.state();
        if state.version == 0 {
            return None;
        }
        let source = Source {
            infos: &state.infos,
            facts: cloud::data::facts().ok()?,
            market: &state.prices,
            shortages: &UnavailableOfferings::default(),
            images: &resolved.images,
        };
        let mut catalogue = cloud::types::catalogue(&source, &settings, &self.settings, now);
        cloud::types::add_placement(&mut catalogue, resolved);
        let offer = LaunchOffer {
            class: resolved,
            catalogue: &catalogue,
            shortages: source.shortages,
            in_flight: &InFlight::default(),
            settings: &self.settings,
            now,
        };
        cloud::nodeclass::probe(pools, &offer)
    }

    /// Forgets a class that is gone or not ready: nothing is bought for it.
    pub fn forget(&self, class: &str) {
        self.state().classes.remove(class);
    }

    /// A class that is ready.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<Arc<ResolvedClass>> {
        self.state().classes.get(name).map(|class| Arc::clone(&class.resolved))
    }

    /// What can be bought for a class now; `None` while the class is not ready or EC2 has not answered.
    #[must_use]
    pub fn catalogue(&self, name: &str, now: Timestamp) -> Option<Arc<Catalogue>> {
        let mut state = self.state();
        if state.version == 0 {
            return None;
        }
        state.shortages.expire(now);
        let OfferingsState { infos, prices, learned, shortages, classes, version, .. } = &mut *state;
        let class = classes.get_mut(name)?;
        let made_from = (*version, shortages.sequence());
        if let Some((versions, catalogue)) = &class.catalogue
            && *versions == made_from
        {
            return Some(Arc::clone(catalogue));
        }
        let facts = cloud::data::facts().ok()?;
        let source = Source { infos, facts, market: prices, shortages, images: &class.resolved.images };
        let images = image_set(class.resolved.images.iter().map(|image| image.image.id.as_str()));
        let sizes = ClassSettings { learned_memory: learned.for_images(&images, now), ..class.settings.clone() };
        let mut catalogue = cloud::types::catalogue(&source, &sizes, &self.settings, now);
        cloud::types::add_reservations(&mut catalogue, &class.resolved, &sizes, &source, now);
        cloud::types::add_placement(&mut catalogue, &class.resolved);
        if !self.gates.reserved_capacity {
            drop_reserved(&mut catalogue);
        }
        let catalogue = Arc::new(catalogue);
        class.catalogue = Some((made_from, Arc::clone(&catalogue)));
        Some(catalogue)
    }

    /// Takes over what the last plan's pools can buy where that is not what their classes can: overlays say otherwise.
    pub fn learn_pools(&self, pools: BTreeMap<String, Arc<Catalogue>>) {
        self.state().pools = Some(pools);
    }

    /// What can be bought for a claim: as the last plan saw it where overlays speak of its pool, else as its class can now.
    /// `None` while that is not known.
    #[must_use]
    pub fn catalogue_of(&self, claim: &NodeClaim, now: Timestamp) -> Option<Arc<Catalogue>> {
        let own = match &self.state().pools {
            Some(pools) => pools.get(nodeclaim::pool(claim)).cloned(),
            // The price or the room that the claim was planned by is known again after the first plan.
            None if is_overlaid(claim) => return None,
            None => None,
        };
        own.or_else(|| self.catalogue(&claim.spec.node_class_ref.name, now))
    }

    /// The hash by which machines of the class drift; the cluster's CA is part of it.
    #[must_use]
    pub fn class_hash(&self, class: &EC2NodeClass) -> String {
        api::hash::ec2_node_class(class, Some(&self.settings.cluster_ca))
    }

    /// EC2 takes machines back from this pool.
    pub fn interrupted(&self, scope: Scope, now: Timestamp) {
        self.state().shortages.interrupted(scope, now);
    }

    /// What is out of stock now, and what launches under way will take.
    #[must_use]
    pub fn knowledge(&self, now: Timestamp) -> (UnavailableOfferings, InFlight) {
        let mut state = self.state();
        state.shortages.expire(now);
        (state.shortages.clone(), state.in_flight.clone())
    }

    /// A choice was made that tries pools which may be back: others leave them alone for now.
    pub fn try_out(&self, choice: &LaunchChoice, now: Timestamp) {
        self.state().shortages.try_out(&choice.scopes(), now);
    }

    /// A launch of so many instances begins.
    pub fn begin_launch(&self, token: &Token, choice: &LaunchChoice, instances: usize, now: Timestamp) {
        self.state().in_flight.begin(token, choice, instances, now);
    }

    /// EC2 has answered a launch: what served is in stock, whatever was said of it before; what did not is not.
    pub fn end_launch(&self, token: &Token, answer: &FleetAnswer, served: &[Scope], short: Vec<Scope>, now: Timestamp) {
        let mut state = self.state();
        state.in_flight.settle(token, answer, now);
        served.iter().for_each(|scope| state.shortages.served(scope));
        short.into_iter().for_each(|scope| state.shortages.mark(scope, now));
    }

    /// Nothing came of a launch.
    pub fn give_up_launch(&self, token: &Token) {
        self.state().in_flight.give_back(token);
    }

    /// Every instance that carries this cluster's tags.
    ///
    /// # Errors
    /// When EC2 does not answer.
    pub async fn own_instances(&self) -> Result<Vec<Instance>, CloudError> {
        self.cloud.instances(&cloud::launch::cluster_tags(&self.settings)).await
    }

    fn state(&self) -> MutexGuard<'_, OfferingsState> {
        self.state.lock()
    }
}

/// Without their gate, capacity reservations are as if they were not there.
fn drop_reserved(catalogue: &mut Catalogue) {
    let reserved = |offering: &planner::Offering| {
        offering.capacity_type == planner::CapacityType::Reserved || offering.reservation.is_some()
    };
    for kind in &mut catalogue.types {
        kind.offerings.retain(|offering| !reserved(offering));
    }
}

/// Whether overlays had a say in what the claim lists.
#[must_use]
pub fn is_overlaid(claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    [annotation::PRICE_OVERLAY_APPLIED, annotation::CAPACITY_OVERLAY_APPLIED]
        .iter()
        .any(|key| annotations.is_some_and(|all| all.contains_key(*key)))
}

#[cfg(test)]
mod tests;
