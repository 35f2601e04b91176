//! Instance types, zones, prices and unavailable offerings of the region, and the last resolution of each EC2NodeClass. All
//! data of EC2 in a plan comes from here, without a call.

mod cluster;
mod pricing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodeClaim, annotation};
use cloud::launch::{InFlight, LaunchChoice, LaunchOffer, LaunchProbe, LaunchRequest, PermittedTags, Templates, Token};
use cloud::nodeclass::{ResolutionCache, ResolvedClass};
use cloud::settings::Settings as CloudSettings;
use cloud::types::prices::PriceBook;
use cloud::types::{
    ClassSettings, MeasurementUpdate, Measurements, NodeReading, NodeSettings, OfferingSource as Prices, Source,
    image_set,
};
use cloud::unavailable_offerings::{Scope, UnavailableOfferings};
use cloud::{Cloud, CloudError, FleetAnswer, Instance, InstanceTypeInfo, ZonalShift};
use daemon::backoff::RetryDelays;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use planner::Catalogue;

use crate::reconcile::work::WorkItem;
use crate::settings::Gates;
use crate::state::cluster::Cluster;
use cluster::ClusterSettings;

/// Interval between refreshes of instance types and zones, which change slowly.
const REFRESH: Duration = Duration::from_secs(12 * 60 * 60);
/// Interval between resolutions of an EC2NodeClass: its subnets, images and other selected resources.
const CLASS_REFRESH: Duration = Duration::from_secs(60);
/// Time for which a permitted dry run of a launch remains valid.
const TRIED: SignedDuration = SignedDuration::from_mins(30);
/// First delay before a retry. Until the first answer of EC2, nothing can be planned.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Cached data of EC2 and resolved EC2NodeClasses.
pub struct Offerings {
    cloud: Arc<dyn Cloud>,
    cluster: ClusterSettings,
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
    /// True after the first request for spot prices, successful or not. Before that, a plan would use on-demand prices for
    /// spot.
    spot_asked: bool,
    /// True until the first call of ARC, successful or not, if zonal shifts are followed.
    shifts_unasked: bool,
    measured: Measurements,
    shortages: UnavailableOfferings,
    in_flight: InFlight,
    classes: BTreeMap<String, ClassOfferings>,
    /// Names of EC2NodeClasses that this process has reconciled, ready or not.
    reconciled: BTreeSet<String>,
    /// Fingerprint and time of the last permitted dry run, by EC2NodeClass.
    tried: BTreeMap<String, (u64, Timestamp, PermittedTags)>,
    /// Catalogues of NodePools that differ from those of their EC2NodeClasses, as of the last plan; `None` before the first
    /// plan.
    pools: Option<BTreeMap<String, Arc<Catalogue>>>,
    /// Counter of refreshes; 0 until EC2 has returned its instance types.
    version: u64,
}

impl OfferingsState {
    /// Invalidates the catalogues made from earlier data.
    fn renew(&mut self) {
        self.version += u64::from(self.version > 0);
    }
}

/// EC2NodeClass that is ready, and its catalogue with the versions of the data in it.
struct ClassOfferings {
    resolved: Arc<ResolvedClass>,
    settings: ClassSettings,
    /// Ids of the images, as one key of measured amounts.
    images: String,
    /// Hash of the EC2NodeClass, as on its NodeClaims.
    hash: String,
    catalogue: Option<((u64, u64), Arc<Catalogue>)>,
}

impl ClassOfferings {
    fn node_settings(&self) -> NodeSettings<'_> {
        NodeSettings { images: &self.images, class_hash: &self.hash }
    }
}

