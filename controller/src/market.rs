//! What can be bought now: instance types, zones, prices and shortages of the region, and the classes as they
//! resolved last. Everything that a plan knows of EC2 comes from here, without a call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::{EC2NodeClass, NodeClaim, annotation};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::launch::{Choice, InFlight, Templates, Token};
use cloud::nodeclass::ResolvedClass;
use cloud::settings::Settings as CloudSettings;
use cloud::shortage::{Scope, Shortages};
use cloud::types::{ClassSettings, Market as Prices, Source};
use cloud::{Cloud, CloudError, FleetAnswer, Instance, InstanceTypeInfo};
use jiff::Timestamp;
use planner::Catalogue;

use crate::cluster::Cluster;
use crate::lifecycle;
use crate::settings::{Gates, Settings};
use crate::work::Work;

/// Types, zones and prices change slowly (aws 3.1, 5).
const REFRESH: Duration = Duration::from_secs(12 * 60 * 60);
/// While EC2 has not answered once, nothing can be planned.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// What we know of EC2.
pub struct Market {
    cloud: Arc<dyn Cloud>,
    settings: CloudSettings,
    gates: Gates,
    templates: Templates,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    infos: Arc<Vec<InstanceTypeInfo>>,
    prices: Prices,
    shortages: Shortages,
    in_flight: InFlight,
    classes: BTreeMap<String, Class>,
    /// Classes that this process has looked at, ready or not.
    judged: BTreeSet<String>,
    /// Catalogues of pools to which something of their own applies, as the last plan saw them; `None` before the first.
    pools: Option<BTreeMap<String, Arc<Catalogue>>>,
    /// Grows with every refresh.
    version: u64,
}

/// A class that is ready, and its catalogue for the versions of what it was made from.
struct Class {
    resolved: Arc<ResolvedClass>,
    settings: ClassSettings,
    catalogue: Option<((u64, u64), Arc<Catalogue>)>,
}

