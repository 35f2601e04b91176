//! Initial state of a [`FakeCloud`]. The default is a small, valid us-west-2 with a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use super::FakeCloud;
use super::clock::{Clock, SystemClock};
use super::filter::{ACCOUNT, AMAZON};
use super::state::{FakeState, Timing, scramble};
use crate::calls::{
    CapacityReservation, ClusterDescription, Image, PlacementGroup, SecurityGroup, SpotPrice, Subnet, Tags,
    TypeOffering,
};
use crate::data::{self, DataError, region_of_zone};

/// Families of instance types in local zones.
const LOCAL_FAMILIES: [&str; 4] = ["c5.", "m5.", "r5.", "t3."];

/// Version of EKS' images.
pub const IMAGE_VERSION: &str = "v20261101";

/// Describes a [`FakeCloud`] before it exists.
pub struct Builder {
    region: String,
    cluster: String,
    kubernetes: String,
    zones: Vec<String>,
    seed: u64,
    network: u8,
    clock: Arc<dyn Clock>,
    timing: Timing,
    furnished: bool,
    spot_prices: bool,
    types: Option<Vec<String>>,
    subnets: Vec<Subnet>,
    security_groups: Vec<SecurityGroup>,
    images: Vec<Image>,
    parameters: Vec<(String, String)>,
    roles: Vec<String>,
    profiles: Vec<(String, String)>,
    reservations: Vec<CapacityReservation>,
    placement_groups: Vec<PlacementGroup>,
    local_zones: Vec<String>,
    for_trials: bool,
}

impl Builder {
    pub(super) fn new(region: &str) -> Self {
        Self {
            region: region.to_owned(),
            cluster: "kerf".to_owned(),
            kubernetes: "1.36".to_owned(),
            zones: ["a", "b", "c"].map(|letter| format!("{region}{letter}")).to_vec(),
            seed: 1,
            network: 0,
            clock: Arc::new(SystemClock),
            timing: Timing::default(),
            furnished: true,
            spot_prices: true,
            types: None,
            subnets: Vec::new(),
            security_groups: Vec::new(),
            images: Vec::new(),
            parameters: Vec::new(),
            roles: Vec::new(),
            profiles: Vec::new(),
            reservations: Vec::new(),
            placement_groups: Vec::new(),
            local_zones: Vec::new(),
            for_trials: false,
        }
    }

