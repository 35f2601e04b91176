//! From a claim to a CreateFleet, and back from instances to claims: nothing is bought twice, nothing is lost.
//!
//! # The protocol
//!
//! 1. [`choose`] turns what a claim asks for into a [`Choice`]: launch templates and the pools to buy from. Claims whose
//!    choices are equal may share one fleet.
//! 2. [`Token::new`] names the launch: it carries the moment, and a hash of the choice and of the claims' UIDs. It is
//!    written on every claim of the fleet as annotation `kerf.sh/launch-token` **before** the call.
//! 3. [`Choice::request`] makes the request. The token is its client token and a tag of every instance, so that the
//!    instances can be found however the call ends. A fleet for one claim also carries the claim's name and UID as tags
//!    from the launch on; a shared one cannot (all instances of a fleet have the same tags), so its instances get
//!    [`ownership_tags`] when they are nodes.
//! 4. [`create_fleet`] carries it out. An unknown outcome is tried again with the **same request**, which EC2 answers as before.
//!    Other parameters need a new token: EC2 refuses the old one.
//! 5. [`assignment`] gives the instances to the claims: those with a claim's UID to that claim, the rest in the order of their
//!    ids to the claims in the order of their names. What some claim's status names is not dealt. Whoever deals again
//!    deals the same.
//! 6. Claims that got nothing because something was out of stock choose again at once, now that this is known, under a new
//!    token that replaces the old one. Only when nothing is left that they accept do they go.
//!
//! After a crash the request is forgotten, the tokens are not. [`resume`] looks at claims with a token and without an
//! instance: instances with their token are adopted; while EC2 may still be hiding new instances ([`SETTLE`]) the claim
//! waits; then it is launched anew under a new token. An instance that shows up even later has no claim, and the garbage
//! collector ends it.

mod addresses;
mod assignment;
mod choice;
mod create_fleet;
mod reserved;
mod template;
mod templates;
mod token;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use api::{Taint, annotation, label};
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, Requirements, Resources};
use thiserror::Error;

use crate::calls::{FleetConfig, FleetRequest, LaunchTemplateRequest, Tags};
use crate::nodeclass::ResolvedClass;
use crate::settings::Settings;
use crate::unavailable_offerings::{Scope, UnavailableOfferings, family_class};

pub use addresses::InFlight;
pub use assignment::{Assignment, HeldInstance, Resume, deal, resume};
pub use choice::choose;
pub use create_fleet::{BuyError, buy};
pub use reserved::ReservationKind;
pub use templates::Templates;
pub(crate) use token::fingerprint;
pub use token::{SETTLE, Token};
pub use verdict::{FleetVerdict, LaunchFailure, Within, judge, judge_error, served};

/// Tag with the owning claim's name.
pub const NODE_CLAIM_TAG: &str = "karpenter.sh/nodeclaim";
/// Tag with the owning claim's UID.
pub const NODE_CLAIM_UID_TAG: &str = "kerf.sh/nodeclaim-uid";
/// Tag with the token of the launch; the claim's annotation has the same key.
pub const LAUNCH_TOKEN_TAG: &str = annotation::LAUNCH_TOKEN;
/// Tag with the cluster's name.
pub const CLUSTER_TAG: &str = "eks:eks-cluster-name";
/// Beginning of the names of launch templates.
pub const TEMPLATE_PREFIX: &str = "karpenter.k8s.aws/";
/// The resource of EFA interfaces.
pub const EFA: &str = "vpc.amazonaws.com/efa";
/// Instance types that one fleet may list, cheapest first.
pub const MAX_TYPES: usize = 60;
/// Instances that one fleet may ask for (aws 4.6): more claims become more fleets.
pub const MAX_TARGET: usize = 1000;

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchRequest {
    /// The claim's pool.
    pub pool: String,
    /// The claim's requirements, instance types included.
    pub requirements: Requirements,
    /// What must fit.
    pub requests: Resources,
    /// The claim's labels.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// Whether an overlay has priced what the claim lists: then its prices decide, not EC2's.
    pub overlay_priced: bool,
    /// Whether `minValues` were lowered to what there was: then they no longer stand in the way.
    pub min_values_relaxed: bool,
}

/// Everything that a choice depends on besides the ask.
#[derive(Clone, Copy, Debug)]
pub struct LaunchOffer<'a> {
    /// The resolved class.
    pub class: &'a ResolvedClass,
    /// Its catalogue, with the shortages of now.
    pub catalogue: &'a Catalogue,
    /// UnavailableOfferings: subnets without addresses, and pools that another launch is trying out.
    pub shortages: &'a UnavailableOfferings,
    /// Addresses that launches under way will take.
    pub in_flight: &'a InFlight,
    /// The cluster.
    pub settings: &'a Settings,
    /// The moment.
    pub now: Timestamp,
}