/// What nodes must be told about the cluster.
#[must_use]
pub fn cluster_facts(settings: &Settings, config: &kube::Config, kubernetes: String) -> CloudSettings {
    let own_ca = || config.root_cert.as_ref().map(|certificates| pem(certificates)).unwrap_or_default();
    let given = Some(settings.cluster_ca_bundle.clone()).filter(|bundle| !bundle.is_empty());
    CloudSettings {
        cluster_name: settings.cluster_name.clone(),
        cluster_endpoint: settings.cluster_endpoint.clone(),
        cluster_ca: given.unwrap_or_else(own_ca),
        cluster_cidr: settings.cluster_cidr.clone(),
        cluster_dns: Vec::new(),
        kubernetes,
        region: settings.region.clone(),
        reserved_enis: settings.reserved_enis,
        memory_overhead_thousandths: settings.memory_overhead_per_mille,
        reserved_capacity: settings.gates.reserved_capacity,
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

impl Market {
    /// A market that has not asked EC2 anything yet.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>, settings: CloudSettings, gates: Gates) -> Self {
        Self { cloud, settings, gates, templates: Templates::default(), state: Mutex::default() }
    }

    /// Whether trouble with a pool raises the price by which it competes.
    #[must_use]
    pub fn with_risk(self, wanted: bool) -> Self {
        if !wanted {
            self.state().shortages = Shortages::without_risk();
        }
        self
    }

    /// The calls.
    #[must_use]
    pub fn cloud(&self) -> &dyn Cloud {
        self.cloud.as_ref()
    }

    /// The launch templates that exist.
    #[must_use]
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// What nodes must be told about the cluster.
    #[must_use]
    pub fn settings(&self) -> &CloudSettings {
        &self.settings
    }

    /// Asks EC2 for types, zones and prices, soon again while it does not answer, then every 12 hours.
    pub async fn refresh_for_ever(self: Arc<Self>, cluster: Arc<Cluster>) {
        let mut retry = FIRST_RETRY;
        loop {
            match self.refresh().await {
                Ok(types) => {
                    log::info!(types = types as i64; "instance types, zones and prices are known");
                    retry = FIRST_RETRY;
                    let classes: Vec<String> = cluster.read(|index| index.classes.keys().cloned().collect());
                    classes.into_iter().for_each(|name| cluster.queue.add(Work::Class(name)));
                    cluster.ask_for_plan("market".to_owned());
                    tokio::time::sleep(REFRESH).await;
                }
                Err(error) => {
                    log::warn!(error = daemon::error::chain(&error).as_str(); "EC2 does not tell its instance types, trying again");
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(LAST_RETRY);
                }
            }
        }
    }

    /// One refresh. Spot prices may be missing: the list price stands in for them.
    async fn refresh(&self) -> Result<usize, CloudError> {
        let infos = self.cloud.instance_types().await?;
        let offerings = self.cloud.type_offerings().await?;
        let spot = self.cloud.spot_prices().await;
        if let Err(error) = &spot {
            log::warn!(error = daemon::error::chain(error).as_str(); "no spot prices, using list prices in their place");
        }
        let on_demand = cloud::data::facts().map(|facts| facts.on_demand.clone()).unwrap_or_default();
        let mut state = self.state();
        if state.version == 0 {
            state.prices = Prices::new(on_demand);
        }
        state.prices.set_offerings(offerings);
        state.prices.add_spot_prices(spot.unwrap_or_default());
        state.infos = Arc::new(infos);
        state.version += 1;
        Ok(state.infos.len())
    }

    /// Takes over a class that is ready.
    ///
    /// # Errors
    /// A sentence when its kubelet settings cannot be read.
    pub fn learn(&self, class: &EC2NodeClass, resolved: ResolvedClass) -> Result<(), String> {
        let settings = ClassSettings::of(class, resolved.zones()).map_err(|error| daemon::error::chain(&error))?;
        let mut state = self.state();
        let known = state.classes.get(&resolved.name);
        if known.is_some_and(|known| *known.resolved == resolved && known.settings == settings) {
            return Ok(());
        }
        let name = resolved.name.clone();
        state.classes.insert(name, Class { resolved: Arc::new(resolved), settings, catalogue: None });
        Ok(())
    }

    /// Notes that a class was looked at, whatever came of it.
    pub fn judged(&self, class: &str) {
        self.state().judged.insert(class.to_owned());
    }

    /// Whether EC2 has told its types and every one of these classes was looked at. Before, a plan would call pools unready
    /// that only nobody has asked about yet.
    pub fn knows<'c>(&self, mut classes: impl Iterator<Item = &'c String>) -> bool {
        let state = self.state();
        state.version > 0 && classes.all(|class| state.judged.contains(class))
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
        let State { infos, prices, shortages, classes, version, .. } = &mut *state;
        let class = classes.get_mut(name)?;
        let made_from = (*version, shortages.sequence());
        if let Some((versions, catalogue)) = &class.catalogue
            && *versions == made_from
        {
            return Some(Arc::clone(catalogue));
        }
        let facts = cloud::data::facts().ok()?;
        let source = Source { infos, facts, market: prices, shortages, images: &class.resolved.images };
        let mut catalogue = cloud::types::catalogue(&source, &class.settings, &self.settings, now);
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
            Some(pools) => pools.get(lifecycle::pool(claim)).cloned(),
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
    pub fn knowledge(&self, now: Timestamp) -> (Shortages, InFlight) {
        let mut state = self.state();
        state.shortages.expire(now);
        (state.shortages.clone(), state.in_flight.clone())
    }

    /// A choice was made that tries pools which may be back: others leave them alone for now.
    pub fn try_out(&self, choice: &Choice, now: Timestamp) {
        self.state().shortages.try_out(&choice.scopes(), now);
    }

    /// A launch of so many instances begins.
    pub fn begin_launch(&self, token: &Token, choice: &Choice, instances: usize, now: Timestamp) {
        self.state().in_flight.begin(token, choice, instances, now);
    }

    /// EC2 has answered a launch: what served is in stock, whatever was said of it before; what did not is not.
    pub fn end_launch(
        &self,
        token: &Token,
        answer: &FleetAnswer,
        (served, short): (Vec<Scope>, Vec<Scope>),
        now: Timestamp,
    ) {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
mod tests {
    use std::collections::BTreeMap;

    use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Reservation};

    use super::drop_reserved;

    #[test]
    fn without_the_gate_reservations_are_not_there() {
        let offering = |capacity_type, reservation| Offering {
            zone: "a".to_owned(),
            capacity_type,
            price: MicroDollars(1),
            available: true,
            labels: BTreeMap::new(),
            reservation,
        };
        let reservation = Some(Reservation { id: "cr-1".to_owned(), remaining: 1 });
        let offerings = vec![
            offering(CapacityType::Reserved, reservation),
            offering(CapacityType::Spot, None),
            offering(CapacityType::OnDemand, None),
        ];
        let kind = InstanceType { offerings, ..InstanceType::default() };
        let mut catalogue = Catalogue { name: "default".to_owned(), types: vec![kind] };
        drop_reserved(&mut catalogue);
        let left: Vec<CapacityType> = catalogue.types[0].offerings.iter().map(|one| one.capacity_type).collect();
        assert_eq!(left, [CapacityType::Spot, CapacityType::OnDemand]);
    }
}