    /// Sets the name of the cluster, which is the `karpenter.sh/discovery` tag of the default subnets and security group;
    /// default `kerf`.
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        name.clone_into(&mut self.cluster);
        self
    }

    /// Sets the Kubernetes minor version of the default images; default `1.36`.
    #[must_use]
    pub fn kubernetes(mut self, minor: &str) -> Self {
        minor.clone_into(&mut self.kubernetes);
        self
    }

    /// Sets the zones of the default subnets, by full name; default a, b and c of the region.
    #[must_use]
    pub fn zones(mut self, zones: &[&str]) -> Self {
        self.zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        self
    }

    /// Sets the seed of ids and spot prices; default 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the second octet of the instances' private addresses, which begin with 10; default 0.
    #[must_use]
    pub fn network(mut self, network: u8) -> Self {
        self.network = network;
        self
    }

    /// Sets the clock; default is the system clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the time that a new instance is pending; default 500 ms.
    #[must_use]
    pub fn pending_for(mut self, time: SignedDuration) -> Self {
        self.timing.pending = time;
        self
    }

    /// Sets the time that an instance is shutting down; default 500 ms.
    #[must_use]
    pub fn shutting_down_for(mut self, time: SignedDuration) -> Self {
        self.timing.shutting_down = time;
        self
    }

    /// Sets the time that a new instance is missing in DescribeInstances; default zero.
    #[must_use]
    pub fn invisible_for(mut self, time: SignedDuration) -> Self {
        self.timing.invisible = time;
        self
    }

    /// Sets the time that ReceiveMessage waits for the first message; default 20 s.
    #[must_use]
    pub fn long_poll_of(mut self, time: SignedDuration) -> Self {
        self.timing.long_poll = time;
        self
    }

    /// Removes the default subnets, security groups, images, parameters, roles and instance profiles. Only explicitly added
    /// ones remain.
    #[must_use]
    pub fn unfurnished(mut self) -> Self {
        self.furnished = false;
        self
    }

    /// Makes the spot price history empty.
    #[must_use]
    pub fn without_spot_prices(mut self) -> Self {
        self.spot_prices = false;
        self
    }

    /// Restricts the instance types to these names; default are all types of the region.
    #[must_use]
    pub fn only_types(mut self, names: &[&str]) -> Self {
        self.types = Some(names.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    /// Adds a subnet.
    #[must_use]
    pub fn subnet(mut self, subnet: Subnet) -> Self {
        self.subnets.push(subnet);
        self
    }

    /// Adds a security group.
    #[must_use]
    pub fn security_group(mut self, group: SecurityGroup) -> Self {
        self.security_groups.push(group);
        self
    }

    /// Adds an image.
    #[must_use]
    pub fn image(mut self, image: Image) -> Self {
        self.images.push(image);
        self
    }

    /// Adds an SSM parameter.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds an instance profile with this role, as an administrator would create it. The defaults are `nodes` and
    /// `KerfNodeInstanceProfile-` followed by the cluster's name.
    #[must_use]
    pub fn instance_profile(mut self, name: &str, role: &str) -> Self {
        self.roles.push(role.to_owned());
        self.profiles.push((name.to_owned(), role.to_owned()));
        self
    }

    /// Adds a role; the only default is `KarpenterNodeRole-` followed by the cluster's name.
    #[must_use]
    pub fn role(mut self, name: &str) -> Self {
        self.roles.push(name.to_owned());
        self
    }

    /// Adds a capacity reservation.
    #[must_use]
    pub fn reservation(mut self, reservation: CapacityReservation) -> Self {
        self.reservations.push(reservation);
        self
    }

    /// Adds a placement group.
    #[must_use]
    pub fn placement_group(mut self, group: PlacementGroup) -> Self {
        self.placement_groups.push(group);
        self
    }

    /// Adds a local zone, which offers the types of some older families.
    #[must_use]
    pub fn local_zone(mut self, zone: &str) -> Self {
        self.local_zones.push(zone.to_owned());
        self
    }

    /// Lets users try their EC2NodeClasses without their AWS account. Every selector by tags or names matches, and every role and
    /// public image exists. Instances are named by their ids. Calls are not recorded, because the account may exist for weeks.
    #[must_use]
    pub fn for_trials(mut self) -> Self {
        self.for_trials = true;
        self
    }

    /// Builds the fake.
    ///
    /// # Errors
    /// When a data file is damaged, or the region has none.
    pub fn build(mut self) -> Result<FakeCloud, DataError> {
        if self.furnished {
            self.furnish();
        }
        let wanted = |name: &String| self.types.as_ref().is_none_or(|types| types.contains(name));
        let all = data::instance_types()?;
        let offerings = data::type_offerings(&self.region)?
            .into_iter()
            .filter(|offering| wanted(&offering.instance_type) && all.contains_key(&offering.instance_type))
            .collect::<Vec<_>>();
        let offerings = with_local_zones(offerings, &self.local_zones);
        let here: BTreeSet<_> = offerings.iter().map(|offering| &offering.instance_type).collect();
        let types = all.iter().filter(|(name, _)| here.contains(name)).map(|(name, info)| (name.clone(), info.clone()));
        let arn = cluster_arn(&self.region, &self.cluster);
        let mut state = FakeState {
            types: types.collect(),
            region: self.region,
            seed: self.seed,
            network: self.network,
            timing: self.timing,
            subnets: self.subnets,
            security_groups: self.security_groups,
            images: self.images,
            parameters: self.parameters.into_iter().collect(),
            reservations: self.reservations,
            placement_groups: self.placement_groups,
            for_trials: self.for_trials,
            clusters: [(self.cluster.clone(), described(&arn, &self.kubernetes))].into(),
            zonal_shifts: [(arn, Vec::new())].into(),
            ..FakeState::default()
        };
        state.profiles.any_role = self.for_trials;
        state.profiles.roles.extend(self.roles);
        for (name, role) in self.profiles {
            state.profiles.put(&name, role);
        }
        if self.for_trials {
            state.resource_names = state.subnets.iter().map(|subnet| subnet.id.clone()).collect();
        }
        state.on_demand = listed(&state)?;
        state.offerings = offerings;
        if self.spot_prices {
            state.spot_prices = spot_prices(&state, self.seed)?;
        }
        Ok(FakeCloud::new(state, self.clock))
    }

    fn furnish(&mut self) {
        let role = format!("KarpenterNodeRole-{}", self.cluster);
        for name in [format!("KerfNodeInstanceProfile-{}", self.cluster), "nodes".to_owned()] {
            self.profiles.push((name, role.clone()));
        }
        self.roles.push(role);
        let tags: Tags = [("karpenter.sh/discovery".to_owned(), self.cluster.clone())].into();
        for (index, zone) in self.zones.iter().enumerate() {
            self.subnets.push(Subnet {
                id: format!("subnet-0{:016x}", index + 1),
                zone: zone.clone(),
                zone_id: zone_id(zone, index),
                free_addresses: 8187,
                tags: named(&tags, &format!("{}-Private-{zone}", self.cluster)),
            });
        }
        self.security_groups.push(SecurityGroup {
            id: format!("sg-0{:016x}", 1),
            name: format!("{}-nodes", self.cluster),
            tags: named(&tags, &format!("{}-nodes", self.cluster)),
        });
        for (arch, variant) in [
            ("x86_64", "standard"),
            ("arm64", "standard"),
            ("x86_64", "nvidia"),
            ("arm64", "nvidia"),
            ("x86_64", "neuron"),
        ] {
            self.add_eks_image(arch, variant);
        }
    }

    /// Adds an AL2023 image of EKS with its two SSM parameters.
    fn add_eks_image(&mut self, arch: &str, variant: &str) {
        let id = format!("ami-0{:016x}", 0xa1_2023 + self.images.len());
        let minor = &self.kubernetes;
        let name = format!("amazon-eks-node-al2023-{arch}-{variant}-{minor}-{IMAGE_VERSION}");
        let base = format!("/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/{arch}/{variant}");
        self.parameters.push((format!("{base}/recommended/image_id"), id.clone()));
        self.parameters.push((format!("{base}/{name}/image_id"), id.clone()));
        self.images.push(Image {
            id,
            name,
            architecture: arch.to_owned(),
            created: "2026-11-01T00:00:00.000Z".to_owned(),
            deprecated: false,
            owner: AMAZON.to_owned(),
            tags: Tags::new(),
        });
    }
}

/// Adds the offerings of local zones.
fn with_local_zones(mut offerings: Vec<TypeOffering>, zones: &[String]) -> Vec<TypeOffering> {
    let is_local = |name: &str| LOCAL_FAMILIES.iter().any(|family| name.starts_with(family));
    let local: BTreeSet<String> =
        offerings.iter().map(|offering| &offering.instance_type).filter(|name| is_local(name)).cloned().collect();
    for zone in zones {
        let here = local.iter().map(|name| TypeOffering { instance_type: name.clone(), zone: zone.clone() });
        offerings.extend(here);
    }
    offerings
}

/// Returns the tags with a name.
fn named(tags: &Tags, name: &str) -> Tags {
    tags.iter().map(|(key, value)| (key.clone(), value.clone())).chain([("Name".to_owned(), name.to_owned())]).collect()
}

/// Returns an image of the fake's own account, as `packer` would create it.
#[must_use]
pub fn own_image(id: &str, name: &str, architecture: &str, created: &str) -> Image {
    Image {
        id: id.to_owned(),
        name: name.to_owned(),
        architecture: architecture.to_owned(),
        created: created.to_owned(),
        deprecated: false,
        owner: ACCOUNT.to_owned(),
        tags: Tags::new(),
    }
}

/// Returns the zone id, such as `usw2-az1` for the first zone of us-west-2.
fn zone_id(zone: &str, index: usize) -> String {
    let region = region_of_zone(zone);
    let short = |part: &str| match part {
        "north" | "south" | "east" | "west" | "central" => part[..1].to_owned(),
        other => other.to_owned(),
    };
    let short: String = region.split('-').map(short).collect();
    format!("{short}-az{}", index + 1)
}

fn cluster_arn(region: &str, name: &str) -> String {
    format!("arn:aws:eks:{region}:{ACCOUNT}:cluster/{name}")
}

/// Returns an EKS cluster with an empty CA certificate, which cannot verify any server.
fn described(arn: &str, kubernetes: &str) -> ClusterDescription {
    ClusterDescription {
        arn: arn.to_owned(),
        version: kubernetes.to_owned(),
        endpoint: "https://0123456789ABCDEF0123456789ABCDEF.gr7.eks.invalid".to_owned(),
        ca: "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K".to_owned(),
        service_cidr: "10.100.0.0/16".to_owned(),
    }
}

/// Returns the embedded prices of the existing types.
fn listed(state: &FakeState) -> Result<BTreeMap<String, i64>, DataError> {
    let prices = &data::facts()?.on_demand;
    Ok(state.types.keys().filter_map(|name| Some((name.clone(), *prices.get(name)?))).collect())
}

/// Returns spot prices of 30 to 45 % of the on-demand price, by type and zone, stable for a seed.
fn spot_prices(state: &FakeState, seed: u64) -> Result<Vec<SpotPrice>, DataError> {
    let prices = &data::facts()?.on_demand;
    let mut found = Vec::new();
    for (index, offering) in state.offerings.iter().enumerate() {
        let spot = state
            .types
            .get(&offering.instance_type)
            .is_some_and(|info| info.usage_classes.iter().any(|class| class == "spot"));
        if let (true, Some(price)) = (spot, prices.get(&offering.instance_type)) {
            let share = 300 + i64::try_from(scramble(seed ^ scramble(index as u64)) % 150).unwrap_or_default();
            found.push(SpotPrice {
                instance_type: offering.instance_type.clone(),
                zone: offering.zone.clone(),
                micro_dollars: price * share / 1000,
            });
        }
    }
    Ok(found)
}