/// Why nothing can be bought.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchRefusal {
    /// No type is left; the claim goes and its pods are planned anew.
    #[error("insufficient capacity: {0}")]
    InsufficientCapacity(String),
    /// The class cannot be launched as it is.
    #[error("EC2NodeClass {class} is not ready to launch")]
    Class {
        /// The class's name.
        class: String,
        /// Why.
        #[source]
        source: machine::userdata::RenderError,
    },
}

/// Ids of capacity reservations by instance type and zone.
pub type Reservations = BTreeMap<(String, String), String>;

/// What to buy, without saying for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchChoice {
    /// How to buy.
    pub capacity_type: CapacityType,
    /// The kind of the reservations that it buys from.
    pub reservation_kind: Option<ReservationKind>,
    /// The reservation behind each type and zone; empty unless reserved capacity is bought.
    pub reservations: Reservations,
    /// Launch templates that must exist.
    pub templates: Vec<LaunchTemplateRequest>,
    /// The pools, by launch template.
    pub configs: Vec<FleetConfig>,
    /// Tags of every instance of the pool and class.
    pub tags: Tags,
    /// The class's context.
    pub context: Option<String>,
    /// Whether the prices of the catalogue decide, not EC2's.
    pub prioritized: bool,
    /// Addresses that one instance takes at least: its pods', by the smallest type.
    pub addresses: u32,
}

/// A claim's name and UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimId {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

impl LaunchChoice {
    /// What a shortage of anything that this choice buys from would be called.
    #[must_use]
    pub fn scopes(&self) -> BTreeSet<Scope> {
        let mut scopes = BTreeSet::from([Scope::CapacityType(self.capacity_type)]);
        let within = self.within();
        for one in self.configs.iter().flat_map(|config| &config.overrides) {
            scopes.extend(within.placed(self.capacity_type, &one.instance_type, &one.zone));
            scopes.extend(within.group_in(&one.zone));
            let class = family_class(&one.instance_type);
            scopes.insert(Scope::Quota { capacity_type: self.capacity_type, class });
            scopes.insert(Scope::offering(self.capacity_type, &one.instance_type, &one.zone));
            scopes.insert(Scope::Subnet(one.subnet_id.clone()));
        }
        scopes.extend(self.reservations.values().cloned().map(Scope::Reservation));
        scopes
    }

    /// What its pools are part of.
    #[must_use]
    pub fn within(&self) -> Within<'_> {
        let placement = self.templates.first().map(|template| &template.placement);
        let group = placement.and_then(|place| Some((place.group_id.as_deref()?, place.partition)));
        Within { reservations: Some(&self.reservations), group }
    }

    /// The request for these claims under a token.
    #[must_use]
    pub fn request(&self, token: &Token, claims: &[ClaimId]) -> FleetRequest {
        let mut tags = self.tags.clone();
        tags.insert(LAUNCH_TOKEN_TAG.to_owned(), token.to_string());
        if let [claim] = claims {
            tags.extend(ownership_tags(claim));
        }
        FleetRequest {
            client_token: token.to_string(),
            target: u32::try_from(claims.len()).unwrap_or(u32::MAX),
            capacity_type: match self.capacity_type {
                CapacityType::Spot => label::CAPACITY_SPOT.to_owned(),
                CapacityType::OnDemand | CapacityType::Reserved => label::CAPACITY_ON_DEMAND.to_owned(),
            },
            default_target_capacity_type: self
                .reservation_kind
                .and_then(ReservationKind::target_type)
                .map(str::to_owned),
            reserved_capacity_types: self
                .reservation_kind
                .and_then(ReservationKind::fleet_option)
                .map(str::to_owned)
                .into_iter()
                .collect(),
            configs: self.configs.clone(),
            tags,
            context: self.context.clone(),
            prioritized: self.prioritized,
        }
    }
}

/// The tags that say whose an instance is.
#[must_use]
pub fn ownership_tags(claim: &ClaimId) -> Tags {
    [(NODE_CLAIM_TAG.to_owned(), claim.name.clone()), (NODE_CLAIM_UID_TAG.to_owned(), claim.uid.clone())].into()
}

/// The tags that find every instance of the cluster, whatever its pool.
#[must_use]
pub fn cluster_tags(settings: &Settings) -> Tags {
    [
        (CLUSTER_TAG.to_owned(), settings.cluster_name.clone()),
        (label::NODEPOOL.to_owned(), "*".to_owned()),
        (label::EC2_NODE_CLASS.to_owned(), "*".to_owned()),
    ]
    .into()
}

/// The tags that find every launch template of a class.
#[must_use]
pub fn template_tags(class: &str, settings: &Settings) -> Tags {
    [(CLUSTER_TAG.to_owned(), settings.cluster_name.clone()), (label::EC2_NODE_CLASS.to_owned(), class.to_owned())]
        .into()
}