impl Offerings {
    /// Creates offerings without data of EC2, with the embedded prices.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>, settings: CloudSettings, gates: Gates) -> Self {
        let book = cloud::data::facts().map(|facts| PriceBook::embedded(facts, &settings.region)).unwrap_or_default();
        let state = OfferingsState { prices: Prices::with_prices(book), ..OfferingsState::default() };
        Self {
            cloud,
            cluster: ClusterSettings::new(settings),
            gates,
            memory: ResolutionCache::default(),
            templates: Templates::default(),
            class_refresh: CLASS_REFRESH,
            state: Mutex::new(state),
        }
    }

    /// Sets whether failures of a capacity pool raise the price by which its offerings compete.
    #[must_use]
    pub fn with_risk(self, wanted: bool) -> Self {
        if !wanted {
            self.state().shortages = UnavailableOfferings::without_risk();
        }
        self
    }

    /// Sets whether zonal shifts are followed. Then nothing is planned before ARC was called once.
    #[must_use]
    pub fn with_zonal_shift(self, wanted: bool) -> Self {
        self.state().shifts_unasked = wanted;
        self
    }

    /// Sets the interval between reconciles of an EC2NodeClass that is ready.
    #[must_use]
    pub fn with_class_refresh(self, class_refresh: Duration) -> Self {
        Self { class_refresh, ..self }
    }

    /// Returns the interval between reconciles of an EC2NodeClass that is ready.
    #[must_use]
    pub fn class_refresh(&self) -> Duration {
        self.class_refresh
    }

    /// Returns the cloud client.
    #[must_use]
    pub fn cloud(&self) -> &dyn Cloud {
        self.cloud.as_ref()
    }

    /// Returns the cloud client for a caller that stores it.
    #[must_use]
    pub fn calls(&self) -> Arc<dyn Cloud> {
        Arc::clone(&self.cloud)
    }

    /// Returns the cache of launch templates.
    #[must_use]
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// Returns the data of the cluster that nodes need, which follows the cluster.
    #[must_use]
    pub fn cluster(&self) -> &ClusterSettings {
        &self.cluster
    }

    /// Returns the data of the cluster as of the start of this process.
    #[must_use]
    pub fn settings(&self) -> &CloudSettings {
        self.cluster.start()
    }

    /// Returns the hash that detects drift from the EC2NodeClass. The hash includes the cluster's CA.
    #[must_use]
    pub fn class_hash(&self, class: &EC2NodeClass) -> String {
        api::hash::ec2_node_class(class, Some(&self.settings().cluster_ca))
    }

    /// Returns the cache of answers of SSM and IAM.
    #[must_use]
    pub fn memory(&self) -> &ResolutionCache {
        &self.memory
    }

    /// Refreshes instance types and zones forever: with short delays until EC2 answers, then every 12 hours.
    pub async fn refresh_for_ever(self: Arc<Self>, cluster: Arc<Cluster>) {
        let mut delays = RetryDelays::new(FIRST_RETRY, LAST_RETRY);
        loop {
            match self.refresh().await {
                Ok(types) => {
                    tracing::info!(types = types as i64, "loaded instance types and zones");
                    delays.reset();
                    let classes: Vec<String> = cluster.read(|index| index.classes.keys().cloned().collect());
                    classes.into_iter().for_each(|name| cluster.queue.add(WorkItem::Class(name)));
                    cluster.ask_for_plan("market".to_owned());
                    tokio::time::sleep(REFRESH).await;
                }
                Err(error) => {
                    tracing::warn!(
                        error = daemon::error::chain(&error).as_str(),
                        "failed to load instance types, retrying"
                    );
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    }

    /// Refreshes instance types and zones once and returns the number of instance types.
    pub(crate) async fn refresh(&self) -> Result<usize, CloudError> {
        let infos = self.cloud.instance_types().await?;
        let offerings = self.cloud.type_offerings().await?;
        let mut state = self.state();
        state.prices.set_offerings(offerings);
        state.infos = Arc::new(infos);
        state.version += 1;
        Ok(state.infos.len())
    }

    /// Stores a reading of a node. Returns `None` while the EC2NodeClass of the node is not resolved, so its images are
    /// unknown.
    pub fn learn_node(&self, reading: &NodeReading, now: Timestamp) -> Option<MeasurementUpdate> {
        let mut state = self.state();
        let OfferingsState { classes, measured, infos, .. } = &mut *state;
        let class = classes.get(&reading.class)?;
        let news = measured.learn_node(class.node_settings(), infos, reading, now);
        if news == MeasurementUpdate::Changed {
            state.renew();
        }
        Some(news)
    }

    /// Replaces the measured amounts by those of an earlier process.
    pub fn restore_measured(&self, measured: Measurements) {
        let mut state = self.state();
        state.measured = measured;
        state.renew();
    }

    /// Returns the measured amounts without expired readings, as text.
    #[must_use]
    pub fn measured_text(&self, now: Timestamp) -> String {
        let mut state = self.state();
        state.measured.expire(now);
        state.measured.text()
    }

    /// Stores an EC2NodeClass that is ready.
    ///
    /// # Errors
    /// Returns a message if the kubelet settings are invalid.
    pub fn learn(&self, class: &EC2NodeClass, resolved: ResolvedClass) -> Result<(), String> {
        let settings = ClassSettings::from_resolved(class, &resolved).map_err(|error| daemon::error::chain(&error))?;
        let hash = self.class_hash(class);
        let mut state = self.state();
        let known = state.classes.get(&resolved.name);
        if known.is_some_and(|known| *known.resolved == resolved && known.settings == settings && known.hash == hash) {
            return Ok(());
        }
        let name = resolved.name.clone();
        let images = image_set(resolved.images.iter().map(|image| image.image.id.as_str()));
        let resolved = Arc::new(resolved);
        state.classes.insert(name, ClassOfferings { resolved, settings, images, hash, catalogue: None });
        Ok(())
    }

    /// Records that an EC2NodeClass was reconciled, with any result.
    pub fn mark_reconciled(&self, class: &str) {
        self.state().reconciled.insert(class.to_owned());
    }

    /// Reports whether EC2 has returned its instance types, spot prices and zonal shifts were requested, and all these
    /// EC2NodeClasses were reconciled. An earlier plan would report NodePools as not ready only because their EC2NodeClass is
    /// not reconciled yet.
    pub fn knows<'c>(&self, mut classes: impl Iterator<Item = &'c String>) -> bool {
        let state = self.state();
        let asked = state.spot_asked && !state.shifts_unasked;
        state.version > 0 && asked && classes.all(|class| state.reconciled.contains(class))
    }

    /// Returns the tags of a dry run of the EC2NodeClass with this fingerprint, if it was permitted recently.
    #[must_use]
    pub fn permitted_tags(&self, class: &str, print: u64, now: Timestamp) -> Option<PermittedTags> {
        let (known, at, tags) = self.state().tried.get(class).copied()?;
        (known == print && now.duration_since(at) < TRIED).then_some(tags)
    }

    /// Records a permitted dry run of the EC2NodeClass.
    pub fn tried(&self, class: &str, print: u64, tags: PermittedTags, now: Timestamp) {
        self.state().tried.insert(class.to_owned(), (print, now, tags));
    }

    /// Returns the dry-run calls for an EC2NodeClass that is not ready yet. Returns `None` until EC2 has returned its instance
    /// types, or if the EC2NodeClass has no offering.
    #[must_use]
    pub fn probe(
        &self,
        class: &EC2NodeClass,
        resolved: &ResolvedClass,
        pools: &[LaunchRequest],
        now: Timestamp,
    ) -> Option<LaunchProbe> {
        let settings = ClassSettings::from_resolved(class, resolved).ok()?;
        let today = self.cluster.today();
        let state = self.state();
        if state.version == 0 {
            return None;
        }
        let source = Source {
            infos: &state.infos,
            facts: cloud::data::facts().ok()?,
            offerings: &state.prices,
            shortages: &UnavailableOfferings::default(),
            images: &resolved.images,
        };
        let mut catalogue = cloud::types::catalogue(&source, &settings, self.settings(), now);
        cloud::types::add_placement(&mut catalogue, resolved);
        let offer = LaunchOffer {
            class: resolved,
            catalogue: &catalogue,
            shortages: source.shortages,
            in_flight: &InFlight::default(),
            settings: &today,
            now,
        };
        cloud::launch::probe(pools, &offer)
    }

    /// Removes an EC2NodeClass that is deleted or not ready, so that nothing is launched for it.
    pub fn forget(&self, class: &str) {
        self.state().classes.remove(class);
    }

    /// Returns an EC2NodeClass that is ready.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<Arc<ResolvedClass>> {
        self.state().classes.get(name).map(|class| Arc::clone(&class.resolved))
    }

    /// Returns the current catalogue of an EC2NodeClass, or `None` while it is not ready or EC2 has not answered.
    #[must_use]
    pub fn catalogue(&self, name: &str, now: Timestamp) -> Option<Arc<Catalogue>> {
        let mut state = self.state();
        if state.version == 0 || state.shifts_unasked {
            return None;
        }
        state.shortages.expire(now);
        let OfferingsState { infos, prices, measured, shortages, classes, version, .. } = &mut *state;
        let class = classes.get_mut(name)?;
        let made_from = (*version, shortages.sequence());
        if let Some((versions, catalogue)) = &class.catalogue
            && *versions == made_from
        {
            return Some(Arc::clone(catalogue));
        }
        let facts = cloud::data::facts().ok()?;
        let source = Source { infos, facts, offerings: prices, shortages, images: &class.resolved.images };
        let sizes = ClassSettings { measured: measured.by_type(class.node_settings(), now), ..class.settings.clone() };
        let mut catalogue = cloud::types::catalogue(&source, &sizes, self.settings(), now);
        cloud::types::add_reservations(&mut catalogue, &class.resolved, &sizes, &source, now);
        cloud::types::add_placement(&mut catalogue, &class.resolved);
        if !self.gates.reserved_capacity {
            drop_reserved(&mut catalogue);
        }
        let catalogue = Arc::new(catalogue);
        class.catalogue = Some((made_from, Arc::clone(&catalogue)));
        Some(catalogue)
    }

    /// Stores the last plan's catalogues of NodePools that NodeOverlays change.
    pub fn learn_pools(&self, pools: BTreeMap<String, Arc<Catalogue>>) {
        self.state().pools = Some(pools);
    }

    /// Returns the catalogue of a NodeClaim: that of the last plan if NodeOverlays apply to its NodePool, else the current one
    /// of its EC2NodeClass. Returns `None` while the catalogue is unknown.
    #[must_use]
    pub fn catalogue_of(&self, claim: &NodeClaim, now: Timestamp) -> Option<Arc<Catalogue>> {
        let own = match &self.state().pools {
            Some(pools) => pools.get(claim.nodepool()).cloned(),
            // The first plan restores the price or capacity that the NodeClaim was planned with.
            None if is_overlaid(claim) => return None,
            None => None,
        };
        own.or_else(|| self.catalogue(&claim.spec.node_class_ref.name, now))
    }

    /// Records an interruption by EC2 in a capacity pool.
    pub fn interrupted(&self, scope: Scope, now: Timestamp) {
        self.state().shortages.interrupted(scope, now);
    }

    /// Stores the zonal shifts of the cluster; `None` after a failed call keeps the known ones until their ends.
    pub fn learn_shifts(&self, shifts: Option<&[ZonalShift]>, now: Timestamp) {
        let mut state = self.state();
        state.shifts_unasked = false;
        shifts.into_iter().for_each(|shifts| state.shortages.set_shifts(shifts, now));
    }

    /// Returns the ids of the zones that zonal shifts exclude.
    #[must_use]
    pub fn shifted_zone_ids(&self, now: Timestamp) -> BTreeSet<String> {
        self.state().shortages.shifted_zones(now)
    }

    /// Returns the names of the zones that zonal shifts exclude, as far as EC2NodeClasses use them.
    #[must_use]
    pub fn shifted_zones(&self, now: Timestamp) -> BTreeSet<String> {
        let state = self.state();
        let shifted = state.shortages.shifted_zones(now);
        let subnets = state.classes.values().flat_map(|class| &class.resolved.subnets);
        subnets.filter(|subnet| shifted.contains(&subnet.zone_id)).map(|subnet| subnet.zone.clone()).collect()
    }

    /// Returns the unavailable offerings and the launches in flight.
    #[must_use]
    pub fn knowledge(&self, now: Timestamp) -> (UnavailableOfferings, InFlight) {
        let mut state = self.state();
        state.shortages.expire(now);
        (state.shortages.clone(), state.in_flight.clone())
    }

    /// Reserves the offerings of this choice that may be available again: other choices avoid them for now.
    pub fn try_out(&self, choice: &LaunchChoice, now: Timestamp) {
        self.state().shortages.try_out(&choice.scopes(), now);
    }

    /// Records the start of a launch of this many instances.
    pub fn begin_launch(&self, token: &Token, choice: &LaunchChoice, instances: usize, now: Timestamp) {
        self.state().in_flight.begin(token, choice, instances, now);
    }

    /// Records the answer to a launch: marks `served` offerings as available and `short` ones as unavailable. The new state
    /// replaces any earlier one.
    pub fn end_launch(&self, token: &Token, answer: &FleetAnswer, served: &[Scope], short: Vec<Scope>, now: Timestamp) {
        let mut state = self.state();
        state.in_flight.settle(token, answer, now);
        served.iter().for_each(|scope| state.shortages.served(scope));
        short.into_iter().for_each(|scope| state.shortages.mark(scope, now));
    }

    /// Records that a launch had no result.
    pub fn give_up_launch(&self, token: &Token) {
        self.state().in_flight.release(token);
    }

    /// Returns every instance that carries the tags of this cluster.
    ///
    /// # Errors
    /// Returns an error if EC2 does not answer.
    pub async fn own_instances(&self) -> Result<Vec<Instance>, CloudError> {
        self.cloud.instances(&cloud::tags::cluster_tags(self.settings())).await
    }

    /// Lists the instances of the cluster by provider id.
    ///
    /// # Errors
    /// Returns an error if EC2 does not answer.
    pub async fn own_instances_by_provider_id(&self) -> Result<BTreeMap<String, Instance>, CloudError> {
        Ok(self.own_instances().await?.into_iter().map(|instance| (instance.provider_id(), instance)).collect())
    }

    fn state(&self) -> MutexGuard<'_, OfferingsState> {
        self.state.lock()
    }
}

/// Removes the offerings of capacity reservations, for a disabled feature gate.
fn drop_reserved(catalogue: &mut Catalogue) {
    let reserved = |offering: &planner::Offering| {
        offering.capacity_type == planner::CapacityType::Reserved || offering.reservation.is_some()
    };
    for kind in &mut catalogue.types {
        kind.offerings.retain(|offering| !reserved(offering));
    }
}

/// Reports whether NodeOverlays changed the instance types of the NodeClaim.
#[must_use]
pub fn is_overlaid(claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    [annotation::PRICE_OVERLAY_APPLIED, annotation::CAPACITY_OVERLAY_APPLIED]
        .iter()
        .any(|key| annotations.is_some_and(|all| all.contains_key(*key)))
}

#[cfg(test)]
mod tests;
